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
// Conforms: 003-metric-reassign
// Conforms: 003-metric-recovery
func TestFigures(t *testing.T) {
	t.Parallel()
	var f Fold
	at := func(s int) time.Time { return noon.Add(time.Duration(s) * time.Second) }
	detected := func(s int, loop string, step Step, counted bool) Record {
		return record(at(s), loop, EventDetected, DetectedFields{Role: "implementer", Step: step, Counted: counted, DetectMS: int64(s), RespondUS: 2000})
	}
	reassigned := func(s int, loop string, step Step) Record {
		return record(at(s), loop, EventReassigned, ReassignedFields{Role: "implementer", Step: step})
	}
	seen := map[Timing]int{}
	f.Observe = func(which Timing, _ time.Duration) { seen[which]++ }
	for _, r := range []Record{
		role(at(10), "a", "role_failed", "claude"), detected(10, "a", StepReassign, true), reassigned(10, "a", StepReassign),
		role(at(11), "b", "role_failed", "claude"), detected(11, "b", StepRootCause, true), record(at(11), "b", EventTripped, TrippedFields{}),
		record(at(12), "b", EventAnalysed, AnalysedFields{Role: "implementer", Type: CauseUnknown, Fix: FixNone}), reassigned(12, "b", StepResume),
		role(at(40), "a", "role_end", "codex"),
		role(at(50), "b", "role_failed", "codex"), detected(50, "b", StepRootCause, true),
		record(at(60), "b", EventAnalysed, AnalysedFields{Role: "implementer", Type: CauseDependency, Fix: FixEnvironment}),
		record(at(61), "b", EventPrevention, PreventionFields{}), record(at(62), "b", EventPreflight, PreflightFields{}),
		role(at(90), "b", "role_end", "claude"),
		record(at(91), "b", "role_failed", map[string]any{"role": "implementer", "outcome": "interrupted"}),
		role(at(4000), "b", "role_failed", "claude"), detected(4000, "b", StepRetry, false), detected(4001, "b", StepEscalate, true),
		record(at(4002), "b", EventSystemic, Alert{Severity: Critical}),
		{Event: "role_end", Fields: json.RawMessage(`[1]`)}, {Event: EventDetected}, {Event: "something_else", Fields: json.RawMessage(`{}`)},
	} {
		f.Add(r)
	}
	got := f.Figures()
	if got.Total != (Rate{"", 6, 4, 4.0 / 6}) || got.Failures != 5 || got.Counted != 4 || got.Reassigned != 2 || got.Analysed != 2 || got.Escalated != 1 || got.Waited != 0 || got.Retried != 1 {
		t.Errorf("%+v", got)
	}
	if got.FirstReassigned != (Rate{"", 2, 1, 0.5}) || got.Fixes != (Rate{}) || got.ReassignRate != 0.4 || got.AnalysisRate != 0.4 || got.EscalationRate != 0.2 {
		t.Errorf("%+v", got)
	}
	if got.Recovery != (Spread{2, 79_000, 79_000, 79_000}) || got.Response.Median != 2 || got.Detection.Count != 5 {
		t.Errorf("%+v %+v %+v", got.Recovery, got.Response, got.Detection)
	}
	if seen[Detection] != 5 || seen[Response] != 5 || seen[Recovery] != 2 {
		t.Errorf("observed %v", seen)
	}
	if got.Tripped != 1 || got.Preventions != 1 || got.Prevented != 1 || len(got.Alerts) != 1 || got.Alerts[0].Name != Critical {
		t.Errorf("%+v", got)
	}
	if fmt.Sprint(got.ByHour) != "[{2026-11-21T12 5 3 0.6} {2026-11-21T13 1 1 1}]" || fmt.Sprint(got.ByRunner) != "[{claude 4 3 0.75} {codex 2 1 0.5}]" || len(got.ByRole) != 1 {
		t.Errorf("%v %v %v", got.ByHour, got.ByRunner, got.ByRole)
	}
	if fmt.Sprint(got.Causes) != "[{dependency 1 0 0} {unknown 1 0 0}]" || !got.To.Equal(at(4002)) || !got.From.Equal(at(10)) {
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
			f.Add(record(at, rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "loop"), rapid.SampledFrom([]string{"role_end", "role_failed", "role_timeout", "loop_start", EventDetected, EventAnalysed, EventSystemic, EventTripped, "x", EventReassigned, "recovery_executed", "recovery_failed", "tests_end"}).Draw(rt, "event"),
				map[string]any{"role": rapid.SampledFrom([]any{"r", "tests", "implementer", 7}).Draw(rt, "role"), "runner": rapid.String().Draw(rt, "runner"), "outcome": rapid.SampledFrom([]string{"ok", "exit", "interrupted"}).Draw(rt, "o"),
					"rung": rapid.SampledFrom([]Step{StepReassign, StepRootCause, StepEscalate, "?"}).Draw(rt, "rung"), "fix": rapid.SampledFrom([]string{"code", "environment"}).Draw(rt, "fix"), "sure": true, "command": "npm ci", "status": rapid.SampledFrom([]string{"ok", "failed"}).Draw(rt, "status"),
					"detect_ms": rapid.Float64().Draw(rt, "ms"), "severity": "x"}))
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

// TestFixesAreCausal: a fix helped only if it was carried out and what had failed passes afterwards.
// Conforms: 003-metric-fix
func TestFixesAreCausal(t *testing.T) {
	t.Parallel()
	analysed := func(role, fix string, sure bool) Record {
		return record(noon, "a", EventAnalysed, map[string]any{"role": role, "type": "code", "fix": fix, "sure": sure, "command": map[string]any{"command": "npm ci"}})
	}
	ran := func(event, command string) Record {
		return record(noon, "a", event, map[string]any{"command": command})
	}
	tested := func(status string) Record {
		return record(noon, "a", "tests_end", map[string]any{"status": status})
	}
	failed := []Record{role(noon, "a", "role_failed", "x"), record(noon, "a", EventDetected, DetectedFields{Role: "implementer", Step: StepRootCause})}
	ok, bad := role(noon, "a", "role_end", "x"), role(noon, "a", "role_failed", "x")
	for name, c := range map[string]struct {
		then []Record
		want Rate
	}{
		"not carried out":               {[]Record{analysed("implementer", FixEnvironment, true), ok}, Rate{}},
		"another command":               {[]Record{analysed("implementer", FixEnvironment, true), ran("recovery_executed", "npm install"), ok}, Rate{}},
		"another loop's":                {[]Record{analysed("implementer", FixEnvironment, true), record(noon, "b", "recovery_executed", map[string]any{"command": "npm ci"}), ok}, Rate{}},
		"carried out, it passes":        {[]Record{analysed("implementer", FixEnvironment, true), ran("recovery_executed", "npm ci"), ok}, Rate{"", 1, 0, 0}},
		"carried out, it fails":         {[]Record{analysed("implementer", FixEnvironment, true), ran("recovery_executed", "npm ci"), bad}, Rate{"", 1, 1, 1}},
		"the command fails":             {[]Record{analysed("implementer", FixEnvironment, true), ran("recovery_failed", "npm ci"), ok}, Rate{"", 1, 1, 1}},
		"an instruction, it passes":     {[]Record{analysed("implementer", FixCode, true), ok, ok}, Rate{"", 1, 0, 0}},
		"a guess is told to nobody":     {[]Record{analysed("implementer", FixCode, false), ok}, Rate{}},
		"a person's":                    {[]Record{analysed("implementer", FixPerson, true), ok}, Rate{}},
		"the tests, nobody has read it": {[]Record{tested("failed"), analysed("tests", FixCode, true), tested("ok")}, Rate{}},
		"the tests, read and passed":    {[]Record{tested("failed"), analysed("tests", FixCode, true), ok, tested("ok")}, Rate{"", 1, 0, 0}},
		"the tests, read in vain":       {[]Record{tested("failed"), analysed("tests", FixCode, true), ok, tested("failed"), tested("ok")}, Rate{"", 1, 1, 1}},
	} {
		var f Fold
		for _, r := range append(failed[:2:2], c.then...) {
			f.Add(r)
		}
		if got := f.Figures().Fixes; got != c.want {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
