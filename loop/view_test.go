package loop

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/superloop/superloop/schemas"
)

// TestRecoveryUsage: every line is one that the schema knows, and says no more
// than is known.
// Conforms: 004-metric-usage
func TestRecoveryUsage(t *testing.T) {
	t.Parallel()
	took, answered := int64(700), int64(0)
	at := time.Date(2026, 11, 21, 11, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		usage RecoveryUsage
		want  string
	}{
		{RecoveryUsage{Kind: "recovery", Timestamp: at, RunID: "r", LoopID: "one", Iteration: 2, N: 1, Source: SourceTester, Category: "dependency", Verdict: "auto",
			Rule: "auto_approve", Result: Verified, Executions: 1, DurationMS: &took},
			`{"kind":"recovery","timestamp":"2026-11-21T11:00:00Z","run_id":"r","loop_id":"one","iteration":2,"n":1,"source":"tester","category":"dependency",` +
				`"verdict":"auto","rule":"auto_approve","result":"verified","executions":1,"duration_ms":700,"resolution_ms":null}`},
		{RecoveryUsage{Kind: "recovery", Timestamp: at, RunID: "r", LoopID: "one", Iteration: 2, N: 1, Verdict: "invalid", Result: RecoveryNotRun, ResolutionMS: &answered},
			`{"kind":"recovery","timestamp":"2026-11-21T11:00:00Z","run_id":"r","loop_id":"one","iteration":2,"n":1,"source":null,"category":null,` +
				`"verdict":"invalid","rule":null,"result":"not_run","executions":0,"duration_ms":null,"resolution_ms":0}`},
	} {
		line, err := json.Marshal(tt.usage)
		if err != nil {
			t.Fatal(err)
		}
		if string(line) != tt.want {
			t.Errorf("got  %s\nwant %s", line, tt.want)
		}
		if problems := schemas.Validate(schemas.Usage, line); len(problems) > 0 {
			t.Errorf("%s%v", line, problems)
		}
		var fields map[string]any
		if err := json.Unmarshal(bytes.TrimSpace(line), &fields); err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{"n", "verdict", "result"} {
			without := map[string]any{}
			for k, v := range fields {
				if k != key {
					without[k] = v
				}
			}
			data, err := json.Marshal(without)
			if err != nil {
				t.Fatal(err)
			}
			if len(schemas.Validate(schemas.Usage, data)) == 0 {
				t.Errorf("the schema takes a line without %s: %s", key, data)
			}
		}
	}
	// A role's line is what it was, and needs what it needed.
	if problems := schemas.Validate(schemas.Usage, []byte(`{"timestamp":"2026-11-21T11:00:00Z","iteration":1}`)); len(problems) < 3 {
		t.Errorf("a role's line without anything: %v", problems)
	}
}
