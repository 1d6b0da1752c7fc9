package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		mode := os.FileMode(0o644)
		if strings.HasSuffix(name, ".sh") {
			mode = 0o755
		}
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// onPath finds the named programs and no other.
func onPath(names ...string) LookPath {
	return func(file string) (string, error) {
		for _, n := range names {
			if n == file {
				return "/usr/bin/" + n, nil
			}
		}
		return "", errors.New("not found")
	}
}

func TestCheckFindsNothing(t *testing.T) {
	t.Parallel()
	root := tree(t, map[string]string{"SPEC.md": "x", "docs/b.md": "x", "agent.sh": "#!/bin/sh\n", ".superloop/roles/tester.md": "Test it."})
	c, err := LoadBytes(filepath.Join(root, ".superloop", "config.json"), []byte(`{
	 "runners": {"claude": {"command": "claude -p"}, "own": {"command": ["./agent.sh"]}, "abs": {"command": ["{repo}/agent.sh"]}, "unused": {"command": "nowhere"}},
	 "role_defaults": {"planner": {"runner": "own"}, "implementer": {"runner": "claude"}, "tester": {"runner": "abs"}, "reviewer": {"runner": "own"}},
	 "loops": [{"id": "a", "spec_file": "SPEC.md", "evidence": {"enabled": true, "artifacts": ["dist/none.js"]}}, {"id": "b", "spec_file": "`+filepath.Join(root, "docs/b.md")+`"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	if ps := c.Check(root, onPath("claude")); len(ps) > 0 {
		t.Errorf("got %v", ps)
	}
	if c.Loops[1].SpecFile != filepath.Join("docs", "b.md") {
		t.Errorf("spec %q", c.Loops[1].SpecFile)
	}
}

func TestCheckFindsEverything(t *testing.T) {
	t.Parallel()
	outside := tree(t, map[string]string{"secret.md": "x"})
	root := tree(t, map[string]string{"EMPTY.md": "", "dir/x": "x", "plain.txt": "x", ".superloop/roles/planner.md/x": "x", ".superloop/roles/tester.md": ""})
	if err := os.Symlink(filepath.Join(outside, "secret.md"), filepath.Join(root, "LINK.md")); err != nil {
		t.Fatal(err)
	}
	c, err := LoadBytes(filepath.Join(root, ".superloop", "config.json"), []byte(`{
	 "runner": {"command": "claude -p"},
	 "runners": {
	  "relative": {"command": ["./none.sh"]},
	  "plain": {"command": ["./plain.txt"]},
	  "dir": {"command": ["{repo}/dir"]}
	 },
	 "loops": [
	  {"id": "a", "spec_file": "NONE.md", "roles": {"planner": {}, "tester": {"runner": "relative"}}},
	  {"id": "b", "spec_file": "EMPTY.md", "roles": {"implementer": {"runner": "plain"}, "reviewer": {"runner": "dir"}}},
	  {"id": "c", "spec_file": "dir", "roles": ["planner"]},
	  {"id": "d", "spec_file": "LINK.md", "roles": ["planner"]}
	 ]}`))
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for _, p := range c.Check(root, onPath()) {
		fmt.Fprintf(&got, "%s %s\n", p.Code, strings.ReplaceAll(p.String(), root, "ROOT"))
	}
	want := `not_found 2:25: /runner/command: the runner "default" cannot start: claude is not on the PATH; install it, or give its path
not_found 4:28: /runners/relative/command: the runner "relative" cannot start: there is no ROOT/none.sh
not_found 5:25: /runners/plain/command: the runner "plain" cannot start: ROOT/plain.txt is not executable; chmod +x it
not_found 6:23: /runners/dir/command: the runner "dir" cannot start: ROOT/dir is not a file
unreadable 9:4: /loops/0: the prompt .superloop/roles/planner.md is a directory; mend it, or remove it to use the embedded one
unreadable 9:4: /loops/0: the prompt .superloop/roles/tester.md is empty; mend it, or remove it to use the embedded one
not_found 9:29: /loops/0/spec_file: there is no NONE.md; write into it what the loop is to build
unreadable 10:29: /loops/1/spec_file: the spec EMPTY.md is empty
unreadable 11:29: /loops/2/spec_file: the spec dir is a directory
unreadable 12:29: /loops/3/spec_file: the spec LINK.md is a link that leads out of the repository
`
	if got.String() != want {
		t.Errorf("got:\n%s\nwant:\n%s", got.String(), want)
	}
}

// A gate counts if superloop executes something and completion needs it.
func TestGated(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		loop Loop
		want bool
	}{
		"nothing":                       {Loop{}, false},
		"checklists":                    {Loop{Checklists: []string{"*.md"}}, false},
		"tests":                         {Loop{Tests: Tests{Mode: TestsOnPromise, Commands: []string{"a"}}}, true},
		"tests that are off":            {Loop{Tests: Tests{Mode: TestsDisabled, Commands: []string{"a"}}}, false},
		"validation":                    {Loop{Validation: Validation{Enabled: true, RequireOnCompletion: true, Commands: []string{"a"}}}, true},
		"a page":                        {Loop{Validation: Validation{Enabled: true, RequireOnCompletion: true, Preflight: &Preflight{}}}, true},
		"validation of nothing":         {Loop{Validation: Validation{Enabled: true, RequireOnCompletion: true}}, false},
		"validation that nobody needs":  {Loop{Validation: Validation{Enabled: true, Commands: []string{"a"}}}, false},
		"prerequisites":                 {Loop{Prerequisites: Prerequisites{Enabled: true, RequireOnCompletion: true, Checks: []Check{{}}}}, true},
		"prerequisites that are off":    {Loop{Prerequisites: Prerequisites{RequireOnCompletion: true, Checks: []Check{{}}}}, false},
		"no prerequisites":              {Loop{Prerequisites: Prerequisites{Enabled: true, RequireOnCompletion: true}}, false},
		"evidence":                      {Loop{Evidence: Evidence{Enabled: true, RequireOnCompletion: true, Artifacts: []string{"a"}}}, true},
		"evidence of nothing":           {Loop{Evidence: Evidence{Enabled: true, RequireOnCompletion: true}}, false},
		"approval":                      {Loop{Approval: Approval{Enabled: true, RequireOnCompletion: true}}, true},
		"approval that nobody asks for": {Loop{Approval: Approval{Enabled: true}}, false},
	} {
		if got := c.loop.Gated(); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
