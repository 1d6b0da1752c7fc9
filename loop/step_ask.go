package loop

import (
	"fmt"
	"time"

	"github.com/superloop/superloop/internal/text"
)

func (t *turn) askRecovery(kind, class string) {
	r := t.s.Recovery
	r.Asked++
	t.stopClockAt(t.now)
	why := r.Reason
	if kind == EscalationFailed && len(r.Errors) > 0 {
		why = r.Errors[len(r.Errors)-1]
	}
	t.s.Status, t.s.Reason = AwaitingHuman, class
	t.s.Detail = fmt.Sprintf("recovery %d: %s: %s", r.N, text.Display(r.Attempt.Command), why)
	if kind == EscalationFailed && len(r.Errors) > 0 {
		t.s.Detail = fmt.Sprintf("recovery %d: %s", r.N, why) // it names the command
	}
	t.recover(PhaseAwaiting, Effect{Kind: AskHuman, Role: r.Role, Reason: class}, "ask")
	t.s.Human = &HumanState{ID: t.s.Pending.ID, About: AboutRecovery, Type: kind, Class: class, Role: r.Role, Text: why, Since: t.now}
}

func (t *turn) recoveryAnswered(f Resolved, question string) {
	r := t.s.Recovery
	if !r.AskedAt.IsZero() {
		r.AnsweredMS = plus(r.AnsweredMS, t.now.Sub(r.AskedAt).Milliseconds())
		r.AskedAt = time.Time{}
	}
	if r.Origin == OriginRemediation && (f.Method != MethodApprove || f.Edit != nil) {
		t.leavePlan("a human has decided otherwise: " + f.By)
	}
	switch f.Method {
	case MethodApprove:
		r.Question = question
		if f.Edit != nil {
			r.Attempt, r.Source, r.Fallback = *f.Edit, SourceHuman, false
		}
		t.approve(SourceHuman, f.By, r.Rule)
	case MethodReject:
		all := &t.s.Recoveries
		if all.Rejected == nil {
			all.Rejected = map[string]int{}
		}
		all.Rejected[r.Attempt.Digest]++
		t.remember("rejected by "+f.By, f.Note)
		t.leaveRecovery()
	default:
		t.s.Status, r.Executed = Recovering, ""
		t.testRecovery()
	}
}

// executionLost asks a human about a command that was begun and has no outcome.
func (t *turn) executionLost() {
	r, p := t.s.Recovery, t.s.Pending
	const why = "the supervisor ended while it ran; how far it came is not known"
	t.note("recovery_failed", lostFields{N: r.N, ID: p.ID, Command: r.Attempt.Command, ExitCode: -1, Ended: endedInterrupted, Error: why})
	r.Errors = append(r.Errors, text.Display(r.Attempt.Command)+": "+why)
	t.askRecovery(EscalationFailed, ReasonInterrupted)
}
