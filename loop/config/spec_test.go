package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The template of init says nothing, with whatever title, blanks and ticks; one sentence of a human is a spec.
func TestUnwrittenSpec(t *testing.T) {
	t.Parallel()
	template := string(SpecTemplate("one"))
	for name, c := range map[string]struct {
		spec string
		want bool
	}{
		"the template":        {template, true},
		"of another loop":     {string(SpecTemplate("two")), true},
		"with a title":        {strings.Replace(template, "# one", "# My great shop", 1), true},
		"ticked":              {strings.Replace(template, "- [ ]", "-  [X]", 1) + "\n\n", true},
		"carriage returns":    {strings.ReplaceAll(template, "\n", "\r\n"), true},
		"a title alone":       {"# Greet the user\n", false},
		"blank":               {" \n\n", true},
		"a goal":              {strings.Replace(template, "One paragraph.", "Greet the user.", 1), false},
		"a line more":         {template + "- [ ] It greets.\n", false},
		"one sentence":        {"build it\n", false},
		"far too long for it": {strings.Repeat(template, 100), false},
	} {
		root := t.TempDir()
		if err := os.WriteFile(filepath.Join(root, "s.md"), []byte(c.spec), 0o644); err != nil {
			t.Fatal(err)
		}
		cfg := &Config{Loops: []Loop{{ID: "one", SpecFile: "s.md", Completion: Completion{AllowUngated: true}}, {ID: "two", SpecFile: "gone.md"}}}
		problems := cfg.CanComplete(root, "one")
		if got := len(problems) == 1 && problems[0].Code == CodeUnwritten && problems[0].Pointer == "/loops/0/spec_file"; got != c.want || len(problems) > 1 {
			t.Errorf("%s: %v", name, problems)
		}
	}
	cfg := &Config{Loops: []Loop{{ID: "two", SpecFile: "gone.md"}}}
	if p := cfg.CanComplete(t.TempDir(), "two"); len(p) != 1 || p[0].Code != CodeUngated {
		t.Errorf("no spec and no gate: %v", p)
	}
	if p := cfg.CanComplete(t.TempDir()); len(p) != 0 {
		t.Errorf("a loop that does not run: %v", p)
	}
}
