package loop

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/superloop/superloop/recovery/action"
	"github.com/superloop/superloop/recovery/plan"
)

// remediationBench stands where tests have failed and rules are to look.
func remediationBench(t testing.TB) *bench {
	p := basicPlan()
	p.Recovery, p.Remediation = true, true
	b := agentBench(t, p)
	for b.s.Pending.Kind != RunTests {
		b.good(false)
	}
	b.failTests()
	b.wantAt("tests failed", Recovering, Diagnose, stepRecovery)
	return b
}

func (b *bench) failTests() {
	b.do(TestsEnded{Status: "failed", ExitCode: 1, Failures: []TestFailure{{"make test", 2, "a"}},
		Outputs: []OutputSpan{{Command: "make test", ExitCode: 2, To: 10}}, Verification: &Verification{Result: Ineffective, Why: "the same failure"}})
}

func remediate(n int) plan.Choice {
	return plan.Choice{Key: fmt.Sprintf("h/o%d", n), ID: fmt.Sprintf("o%d", n), Label: fmt.Sprintf("option %d", n), Strategy: "env_fix", Availability: "ready",
		Draft: action.Draft{Command: fmt.Sprintf("remedy %d", n), WorkingDir: ".", TimeoutMS: 1000, Confidence: "high"}, Executor: "wrapper", ByItself: true}
}

// diagnosis is what rules say, for the pending effect.
func (b *bench) diagnosis(signature string, options ...plan.Choice) Classified {
	return Classified{ID: b.s.Pending.ID, Source: b.s.Pending.Reason, Command: "make test", Category: "dependency", Handler: "h", Layer: "infra",
		Infra: true, Signature: signature, Why: "something is missing", Goal: "cmd/x", Options: options, Gate: "auto"}
}

func (b *bench) verdict(v string) {
	b.t.Helper()
	if b.s.Pending.Kind != JudgeAttempt {
		b.t.Fatalf("nothing is to be judged: %+v", b.s.Pending)
	}
	b.do(Proposed{N: b.s.Recovery.N, Source: SourceSuperloop, Action: b.s.Recovery.Attempt, Verdict: v, Rule: "r", Reason: "because"})
}

// Conforms: 002-tree-execute, 002-tree-continue
func TestRemediationRemedies(t *testing.T) {
	t.Parallel()
	b := remediationBench(t)
	b.do(b.diagnosis("s", remediate(1), remediate(2)))
	b.verdict("auto")
	b.wantAt("approved", Recovering, ExecuteRecovery, stepRecovery)
	b.execute(0)
	b.wantAt("executed", Recovering, RunTests, stepRecovery)
	b.do(TestsEnded{Rerun: true, Status: "ok", Tree: "t2", Verification: &Verification{Result: Verified, Why: "the tests pass"}})
	b.wantAt("cured", Running, RunRole, "role:tester")
	if b.s.Iteration != 1 || b.s.Remediation != (Remediation{Diagnosed: 1, Chains: 1, Remedied: 1}) || b.s.Diagnosis != nil || b.s.Recovery != nil || b.s.Recoveries.Used != 1 {
		t.Fatalf("%+v", b.s)
	}
	for _, want := range []string{"chain_opened", "recovery_approved", "recovery_verified", "chain_closed"} {
		if !slices.Contains(b.notes, want) {
			t.Errorf("no record %s in %v", want, b.notes)
		}
	}
}

// What became of a remedy before stands in the evidence of the recovery, for each remedy its own.
//
// Conforms: 002-future-5
func TestThePastIsEvidence(t *testing.T) {
	t.Parallel()
	b := remediationBench(t)
	first, second, third := remediate(1), remediate(2), remediate(3)
	first.Experience, second.Experience = "worked 1 of 2 times here", "worked 1 of 1 times here"
	f := b.diagnosis("s", first, second, third)
	f.Evidence = []string{"test-output.txt:3: no such module"}
	b.do(f)
	want := func(last ...string) {
		t.Helper()
		if all := append([]string{"test-output.txt:3: no such module"}, last...); !slices.Equal(b.s.Recovery.Evidence, all) {
			t.Errorf("%q, want %q", b.s.Recovery.Evidence, all)
		}
	}
	want("this remedy: worked 1 of 2 times here")
	b.verdict("human")
	want("this remedy: worked 1 of 1 times here")
	b.verdict("human")
	want()

	b = remediationBench(t)
	f.ID, f.Gate, f.Confidence = b.s.Pending.ID, "propose", 0.9
	b.do(f)
	want("this remedy: worked 1 of 2 times here")
	if len(f.Evidence) != 1 {
		t.Errorf("the fact became %q", f.Evidence)
	}
}

