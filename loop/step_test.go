package loop

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var t0 = time.Date(2026, 3, 1, 22, 0, 0, 0, time.UTC)

func basicPlan() Plan {
	return Plan{SpecFile: "spec.md", Roles: []string{"planner", "implementer", "tester", "reviewer"},
		MaxIterations: 5, Promise: "DONE", Tests: "every", Attempts: 3, BackoffMS: 1000}
}

// bench drives Step by hand: every call of do advances the clock by a second.
type bench struct {
	t     testing.TB
	s     State
	now   time.Time
	notes []string
	eff   []Effect
}

func newBench(t testing.TB, p Plan) *bench {
	b := &bench{t: t, now: t0}
	b.do(Started{Plan: p})
	return b
}

func (b *bench) do(f Fact) {
	b.now = b.now.Add(time.Second)
	b.s, b.eff = Step(b.s, Input{At: b.now, LoopID: "l", RunID: "r", Fact: answering(b.s, f)})
	for _, e := range b.eff {
		if e.Kind == Record {
			b.notes = append(b.notes, e.Event)
		}
	}
}

// good answers the pending effect with success.
func (b *bench) good(promise bool) {
	b.t.Helper()
	p := b.s.Pending
	if p == nil {
		b.t.Fatalf("nothing is pending in %s", b.s.Status)
	}
	b.do(goodFact(b.s, promise))
}

func goodFact(s State, promise bool) Fact {
	p := s.Pending
	switch p.Kind {
	case RunRole:
		return RoleEnded{Role: p.Role, Attempt: p.Attempt, Outcome: OutcomeOK, Output: "fresh"}
	case RunTests:
		return TestsEnded{Status: "ok", Tree: "t1"}
	case CheckPromise:
		return PromiseChecked{Matched: promise, Tree: "t1"}
	case CheckChecklists:
		return GateEnded{Gate: "checklist", Status: "ok", OK: true}
	case RunValidation:
		return GateEnded{Gate: "validation", Status: "ok", OK: true}
	case CheckPrerequisites:
		return GateEnded{Gate: "prerequisites", Status: "ok", OK: true}
	case CollectEvidence:
		return GateEnded{Gate: "evidence", Status: "ok", OK: true}
	case CheckStuck:
		return StuckChecked{Streak: 0, Threshold: s.Stuck.Threshold, Tree: "t1"}
	case Commit:
		return CommitEnded{Outcome: "success", SHA: "abc"}
	case RunFinal:
		return FinalEnded{Status: "ok"}
	case CheckTree:
		return TreeChecked{Files: s.TestsFiles}
	case Report:
		return Reported{}
	case AskHuman:
		if s.Human.About == AboutCompletion {
			return ApprovalDecided{Status: "approved", By: "eve"}
		}
		return Resolved{ID: s.Human.ID, By: "eve"}
	case Wait:
		return WaitOver{ID: p.ID}
	}
	panic("no answer for " + p.Kind)
}

func (b *bench) until(kind EffectKind, promise bool) {
	b.t.Helper()
	for i := 0; b.s.Pending == nil || b.s.Pending.Kind != kind; i++ {
		if i > 200 || b.s.Pending == nil {
			b.t.Fatalf("never came to %s: status %s (%s)", kind, b.s.Status, b.s.Reason)
		}
		b.good(promise)
	}
}

