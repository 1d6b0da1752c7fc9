package failures

import (
	"encoding/json"
	"testing"
)

// TestRootCauseOnTheWire: root-cause.json has what the published design's analysis has: the task, the class, the cause,
// the evidence, what to do about it and what prevents it.
// Conforms: 003-c4-result
func TestRootCauseOnTheWire(t *testing.T) {
	t.Parallel()
	c := Case{Task: work, RunID: "r1", Iteration: 2, History: []Entry{entry(environment("dependency"), alice), entry(environment("dependency"), bob)},
		Captures: map[string]string{"pkg": "left-pad"}, Command: "npm ci", Evidence: []Quote{{Source: "log", Text: "Cannot find module 'left-pad'"}},
		Facts: Facts{Changes: []Change{{ChangeLock, "package-lock.json", "aa", "bb"}}}}
	data, err := json.Marshal(Analyse(c, noon))
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Task       string `json:"task_key"`
		Category   string
		Type       string
		RootCause  string `json:"root_cause"`
		Location   string
		Evidence   []struct{ Text string }
		Fix        struct{ Kind, Command string }
		Prevention *struct{ Kind string }
	}
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	if got.Task != work.Key() || got.Category != "dependency" || got.Type != "dependency" || got.RootCause == "" || got.Location != "package-lock.json" || len(got.Evidence) == 0 ||
		got.Fix.Kind != FixEnvironment || got.Fix.Command != "npm ci" || got.Prevention == nil || got.Prevention.Kind != string(CheckDeps) {
		t.Errorf("%s", data)
	}
}
