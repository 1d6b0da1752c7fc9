package loop

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/superloop/superloop/recovery/failures"
	"github.com/superloop/superloop/roles/agent/class"
)

// issueRole issues the next attempt of the current role, unless the loop's time or budget is used up.
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
	Attempts int       `json:"attempts"` // how many counted failures end the loop
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
	if held := ms(f.HeldMS); held > 0 && !t.s.ActiveSince.IsZero() { // an operator's time to think is none of the loop's
		if t.s.ActiveSince = t.s.ActiveSince.Add(held); t.s.ActiveSince.After(t.now) {
			t.s.ActiveSince = t.now
		}
	}
	t.spend(f)
	t.keepSession(f)
	switch f.Outcome {
	case OutcomeOK:
		t.s.HumanNote = t.keepNote(f.Role)
		t.succeeded(f.Role)
		t.looked(f.Role)
		if f.Proposal && t.s.Plan.Recovery {
			t.takeProposal(f.Role)
			return true
		}
		t.advance()
		return true
	case OutcomeInterrupted:
		// The role is not at fault. It starts again when the loop is run again.
		t.s.Attempt++
		e := *t.s.Pending
		e.Attempt, e.Reason = t.s.Attempt, ReasonInterrupted
		e.ID = fmt.Sprintf("%s/%d/%s/%d", t.s.RunID, t.s.Iteration, t.s.At, t.s.Attempt)
		t.issue(e)
		return true
	}
	t.undone()
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

// rest lets a runner that has failed n times wait before the role runs again. It reports whether there is a wait.
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

// classified handles a failure whose class says what to do. It reports whether it did. Such a failure does not count
// against the role.
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
		t.issueRole(ReasonNewSession) // keepSession has dropped the session that does not exist
	case failure == class.Budget && t.s.Plan.MaxCostUSD > 0:
		t.reachBudget(ReasonMaxCost, f.Role, t.s.Spent.CostUSD, t.s.Plan.MaxCostUSD, 0)
	default:
		return false
	}
	return true
}

// keepSession remembers the session of the role. It drops a session that the role cannot resume, because the session
// does not exist or is full.
func (t *turn) keepSession(f RoleEnded) {
	switch {
	case f.Class == string(class.Session), f.Class == string(class.Context):
		delete(t.s.Sessions, f.Role)
	case f.SessionID == "":
	// A failed run in the remembered session updates its counters, so that nothing is counted twice.
	case f.Outcome == OutcomeOK, t.s.Sessions[f.Role].ID == f.SessionID && len(f.SessionTotals) > 0:
		if t.s.Sessions == nil {
			t.s.Sessions = map[string]SessionState{}
		}
		t.s.Sessions[f.Role] = SessionState{ID: f.SessionID, Runner: f.Runner, Totals: f.SessionTotals}
	}
}

// keepNote returns the operator's note for the roles that follow. The note is for the first role of the loop, usually
// the planner. It is dropped when that role has read it.
func (t *turn) keepNote(role string) string {
	if role == t.s.Plan.Roles[0] {
		return ""
	}
	return t.s.HumanNote
}

// waitOver goes on after a Wait: for a limit, before a retry, for a move of the plan, or for a cooldown.
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

// Times returns "once", "twice" or "n times".
func Times(n int) string {
	if n == 1 || n == 2 {
		return []string{"once", "twice"}[n-1]
	}
	return fmt.Sprintf("%d times", n)
}

// Describe says in one clause how an attempt of a role ended.
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

// historyLength is the number of runs of a role from which the cost of its next run is estimated. It is large enough
// for a 90th percentile and small enough to follow a change of the model.
const historyLength = 10

