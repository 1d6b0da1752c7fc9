package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/superloop/superloop/recovery/failures"
)

func TestPrintFailures(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	if err := printFailures(&b, failures.Figures{Total: failures.Rate{Runs: 3, Failures: 1}}); err != nil || b.Len() > 0 {
		t.Errorf("where nothing was detected it says %q, %v", b.String(), err)
	}
	var f failures.Fold
	at := time.Date(2026, 11, 21, 12, 59, 0, 0, time.UTC)
	for i, line := range []string{
		`role_failed {"role":"implementer","runner":"claude","outcome":"exit"}`,
		`failure_detected {"role":"implementer","runner":"claude","counted":true,"rung":"reassign","detect_ms":3,"respond_us":400}`,
		`runner_reassigned {"role":"implementer","rung":"reassign"}`,
		`role_failed {"role":"implementer","runner":"codex","outcome":"exit"}`,
		`failure_detected {"role":"implementer","runner":"codex","counted":true,"rung":"root_cause","detect_ms":5,"respond_us":900}`,
		`root_cause_analysed {"role":"implementer","type":"dependency","fix":"environment","sure":true,"command":{"command":"npm ci"}}`,
		`prevention_added {}`,
		`recovery_executed {"command":"npm ci"}`,
		`preflight_failed {}`,
		`preflight_failed {}`,
		`runner_tripped {}`,
		`systemic_alert {"severity":"critical"}`,
		`role_end {"role":"implementer","runner":"claude","outcome":"ok"}`,
		`role_failed {"role":"tester","runner":"claude","outcome":"exit"}`,
		`failure_detected {"role":"tester","runner":"claude","rung":"escalate","detect_ms":7000,"respond_us":100}`,
	} {
		name, fields, _ := strings.Cut(line, " ")
		f.Add(failures.Record{Event: name, LoopID: "l", At: at.Add(time.Duration(i) * 10 * time.Second), Fields: []byte(fields)})
	}
	if err := printFailures(&b, f.Figures()); err != nil {
		t.Fatal(err)
	}
	want := `
failures: 3 detected, 2 counted; 3 of 4 role runs ended badly (75 %)
answered: 1 reassigned (33 %), 1 analysed (33 %), 1 escalated (33 %), 0 waited, 0 tried again
first reassignments: 0 of 1 helped (0 %)
fixes that were carried out: 1 of 1 helped (100 %)
causes: 1 dependency
times: detected after 5ms (median; 90 %: 7.0s, max 7.0s); answered after <1ms (median; 90 %: <1ms, max <1ms); recovered after 1m50s
prevention: 1 runner tripped, 1 check added, 2 stops by a check
alerts: 1 critical

ROLE         RUNS  FAILED  RATE
implementer  3     2       67 %
tester       1     1       100 %

RUNNER  RUNS  FAILED  RATE
claude  3     2       67 %
codex   1     1       100 %

HOUR (UTC)     RUNS  FAILED  RATE
2026-11-21T12  2     2       100 %
2026-11-21T13  2     1       50 %
`
	if b.String() != want {
		t.Errorf("it says\n%s\nwant\n%s", b.String(), want)
	}
}
