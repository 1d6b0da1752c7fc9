package loop

import (
	"strings"
	"testing"

	"github.com/superloop/superloop/recovery/action"
	"github.com/superloop/superloop/recovery/failures"
)

// TestIncidents: what failed, why, what was done about it and what became of it stands in the state until the next
// iteration begins; a guess is marked as one.
func TestIncidents(t *testing.T) {
	t.Parallel()
	b := agentBench(t, respondPlan())
	both := fitOnes(claude, codex)
	told := func(want ...string) {
		t.Helper()
		if len(b.s.Response.Incidents) != 1 {
			t.Fatalf("%+v", b.s.Response.Incidents)
		}
		text := b.s.Response.Incidents[0].String()
		for _, w := range want {
			if !strings.Contains(text, w) {
				t.Fatalf("%q lacks %q", text, w)
			}
		}
	}
	b.roleFails(claude, both, nil)
	told("planner failed once, last: claude")
	b.roleFails(codex, both, func(o *failures.RoleOutcome) { o.Error = "something else" })
	told("planner failed twice, last: codex")
	cmd := action.Action{Command: "npm ci", WorkingDir: ".", TimeoutMS: 1000, Digest: "d1"}
	b.analysed(Analysed{AnalysedFields: failures.AnalysedFields{ID: "rc-1", Type: failures.CauseDependency, RootCause: "not in step", By: "rules", Confidence: 0.6, Fix: "environment"},
		Command: &cmd, Learned: "tool-1"}, both)
	if text := b.s.Response.Incidents[0].ForRoles().String(); strings.Contains(text, "step") {
		t.Errorf("roles read a guess: %q", text)
	}
	told("cause: possibly: not in step (dependency, by rules, confidence 0.6)", "superloop doctor --retire tool-1")
	b.do(Proposed{N: 1, Source: SourceSuperloop, Action: cmd, Verdict: "auto", Rule: "x"})
	id := b.s.Pending.ID
	b.do(Executing{ID: id, Source: SourceAuto, Command: cmd.Command})
	b.do(Executed{ID: id, Command: cmd.Command, Ended: "exited", ExitCode: 3})
	told("ran: npm ci: exit code 3")
	if b.s.Pending.Kind == Wait {
		b.over(nil)
	}
	b.do(RoleEnded{Role: "planner", Runner: "codex", Attempt: b.s.Pending.Attempt, Outcome: OutcomeOK, Output: "fresh"})
	told("solved by codex")
	for b.s.Iteration == 1 {
		b.good(false)
	}
	if len(b.s.Response.Incidents) != 0 {
		t.Errorf("they are told again in the next iteration: %+v", b.s.Response.Incidents)
	}
}
