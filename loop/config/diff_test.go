package config

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/superloop/superloop/internal/redact"
)

func loaded(t *testing.T, src string) *Config {
	t.Helper()
	c, err := LoadBytes(home, []byte(src))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestDiff(t *testing.T) {
	t.Parallel()
	a := loaded(t, `{
	 "runners": {"x": {"command": "x", "env": {"KEPT": "hunter-kept", "OLD": "hunter-old", "NEW": "hunter-1"}}, "gone": {"command": ["g"], "env": {"G": "hunter-g"}}}, "role_defaults": {"planner": {"runner": "x"}, "implementer": {"runner": "x"}, "tester": {"runner": "x"}, "reviewer": {"runner": "x"}},
	 "recovery": {"auto_approve": ["npm ci"], "cooldown_seconds": 60},
	 "webhooks": {"on_escalation": "https://h/hunter-1"},
	 "loops": [
	  {"id": "one", "spec_file": "1.md", "tests": {"commands": ["a"]}, "prerequisites": {"checks": [{"type": "file_exists", "path": "p"}, {"type": "file_exists", "path": "q"}]}, "roles": ["planner"]},
	  {"id": "two", "spec_file": "2.md"}, {"id": "three", "spec_file": "3.md"}]}`)
	b := loaded(t, `{"_comment": "a comment is no change",
	 "runners": {"x": {"command": ["x"], "env": {"KEPT": "hunter-kept", "NEW": "hunter-2", "ADDED": "hunter-3"}}}, "role_defaults": {"planner": {"runner": "x"}, "implementer": {"runner": "x"}, "tester": {"runner": "x"}, "reviewer": {"runner": "x"}},
	 "recovery": {"cooldown_seconds": 60.0, "auto_approve": ["npm ci", "bun install"]},
	 "webhooks": {"on_escalation": "https://h/hunter-2"},
	 "loops": [
	  {"id": "two", "spec_file": "2.md", "max_iterations": 3},
	  {"id": "one", "spec_file": "1.md", "tests": {"commands": ["a"]}, "prerequisites": {"checks": [{"type": "file_exists", "path": "P"}]}, "roles": {"planner": {"model": "m"}}},
	  {"id": "four", "spec_file": "4.md"}]}`)
	var out strings.Builder
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	for _, c := range Diff(a, b) {
		if err := enc.Encode(c); err != nil {
			t.Fatal(err)
		}
	}
	golden(t, "testdata/diff.txt", out.String())
	if strings.Contains(out.String(), "hunter") {
		t.Error("a secret is shown")
	}
}

func TestDiffOfNothing(t *testing.T) {
	t.Parallel()
	c := loaded(t, `{"runners": {"x": {"command": "x", "env": {"A": "hunter"}}}, "loops": []}`)
	if d := Diff(nil, nil); d != nil {
		t.Errorf("got %v", d)
	}
	d := Diff(nil, c)
	if len(d) != 2 || d[1].Path != "/runners/x/env/A" || d[1].From != nil || d[1].To != redact.Mark || d[0].Path != "/runners/x/command" {
		t.Errorf("got %v", d)
	}
}
