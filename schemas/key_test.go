package schemas

import (
	"strings"
	"testing"
)

func TestKeyOf(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]Key{
		"recovery.on_unknown":    {Path: "recovery.on_unknown", Default: `"escalate"`},
		"loops.max_iterations":   {Path: "loops[].max_iterations", Type: "whole number"},
		"loops[].tests.commands": {Path: "loops[].tests.commands", Type: "list of text"},
		"runners.claude.command": {Path: "runners.claude.command"},
	} {
		k, ok := KeyOf(Config, path)
		if !ok || k.Path != want.Path || k.Description == "" || want.Default != "" && k.Default != want.Default || want.Type != "" && k.Type != want.Type {
			t.Errorf("%s: %t %+v", path, ok, k)
		}
	}
	k, ok := KeyOf(Config, "recovery")
	if !ok || len(k.Keys) < 8 {
		t.Errorf("%t %+v", ok, k)
	}
	for _, sub := range k.Keys {
		if sub.Description == "" || strings.Contains(sub.Description, ". ") {
			t.Errorf("%+v", sub)
		}
	}
	for _, bad := range []string{"", "nothing", "recovery.nothing", "recovery.on_unknown.more", "loops.0"} {
		if k, ok := KeyOf(Config, bad); ok {
			t.Errorf("%q: %+v", bad, k)
		}
	}
}

// Each key that a configuration can have is found by its name.
func TestEveryKeyIsFound(t *testing.T) {
	t.Parallel()
	n := 0
	var walk func(path string, k Key)
	walk = func(path string, k Key) {
		for _, sub := range k.Keys {
			at := strings.TrimPrefix(path+"."+sub.Path, ".")
			next, ok := KeyOf(Config, at)
			if !ok || next.Description == "" {
				t.Errorf("%s: %t %+v", at, ok, next)
			}
			if n++; strings.Count(at, ".") < 4 {
				walk(at, next)
			}
		}
	}
	properties, _ := parse(Config)["properties"].(map[string]any)
	for name := range properties {
		k, ok := KeyOf(Config, name)
		if !ok {
			t.Errorf("%s is not found", name)
		}
		walk(name, k)
	}
	if n < 100 {
		t.Errorf("only %d keys", n)
	}
}