func TestRemediationLeavesAlone(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*Classified){
		"the code":      func(f *Classified) { f.Code, f.Infra = true, false },
		"not known":     func(f *Classified) { f.Infra, f.Handler = false, "" },
		"not listed":    func(f *Classified) { f.Gate = "propose" },
		"an operator's": func(f *Classified) { f.Gate = "human" },
		"nothing runs":  func(f *Classified) { f.Options[0].ByItself = false },
		"impossible":    func(f *Classified) { f.Options[0].Availability = "impossible" },
	} {
		b := remediationBench(t)
		f := b.diagnosis("s", remediate(1))
		change(&f)
		b.do(f)
		if b.s.Status != Running || b.s.At != "role:tester" || b.s.Recovery != nil || b.s.Recoveries.Used != 0 || b.s.Diagnosis == nil || b.s.Diagnosis.Why == "" {
			t.Errorf("%s: %s at %s, %+v", name, b.s.Status, b.s.At, b.s.Diagnosis)
		}
	}
	b := remediationBench(t)
	b.do(b.diagnosis("s", remediate(1)))
	b.verdict("human")
	b.wantAt("the gate says no", Running, RunRole, "role:tester")
	if len(b.s.Diagnosis.Options) != 1 || b.s.Recoveries.Used != 0 {
		t.Errorf("%+v", b.s.Diagnosis)
	}
}

// Conforms: 000-5.4-pop
func TestRemediationGoesDeeper(t *testing.T) {
	t.Parallel()
	b := remediationBench(t)
	b.do(b.diagnosis("s", remediate(1)))
	b.verdict("auto")
	b.execute(1)
	b.wantAt("the remedy failed", Recovering, Diagnose, stepRecovery)
	if b.s.Pending.Reason != FailedRecovery || b.s.Pending.Command != "remedy 1" {
		t.Fatalf("%+v", b.s.Pending)
	}
	b.do(b.diagnosis("deeper", remediate(2)))
	if b.s.Recovery.Attempt.Command != "remedy 2" || b.s.Recovery.Plan.Depth() != 2 {
		t.Fatalf("%+v", b.s.Recovery)
	}
	b.verdict("auto")
	b.execute(0)
	if b.s.Pending.Kind != JudgeAttempt || b.s.Recovery.Attempt.Command != "remedy 1" {
		t.Fatalf("not back at the first level: %+v", b.s.Recovery)
	}
	b.verdict("auto")
	b.execute(0)
	b.wantAt("verify", Recovering, RunTests, stepRecovery)
	b.do(TestsEnded{Rerun: true, Status: "ok", Verification: &Verification{Result: Verified}})
	b.wantAt("cured", Running, RunRole, "role:tester")
	if b.s.Recoveries.Used != 3 {
		t.Errorf("%d commands were counted", b.s.Recoveries.Used)
	}
}

// What was begun when the supervisor died is asked about. Whoever lets it run again
// lets the plan go on with it; every other answer ends the plan.
func TestRemediationInterrupted(t *testing.T) {
	t.Parallel()
	for method, want := range map[string]struct {
		kind EffectKind
		at   string
	}{MethodReject: {RunRole, "role:tester"}, MethodManual: {RunTests, stepRecovery}, MethodApprove: {ExecuteRecovery, stepRecovery}} {
		b := remediationBench(t)
		b.do(b.diagnosis("s", remediate(1), remediate(2)))
		b.verdict("auto")
		b.do(Executing{N: b.s.Recovery.N, ID: b.s.Pending.ID, Source: SourceAuto})
		b.do(Resumed{Plan: b.s.Plan, Rules: CurrentRules})
		b.wantAt("resumed", AwaitingHuman, AskHuman, stepRecovery)
		b.do(Escalated{ID: b.s.Human.ID})
		b.do(Resolved{ID: b.s.Human.ID, By: "ann", Method: method})
		if b.s.Pending.Kind != want.kind || b.s.At != want.at {
			t.Errorf("%s: %+v at %s", method, b.s.Pending, b.s.At)
		}
		if goesOn := b.s.Recovery != nil && b.s.Recovery.Plan != nil; goesOn != (method == MethodApprove) || goesOn == slices.Contains(b.notes, "chain_closed") {
			t.Errorf("%s: the plan goes on: %v, noted %v", method, goesOn, b.notes)
		}
	}
}

