package loop

// ClassUnreadable is the class of an escalation about a configured test command that the shell cannot read. No role can
// repair it, because no agent may write the configuration.
const ClassUnreadable = "syntax_error"

// unreadable asks a human about a configured test command of the step at that the shell cannot read, before a role is
// paid to look at it. It reports whether it did.
func (t *turn) unreadable(at, why string) bool {
	if why == "" {
		return false
	}
	t.s.At = at
	t.s.Detail = "the configuration: " + why
	e := t.effect(AskHuman, ClassUnreadable)
	t.ask(HumanState{ID: e.ID + "/unreadable", About: AboutTests, Type: EscalationEnvironment, Class: ClassUnreadable, Role: TestsTask, Text: why, Fix: "superloop validate"})
	return true
}

// commandAnswered runs the tests again, with the configuration that is in force now. Nothing was spent in between, so
// the newest configuration need not wait for the next iteration.
func (t *turn) commandAnswered(f Resolved) {
	t.s.HumanNote = f.Note
	if t.s.NextPlan != nil {
		t.s.Plan, t.s.NextPlan = *t.s.NextPlan, nil
		t.s.Stuck.Threshold = t.s.Plan.StuckThreshold
	}
	if t.s.At == stepGateTests { // entering that step would not run tests that have run on these files
		t.issue(t.effect(RunTests, ReasonAnswered))
		return
	}
	t.enter(t.s.At)
}

// testsAgain reports whether the tests run again after a human's answer to a question about them, because the human has
// repaired what made them fail.
func (h HumanState) testsAgain(method string) bool {
	return (h.Class == ClassUnreadable || h.Class == ClassRemedy) && method != MethodReject
}

// Renews reports whether the newest configuration is to be put in force between s and next: a new iteration begins, or a
// human has answered a question about a configured command.
func (s State) Renews(next State) bool {
	return next.Iteration != s.Iteration || s.Human != nil && s.Human.testsAgain("") && next.Human == nil
}
