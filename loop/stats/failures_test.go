package stats

import "testing"

// TestFailures: each run has its own failures, and All has those of both.
// Conforms: 003-r4-metrics
func TestFailures(t *testing.T) {
	t.Parallel()
	f := story(t,
		`r1 0 loop_start {}`,
		`r1 1 role_failed {"role":"tester","runner":"codex","outcome":"exit"}`,
		`r1 1 failure_detected {"role":"tester","runner":"codex","counted":true,"rung":"reassign"}`,
		`r1 1 runner_reassigned {"role":"tester","rung":"reassign"}`,
		`r1 1 role_end {"role":"tester","runner":"claude","outcome":"ok"}`,
		`r2 0 loop_start {}`,
		`r2 1 failure_detected {"role":"tester","runner":"codex","rung":"escalate"}`,
		`r2 1 preflight_failed {}`,
	)
	r := f.Report()
	one, two, all := r.Runs[0].Failures, r.Runs[1].Failures, r.All.Failures
	if one.Failures != 1 || one.Counted != 1 || one.Reassigned != 1 || one.FirstReassigned.Runs != 1 || one.FirstReassigned.Failures != 0 || one.Recovery.Median != 2000 || one.Prevented != 0 {
		t.Errorf("the first run has %+v", one)
	}
	if two.Failures != 1 || two.Escalated != 1 || two.Reassigned != 0 || two.Prevented != 1 || two.Total.Runs != 0 {
		t.Errorf("the second run has %+v", two)
	}
	if all.Failures != 2 || all.ReassignRate != 0.5 || all.Total.Runs != 2 || len(all.ByRunner) != 2 || all.Prevented != 1 {
		t.Errorf("all have %+v", all)
	}
}
