package classify

import (
	"slices"
	"testing"
)

func TestCalls(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		command  string
		families []string
		opaque   bool
		match    []string
		miss     []string
	}{
		{command: "npm ci", families: []string{"npm"}, match: []string{"npm", "npm ci"}, miss: []string{"npm install", "node"}},
		{command: "npm --prefix web ci --no-audit", families: []string{"npm"}, match: []string{"npm ci"}},
		{command: "CI=1 npx --yes vitest run", families: []string{"node", "npm"}, match: []string{"npx", "vitest", "vitest run"}},
		{command: "sudo -n apt-get install -y jq", families: []string{"apt"}, match: []string{"apt-get", "apt-get install"}},
		{command: "python3.11 -m pip install -r requirements.txt", families: []string{"pip", "python"}, match: []string{"pip install", "python3", "python"}},
		{command: "uv run pytest -q", families: []string{"python", "uv"}, match: []string{"pytest", "uv run"}},
		{command: "bash -c 'go test ./... && cargo test'", families: []string{"shell", "go", "cargo"}, opaque: true, match: []string{"go test", "cargo test"}},
		{command: ".venv/bin/pytest", families: []string{"python"}, match: []string{"pytest"}},
		{command: "make test", families: []string{"cc"}, opaque: true, match: []string{"make"}},
		{command: "timeout 60 go build ./...", families: []string{"go"}, match: []string{"go build"}},
		{command: "git -C sub worktree add x", families: []string{"git"}, match: []string{"git worktree"}, miss: []string{"git commit"}},
		{command: "bun test", families: []string{"bun"}, match: []string{"bun test"}},
		{command: "", families: nil},
	} {
		c := callsOf(tc.command)
		for _, f := range tc.families {
			if !slices.Contains(c.families, f) {
				t.Errorf("%q: family %s is missing in %v", tc.command, f, c.families)
			}
		}
		if len(tc.families) > 0 && tc.command[0] != 'b' && c.families[0] != tc.families[0] {
			t.Errorf("%q: first family is %s, want %s", tc.command, c.families[0], tc.families[0])
		}
		if tc.opaque && !c.opaque {
			t.Errorf("%q: is not opaque", tc.command)
		}
		for _, m := range tc.match {
			if yes, _ := c.matches([]string{m}); !yes {
				t.Errorf("%q: does not call %q: %v", tc.command, m, c.words)
			}
		}
		for _, m := range tc.miss {
			if yes, _ := c.matches([]string{m}); yes {
				t.Errorf("%q: calls %q", tc.command, m)
			}
		}
	}
}

// What a project's own files say a command runs counts as a hint.
func TestHints(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "package.json", `{"scripts":{"test":"vitest run","pretest":"tsc -p ."}}`)
	write(t, dir, "Makefile", "CC = gcc\n\nall: lint\n\techo all\n\ntest: all\n\t@go test ./...\n\nclean:\n\trm -rf out\n")
	write(t, dir, "run.sh", "#!/bin/sh\nset -e\npytest -q\n")
	for command, want := range map[string]string{"npm test": "vitest", "npm run test": "tsc", "make test": "go test", "./run.sh": "pytest", "sh run.sh": "pytest"} {
		c := callsOf(command)
		c.lookInto(dir)
		if yes, hinted := c.matches([]string{want}); !yes || !hinted {
			t.Errorf("%q in the project: %q is not hinted at: %v", command, want, c.words)
		}
	}
	c := callsOf("make clean")
	c.lookInto(dir)
	if yes, _ := c.matches([]string{"go test"}); yes {
		t.Errorf("make clean is thought to run go test: %v", c.words)
	}
}