// Conforms: 004-compat-tester
func TestOneIterationInOrder(t *testing.T) {
	p := basicPlan()
	p.Checklists, p.Validation, p.Prerequisites, p.Evidence, p.StuckThreshold, p.Commit = true, "every", true, true, 3, "per_iteration"
	b := newBench(t, p)
	var got []string
	for b.s.Pending != nil {
		got = append(got, string(b.s.Pending.Kind)+":"+b.s.Pending.Role)
		b.good(true)
	}
	want := []string{"run_role:planner", "run_role:implementer", "run_tests:", "run_role:tester", "run_role:reviewer",
		"check_promise:", "check_checklists:", "run_validation:", "check_prerequisites:", "collect_evidence:", "check_stuck:", "commit:", "report:"}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("effects\n got %v\nwant %v", got, want)
	}
	if b.s.Status != Completed || b.s.Iteration != 1 {
		t.Fatalf("ended %s in iteration %d", b.s.Status, b.s.Iteration)
	}
	wantNotes := []string{"iteration_start", "checklist_start", "prerequisites_start", "evidence_start", "gates_evaluated", "iteration_end", "loop_complete"}
	if !reflect.DeepEqual(b.notes, wantNotes) {
		t.Fatalf("records\n got %v\nwant %v", b.notes, wantNotes)
	}
}

func TestEnds(t *testing.T) {
	limited := basicPlan()
	limited.MaxIterations = 2
	wall := basicPlan()
	wall.MaxWallMS = 4000
	stuck := basicPlan()
	stuck.StuckThreshold = 2
	failing := basicPlan()
	failing.Attempts, failing.BackoffMS = 2, 0
	for name, c := range map[string]struct {
		plan   Plan
		answer func(State) Fact
		status Status
		reason string
	}{
		"no promise, out of iterations": {limited, nil, LimitReached, ReasonMaxIterations},
		"out of wall time":              {wall, nil, LimitReached, ReasonMaxWallTime},
		"nothing changes": {stuck, func(s State) Fact {
			if s.Pending.Kind == CheckStuck {
				return StuckChecked{Streak: s.Stuck.Count + 1, Threshold: 2}
			}
			return nil
		}, StuckEnd, ReasonStuck},
		"a role fails for good": {failing, func(s State) Fact {
			if s.Pending.Role == "tester" {
				return RoleEnded{Role: "tester", Attempt: s.Pending.Attempt, Outcome: OutcomeExit, ExitCode: 3}
			}
			return nil
		}, Failed, ReasonRoleFailed},
		"no such program": {failing, func(s State) Fact {
			if s.Pending.Role == "planner" {
				return RoleEnded{Role: "planner", Attempt: s.Pending.Attempt, Outcome: OutcomeNotStarted, Error: "no such program"}
			}
			return nil
		}, Failed, ReasonNotStarted},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, c.plan)
			for i := 0; b.s.Pending != nil && i < 500; i++ {
				f := goodFact(b.s, false)
				if c.answer != nil {
					if g := c.answer(b.s); g != nil {
						f = g
					}
				}
				b.do(f)
			}
			if b.s.Status != c.status || b.s.Reason != c.reason {
				t.Fatalf("got %s/%s, want %s/%s", b.s.Status, b.s.Reason, c.status, c.reason)
			}
		})
	}
}

func TestRetryWaitsLongerEachTime(t *testing.T) {
	p := basicPlan()
	p.Attempts = 4
	b := newBench(t, p)
	var waits []time.Duration
	for b.s.Pending != nil && b.s.Status == Running {
		if b.s.Pending.Kind == Wait {
			waits = append(waits, b.s.Pending.Until.Sub(b.now))
			b.do(WaitOver{ID: b.s.Pending.ID})
			continue
		}
		b.do(RoleEnded{Role: "planner", Attempt: b.s.Pending.Attempt, Outcome: OutcomeTimeout})
	}
	want := []time.Duration{time.Second, 2 * time.Second, 4 * time.Second}
	if !reflect.DeepEqual(waits, want) {
		t.Fatalf("waits %v, want %v", waits, want)
	}
}

