package loop

import (
	"fmt"
	"maps"
	"time"
)

// docs/architecture.md has the diagram of the states of a loop, of the steps of an iteration, and of a recovery.

// Names of the steps that are not roles; a role's is "role:" and its name.
const (
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
	stepReport        = "report"
	stepClose         = "close"
	stepApproval      = "approval"
	stepRecovery      = "recovery" // between a role that left a proposal and what follows it
	rolePrefix        = "role:"
)

// Step gives what follows from an input; it never changes s. An input that does not fit the state (an outcome that was
// reported twice, or late) changes nothing and has no effects. The effects are in order: the Records that belong in the
// same write as the input, then at most one that has to be performed, which is also State.Pending.
func Step(s State, in Input) (State, []Effect) {
	next, out, _ := step(s, in)
	return next, out
}

// step is Step, and says whether the input fitted.
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

// turn is one call of Step: the state in the making and its effects.
type turn struct {
	s        State
	in       Input
	now      time.Time // when it happened
	out      []Effect
	reissued bool // the pending effect is to be performed again under its old id
}

// fits reports whether a fact is an input, of a loop that has begun, that fits the pending effect: by its kind, and, if
// the fact answers an effect, by its id. A proposal that was swept away before a role answers none.
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

// clone copies what Step may change in place.
func clone(s State) State {
	s.Roles, s.Sessions = maps.Clone(s.Roles), maps.Clone(s.Sessions)
	s.Limit, s.Human, s.Pending, s.Approval = copied(s.Limit), copied(s.Human), copied(s.Pending), copied(s.Approval)
	s.Recovery, s.Response, s.Recoveries = s.Recovery.clone(), s.Response.clone(), s.Recoveries.clone()
	return s
}

// Map is what f makes of each of a list; nil of none.
func Map[A, B any](list []A, f func(A) B) []B {
	var out []B
	for _, a := range list {
		out = append(out, f(a))
	}
	return out
}

// copied is a copy of what p points to, nil for nil.
func copied[T any](p *T) *T {
	if p == nil {
		return nil
	}
	c := *p
	return &c
}

func (t *turn) pending(kind EffectKind) bool { return t.s.Pending != nil && t.s.Pending.Kind == kind }

func (t *turn) begin() bool {
	was := t.s.Begun
	t.s.Begun = true
	return !was
}

func begins[T Fact](t *turn, _ T) bool { return t.begin() }
func passes[T Fact](t *turn, _ T)      { t.advance() }
func (t *turn) issue(e Effect)         { t.s.Pending, t.s.Begun = &e, false }

func (t *turn) note(event string, fields any) {
	t.out = append(t.out, record(event, t.s.Iteration, fields))
}

func (t *turn) start(f Started) {
	t.s = State{Version: StateVersion, Rules: f.Rules, LoopID: t.in.LoopID, RunID: t.in.RunID, Plan: f.Plan, Status: Running,
		StartedAt: t.now, ActiveSince: t.now, Stuck: Streak{Threshold: f.Plan.StuckThreshold, Tree: f.Tree}}
	t.beginIteration(1)
}

func (t *turn) reconfigured(f Reconfigured) {
	if f.Plan != nil { // else the machine's part is as it was, or as it was already told to become
		t.s.NextPlan = f.Plan
	}
}

// resume goes on where the journal ends. What waits goes on waiting; what was begun and has no outcome is lost.
func (t *turn) resume(f Resumed) {
	was := t.s.Status
	t.stopClockAt(t.s.UpdatedAt)
	t.s.Plan, t.s.NextPlan, t.s.Seen = f.Plan, nil, nil
	t.s.Spent.Blind = "" // somebody may have told the price; the next role shows
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
		t.s.Stuck.Count = 0
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
	default: // with the plan as it is now
		t.enter(t.s.At)
		t.reissued = t.s.Pending != nil
	}
}

// lost goes on after the pending effect, which was begun, has lost its performer: a harmless one is performed again, a
// role gets a new attempt number, so that no attempt ever has two outcomes, and a command is put before a human.
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

// stop is a pause or a cancellation that came from outside.
func (t *turn) stop(f Stopped) bool {
	if t.s.Status.Ended() || (f.Status != Paused && f.Status != Cancelled) {
		return false
	}
	if f.Status == Paused {
		if t.s.Status == AwaitingApproval || t.s.Status == AwaitingHuman || t.s.Status == RateLimited {
			return true // it waits on; only the supervisor leaves
		}
		t.stopClockAt(t.now)
		t.s.Status, t.s.Reason = Paused, f.Reason
		return true
	}
	t.stopClockAt(t.now)
	t.s.Status, t.s.Reason, t.s.Detail = Cancelled, f.Reason, f.Note
	if r := t.s.Recovery; r != nil { // whoever runs the loop again does so without it
		if t.s.At = r.After; !r.within() {
			t.s.At = t.s.Plan.next(r.After)
		}
	}
	t.s.Pending, t.s.Begun, t.s.Approval, t.s.Limit, t.s.Human, t.s.Recovery = nil, false, nil, nil, nil, nil
	t.s.EndedAt = t.now
	return true
}

func (t *turn) stopClockAt(at time.Time) {
	if !t.s.ActiveSince.IsZero() && at.After(t.s.ActiveSince) {
		t.s.ActiveMS += at.Sub(t.s.ActiveSince).Milliseconds()
	}
	t.s.ActiveSince = time.Time{}
}

// active is the time that the loop has been active, up to now.
func (t *turn) active() int64 {
	ms := t.s.ActiveMS
	if !t.s.ActiveSince.IsZero() && t.now.After(t.s.ActiveSince) {
		ms += t.now.Sub(t.s.ActiveSince).Milliseconds()
	}
	return ms
}

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

// end brings the loop to one of its ends. At stays, so that a later resume knows the place; an end between two
// iterations has none.
func (t *turn) end(status Status, reason, detail string) {
	t.stopClockAt(t.now)
	t.s.Status, t.s.Reason, t.s.Detail = status, reason, detail
	t.s.Pending, t.s.Begun = nil, false
	t.s.EndedAt = t.now
	event := "loop_stop"
	if status == Completed {
		event = "loop_complete"
	}
	t.note(event, endFields{status, reason, detail, t.s.ActiveMS, t.s.Iteration})
}
