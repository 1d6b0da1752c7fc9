package loop

import (
	"fmt"
	"maps"
	"time"
)

// The states of a loop, and what moves it between them. Boxes are statuses,
// the middle one is unfolded into the steps of an iteration.
//
//	            loop_start                              approval_decided(approved,
//	 pending ------------------+                        nothing changed since)
//	                           v                                |
//	        +--------------- running ---------------+           v
//	        |  role:planner                         |       completed
//	        |  role:implementer   role_failed:      |           ^
//	        |  tests              wait, again;      |           |
//	        |  role:tester        too often: failed |  complete |
//	        |  role:reviewer                        |-----------+  (no approval gate)
//	        |  promise                              |
//	        |  checklists                           |  complete    +-------------------+
//	        |  gate_tests   (on_promise, or again   |------------->| awaiting_approval |
//	        |               when the tree changed)  |<-------------|                   |
//	        |  validation prerequisites evidence    |  rejected,   +-------------------+
//	        |  stuck ------------------------------>|  or approved but the tree changed
//	        |  decide                               |
//	        |  commit, report                       |-- streak >= threshold --> stuck
//	        |  close: next iteration, or an end     |-- iterations, wall time -> limit_reached
//	        +---------------------------------------+
//	            |  loop_stop(paused)     ^ loop_resume
//	            v                        |
//	          paused --------------------+      loop_stop(cancelled): cancelled, from anywhere
//
//	running --- a role met a limit of its provider, or another loop did ---> rate_limited
//	rate_limited --- wait_over (its time has come, or superloop kick) ---> running
//	running --- a login is missing, an account is empty ---> awaiting_human
//	awaiting_human --- recovery_resolved (superloop kick) ---> running
//
// Before each role the budgets are looked at: spent, or about to be, is
// limit_reached.
//
// A role that leaves a proposal is followed by a detour, step recovery, and the
// loop is recovering in it:
//
//	take and judge --- auto ---> execute --- exit 0 ---> tests again ---> verdict, go on
//	      |    ^                    |  \ anything else
//	      |    +-- the fallback <---+   \---------> awaiting_human <--- a crash in the middle
//	      +--- human ---> awaiting_human --- approve ---> execute
//	      |                              --- reject ----> go on
//	      |                              --- manual ----> tests again
//	      +--- deny, invalid, stale ---> go on

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

// Step is the one door into the machine: what follows from an input. It never
// changes s. An input that does not fit the state (an outcome that was
// reported twice, or late) changes nothing and has no effects.
//
// The effects are in order: the Records that belong in the same write as the
// input, then at most one that has to be carried out, which is also
// State.Pending.
func Step(s State, in Input) (State, []Effect) {
	t := turn{s: clone(s), now: in.At}
	before := s.Pending
	if !t.take(in) {
		return s, nil
	}
	t.s.UpdatedAt = in.At
	if p := t.s.Pending; p != nil && (before == nil || p.ID != before.ID || t.reissued) {
		t.out = append(t.out, *p)
	}
	return t.s, t.out
}

// turn is one call of Step: the state in the making and its effects.
type turn struct {
	s        State
	now      time.Time
	out      []Effect
	reissued bool // the pending effect is to be carried out again under its old id
}

func (t *turn) take(in Input) bool {
	if _, start := in.Fact.(Started); !start && t.s.Version == 0 {
		return false
	}
	switch f := in.Fact.(type) {
	case Started:
		t.start(in, f)
	case Resumed:
		t.resume(f)
	case Stopped:
		return t.stop(f)
	case RoleStarted:
		return t.begin(RunRole, func(e Effect) bool { return e.Role == f.Role && e.Attempt == f.Attempt })
	case RoleEnded:
		return t.roleEnded(f)
	case TestsStarted:
		return t.begin(RunTests, nil)
	case TestsEnded:
		return t.testsEnded(f)
	case PromiseChecked:
		return t.promiseChecked(f)
	case ValidationStarted:
		return t.begin(RunValidation, nil)
	case GateEnded:
		return t.gateEnded(f)
	case StuckChecked:
		return t.stuckChecked(f)
	case CommitEnded:
		return t.commitEnded(f)
	case Reported:
		return t.reported()
	case ApprovalRequested:
		return t.begin(AskApproval, nil)
	case ApprovalDecided:
		return t.approvalDecided(f)
	case WaitOver:
		return t.waitOver(f)
	case Classified:
		return t.diagnosed(f)
	case Limited:
		return t.limited(f)
	case GroundBroken:
		return t.groundBroken(f)
	case Analysed:
		return t.analysed(f)
	case Escalated:
		return t.escalated(f)
	case Resolved:
		return t.resolved(f)
	case Seen:
		return t.seen(f)
	case Proposed:
		return t.proposed(f)
	case ProposalInvalid:
		return t.proposalInvalid(f)
	case ProposalStale:
		return t.proposalStale(f)
	case Executing:
		return t.executing(f)
	case Executed:
		return t.executed(f)
	case Reconfigured:
		t.s.NextPlan = f.Plan
	default:
		return false
	}
	return true
}

