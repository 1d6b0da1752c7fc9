package loop

import (
	"fmt"
	"strings"
	"time"
)

// issueRole starts the next attempt of the role that the loop stands at.
func (t *turn) issueRole(reason string) {
	if t.outOfTime() {
		return
	}
	role := strings.TrimPrefix(t.s.At, rolePrefix)
	t.s.Attempt++
	t.issue(Effect{
		ID:   fmt.Sprintf("%s/%d/%s/%d", t.s.RunID, t.s.Iteration, t.s.At, t.s.Attempt),
		Kind: RunRole, Role: role, Attempt: t.s.Attempt, Reason: reason, LimitMS: t.left(),
	})
}

type retryFields struct {
	Role     string    `json:"role"`
	Attempt  int       `json:"attempt"`
	Failures int       `json:"failures"`
	Attempts int       `json:"attempts"` // how many failures end the loop
	Until    time.Time `json:"until"`
}

func (t *turn) roleEnded(f RoleEnded) bool {
	if !t.pending(RunRole) || t.s.Pending.Role != f.Role || t.s.Pending.Attempt != f.Attempt {
		return false
	}
	if t.s.Roles == nil {
		t.s.Roles = map[string]RoleResult{}
	}
	t.s.Roles[f.Role] = RoleResult{Attempt: f.Attempt, Outcome: f.Outcome, Output: f.Output,
		File: f.OutputFile, Error: f.Error, ExitCode: f.ExitCode,
		Signal: f.Signal, DurationMS: f.DurationMS}
	switch f.Outcome {
	case OutcomeOK:
		t.s.HumanNote = t.keepNote(f.Role)
		t.advance()
		return true
	case OutcomeInterrupted:
		// Not the role's fault: it starts again when somebody runs the loop.
		t.s.Attempt++
		e := *t.s.Pending
		e.Attempt, e.Reason = t.s.Attempt, ReasonInterrupted
		e.ID = fmt.Sprintf("%s/%d/%s/%d", t.s.RunID, t.s.Iteration, t.s.At, t.s.Attempt)
		t.issue(e)
		return true
	case OutcomeNotStarted:
		t.end(Failed, ReasonNotStarted, fmt.Sprintf("%s: %s", f.Role, f.Error))
		return true
	}
	t.s.Failures++
	if t.outOfTime() {
		return true
	}
	if t.s.Failures >= max(1, t.s.Plan.Attempts) {
		t.end(Failed, ReasonRoleFailed, fmt.Sprintf("%s failed %s, last: %s",
			f.Role, times(t.s.Failures), describe(f)))
		return true
	}
	wait := min(t.s.Plan.BackoffMS<<min(t.s.Failures-1, 20), MaxBackoffMS)
	if wait <= 0 {
		t.issueRole(ReasonRetry)
		return true
	}
	until := t.now.Add(ms(wait))
	t.note("role_retry_wait", retryFields{f.Role, f.Attempt, t.s.Failures, t.s.Plan.Attempts, until})
	t.issue(Effect{ID: fmt.Sprintf("%s/%d/%s/%d/wait", t.s.RunID, t.s.Iteration, t.s.At, t.s.Attempt),
		Kind: Wait, Role: f.Role, Until: until, Reason: ReasonRetry})
	return true
}

// keepNote: a person's note is for the next planner, or for whoever is first
// where there is none; after that role it has been read.
func (t *turn) keepNote(role string) string {
	if role == t.s.Plan.Roles[0] {
		return ""
	}
	return t.s.HumanNote
}

func (t *turn) waitOver(f WaitOver) bool {
	if !t.pending(Wait) || t.s.Pending.ID != f.ID {
		return false
	}
	t.issueRole(ReasonRetry)
	return true
}

func times(n int) string {
	switch n {
	case 1:
		return "once"
	case 2:
		return "twice"
	}
	return fmt.Sprintf("%d times", n)
}

// describe says in one clause how a role ended.
func describe(f RoleEnded) string {
	switch f.Outcome {
	case OutcomeTimeout:
		return fmt.Sprintf("timed out after %s", ms(f.TimeoutMS))
	case OutcomeInactive:
		return fmt.Sprintf("no output for %s", ms(f.TimeoutMS))
	case OutcomeSignal:
		return "ended by signal " + f.Signal
	case OutcomeLost:
		return "the process that ran it was lost"
	}
	return fmt.Sprintf("exit code %d", f.ExitCode)
}
