package loop

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/superloop/superloop/recovery/action"
)

func recoveryBench(t testing.TB) *bench {
	p := basicPlan()
	p.Recovery = true
	b := agentBench(t, p)
	for b.s.Pending.Role != "tester" {
		if b.s.Pending.Kind == RunTests {
			b.do(TestsEnded{Status: "failed", ExitCode: 1, Failures: []TestFailure{{"make test", 2, "a"}}})
			continue
		}
		b.good(false)
	}
	b.do(RoleStarted{Role: "tester", Attempt: b.s.Pending.Attempt})
	b.do(RoleEnded{Role: "tester", Attempt: b.s.Pending.Attempt, Outcome: OutcomeOK, Proposal: true})
	if b.s.Status != Recovering || b.s.Pending.Kind != TakeProposal || b.s.At != stepRecovery {
		t.Fatalf("after a role with a proposal: %+v", b.s)
	}
	return b
}

func proposal(n int, verdict string) Proposed {
	return Proposed{N: n, Source: "tester", Role: "tester", Digest: "d" + string(rune('0'+n)), Category: "dependency",
		Action: action.Action{Command: "npm ci", WorkingDir: ".", TimeoutMS: 1000, Digest: "npm ci"}, Verdict: verdict, Rule: "r", Reason: "because"}
}

// execute begins and ends the pending execution.
func (b *bench) execute(code int) {
	b.t.Helper()
	id := b.s.Pending.ID
	b.do(Executing{N: b.s.Recovery.N, ID: id, Source: b.s.Recovery.Approved})
	if !b.s.Begun {
		b.t.Fatalf("not begun: %+v", b.s.Pending)
	}
	b.do(Executed{N: b.s.Recovery.N, ID: id, Command: b.s.Recovery.Attempt.Command, ExitCode: code, Ended: "exited"})
}

func (b *bench) wantAt(what string, status Status, kind EffectKind, at string) {
	b.t.Helper()
	if b.s.Status != status || b.s.Pending == nil || b.s.Pending.Kind != kind || b.s.At != at {
		b.t.Fatalf("%s: %s at %s, pending %+v", what, b.s.Status, b.s.At, b.s.Pending)
	}
}

// Conforms: 004-flow-listed
func TestAutomaticRecovery(t *testing.T) {
	t.Parallel()
	b := recoveryBench(t)
	b.do(proposal(1, "auto"))
	b.wantAt("approved", Recovering, ExecuteRecovery, stepRecovery)
	if b.s.Recoveries.Used != 0 {
		t.Fatal("counted before it was begun")
	}
	b.execute(0)
	b.wantAt("executed", Recovering, RunTests, stepRecovery)
	if b.s.Pending.Reason != ReasonRecovery || b.s.Recoveries.Used != 1 || b.s.Recoveries.Last.IsZero() {
		t.Fatalf("%+v %+v", b.s.Pending, b.s.Recoveries)
	}
	b.do(TestsEnded{Rerun: true, Status: "ok", Tree: "t2", Verification: &Verification{Result: Verified, Why: "the tests pass"}})
	b.wantAt("verified", Running, RunRole, "role:reviewer")
	if b.s.Gates.Tests != "ok" || b.s.Recovery != nil || b.s.Iteration != 1 || b.s.Recoveries.Recent[0].Outcome != "executed, verified" {
		t.Fatalf("%+v", b.s)
	}
	for _, want := range []string{"recovery_approved", "recovery_verified"} {
		if !slices.Contains(b.notes, want) {
			t.Errorf("no record %s in %v", want, b.notes)
		}
	}
}

func TestVerdictsThatRunNothing(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]Fact{
		"deny":    proposal(1, "deny"),
		"invalid": ProposalInvalid{Digest: "x", Problems: []Problem{{Pointer: "/recovery/command", Message: "is missing"}}},
		"stale":   ProposalStale{Rule: RuleStale, Reason: "old"},
	} {
		b := recoveryBench(t)
		b.do(f)
		if b.s.Status != Running || b.s.At != "role:reviewer" || b.s.Recovery != nil || b.s.Recoveries.Used != 0 {
			t.Errorf("%s: %+v", name, b.s)
		}
		if name == "invalid" && !slices.Equal(b.s.Recoveries.Problems, []string{"/recovery/command: is missing"}) {
			t.Errorf("the next tester is not told: %q", b.s.Recoveries.Problems)
		}
	}
}

