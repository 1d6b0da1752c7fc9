package loop

func (t *turn) commit() {
	strategy := t.s.Plan.Commit
	if strategy == "" || t.s.again() {
		t.advance()
		return
	}
	if strategy == "on_test_pass" && t.s.Gates.Tests != "ok" {
		t.note("auto_commit_skipped", CommitEnded{Strategy: strategy, Reason: "tests_not_passing"})
		t.advance()
		return
	}
	t.issue(t.effect(Commit, strategy))
}

func (t *turn) committed(f CommitEnded) {
	t.ranOn(f.Files)
	if f.Outcome == CommitFailed && len(t.s.Missing) == 0 {
		t.askCommit(f.Reason)
		return
	}
	t.advance()
}

// ClassCommit is the class of an escalation about a commit that fails.
const ClassCommit = "commit_failed"

// askCommit asks a human about a commit that fails although everything that completion needs is there. Another iteration
// could not mend it. Work that is not committed does not complete the loop.
func (t *turn) askCommit(why string) {
	t.s.Detail = "the work is done and the commit fails: " + why
	e := t.effect(AskHuman, ClassCommit)
	t.ask(HumanState{ID: e.ID + "/commit", About: AboutCommit, Type: EscalationEnvironment, Class: ClassCommit, Text: why, Fix: "git status"})
}
