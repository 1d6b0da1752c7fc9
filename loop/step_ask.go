package loop

import (
	"cmp"
	"fmt"
	"time"

	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/recovery/failures"
)

// askRecovery asks a human about the command of the recovery. kind is the type of the escalation, class the rule or the
// reason for it.
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
		t.s.Detail = fmt.Sprintf("recovery %d: %s", r.N, why) // the error names the command
	}
	t.recover(PhaseAwaiting, Effect{Kind: AskHuman, Role: r.Role, Reason: class}, "ask")
	t.s.Human = &HumanState{ID: t.s.Pending.ID, About: AboutRecovery, Type: kind, Class: class, Role: r.Role, Text: why, Since: t.now}
}

// recoveryAnswered does what a human has decided about a command: run it, drop it, or test what the human repaired by
// hand.
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

// executionLost asks a human about a command that has begun and has no outcome.
func (t *turn) executionLost() {
	r, p := t.s.Recovery, t.s.Pending
	const why = "the supervisor ended while it ran; how far it came is not known"
	t.note("recovery_failed", lostFields{N: r.N, ID: p.ID, Command: r.Attempt.Command, ExitCode: -1, Ended: endedInterrupted, Error: why})
	r.Errors = append(r.Errors, text.Display(r.Attempt.Command)+": "+why)
	t.askRecovery(EscalationFailed, ReasonInterrupted)
}

// A limit that passes with time, or a login that a human has to renew, keeps a role from running and is no failure.
// Waiting for it uses no iteration, no counted attempt and no active time of the loop.

type limitOverFields struct {
	Provider string `json:"provider"`
	Account  string `json:"account"`
	Role     string `json:"role"`
	WaitedMS int64  `json:"waited_ms"`
	Reason   string `json:"reason"` // time, kicked, cleared
	By       string `json:"by,omitempty"`
}

// waitForLimit lets the loop wait until l.Until and then run the role again. It records a limit that a role of this
// loop met.
func (t *turn) waitForLimit(l Limited) {
	if l.Source == SourceRole {
		t.note("rate_limit_wait", l)
	}
	since := t.now
	if t.s.Limit != nil {
		since = t.s.Limit.Since
	}
	t.stopClockAt(t.now)
	t.s.Status, t.s.Reason = RateLimited, l.Class
	t.s.Detail = fmt.Sprintf("%s of %s (%s)", l.Class, l.Provider, l.Runner)
	if l.Text != "" {
		t.s.Detail += ": " + l.Text
	}
	t.s.Limit = &LimitState{Role: l.Role, Runner: l.Runner, Provider: l.Provider, Account: l.Account, Class: l.Class,
		Text: l.Text, ResetsAt: l.ResetsAt, Until: l.Until, Since: since, SharedUntil: l.SharedUntil}
	t.issue(Effect{ID: t.roleID("limit"), Kind: Wait, Role: l.Role, Until: l.Until, Reason: l.Class})
}

// limited takes the fact that the pending role was not started because of a limit.
func (t *turn) limited(f Limited) bool {
	if !t.keptFromStart(f.Role) {
		return false
	}
	t.waitForLimit(f)
	return true
}

// keptFromStart reports whether the pending effect is of this role and has not begun.
func (t *turn) keptFromStart(role string) bool { return !t.s.Begun && t.s.Pending.Role == role }

func (t *turn) limitOver(f WaitOver) {
	l := *t.s.Limit
	t.note("rate_limit_over", limitOverFields{l.Provider, l.Account, l.Role, t.now.Sub(l.Since).Milliseconds(), cmp.Or(f.Reason, "time"), f.By})
	t.goOn()
	if r := t.s.Response.Policy; r != nil && r.Phase == failures.Waiting {
		t.runnerBack(f.Candidates)
	} else {
		t.issueRole(ReasonLimitOver)
	}
	if t.s.Status != RateLimited {
		t.s.Limit = nil
	}
}

// goOn sets the status back to running and starts a new active period.
func (t *turn) goOn() {
	t.s.Status, t.s.Reason, t.s.Detail = Running, "", ""
	t.s.ActiveSince = t.now
}

// askAboutRunner stops the loop until a human has repaired the failure that f reports.
func (t *turn) askAboutRunner(f RoleEnded) {
	t.s.Detail = fmt.Sprintf("%s (runner %s): %s", f.Role, f.Runner, f.Error)
	t.ask(HumanState{ID: t.roleID("human"), About: AboutRole, Type: EscalationRunner, Class: f.Class, Role: f.Role, Runner: f.Runner, Text: f.Error, Fix: f.Fix})
}

// escalated takes the id of the escalation that was opened for the question, or that replaces an earlier one.
func (t *turn) escalated(f Escalated) bool {
	if t.s.Human.About == AboutCompletion {
		return false
	}
	t.s.Begun = true
	t.s.Human.Question, t.s.Human.Digest = f.ID, f.Digest
	if r := t.s.Recovery; r != nil {
		r.AskedAt = t.now
	}
	return true
}

func (t *turn) resolved(f Resolved) bool {
	h := t.s.Human
	if h.About == AboutCompletion || h.ID != f.ID && h.Question != f.ID {
		return false
	}
	t.s.Human = nil
	t.goOn()
	if h.About == AboutRecovery {
		t.recoveryAnswered(f, h.Question)
		return true
	}
	if h.testsAgain(f.Method) {
		t.commandAnswered(f)
		return true
	}
	t.roleAnswered(*h, f)
	return true
}

// resumeWaiting continues the wait of a loop that waited when its supervisor left. It reports whether the loop waited.
// A Wait goes on until its time. A question with an id counts as asked. The performer of the question opens it again if
// it is gone.
func (t *turn) resumeWaiting() bool {
	switch h := t.s.Human; {
	case t.s.Limit != nil && t.pending(Wait):
		t.s.Status, t.s.Reason = RateLimited, t.s.Limit.Class
	case h != nil && t.pending(AskHuman):
		t.s.Status, t.s.Reason, t.s.Begun = AwaitingHuman, h.Class, h.Question != ""
		if h.About == AboutCompletion {
			t.s.Status, t.s.Reason = AwaitingApproval, ""
		}
	default:
		t.s.Limit, t.s.Human = nil, nil
		return false
	}
	t.reissued = true
	return true
}