// Conforms: 002-future-3, 004-flow-gated
func TestAnswersToARecovery(t *testing.T) {
	t.Parallel()
	asked := func() *bench {
		b := recoveryBench(t)
		b.do(proposal(1, "human"))
		b.wantAt("asked", AwaitingHuman, AskHuman, stepRecovery)
		if b.s.Human.Type != EscalationApproval || !b.s.ActiveSince.IsZero() {
			t.Fatalf("%+v", b.s.Human)
		}
		b.do(Escalated{ID: b.s.Human.ID})
		return b
	}
	b := asked()
	b.do(Resolved{ID: b.s.Human.ID, By: "ann", Method: MethodApprove})
	b.wantAt("approved", Recovering, ExecuteRecovery, stepRecovery)
	b.execute(0)
	if b.s.Recoveries.Used != 0 {
		t.Error("an operator's approval used the automatic budget")
	}
	b = asked()
	b.do(Resolved{ID: b.s.Human.ID, By: "ann", Method: MethodReject, Note: "no"})
	b.wantAt("rejected", Running, RunRole, "role:reviewer")
	if b.s.Recoveries.Rejected["npm ci"] != 1 || b.s.Recoveries.Recent[0].Note != "no" {
		t.Errorf("%+v", b.s.Recoveries)
	}
	b = asked()
	b.do(Resolved{ID: b.s.Human.ID, By: "ann", Method: MethodManual})
	b.wantAt("mended", Recovering, RunTests, stepRecovery)
	b.do(TestsEnded{Rerun: true, Status: "ok"})
	b.wantAt("tested", Running, RunRole, "role:reviewer")

	b = asked() // the supervisor leaves, and another comes
	human := *b.s.Human
	b.do(Stopped{Status: Paused, Reason: ReasonInterrupted})
	b.do(Resumed{Plan: b.s.Plan, Status: b.s.Status, Rules: CurrentRules})
	b.wantAt("resumed", AwaitingHuman, AskHuman, stepRecovery)
	if *b.s.Human != human {
		t.Errorf("another question: %+v", b.s.Human)
	}
}

// Conforms: 004-1-fallback-after
func TestFailedRecoveryTriesTheFallbackAndThenAsks(t *testing.T) {
	t.Parallel()
	other := action.Action{Command: "npm ci --force", WorkingDir: ".", Digest: "other"}
	start := func() *bench {
		b := recoveryBench(t)
		p := proposal(1, "auto")
		p.Else = &other
		b.do(p)
		b.execute(1)
		b.wantAt("failed", Recovering, JudgeAttempt, stepRecovery)
		return b
	}
	judged := func(verdict string) Proposed {
		p := proposal(1, verdict)
		p.Action, p.Fallback = other, true
		return p
	}
	b := start()
	b.do(judged("auto"))
	first := b.s.Pending.ID
	b.execute(3)
	b.wantAt("both failed", AwaitingHuman, AskHuman, stepRecovery)
	if b.s.Human.Type != EscalationFailed || len(b.s.Recovery.Errors) != 2 || b.s.Recoveries.Used != 1 || first == "" {
		t.Fatalf("%+v %+v", b.s.Human, b.s.Recovery)
	}
	b = start()
	b.do(judged("human"))
	b.wantAt("the fallback needs an operator", AwaitingHuman, AskHuman, stepRecovery)
	if b.s.Human.Type != EscalationFailed || b.s.Recovery.Attempt != other {
		t.Fatalf("%+v %+v", b.s.Human, b.s.Recovery)
	}
	b = start()
	b.do(judged("deny"))
	b.wantAt("the fallback is denied", AwaitingHuman, AskHuman, stepRecovery)
	if b.s.Recovery.Attempt.Command != "npm ci" || len(b.s.Recovery.Errors) != 2 {
		t.Fatalf("%+v", b.s.Recovery)
	}
}

func TestACrashInTheMiddleAsks(t *testing.T) {
	t.Parallel()
	b := recoveryBench(t)
	b.do(proposal(1, "auto"))
	b.do(Resumed{Plan: b.s.Plan, Status: b.s.Status, Rules: CurrentRules}) // approved and not begun: harmless
	b.wantAt("not begun", Recovering, ExecuteRecovery, stepRecovery)
	b.do(Executing{N: 1, ID: b.s.Pending.ID, Source: SourceAuto})
	late := Executed{N: 1, ID: b.s.Pending.ID, Ended: "exited"}
	b.do(Resumed{Plan: b.s.Plan, Status: b.s.Status, Rules: CurrentRules})
	b.wantAt("begun", AwaitingHuman, AskHuman, stepRecovery)
	if b.s.Human.Class != ReasonInterrupted {
		t.Fatalf("%+v", b.s.Human)
	}
	before := b.s
	b.do(late)
	if !reflect.DeepEqual(before, b.s) {
		t.Fatal("a late outcome changed something")
	}
}

func TestCooldownWaits(t *testing.T) {
	t.Parallel()
	b := recoveryBench(t)
	p := proposal(1, "auto")
	p.NotBefore = b.now.Add(time.Minute)
	b.do(p)
	b.wantAt("cooling", Recovering, Wait, stepRecovery)
	b.do(Resumed{Plan: b.s.Plan, Status: b.s.Status, Rules: CurrentRules})
	b.wantAt("cooling after a crash", Recovering, Wait, stepRecovery)
	b.now = b.now.Add(time.Hour)
	b.do(WaitOver{ID: b.s.Pending.ID})
	b.wantAt("judged again", Recovering, JudgeAttempt, stepRecovery)
	b.do(proposal(1, "human")) // the policy was tightened meanwhile
	b.wantAt("asked", AwaitingHuman, AskHuman, stepRecovery)
}