// spend adds the cost of a run. If the run was interrupted or failed, superloop counts what the run reported and
// guesses nothing.
func (t *turn) spend(f RoleEnded) {
	s := &t.s.Spent
	s.Runs++
	if n, ok := f.Usage.Total(); ok {
		s.Tokens += n
		s.Uses = remember(s.Uses, f.Role, n)
	} else {
		s.UnknownTokens++
		if f.Outcome == OutcomeOK && t.s.Plan.MaxTokens > 0 {
			s.Blind = blind("tokens", f)
		}
	}
	if f.CostUSD != nil {
		s.CostUSD += *f.CostUSD
		s.Costs = remember(s.Costs, f.Role, *f.CostUSD)
	} else {
		s.UnknownCost++
		if f.Outcome == OutcomeOK && t.s.Plan.MaxCostUSD > 0 {
			s.Blind = blind("cost", f)
		}
	}
}

func blind(what string, f RoleEnded) string {
	return fmt.Sprintf("the %s of the %s is not known (runner %s, model %s)", what, f.Role, f.Runner, cmp.Or(f.Model, "of its own choice"))
}

func remember[T any](all map[string][]T, role string, v T) map[string][]T {
	out := map[string][]T{}
	maps.Copy(out, all)
	list := append(slices.Clone(out[role]), v)
	out[role] = list[max(0, len(list)-historyLength):]
	return out
}

// expected returns the 90th percentile of what the role's latest runs took, or 0 without a history.
func expected[T int64 | float64](history []T) T {
	if len(history) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(history))
	return sorted[(len(sorted)*9+9)/10-1]
}

type budgetFields struct {
	Limit    string  `json:"limit"` // max_cost_usd, max_tokens
	Role     string  `json:"role"`
	Spent    float64 `json:"spent"`
	Max      float64 `json:"max"`
	Expected float64 `json:"expected,omitempty"` // the estimate for the role
	Unknown  int     `json:"unknown,omitempty"`  // runs whose cost or tokens are not known
}

// outOfBudget ends the loop before a role that the budget does not cover, and reports whether it did. The budget does
// not cover a role if it is spent, or if the role's estimate is more than what is left. The loop also ends if superloop
// cannot enforce the budget, because a role did not report its cost or its tokens.
func (t *turn) outOfBudget(role string) bool {
	p, s := t.s.Plan, t.s.Spent
	if p.MaxCostUSD <= 0 && p.MaxTokens <= 0 {
		return false
	}
	if s.Blind != "" {
		t.end(LimitReached, ReasonCostUnknown, fmt.Sprintf("%s, so the budget cannot be kept; put the model's price into prices, or take the bound away", s.Blind))
		return true
	}
	if e := expected(s.Costs[role]); p.MaxCostUSD > 0 && (s.CostUSD+e > p.MaxCostUSD || s.CostUSD >= p.MaxCostUSD) {
		t.reachBudget(ReasonMaxCost, role, s.CostUSD, p.MaxCostUSD, e)
		return true
	}
	if e := expected(s.Uses[role]); p.MaxTokens > 0 && (s.Tokens+e > p.MaxTokens || s.Tokens >= p.MaxTokens) {
		t.reachBudget(ReasonMaxTokens, role, float64(s.Tokens), float64(p.MaxTokens), float64(e))
		return true
	}
	return false
}

func (t *turn) reachBudget(limit, role string, spent, most, expected float64) {
	unknown := t.s.Spent.UnknownCost
	show := func(v float64) string { return fmt.Sprintf("$%.2f", v) }
	if limit == ReasonMaxTokens {
		unknown = t.s.Spent.UnknownTokens
		show = func(v float64) string { return fmt.Sprintf("%.0f tokens", v) }
	}
	t.note("budget_reached", budgetFields{limit, role, spent, most, expected, unknown})
	detail := fmt.Sprintf("%s of %s are spent", show(spent), show(most))
	if spent < most && expected > 0 {
		detail += fmt.Sprintf(", and the %s lately took %s", role, show(expected))
	}
	t.end(LimitReached, limit, detail)
}

// moneyLeft returns what the next role may cost in US dollars. It returns 0 if there is no limit.
func (t *turn) moneyLeft() float64 {
	if t.s.Plan.MaxCostUSD <= 0 {
		return 0
	}
	return t.s.Plan.MaxCostUSD - t.s.Spent.CostUSD
}
