package loop

// Do says what an engine has to do about the pending effect.
type Do string

// What is due.
const (
	DoNothing Do = "nothing" // the loop has ended
	DoStart   Do = "start"   // perform the effect
	DoTimer   Do = "timer"   // report WaitOver at Effect.Until
	DoHuman   Do = "human"   // wait for an answer; the request is open
)

// Due says what an engine has to do now. It depends on the state alone, so an engine needs no memory of its own but the
// id of the effect that it has under way. An effect that is due to start, has begun (State.Begun) and is not under way
// has lost its performer: the engine applies Lost instead of starting it.
func Due(s State) (Effect, Do) {
	p := s.Pending
	switch {
	case p == nil:
		return Effect{}, DoNothing
	case p.Kind == Wait:
		return *p, DoTimer
	case p.Kind == AskHuman && s.Begun:
		return *p, DoHuman
	}
	return *p, DoStart
}

// Once reports whether an effect of the kind may be performed a single time only:
// begun and without an outcome, it is never begun again by itself.
func (k EffectKind) Once() bool { return k == ExecuteRecovery || k == RunRole }

// Cheap reports whether an effect of the kind only reads and writes small files:
// an engine with a dear round trip may perform several in one.
func (k EffectKind) Cheap() bool {
	switch k {
	case CheckPromise, CheckChecklists, CheckPrerequisites, CollectEvidence, CheckStuck, Report, JudgeAttempt:
		return true
	}
	return false
}