// Whatever comes of each step, automatic remediation ends, within its bounds, and the loop is
// behind the tests then.
func TestRemediationEnds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		b := remediationBench(t)
		begun := map[string]int{}
		for range 200 {
			if b.s.At != stepRecovery {
				break
			}
			switch e := b.s.Pending; e.Kind {
			case Diagnose:
				var options []plan.Choice
				for _, n := range rapid.SliceOfNDistinct(rapid.IntRange(1, 6), 0, 4, rapid.ID[int]).Draw(rt, "options") {
					o := remediate(n)
					o.ByItself = rapid.Float64Range(0, 1).Draw(rt, "by itself") > .1
					if rapid.Float64Range(0, 1).Draw(rt, "waits") > .8 {
						o.Command, o.WaitsMS = "", []int64{10, 20}
					}
					options = append(options, o)
				}
				f := b.diagnosis(rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "signature"), options...)
				f.Gate = rapid.SampledFrom([]string{"auto", "auto", "retry", "propose"}).Draw(rt, "gate")
				b.do(f)
			case JudgeAttempt:
				b.verdict(rapid.SampledFrom([]string{"auto", "auto", "auto", "human", "deny"}).Draw(rt, "verdict"))
			case ExecuteRecovery:
				begun[b.s.Recovery.Attempt.Command]++
				b.execute(rapid.IntRange(0, 1).Draw(rt, "exit"))
			case Wait:
				b.do(WaitOver{ID: e.ID})
			case RunTests:
				if rapid.Float64Range(0, 1).Draw(rt, "pass") > .8 {
					b.do(TestsEnded{Status: "ok", Verification: &Verification{Result: Verified}})
					continue
				}
				b.failTests()
			default:
				rt.Fatalf("%s in automatic remediation", e.Kind)
			}
		}
		if b.s.At != "role:tester" || b.s.Status != Running || b.s.Recovery != nil {
			rt.Fatalf("%s at %s after 200 steps: %+v", b.s.Status, b.s.At, b.s.Recovery)
		}
		total := 0
		for _, n := range begun {
			total += n
		}
		if total > plan.DefaultAttempts || b.s.Recoveries.Used != total {
			rt.Fatalf("%v were begun, %d counted", begun, b.s.Recoveries.Used)
		}
	})
}

// A remedy that is sure and not listed is a question before any role is started;
// what an operator has refused is not asked again.
func TestSureRemedyIsAsked(t *testing.T) {
	t.Parallel()
	b := remediationBench(t)
	ask := func() {
		f := b.diagnosis("s", remediate(1))
		f.Gate, f.Confidence = "propose", sure
		b.do(f)
	}
	ask()
	b.verdict("auto") // whatever is listed: rules do not trust themselves with it
	b.wantAt("asked", AwaitingHuman, AskHuman, stepRecovery)
	if b.s.Human.Type != EscalationApproval || b.s.Recovery.Plan != nil {
		t.Fatalf("%+v %+v", b.s.Human, b.s.Recovery)
	}
	b.do(Escalated{ID: b.s.Human.ID})
	b.do(Resolved{ID: b.s.Human.ID, By: "ann", Method: MethodReject})
	b.wantAt("refused", Running, RunRole, "role:tester")
	for b.s.Pending.Kind != Diagnose {
		if b.s.Pending.Kind == RunTests {
			b.failTests()
			continue
		}
		b.good(false)
	}
	ask()
	b.wantAt("refused before", Running, RunRole, "role:tester")

	for name, change := range map[string]func(*Classified){
		"unsure": func(f *Classified) { f.Confidence = sure - .01 },
		"weak":   func(f *Classified) { f.Weak = true },
		"risky":  func(f *Classified) { f.Options[0].Risk = "high" },
		"a hint": func(f *Classified) { f.Options[0].Executor = "role" },
	} {
		b := remediationBench(t)
		f := b.diagnosis("s", remediate(1))
		f.Gate, f.Confidence = "propose", sure
		change(&f)
		b.do(f)
		if b.s.At != "role:tester" {
			t.Errorf("%s: it is asked", name)
		}
	}
}
