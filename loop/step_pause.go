package loop

import (
	"cmp"
	"fmt"

	"github.com/superloop/superloop/recovery/failures"
)

// What keeps a role from running and is no failure: a limit that time lifts, a login that a human has to mend. Neither
// uses an iteration, an attempt that counts, or the loop's active time.

type limitOverFields struct {
	Provider string `json:"provider"`
	Account  string `json:"account"`
	Role     string `json:"role"`
	WaitedMS int64  `json:"waited_ms"`
	Reason   string `json:"reason"` // time, kicked, cleared
	By       string `json:"by,omitempty"`
}

// waitForLimit lets the loop wait until l.Until and then run the role again.
func (t *turn) waitForLimit(role, runner, class, source, by string, l LimitFact) {
	if source == SourceRole {
		t.note("rate_limit_wait", Limited{Role: role, Runner: runner, Class: class, Source: source, LimitFact: l})
	}
	since := t.now
	if t.s.Limit != nil {
		since = t.s.Limit.Since
	}
	t.stopClockAt(t.now)
	t.s.Status, t.s.Reason = RateLimited, class
	t.s.Detail = fmt.Sprintf("%s of %s (%s): %s", class, l.Provider, runner, l.Text)
	if l.Text == "" {
		t.s.Detail = fmt.Sprintf("%s of %s (%s)", class, l.Provider, runner)
	}
	t.s.Limit = &LimitState{Role: role, Runner: runner, Provider: l.Provider, Account: l.Account, Class: class,
		Text: l.Text, ResetsAt: l.ResetsAt, Until: l.Until, Since: since, SharedUntil: l.SharedUntil}
	t.issue(Effect{ID: t.roleID("limit"), Kind: Wait, Role: role, Until: l.Until, Reason: class})
}

// limited: the role that was to run has not been started.
func (t *turn) limited(f Limited) bool {
	if !t.pending(RunRole) || t.s.Begun || t.s.Pending.Role != f.Role {
		return false
	}
	t.waitForLimit(f.Role, f.Runner, f.Class, f.Source, f.By, f.LimitFact)
	return true
}

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

func (t *turn) goOn() {
	t.s.Status, t.s.Reason, t.s.Detail = Running, "", ""
	t.s.ActiveSince = t.now
}

// askAboutRunner stops the loop until a human has mended what f tells of.
func (t *turn) askAboutRunner(f RoleEnded) {
	t.s.Detail = fmt.Sprintf("%s (runner %s): %s", f.Role, f.Runner, f.Error)
	t.ask(HumanState{ID: t.roleID("human"), About: AboutRole, Type: EscalationRunner, Class: f.Class, Role: f.Role, Runner: f.Runner, Text: f.Error, Fix: f.Fix})
}

// escalated: what is asked has got a record, or another one in its place.
func (t *turn) escalated(f Escalated) bool {
	if !t.pending(AskHuman) || t.s.Human.About == AboutCompletion {
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
	if !t.pending(AskHuman) || h.About == AboutCompletion || h.ID != f.ID && h.Question != f.ID {
		return false
	}
	t.s.Human = nil
	t.goOn()
	if h.About == AboutRecovery {
		t.recoveryAnswered(f, h.Question)
		return true
	}
	t.roleAnswered(*h, f)
	return true
}

// resumeWaiting takes up a loop that waited when its supervisor left; it reports whether it did. A wait goes on to its
// time. An escalation that has a record is asked already; whoever asks looks whether it is still there.
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
