package loop

import (
	"fmt"
	"maps"
	"strings"
	"time"
)

// docs/architecture.md shows the states of a loop, the steps of an iteration and the course of a recovery in diagrams.

// Names of the steps that are not roles. The step of a role is "role:" and the role's name.
const (
	stepBaseline      = "tests_baseline"
	stepTests         = "tests"
	stepPromise       = "promise"
	stepChecklists    = "checklists"
	stepGateTests     = "gate_tests"
	stepValidation    = "validation"
	stepPrerequisites = "prerequisites"
	stepEvidence      = "evidence"
	stepStuck         = "stuck"
	stepDecide        = "decide"
	stepCommit        = "commit"
	stepTree          = "tree"
	stepFinal         = "final"
	stepReport        = "report"
	stepClose         = "close"
	stepApproval      = "approval"
	stepRecovery      = "recovery" // a recovery; State.Recovery.After says which step it belongs to
	rolePrefix        = "role:"
)

// Step returns the state and the effects that follow from an input. It never changes s. An input that does not fit the
// state, such as an outcome that is reported twice or late, changes nothing and has no effects. The effects are in
// order: first the Records, which belong in the same write as the input, then at most one effect to perform. That
// effect is also State.Pending.
func Step(s State, in Input) (State, []Effect) {
	next, out, _ := step(s, in)
	return next, out
}

// step is Step and also reports whether the input fits the state.
func step(s State, in Input) (State, []Effect, bool) {
	t := turn{s: clone(s), in: in, now: in.At}
	before := s.Pending
	if !t.fits(in.Fact) || !inputs[in.Fact.Event()].take(&t, in.Fact) {
		return s, nil, false
	}
	t.s.UpdatedAt = in.At
	if p := t.s.Pending; p != nil && (before == nil || p.ID != before.ID || t.reissued) {
		t.out = append(t.out, *p)
	}
	return t.s, t.out, true
}

// turn is one call of Step: the next state, as far as it is computed, and the effects.
type turn struct {
	s        State
	in       Input
	now      time.Time // the time of the input
	out      []Effect
	reissued bool // the pending effect has to be performed again under its old id
}

// fits reports whether a fact is an input of the machine that fits the pending effect: by the effect's kind and, if the
// fact answers an effect, by the effect's id. Every input but Started needs a loop that has begun. A ProposalStale
// without an effect id fits, because superloop set the proposal aside before a role started.
func (t *turn) fits(f Fact) bool {
	if _, start := f.(Started); f == nil || !start && t.s.Version == 0 {
		return false
	}
	in, known := inputs[f.Event()]
	if !known || in.of != "" && !t.pending(in.of) {
		return false
	}
	a, ok := f.(Answer)
	if !ok {
		return true
	}
	if _, swept := f.(ProposalStale); swept && a.Effect() == "" {
		return true
	}
	return t.s.Pending != nil && t.s.Pending.ID == a.Effect()
}

// clone returns a copy of s with its own copies of the parts that Step changes in place.
func clone(s State) State {
	s.Roles, s.Sessions, s.Looked = maps.Clone(s.Roles), maps.Clone(s.Sessions), maps.Clone(s.Looked)
	s.Limit, s.Human, s.Pending, s.Approval = copied(s.Limit), copied(s.Human), copied(s.Pending), copied(s.Approval)
	s.Recovery, s.Response, s.Recoveries = s.Recovery.clone(), s.Response.clone(), s.Recoveries.clone()
	return s
}

// Map returns f of each element of list. It returns nil for an empty list.
func Map[A, B any](list []A, f func(A) B) []B {
	var out []B
	for _, a := range list {
		out = append(out, f(a))
	}
	return out
}

// copied returns a copy of the value that p points to, or nil for nil.
func copied[T any](p *T) *T {
	if p == nil {
		return nil
	}
	c := *p
	return &c
}

func (t *turn) pending(kind EffectKind) bool { return t.s.Pending != nil && t.s.Pending.Kind == kind }

// begin marks the pending effect as begun. It reports false if it was marked before.
func (t *turn) begin() bool {
	was := t.s.Begun
	t.s.Begun = true
	return !was
}

// begins is the take function of a fact that says that an effect has begun.
func begins[T Fact](t *turn, _ T) bool { return t.begin() }

// passes is the do function of a fact that only leads to the next step.
func passes[T Fact](t *turn, _ T) { t.advance() }

// issue makes e the pending effect.
func (t *turn) issue(e Effect) { t.s.Pending, t.s.Begun = &e, false }

func (t *turn) note(event string, fields any) {
	t.out = append(t.out, record(event, t.s.Iteration, fields))
}

func (t *turn) start(f Started) {
	t.s = State{Version: StateVersion, Rules: f.Rules, LoopID: t.in.LoopID, RunID: t.in.RunID, Plan: f.Plan, Status: Running,
		StartedAt: t.now, ActiveSince: t.now, Stuck: Streak{Threshold: f.Plan.StuckThreshold, Tree: f.Tree}}
	t.beginIteration(1)
}

func (t *turn) reconfigured(f Reconfigured) {
	if f.Plan != nil { // otherwise the plan has not changed, or NextPlan has it already
		t.s.NextPlan = f.Plan
	}
}

