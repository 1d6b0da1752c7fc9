package loop

import (
	"testing"
)

// TestAnUnreadableCommandIsAnOperators: the first role does not begin before an operator has answered, and then the tests
// run again, with the plan that is in force now. A refusal goes on as it is.
func TestAnUnreadableCommandIsAnOperators(t *testing.T) {
	for _, method := range []string{MethodManual, MethodApprove, MethodReject} {
		plan := basicPlan()
		plan.Tests, plan.Completion = "every", &Completion{Baseline: true}
		b := newBench(t, plan)
		b.do(TestsBaseline{Of: To(*b.s.Pending), Status: BaselineRed, Unreadable: "npm test ): line 1: syntax error"})
		if h := b.s.Human; h == nil || b.s.Status != AwaitingHuman || h.Class != ClassUnreadable || h.Text != "npm test ): line 1: syntax error" {
			t.Fatalf("%s, %+v", b.s.Status, b.s.Human)
		}
		b.do(Escalated{Of: To(*b.s.Pending), ID: "q1"})
		next := plan
		next.Roles = []string{"reviewer"}
		b.do(Reconfigured{Plan: &next})
		was := b.s
		b.do(Resolved{Of: To(*b.s.Pending), ID: "q1", Method: method, By: "ann", Note: "corrected"})
		if method == MethodReject {
			if b.s.Status != Failed {
				t.Errorf("rejected: %s", b.s.Status)
			}
			continue
		}
		if b.s.Status != Running || b.s.Pending.Kind != RunTests || b.s.Pending.Reason != ReasonBaseline || b.s.Iteration != 1 || !was.Renews(b.s) || len(b.s.Plan.Roles) != 1 {
			t.Errorf("%s: %s, %+v, renews %v, roles %v", method, b.s.Status, b.s.Pending, was.Renews(b.s), b.s.Plan.Roles)
		}
		b.do(TestsBaseline{Of: To(*b.s.Pending), Status: BaselineGreen})
		if b.s.Pending.Reason != ReasonIteration || b.s.Baseline != BaselineGreen { // a reviewer alone has the tests first
			t.Errorf("%s: %+v", method, b.s.Pending)
		}
	}
}
