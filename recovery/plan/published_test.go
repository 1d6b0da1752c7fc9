package plan

import (
	"encoding/json"
	"fmt"
	"testing"
)

// at gives the value at a path of keys and places in lists.
func at(t *testing.T, v any, path ...any) any {
	t.Helper()
	for _, step := range path {
		switch s := step.(type) {
		case string:
			m, is := v.(map[string]any)
			if !is {
				t.Fatalf("%v: %v is no object", path, v)
			}
			v = m[s]
		case int:
			l, _ := v.([]any)
			if s >= len(l) {
				t.Fatalf("%v: there are %d", path, len(l))
			}
			v = l[s]
		}
	}
	return v
}

// TestAnswerHasWhatAPageShows: each field of the published answer that superloop has, with its value.
// Conforms: 000-2-fallback, 000-5.3-id, 000-5.3-goal, 000-5.3-stack, 000-5.3-max, 000-5.3-times, 000-6-one
// Conforms: 000-6-failure, 000-6-options, 000-6-chain, 000-6-fallback, 000-11-availability
func TestAnswerHasWhatAPageShows(t *testing.T) {
	t.Parallel()
	byPerson := func(c *Choice) { c.ByItself = false }
	gone := option("brew").with(func(c *Choice) { c.Availability, c.Reason, c.Risk = impossible, "no brew here", "high" })
	w := newWalk(t, option("env").with(func(c *Choice) { c.Risk = "medium" }), needing("pipx", need("pipx", option("apt"))).with(byPerson), gone)
	data, err := Response(w.c)
	if err != nil {
		t.Fatal(err)
	}
	var first any
	if err := json.Unmarshal(data, &first); err != nil {
		t.Fatal(err)
	}
	w.remedies["deep"] = []Choice{human("other")}
	w.do("run run-env -> fail:deep", "stop exhausted").pick(0, "other", "").do("run run-other -> begin")
	if data, err = Response(w.c); err != nil {
		t.Fatal(err)
	}
	var later any
	if err := json.Unmarshal(data, &later); err != nil {
		t.Fatal(err)
	}
	for i, c := range []struct {
		answer any
		want   any
		path   []any
	}{
		{first, false, []any{"ok"}},
		{first, "c-1", []any{"chain_id"}},
		{first, "make test", []any{"original_goal", "command"}},
		{first, "h", []any{"failure", "failure_id"}},
		{first, "dependency", []any{"failure", "category"}},
		{first, "why first", []any{"failure", "label"}},
		{first, "env", []any{"options", 0, "id"}},
		{first, "do env", []any{"options", 0, "label"}},
		{first, true, []any{"options", 0, "recommended"}},
		{first, "env_fix", []any{"options", 0, "strategy"}},
		{first, "ready", []any{"options", 0, "availability"}},
		{first, "medium", []any{"options", 0, "risk"}},
		{first, false, []any{"options", 1, "recommended"}},
		{first, "locked", []any{"options", 1, "availability"}},
		{first, "something is missing", []any{"options", 1, "lock_reason"}},
		{first, "tool/pipx", []any{"options", 1, "unlock_deps", 0}},
		{first, "impossible", []any{"more", 0, "availability"}},
		{first, "no brew here", []any{"more", 0, "impossible_reason"}},
		{first, "c-1", []any{"chain", "chain_id"}},
		{first, "make test", []any{"chain", "original_goal"}},
		{first, 0.0, []any{"chain", "depth"}},
		{first, 3.0, []any{"chain", "max_depth"}},
		{first, "retry", []any{"fallback_actions", 0, "id"}},
		{first, "Try this level again", []any{"fallback_actions", 0, "label"}},
		{first, "skip", []any{"fallback_actions", 1, "id"}},
		{first, "cancel", []any{"fallback_actions", 2, "id"}},
		{first, "2026-11-21T12:00:00Z", []any{"created_at"}},
		{first, "2026-11-21T12:00:00Z", []any{"updated_at"}},
		{later, 1.0, []any{"chain", "depth"}},
		{later, "run-env", []any{"chain", "breadcrumbs", 0, "label"}},
		{later, "executing", []any{"chain", "breadcrumbs", 0, "status"}},
		{later, 2.0, []any{"escalation_stack", 0, "depth"}},
		{later, "h", []any{"escalation_stack", 0, "failure_id"}},
		{later, "other", []any{"escalation_stack", 0, "chosen_option"}},
		{later, "run-other", []any{"escalation_stack", 0, "plan", "command"}},
		{later, "executing", []any{"escalation_stack", 0, "status"}},
		{later, "env", []any{"escalation_stack", 1, "chosen_option"}},
		{later, nil, []any{"escalation_stack", 1, "plan"}},
		{later, "pending", []any{"escalation_stack", 1, "status"}},
	} {
		if got := at(t, c.answer, c.path...); fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%d: %v is %v, want %v", i, c.path, got, c.want)
		}
	}
}