// Conforms: 004-p3.1
func TestANewPlanCountsFromTheNextIteration(t *testing.T) {
	t.Parallel()
	b := agentBench(t, basicPlan())
	plan := basicPlan()
	plan.MaxIterations, plan.Roles = 1, []string{"implementer"}
	b.do(Reconfigured{Plan: &plan})
	if b.s.Plan.MaxIterations != 5 || b.s.Pending.Role != "planner" {
		t.Fatalf("%+v", b.s.Plan)
	}
	for b.s.Iteration == 1 && b.s.Pending != nil {
		b.good(false)
	}
	if b.s.Status != LimitReached || b.s.Plan.MaxIterations != 1 {
		t.Fatalf("%s %+v", b.s.Status, b.s.Plan)
	}
}

// TestRecoveryWalks takes random ways through the machine, with crashes in every
// place: no command is begun twice, what is begun is counted, nothing waits for
// nothing, and every fact survives being written.
func TestRecoveryWalks(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		p := basicPlan()
		p.Recovery, p.MaxIterations = true, 3
		b := agentBench(t, p)
		begun := map[string]int{}
		used := map[int]bool{} // the attempts of one proposal are one recovery
		for i := range 120 {
			if b.s.Pending == nil {
				break
			}
			f := walk(rt, b.s, i)
			if e, ok := f.(Executing); ok {
				begun[e.ID]++
				if e.Source == SourceAuto {
					used[e.N] = true
				}
			}
			fields, err := json.Marshal(f)
			if err != nil {
				rt.Fatal(err)
			}
			back, err := DecodeFact(f.Event(), fields)
			if err != nil || back == nil {
				rt.Fatalf("%s does not come back: %v %s", f.Event(), err, fields)
			}
			b.do(back)
			if !b.s.Status.Ended() && b.s.Status != Paused && b.s.Pending == nil {
				rt.Fatalf("%s and nothing is pending after %s", b.s.Status, f.Event())
			}
			if (b.s.At == stepRecovery) != (b.s.Recovery != nil) && !b.s.Status.Ended() {
				rt.Fatalf("at %s with recovery %+v", b.s.At, b.s.Recovery)
			}
			if (b.s.Status == AwaitingHuman) != (b.s.Human != nil) && b.s.Status != Paused {
				rt.Fatalf("%s with %+v", b.s.Status, b.s.Human)
			}
		}
		for id, n := range begun {
			if n > 1 {
				rt.Fatalf("%s was begun %d times", id, n)
			}
		}
		if b.s.Recoveries.Used != len(used) {
			rt.Fatalf("%d automatic recoveries, %d counted", len(used), b.s.Recoveries.Used)
		}
	})
}

// walk is something that may happen next.
func walk(rt *rapid.T, s State, i int) Fact {
	if rapid.IntRange(0, 9).Draw(rt, "crash") == 0 {
		return Resumed{Plan: s.Plan, Status: s.Status, Rules: CurrentRules}
	}
	p := s.Pending
	switch p.Kind {
	case RunRole:
		if !s.Begun {
			return RoleStarted{Role: p.Role, Attempt: p.Attempt}
		}
		return RoleEnded{Role: p.Role, Attempt: p.Attempt, Outcome: OutcomeOK, Proposal: rapid.Bool().Draw(rt, "proposal")}
	case TakeProposal:
		switch rapid.IntRange(0, 5).Draw(rt, "taken") {
		case 0:
			return ProposalInvalid{Digest: "x"}
		case 1:
			return ProposalStale{Rule: RuleStale}
		case 2:
			return ProposalSkipped{Rule: RuleNothingFailed, Command: "npm ci"}
		}
		f := proposal(s.Recoveries.Proposed+1, rapid.SampledFrom([]string{"auto", "human", "deny"}).Draw(rt, "verdict"))
		f.Digest += strings.Repeat("x", i)
		if rapid.Bool().Draw(rt, "fallback") {
			f.Else = &action.Action{Command: "other", Digest: "other"}
		}
		return f
	case JudgeAttempt:
		f := proposal(s.Recovery.N, rapid.SampledFrom([]string{"auto", "human", "deny", "invalid"}).Draw(rt, "verdict"))
		f.Fallback = p.Reason == "fallback"
		return f
	case ExecuteRecovery:
		if !s.Begun {
			return Executing{N: s.Recovery.N, ID: p.ID, Source: s.Recovery.Approved}
		}
		return Executed{N: s.Recovery.N, ID: p.ID, ExitCode: rapid.IntRange(0, 1).Draw(rt, "code"),
			Ended: rapid.SampledFrom([]string{"exited", "timed_out", "killed"}).Draw(rt, "ended")}
	case RunTests:
		return TestsEnded{Rerun: p.Reason == ReasonRecovery, Status: rapid.SampledFrom([]string{"ok", "failed"}).Draw(rt, "tests")}
	case AskHuman:
		if !s.Begun {
			return Escalated{ID: s.Human.ID}
		}
		return Resolved{ID: s.Human.ID, By: "eve", Method: rapid.SampledFrom([]string{MethodApprove, MethodReject, MethodManual}).Draw(rt, "method")}
	}
	return goodFact(s, false)
}