// resume goes on where the journal ends. A loop that waited goes on waiting. An effect that has begun and has no
// outcome is lost.
func (t *turn) resume(f Resumed) {
	was := t.s.Status
	t.stopClockAt(t.s.UpdatedAt)
	t.s.Plan, t.s.NextPlan, t.s.Seen = f.Plan, nil, nil
	t.s.Spent.Blind = "" // an operator may have configured the price; the next role shows
	t.s.Stuck.Threshold = f.Plan.StuckThreshold
	t.s.EndedAt = time.Time{}
	if f.Rules > 0 {
		t.s.Rules = f.Rules
	}
	if t.resumeWaiting() {
		return
	}
	t.goOn()
	if was == StuckEnd {
		t.s.Stuck.Count, t.s.SameRed, t.s.Looked = 0, SameRed{}, nil
	}
	switch p := t.s.Pending; {
	case t.s.At == "":
		t.beginIteration(t.s.Iteration + 1)
	case isRole(t.s.At) && was.Ended():
		t.s.Failures, t.s.Response.Policy = 0, nil
		t.issueRole(ReasonRetry)
	case p != nil && t.s.Begun && p.Kind.Once():
		t.lost()
	case p != nil && (t.s.Recovery != nil || p.Kind == RunRole || p.Kind == Wait || p.Kind == Analyse):
		t.s.Begun, t.reissued = false, true
		if t.s.Recovery != nil {
			t.s.Status = Recovering
		}
	default: // start the step again, with the present plan
		t.enter(t.s.At)
		t.reissued = t.s.Pending != nil
	}
}

// lost goes on after the pending effect has begun and its performer is gone. A harmless effect is performed again. A
// role gets a new attempt number, so that no attempt ever has two outcomes. A human decides about a command. lost
// reports false if no begun effect is pending or if the effect is a question.
func (t *turn) lost() bool {
	if t.s.Pending == nil || !t.s.Begun || t.pending(AskHuman) {
		return false
	}
	if t.s.Recovery != nil {
		t.s.Status = Recovering
	}
	switch t.s.Pending.Kind {
	case RunRole:
		t.issueRole(ReasonCrash)
	case ExecuteRecovery:
		t.executionLost()
	default:
		t.s.Begun, t.reissued = false, true
	}
	return true
}

// stop takes a pause or a cancellation from outside the machine.
func (t *turn) stop(f Stopped) bool {
	if t.s.Status.Ended() || (f.Status != Paused && f.Status != Cancelled) {
		return false
	}
	if f.Status == Paused {
		if t.s.Status == AwaitingApproval || t.s.Status == AwaitingHuman || t.s.Status == RateLimited {
			return true // the loop goes on waiting, and only the supervisor leaves
		}
		t.stopClockAt(t.now)
		t.s.Status, t.s.Reason = Paused, f.Reason
		return true
	}
	t.stopClockAt(t.now)
	t.s.Status, t.s.Reason, t.s.Detail = Cancelled, f.Reason, f.Note
	if r := t.s.Recovery; r != nil { // the next run of the loop begins without the recovery
		if t.s.At = r.After; !r.within() {
			t.s.At = t.s.Plan.next(r.After)
		}
	}
	t.s.Pending, t.s.Begun, t.s.Approval, t.s.Limit, t.s.Human, t.s.Recovery = nil, false, nil, nil, nil, nil
	t.s.EndedAt = t.now
	return true
}

// stopClockAt adds the present active period, up to at, to ActiveMS and ends the period.
func (t *turn) stopClockAt(at time.Time) {
	if !t.s.ActiveSince.IsZero() && at.After(t.s.ActiveSince) {
		t.s.ActiveMS += at.Sub(t.s.ActiveSince).Milliseconds()
	}
	t.s.ActiveSince = time.Time{}
}

// active returns how long the loop has been active up to now, in milliseconds.
func (t *turn) active() int64 {
	ms := t.s.ActiveMS
	if !t.s.ActiveSince.IsZero() && t.now.After(t.s.ActiveSince) {
		ms += t.now.Sub(t.s.ActiveSince).Milliseconds()
	}
	return ms
}

// outOfTime ends the loop if its wall time is used up, and reports whether it did.
func (t *turn) outOfTime() bool {
	max := t.s.Plan.MaxWallMS
	if max <= 0 || t.active() < max {
		return false
	}
	t.end(LimitReached, ReasonMaxWallTime, fmt.Sprintf("active for %s, the limit is %s", ms(t.active()), ms(max)))
	return true
}

func ms(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

type endFields struct {
	Status    Status `json:"status"`
	Reason    string `json:"reason"`
	Detail    string `json:"detail,omitempty"`
	ActiveMS  int64  `json:"active_ms"`
	Iteration int    `json:"iterations"`
}

// end brings the loop to one of its ends. At keeps the step, so that a later resume can continue there. At is "" at an
// end between two iterations.
func (t *turn) end(status Status, reason, detail string) {
	t.stopClockAt(t.now)
	if why := WhyMissing(t.s.Missing); (status == LimitReached || status == StuckEnd) && t.s.At == "" && len(why) > 0 {
		detail += fmt.Sprintf("; the promise was given, but %s: %s", strings.Join(t.s.Missing, ", "), strings.Join(why, "; "))
	}
	t.s.Status, t.s.Reason, t.s.Detail = status, reason, detail
	t.s.Pending, t.s.Begun = nil, false
	t.s.EndedAt = t.now
	event := "loop_stop"
	if status == Completed {
		event = "loop_complete"
	}
	t.note(event, endFields{status, reason, detail, t.s.ActiveMS, t.s.Iteration})
}