func TestTestsRunAgainWhenTheTreeChangedAfterThem(t *testing.T) {
	b := newBench(t, basicPlan())
	b.until(CheckPromise, true)
	b.do(PromiseChecked{Matched: true, Tree: "reviewer wrote something"})
	if b.s.Pending.Kind != RunTests || b.s.Pending.Reason != ReasonTreeChanged {
		t.Fatalf("pending %+v", b.s.Pending)
	}
	b.do(TestsEnded{Rerun: true, Status: "failed", ExitCode: 1, Tree: "reviewer wrote something"})
	b.good(false) // the report
	if b.s.Iteration != 2 || b.s.Status != Running {
		t.Fatalf("a promise over red tests must not complete: %s, iteration %d", b.s.Status, b.s.Iteration)
	}
}

func TestApproval(t *testing.T) {
	p := basicPlan()
	p.Approval = true
	ask := func(t *testing.T) *bench {
		b := newBench(t, p)
		b.until(AskHuman, true)
		if b.s.Status != AwaitingApproval {
			t.Fatalf("status %s", b.s.Status)
		}
		return b
	}
	t.Run("approved", func(t *testing.T) {
		b := ask(t)
		b.do(ApprovalDecided{Status: "approved", By: "eve"})
		if b.s.Status != Completed || b.s.Reason != ReasonApproved {
			t.Fatalf("%s/%s", b.s.Status, b.s.Reason)
		}
	})
	t.Run("rejected", func(t *testing.T) {
		b := ask(t)
		b.do(ApprovalDecided{Status: "rejected", By: "eve", Note: "no docs"})
		if b.s.Status != Running || b.s.Iteration != 2 || b.s.HumanNote == "" {
			t.Fatalf("%s, iteration %d, note %q", b.s.Status, b.s.Iteration, b.s.HumanNote)
		}
	})
	for _, status := range []string{"ok", "failed"} {
		t.Run("approved after the tree changed, tests "+status, func(t *testing.T) {
			b := ask(t)
			b.do(ApprovalDecided{Status: "approved", By: "eve", TreeChanged: true})
			if b.s.Pending.Kind != RunTests {
				t.Fatalf("pending %+v", b.s.Pending)
			}
			b.do(TestsEnded{Rerun: true, Status: status})
			b.good(false) // the report
			want := map[string]Status{"ok": Completed, "failed": Running}[status]
			if b.s.Status != want {
				t.Fatalf("status %s, want %s", b.s.Status, want)
			}
		})
	}
	t.Run("waiting costs no wall time", func(t *testing.T) {
		b := ask(t)
		active := b.s.ActiveMS
		b.now = b.now.Add(72 * time.Hour)
		b.do(ApprovalDecided{Status: "approved"})
		if b.s.ActiveMS != active {
			t.Fatalf("active %d ms, was %d", b.s.ActiveMS, active)
		}
	})
}

func TestResumeFromEveryEnd(t *testing.T) {
	p := basicPlan()
	p.MaxIterations = 1
	b := newBench(t, p)
	for b.s.Pending != nil {
		b.good(false)
	}
	b.do(Resumed{Plan: p})
	if b.s.Status != LimitReached {
		t.Fatalf("an unchanged limit must end it again: %s", b.s.Status)
	}
	p.MaxIterations = 2
	b.do(Resumed{Plan: p})
	if b.s.Status != Running || b.s.Iteration != 2 {
		t.Fatalf("%s, iteration %d", b.s.Status, b.s.Iteration)
	}
	b.do(Stopped{Status: Cancelled, Reason: ReasonCancelled})
	b.do(Resumed{Plan: p})
	if b.s.Status != Running || b.s.Pending == nil || b.s.Pending.Role != "planner" {
		t.Fatalf("%s, pending %+v", b.s.Status, b.s.Pending)
	}
}

