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
	t.enter(t.s.At)
}

// Renews reports whether the newest configuration is to be put in force between s and next: a new iteration begins, or a
// human has answered a question about a configured command.
func (s State) Renews(next State) bool {
	return next.Iteration != s.Iteration || s.Human != nil && s.Human.Class == ClassUnreadable && next.Human == nil
}
