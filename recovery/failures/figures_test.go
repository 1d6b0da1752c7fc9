package failures

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func record(at time.Time, loop, event string, fields any) Record {
	raw, err := json.Marshal(fields)
	if err != nil {
		panic(err)
	}
	return Record{Event: event, LoopID: loop, At: at, Fields: raw}
}

func role(at time.Time, loop, event, runner string) Record {
	outcome := map[string]string{"role_end": "ok", "role_failed": "exit"}[event]
	return record(at, loop, event, map[string]any{"role": "implementer", "runner": runner, "outcome": outcome})
}

// TestFigures: two loops, one task of each; the rates are of the failures, the
// times from the first failure of a task to its success.
// Conforms: 003-mgr-duration, 003-metric-hour, 003-metric-worker, 003-metric-task, 003-metric-cause
// Conforms: 003-metric-recovery
func TestFigures(t *testing.T) {
	t.Parallel()
	var f Fold
	at := func(s int) time.Time { return noon.Add(time.Duration(s) * time.Second) }
	detected := func(s int, loop string, step Step, counted bool) Record {
		return record(at(s), loop, EventDetected, DetectedFields{Role: "implementer", Step: step, Counted: counted, DetectMS: int64(s), RespondUS: 2000})
	}
	for _, r := range []Record{
		role(at(10), "a", "role_failed", "claude"), detected(10, "a", StepReassign, true), record(at(10), "a", EventReassigned, ReassignedFields{}),
		role(at(11), "b", "role_failed", "claude"), detected(11, "b", StepReassign, true), record(at(11), "b", EventTripped, TrippedFields{}),
		role(at(40), "a", "role_end", "codex"),
		role(at(50), "b", "role_failed", "codex"), detected(50, "b", StepRootCause, true),
		record(at(60), "b", EventAnalysed, AnalysedFields{Role: "implementer", Type: CauseDependency, Fix: FixEnvironment}),
		record(at(61), "b", EventPrevention, PreventionFields{}), record(at(62), "b", EventPreflight, PreflightFields{}),
		role(at(90), "b", "role_end", "claude"),
		record(at(91), "b", "role_failed", map[string]any{"role": "implementer", "outcome": "interrupted"}),
		role(at(4000), "b", "role_failed", "claude"), detected(4000, "b", StepWait, false), detected(4001, "b", StepEscalate, true),
		record(at(4002), "b", EventSystemic, Alert{Severity: Critical}),
		{Event: "role_end", Fields: json.RawMessage(`[1]`)}, {Event: EventDetected}, {Event: "something_else", Fields: json.RawMessage(`{}`)},
	} {
		f.Add(r)
	}
	got := f.Figures()
	if got.Total != (Rate{"", 6, 4, 4.0 / 6}) || got.Failures != 5 || got.Counted != 4 || got.Reassigned != 2 || got.Analysed != 1 || got.Escalated != 1 || got.Waited != 1 {
		t.Errorf("%+v", got)
	}
	if got.FirstReassigned != (Rate{"", 2, 1, 0.5}) || got.Fixes != (Rate{"", 1, 0, 0}) || got.ReassignRate != 0.4 || got.AnalysisRate != 0.2 || got.EscalationRate != 0.2 {
		t.Errorf("%+v", got)
	}
	if got.Recovery != (Spread{2, 79_000, 79_000, 79_000}) || got.Response.Median != 2 || got.Detection.Count != 5 {
		t.Errorf("%+v %+v %+v", got.Recovery, got.Response, got.Detection)
	}
	if got.Tripped != 1 || got.Preventions != 1 || got.Prevented != 1 || len(got.Alerts) != 1 || got.Alerts[0].Name != Critical {
		t.Errorf("%+v", got)
	}
	if fmt.Sprint(got.ByHour) != "[{2026-11-21T12 5 3 0.6} {2026-11-21T13 1 1 1}]" || fmt.Sprint(got.ByRunner) != "[{claude 4 3 0.75} {codex 2 1 0.5}]" || len(got.ByRole) != 1 {
		t.Errorf("%v %v %v", got.ByHour, got.ByRunner, got.ByRole)
	}
	if fmt.Sprint(got.Causes) != "[{dependency 1 0 0}]" || !got.To.Equal(at(4002)) || !got.From.Equal(at(10)) {
		t.Errorf("%+v", got)
	}
}

// TestFoldAnything: whatever stands in a journal, no rate leaves 0 to 1, the memory
// is bounded, and figures can be taken at any time.
func TestFoldAnything(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		var f Fold
		at := noon
		for range rapid.IntRange(0, 200).Draw(rt, "n") {
			at = at.Add(time.Duration(rapid.IntRange(-100, 90_000).Draw(rt, "s")) * time.Second)
			f.Add(record(at, rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "loop"), rapid.SampledFrom([]string{"role_end", "role_failed", "role_timeout", "loop_start", EventDetected, EventAnalysed, EventSystemic, EventTripped, "x"}).Draw(rt, "event"),
				map[string]any{"role": rapid.SampledFrom([]any{"r", 7}).Draw(rt, "role"), "runner": rapid.String().Draw(rt, "runner"), "outcome": rapid.SampledFrom([]string{"ok", "exit", "interrupted"}).Draw(rt, "o"),
					"rung": rapid.SampledFrom([]Step{StepReassign, StepRootCause, StepEscalate, "?"}).Draw(rt, "rung"), "fix": "code", "detect_ms": rapid.Float64().Draw(rt, "ms"), "severity": "x"}))
		}
		got := f.Figures()
		for _, r := range append(append(append(got.ByHour, got.ByRunner...), got.ByRole...), got.Total, got.FirstReassigned, got.Fixes) {
			if r.Failures > r.Runs || r.Rate < 0 || r.Rate > 1 {
				rt.Fatalf("%+v", r)
			}
		}
		if len(got.ByHour) > maxHours || len(got.ByRunner) > maxNames+1 || got.Counted > got.Failures || got.EscalationRate > 1 {
			rt.Fatalf("%+v", got)
		}
		if again := f.Figures(); fmt.Sprintf("%+v", again) != fmt.Sprintf("%+v", got) {
			rt.Fatal("asking has changed them")
		}
	})
}