// TestMachineProperties plays random nights: any outcome, crashes and late
// duplicates at any point. Whatever happens the machine stays within its
// bounds, and a state that went through JSON behaves as the one in memory.
func TestMachineProperties(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		p := Plan{
			Roles:         rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"planner", "implementer", "tester", "reviewer"}), 1, 4, rapid.ID[string]).Draw(rt, "roles"),
			MaxIterations: rapid.IntRange(1, 4).Draw(rt, "max"), Promise: "DONE",
			Tests:          rapid.SampledFrom([]string{"every", "on_promise", "disabled"}).Draw(rt, "tests"),
			Checklists:     rapid.Bool().Draw(rt, "checklists"),
			Validation:     rapid.SampledFrom([]string{"", "every", "on_promise"}).Draw(rt, "validation"),
			Prerequisites:  rapid.Bool().Draw(rt, "prerequisites"),
			Evidence:       rapid.Bool().Draw(rt, "evidence"),
			Approval:       rapid.Bool().Draw(rt, "approval"),
			Final:          rapid.Bool().Draw(rt, "final"),
			StuckThreshold: rapid.IntRange(0, 3).Draw(rt, "stuck"),
			Commit:         rapid.SampledFrom([]string{"", "per_iteration", "on_test_pass"}).Draw(rt, "commit"),
			Attempts:       rapid.IntRange(1, 3).Draw(rt, "attempts"), BackoffMS: int64(rapid.IntRange(0, 1000).Draw(rt, "backoff")),
			MaxWallMS:  int64(rapid.SampledFrom([]int{0, 0, 40_000}).Draw(rt, "wall")),
			MaxCostUSD: rapid.SampledFrom([]float64{0, 0, 1}).Draw(rt, "money"), MaxTokens: rapid.SampledFrom([]int64{0, 0, 1000}).Draw(rt, "tokens"),
		}
		p.RequireValidation, p.RequireEvidence, p.RequirePrerequisites = p.Validation != "", p.Evidence, p.Prerequisites
		b := agentBench(t, p)
		if rapid.Bool().Draw(rt, "old rules") {
			b = newBench(t, p)
		}
		ended := map[string]bool{}
		for i := 0; i < 400 && b.s.Pending != nil; i++ {
			eff := *b.s.Pending
			switch rapid.IntRange(0, 9).Draw(rt, "happening") {
			case 0: // the supervisor dies, perhaps with the effect begun
				if eff.Kind == RunRole && rapid.Bool().Draw(rt, "begun") {
					b.do(RoleStarted{Role: eff.Role, Attempt: eff.Attempt})
				}
				b.do(Resumed{Plan: p})
				if len(b.eff) == 0 {
					rt.Fatalf("a resume must give an effect or an end; %s at %s", b.s.Status, b.s.At)
				}
				continue
			case 1:
				if eff.Kind == RunRole {
					b.do(RoleEnded{Role: eff.Role, Attempt: eff.Attempt, Outcome: OutcomeInterrupted})
				}
				b.do(Stopped{Status: Paused, Reason: ReasonInterrupted})
				b.do(Resumed{Plan: p})
				continue
			}
			var f Fact
			switch outcome := rapid.IntRange(0, 5).Draw(rt, "outcome"); {
			case outcome == 0 && eff.Kind == RunRole:
				f = RoleEnded{Role: eff.Role, Attempt: eff.Attempt, Outcome: rapid.SampledFrom([]string{OutcomeExit, OutcomeTimeout, OutcomeLost, OutcomeSignal, OutcomeInactive}).Draw(rt, "how")}
			case outcome == 1 && eff.Kind == RunRole:
				f = classFact(rt, b)
			case outcome == 2 && eff.Kind == RunRole && !b.s.Begun:
				f = Limited{Role: eff.Role, Class: "rate_limited", Source: SourceShared, LimitFact: LimitFact{Until: b.now.Add(time.Minute)}}
			case outcome == 1 && eff.Kind == RunTests:
				f = TestsEnded{Status: "failed", ExitCode: 1, Tree: "t2"}
			case outcome == 1 && eff.Kind == AskHuman && b.s.Human.About == AboutCompletion:
				f = ApprovalDecided{Status: "rejected", By: "eve"}
			case outcome == 1 && eff.Kind == RunFinal:
				f = FinalEnded{Status: "failed", ExitCode: 1}
			case outcome == 1 && eff.Kind == CheckStuck:
				f = StuckChecked{Streak: b.s.Stuck.Count + 1, Threshold: p.StuckThreshold}
			default:
				f = goodFact(b.s, rapid.Bool().Draw(rt, "promise"))
			}
			if r, ok := f.(RoleEnded); ok {
				key := eff.ID
				if ended[key] {
					rt.Fatalf("second outcome for %s", key)
				}
				ended[key] = true
				if r.Attempt != b.s.Attempt {
					rt.Fatalf("attempt %d pending, state says %d", r.Attempt, b.s.Attempt)
				}
			}
			before, _ := json.Marshal(b.s)
			var copied State
			if err := json.Unmarshal(before, &copied); err != nil {
				rt.Fatal(err)
			}
			at := b.now.Add(time.Second)
			f = answering(b.s, someFiles(rt, f))
			b.do(f)
			other, effs := Step(copied, Input{At: at, LoopID: "l", RunID: "r", Fact: f})
			if !sameJSON(other, b.s) || !sameJSON(effs, b.eff) {
				rt.Fatalf("the state that went through JSON went another way after %T", f)
			}
			if r, ok := f.(RoleEnded); ok { // reported twice: nothing happens
				again, effs := Step(b.s, Input{At: at, Fact: r})
				if !sameJSON(again, b.s) || len(effs) != 0 {
					rt.Fatalf("a duplicate outcome changed the state")
				}
			}
			if b.s.Iteration > p.MaxIterations {
				rt.Fatalf("iteration %d of %d", b.s.Iteration, p.MaxIterations)
			}
			if b.s.Status == Completed && len(b.s.MissingGates()) > 0 {
				rt.Fatalf("completed although %v", b.s.MissingGates())
			}
			if b.s.Status == Completed && p.Final && b.s.Gates.Final != "ok" {
				rt.Fatalf("completed without tests in a checkout: %+v", b.s.Gates)
			}
			if b.s.Status == Completed && b.s.Reason == ReasonPromiseKept && b.s.Files != "" && b.s.TestsFiles != "" && b.s.Files != b.s.TestsFiles {
				rt.Fatalf("completed on %s, and the tests ran on %s", b.s.Files, b.s.TestsFiles)
			}
			if (b.s.Status == RateLimited) != (b.s.Limit != nil) || (b.s.Status == AwaitingHuman || b.s.Status == AwaitingApproval) != (b.s.Human != nil) {
				rt.Fatalf("%s with limit %v and question %v", b.s.Status, b.s.Limit, b.s.Human)
			}
			if b.s.Status.Ended() != (b.s.Pending == nil) {
				rt.Fatalf("%s with pending %v", b.s.Status, b.s.Pending)
			}
		}
		if b.s.Pending != nil && p.BackoffMS == 0 && p.MaxWallMS > 0 {
			rt.Fatalf("never ended")
		}
	})
}

// someFiles fills in the signatures of files of a fact. Those of a journal without them stay empty.
func someFiles(rt *rapid.T, f Fact) Fact {
	files := rapid.SampledFrom([]string{"", "f1", "f1", "f1", "f2", UnseenFiles}).Draw(rt, "files")
	switch x := f.(type) {
	case TestsEnded:
		x.Files = files
		return x
	case PromiseChecked:
		x.Files = files
		return x
	case TreeChecked:
		x.Files = max(files, "f1")
		return x
	case GateEnded:
		if x.Gate == "validation" {
			x.Files = files
		}
		return x
	case CommitEnded:
		x.Files = files
		return x
	}
	return f
}

func sameJSON(a, b any) bool {
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	return string(x) == string(y)
}

func BenchmarkStep(b *testing.B) {
	x := newBench(b, basicPlan())
	f := RoleStarted{Role: "planner", Attempt: 1}
	b.ReportAllocs()
	for b.Loop() {
		Step(x.s, Input{At: t0, Fact: f})
	}
}
