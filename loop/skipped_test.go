package loop

import "testing"

// TestAlreadyDone: what was executed and confirmed is done until something fails, another command begins, or the
// iteration ends; what did not help was never done.
func TestAlreadyDone(t *testing.T) {
	t.Parallel()
	recovered := func(t *testing.T, result string) *bench {
		b := recoveryBench(t)
		b.do(proposal(1, "auto"))
		b.execute(0)
		b.do(TestsEnded{Rerun: true, Status: "failed", Failures: []TestFailure{{"make test", 2, "b"}}, Verification: &Verification{Result: result, Why: "the failure is gone"}})
		return b
	}
	for _, result := range []string{Ineffective, Harmful, Unverified} {
		if d := recovered(t, result).s.Recoveries.Done; d != nil {
			t.Errorf("%s: %+v", result, d)
		}
	}
	again := func(b *bench) {
		b.do(RoleStarted{Role: "reviewer", Attempt: b.s.Pending.Attempt})
		b.do(RoleEnded{Role: "reviewer", Attempt: b.s.Pending.Attempt, Outcome: OutcomeOK, Proposal: true})
		b.wantAt("the reviewer's proposal", Recovering, TakeProposal, stepRecovery)
	}
	b := recovered(t, Verified)
	d := b.s.Recoveries.Done
	if d == nil || d.N != 1 || d.Command != "npm ci" || d.WorkingDir != "." || !d.At.Equal(b.now) || d.Why != "the failure is gone" {
		t.Fatalf("%+v", d)
	}
	if c := b.s.Recoveries.clone(); c.Done == d || *c.Done != *d {
		t.Error("the copy is no copy")
	}
	again(b)
	b.do(ProposalSkipped{Role: "reviewer", Rule: RuleDone, Command: "npm ci", Reason: "it is done"})
	recent := b.s.Recoveries.Recent
	if n := recent[len(recent)-1]; n.Outcome != "already done" || n.Note != "it is done" || n.Command != "npm ci" {
		t.Errorf("the prompts say %+v", n)
	}
	if b.s.Recoveries.Used != 1 || b.s.Recoveries.Done == nil || len(b.s.Recoveries.Rejected) != 0 {
		t.Errorf("%+v", b.s.Recoveries)
	}
	for name, then := range map[string]func(*bench){
		"another command begins": func(b *bench) {
			again(b)
			b.do(proposal(2, "auto"))
			b.do(Executing{N: 2, ID: b.s.Pending.ID, Source: SourceAuto})
		},
		"a role fails": func(b *bench) {
			b.do(RoleStarted{Role: "reviewer", Attempt: b.s.Pending.Attempt})
			b.do(RoleEnded{Role: "reviewer", Attempt: b.s.Pending.Attempt, Outcome: OutcomeExit, ExitCode: 1, Error: "exit code 1"})
		},
		"the iteration ends": func(b *bench) {
			for b.s.Iteration == 1 {
				if b.s.Pending.Kind == RunTests {
					b.do(TestsEnded{Status: "ok"})
					continue
				}
				b.good(false)
			}
		},
	} {
		b := recovered(t, Verified)
		if then(b); b.s.Recoveries.Done != nil {
			t.Errorf("%s: %+v", name, b.s.Recoveries.Done)
		}
	}
}
