package loop

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/superloop/superloop/recovery/failures"
	"github.com/superloop/superloop/roles/agent/class"
)

func (t *turn) issueRole(reason string) {
	role := strings.TrimPrefix(t.s.At, rolePrefix)
	if t.outOfTime() || t.outOfBudget(role) {
		return
	}
	t.s.Attempt++
	e := Effect{ID: fmt.Sprintf("%s/%d/%s/%d", t.s.RunID, t.s.Iteration, t.s.At, t.s.Attempt), Kind: RunRole, Role: role,
		Attempt: t.s.Attempt, Reason: reason, LimitMS: t.left(), MaxCostUSD: t.moneyLeft()}
	if l := t.s.Response.Policy; l != nil && l.Phase == failures.Working {
		e.Runner, e.Model = l.Agent.Runner, l.Agent.Model
	}
	t.issue(e)
}

type retryFields struct {
	Role     string    `json:"role"`
	Attempt  int       `json:"attempt"`
	Failures int       `json:"failures"`
	Attempts int       `json:"attempts"` // how many failures end the loop
	Until    time.Time `json:"until"`
}

func (t *turn) roleEnded(f RoleEnded) bool {
	if t.s.Pending.Role != f.Role || t.s.Pending.Attempt != f.Attempt {
		return false
	}
	if t.s.Roles == nil {
		t.s.Roles = map[string]RoleResult{}
	}
	t.s.Roles[f.Role] = RoleResult{Attempt: f.Attempt, Outcome: f.Outcome, Output: f.Output, File: f.OutputFile, Digest: f.Digest,
		Runner: f.Runner, Error: f.Error, ExitCode: f.ExitCode, Signal: f.Signal, DurationMS: f.DurationMS}
	for _, a := range f.Alerts {
		t.note(failures.EventSystemic, a)
	}
	t.s.Seen = nil
	t.spend(f)
	t.keepSession(f)
	switch f.Outcome {
	case OutcomeOK:
		t.s.HumanNote = t.keepNote(f.Role)
		t.succeeded(f.Role)
		if f.Proposal && t.s.Plan.Recovery {
			t.takeProposal(f.Role)
			return true
		}
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
	}
	if t.responds() && f.Failure != nil {
		t.failed(f)
		return true
	}
	if f.Outcome == OutcomeNotStarted {
		t.end(Failed, ReasonNotStarted, fmt.Sprintf("%s: %s", f.Role, f.Error))
		return true
	}
	if t.classified(f) {
		return true
	}
	t.s.Failures++
	if t.outOfTime() {
		return true
	}
	if t.s.Failures >= max(1, t.s.Plan.Attempts) {
		t.end(Failed, ReasonRoleFailed, fmt.Sprintf("%s failed %s, last: %s", f.Role, Times(t.s.Failures), Describe(f)))
		return true
	}
	if !t.rest(retryFields{Role: f.Role, Attempt: f.Attempt, Failures: t.s.Failures, Attempts: t.s.Plan.Attempts}, t.s.Failures) {
		t.issueRole(ReasonRetry)
	}
	return true
}

// rest lets a runner that has failed n times wait before it is tried again; it reports whether it does.
func (t *turn) rest(f retryFields, n int) bool {
	wait := min(t.s.Plan.BackoffMS<<min(max(n, 1)-1, 20), MaxBackoffMS)
	if wait <= 0 {
		return false
	}
	f.Until = t.now.Add(ms(wait))
	t.note("role_retry_wait", f)
	t.issue(Effect{ID: t.roleID("wait"), Kind: Wait, Role: f.Role, Until: f.Until, Reason: ReasonRetry})
	return true
}

// classified handles the failures whose class says what to do; none of them counts as the role's failure.
func (t *turn) classified(f RoleEnded) bool {
	failure := class.Class(f.Class)
	switch {
	case failure.Waits() && f.Limit != nil:
		t.waitForLimit(Limited{Role: f.Role, Runner: f.Runner, Class: f.Class, Source: SourceRole, LimitFact: *f.Limit})
	case failure.NeedsPerson():
		t.askAboutRunner(f)
	case failure == class.Model, failure == class.Config:
		t.end(Failed, ReasonMisconfigured, fmt.Sprintf("%s (runner %s): %s", f.Role, f.Runner, f.Error))
	case failure == class.Session && t.s.Pending.Reason != ReasonNewSession:
		t.issueRole(ReasonNewSession) // keepSession has forgotten the one that does not exist
	case failure == class.Budget && t.s.Plan.MaxCostUSD > 0:
		t.reachBudget(ReasonMaxCost, f.Role, t.s.Spent.CostUSD, t.s.Plan.MaxCostUSD, 0)
	default:
		return false
	}
	return true
}

// keepSession remembers the role's conversation, and forgets one that cannot be gone on with: it does not exist, or it
// is full.
func (t *turn) keepSession(f RoleEnded) {
	switch {
	case f.Class == string(class.Session), f.Class == string(class.Context):
		delete(t.s.Sessions, f.Role)
	case f.SessionID == "":
	case f.Outcome == OutcomeOK, t.s.Sessions[f.Role].ID == f.SessionID && len(f.SessionTotals) > 0: // what a failed run has counted is counted
		if t.s.Sessions == nil {
			t.s.Sessions = map[string]SessionState{}
		}
		t.s.Sessions[f.Role] = SessionState{ID: f.SessionID, Runner: f.Runner, Totals: f.SessionTotals}
	}
}

// keepNote: an operator's note is for the next planner, or for whoever is first where there is none; after that role it
// has been read.
func (t *turn) keepNote(role string) string {
	if role == t.s.Plan.Roles[0] {
		return ""
	}
	return t.s.HumanNote
}

func (t *turn) waitOver(f WaitOver) {
	switch r := t.s.Recovery; {
	case t.s.Limit != nil:
		t.limitOver(f)
	case r == nil:
		t.issueRole(ReasonRetry)
	case r.Phase == PhaseRetryWait:
		t.moveDue()
	default:
		t.judgeAgain(ReasonCooldown)
	}
}

// Times is once, twice, or n times.
func Times(n int) string {
	if n == 1 || n == 2 {
		return []string{"once", "twice"}[n-1]
	}
	return fmt.Sprintf("%d times", n)
}

// Describe says in one clause how a role ended.
func Describe(f RoleEnded) string {
	how := cmp.Or(map[string]string{
		OutcomeTimeout:  "timed out after " + ms(f.TimeoutMS).String(),
		OutcomeInactive: "no output for " + ms(f.TimeoutMS).String(),
		OutcomeSignal:   "ended by signal " + f.Signal,
		OutcomeLost:     "the process that ran it was lost",
		OutcomeError:    "its own output says that it failed",
		OutcomeUnfit:    "it did not leave what was asked for",
	}[f.Outcome], fmt.Sprintf("exit code %d", f.ExitCode))
	if f.Class != "" && f.Error != "" {
		how += fmt.Sprintf(" (%s: %s)", f.Class, f.Error)
	}
	return how
}
