package loop

import (
	"encoding/json"
	"strings"
	"testing"
)

func baselinePlan() Plan {
	p := basicPlan()
	p.Completion = &Completion{Baseline: true}
	return p
}

// The tests run once before the first role of a run, and never again for that.
func TestTheTestsRunBeforeTheFirstRole(t *testing.T) {
	t.Parallel()
	b := newBench(t, baselinePlan())
	if p := b.s.Pending; p.Kind != RunTests || p.Reason != ReasonBaseline || b.s.Iteration != 1 {
		t.Fatalf("%+v", p)
	}
	id := b.s.Pending.ID
	b.do(TestsStarted{Reason: ReasonBaseline})
	b.do(TestsBaseline{Interrupted: true, Status: BaselineRed})
	if b.s.Baseline != "" || b.s.Begun || b.s.Pending.ID != id {
		t.Fatalf("after an interruption: %q %t %+v", b.s.Baseline, b.s.Begun, b.s.Pending)
	}
	b.do(Resumed{Plan: b.s.Plan})
	if p := b.s.Pending; p.Kind != RunTests || p.Reason != ReasonBaseline {
		t.Fatalf("after a restart: %+v", p)
	}
	b.do(TestsStarted{Reason: ReasonBaseline})
	b.do(TestsBaseline{Status: BaselineGreen})
	if p := b.s.Pending; p.Kind != RunRole || p.Role != "planner" || b.s.Baseline != BaselineGreen || b.s.Gates.Tests != "" {
		t.Fatalf("%q %+v", b.s.Baseline, p)
	}
	for b.s.Iteration == 1 {
		b.good(false)
	}
	if p := b.s.Pending; p.Kind != RunRole || p.Role != "planner" {
		t.Fatalf("in the second iteration: %+v", p)
	}
	// A plan that gets tests later has no baseline: its roles have worked by then.
	late := newBench(t, basicPlan())
	late.do(Reconfigured{Plan: ptr(baselinePlan())})
	for late.s.Iteration < 3 {
		if late.s.Pending.Reason == ReasonBaseline {
			t.Fatal("the tests run before a later role")
		}
		late.good(false)
	}
	// A baseline of the plan that superloop no longer has is passed.
	gone := newBench(t, baselinePlan())
	gone.do(Resumed{Plan: basicPlan()})
	if p := gone.s.Pending; p.Kind != RunRole || p.Role != "planner" {
		t.Fatalf("without tests: %+v", p)
	}
}

func ptr[T any](v T) *T { return &v }

// Completion says when the tests do not see the work, and only then.
func TestUnseen(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		baseline, change string
		unseen           bool
	}{
		{BaselineGreen, ChangeNone, true}, {BaselineGreen, ChangeOK, false}, {BaselineGreen, ChangeUnknown, false},
		{BaselineRed, ChangeNone, false}, {"", ChangeNone, false},
	} {
		p := baselinePlan()
		if p.Completion.Baseline = c.baseline != ""; c.baseline == "" {
			p.Completion = &Completion{}
		}
		b := newBench(t, p)
		if c.baseline != "" {
			b.do(TestsBaseline{Status: c.baseline})
		}
		note := ""
		for !b.s.Status.Ended() {
			f := goodFact(b.s, true)
			if checked, ok := f.(PromiseChecked); ok {
				checked.TestChange = c.change
				f = checked
			}
			b.do(f)
			for _, e := range b.eff {
				if e.Event == "gates_evaluated" {
					var fields struct{ Note string }
					if err := json.Unmarshal(e.Fields, &fields); err != nil {
						t.Fatal(err)
					}
					note = fields.Note
				}
			}
		}
		if b.s.Status != Completed || strings.Contains(b.s.Detail, "nothing that the tests see") != c.unseen || note != b.s.Detail {
			t.Errorf("%+v: %s, %q, note %q", c, b.s.Status, b.s.Detail, note)
		}
	}
}
