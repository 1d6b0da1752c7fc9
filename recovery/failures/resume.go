package failures

import (
	"fmt"
	"time"
)

// WaitOver goes on after a wait: its time has come, or somebody is fit before it. In another phase it changes nothing.
func WaitOver(s State, list []Candidate, now time.Time) (State, Decision) {
	if s.Phase != Waiting {
		return s, Decision{Agent: s.Agent, Why: "nothing is waited for"}
	}
	m := move{s: s.clone(), list: list, now: now}
	m.s.enter(Waiting, now) // place looks at what was waited so far
	m.place(StepResume, ReasonBackAgain, s.Why)
	return m.s, m.d
}

// Analysis is what an analysis came to, for the failure policy.
type Analysis struct {
	Summary string `json:"summary"`
	// Instruction is what the next agent is told to do about it.
	Instruction string `json:"instruction,omitempty"`
	// Person: only a person can fix it, and that is sure. Why says what.
	Person bool   `json:"person,omitempty"`
	Why    string `json:"why,omitempty"`
}

// Analysed goes on after an analysis, its environment fix (if the gate let one run) included. An empty Analysis is one
// that found nothing, or took too long. Who has failed the task may have it again now, if nobody else is fit.
func Analysed(s State, a Analysis, list []Candidate, now time.Time) (State, Decision) {
	if s.Phase != Analysing {
		return s, Decision{Agent: s.Agent, Why: "no analysis is awaited"}
	}
	m := move{s: s.clone(), list: list, now: now}
	if a.Summary != "" {
		m.s.tell("cause found: " + a.Summary)
	}
	if a.Instruction != "" {
		m.s.tell("to do about it: " + a.Instruction)
	}
	switch {
	case a.Person:
		m.person(TypeRole, ReasonAnalysed, a.Why)
	case m.s.worked(now) >= m.s.Limits.WallMS:
		m.person(TypeRole, ReasonTooLong, fmt.Sprintf("the task has failed for %s", time.Duration(m.s.worked(now))*time.Millisecond))
	default:
		m.place(StepResume, ReasonAnalysed, s.Why)
		m.d.NewSession = m.d.Step == StepResume // the conversation that failed twice is no help
	}
	return m.s, m.d
}

// Answered goes on after a person's answer: the failure policy begins anew, with what was told so far and the person's
// note.
func Answered(s State, note string, list []Candidate, now time.Time) (State, Decision) {
	if s.Phase != WithHuman {
		return s, Decision{Agent: s.Agent, Why: "no person was asked"}
	}
	fresh := New(s.Task, Agent{}, s.Limits, now)
	fresh.Tell, fresh.Last, fresh.LastTier = s.clone().Tell, s.Last, s.LastTier
	fresh.FirstAt = now
	if note != "" {
		fresh.tell("a person says: " + note)
	}
	m := move{s: fresh, list: list, now: now}
	m.place(StepResume, ReasonAnswered, s.Why)
	return m.s, m.d
}

// Mended takes back failures that an environment caused which was mended since: signature names them, n how many
// (History.Repair says). It can only be less.
func Mended(s State, signature string, n int) State {
	if s.Phase.Ended() || n <= 0 {
		return s
	}
	s = s.clone()
	s.Counted = max(0, s.Counted-n)
	if s.Counted == 0 {
		s.Failed = nil
	}
	return s
}