// clone copies what Step may change in place.
func clone(s State) State {
	s.Roles = maps.Clone(s.Roles)
	s.Sessions = maps.Clone(s.Sessions)
	if s.Limit != nil {
		l := *s.Limit
		s.Limit = &l
	}
	if s.Human != nil {
		h := *s.Human
		s.Human = &h
	}
	s.Recovery = s.Recovery.clone()
	s.Response = s.Response.clone()
	s.Recoveries = s.Recoveries.clone()
	if s.Pending != nil {
		p := *s.Pending
		s.Pending = &p
	}
	if s.Approval != nil {
		a := *s.Approval
		s.Approval = &a
	}
	return s
}

// pending reports whether the awaited effect is of that kind.
func (t *turn) pending(kind EffectKind) bool {
	return t.s.Pending != nil && t.s.Pending.Kind == kind
}

// begin marks the pending effect as begun.
func (t *turn) begin(kind EffectKind, fits func(Effect) bool) bool {
	if !t.pending(kind) || t.s.Begun || (fits != nil && !fits(*t.s.Pending)) {
		return false
	}
	t.s.Begun = true
	return true
}

// issue makes e the pending effect.
func (t *turn) issue(e Effect) {
	t.s.Pending, t.s.Begun = &e, false
}

func (t *turn) note(event string, fields any) {
	t.out = append(t.out, record(event, t.s.Iteration, fields))
}

func (t *turn) start(in Input, f Started) {
	t.s = State{
		Version: StateVersion, Rules: max(1, f.Rules),
		LoopID: in.LoopID, RunID: in.RunID, Plan: f.Plan,
		Status: Running, StartedAt: t.now, ActiveSince: t.now,
		Stuck: Streak{Threshold: f.Plan.StuckThreshold, Tree: f.Tree},
	}
	t.beginIteration(1)
}

// resume goes on where the journal ends. What was begun and has no outcome is
// done again, because every effect of these rules is harmless or a role; a role
// gets a new attempt number, so that no attempt ever has two outcomes.
func (t *turn) resume(f Resumed) {
	was := t.s.Status
	t.stopClockAt(t.s.UpdatedAt)
	t.s.Plan, t.s.NextPlan, t.s.Seen = f.Plan, nil, nil
	t.s.Rules = max(t.s.Rules, f.Rules)
	t.s.Spent.Blind = "" // somebody may have told the price; the next role shows
	t.s.Stuck.Threshold = f.Plan.StuckThreshold
	t.s.EndedAt = time.Time{}
	if was == AwaitingApproval && t.pending(AskApproval) {
		t.reissued = true
		t.s.Begun = false
		return
	}
	if t.resumePaused() {
		return
	}
	t.goOn()
	if was == StuckEnd {
		t.s.Stuck.Count = 0
	}
	switch {
	case t.s.At == "":
		t.beginIteration(t.s.Iteration + 1)
	case t.s.At == stepRecovery && t.s.Recovery != nil:
		t.resumeRecovery()
	case t.pending(Analyse):
		t.reissued = true
	case isRole(t.s.At) && was.Ended():
		t.s.Failures, t.s.Response.Ladder = 0, nil
		t.issueRole(ReasonRetry)
	case isRole(t.s.At) && t.pending(Wait):
		t.reissued = true
	case isRole(t.s.At) && t.s.Begun:
		t.issueRole(ReasonCrash)
	case isRole(t.s.At) && t.s.Pending != nil && t.s.Pending.Kind == RunRole:
		t.reissued = true
	default:
		t.enter(t.s.At)
		t.reissued = t.s.Pending != nil
	}
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
	t.s.Pending, t.s.Begun, t.s.Approval, t.s.Limit, t.s.Human, t.s.Recovery = nil, false, nil, nil, nil, nil
	t.s.EndedAt = t.now
	return true
}

// stopClockAt closes the running span of active time.
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

// outOfTime ends the loop when its wall time is spent.
func (t *turn) outOfTime() bool {
	max := t.s.Plan.MaxWallMS
	if max <= 0 || t.active() < max {
		return false
	}
	t.end(LimitReached, ReasonMaxWallTime,
		fmt.Sprintf("active for %s, the limit is %s", ms(t.active()), ms(max)))
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

// end brings the loop to one of its ends. At stays, so that a later resume
// knows the place; an end between two iterations has none.
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
