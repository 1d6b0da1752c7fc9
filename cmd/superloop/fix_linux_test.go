package main

import (
	"os"
	"strings"
	"testing"
)

// fixHandler knows one failure, whose remedy is ./refresh.
const fixHandler = `layer: infra
handlers:
  - id: stale_index
    label: The index is stale
    description: The index is older than what it indexes.
    category: environment
    match: {any: ['^mytool: the index is stale']}
    options:
      - {id: refresh, label: Make the index anew, strategy: env_fix, recommended: true, confidence: 0.9, commands: [[./refresh]]}
    examples:
      - {tool: mytool 1, command: ./check, exit_code: 1, stderr: "mytool: the index is stale"}
    counter_examples:
      - {tool: mytool 1, command: ./check, exit_code: 1, stderr: "mytool: no index"}
`

// fixEnv is a repository where superloop fix -- ./check asks whether ./refresh may
// run.
func fixEnv(t *testing.T) *testEnv {
	t.Helper()
	n := newTestEnv(t, false)
	data, err := os.ReadFile(n.path("repo/.superloop/config.json"))
	if err != nil {
		t.Fatal(err)
	}
	n.write("repo/.superloop/config.json", strings.Replace(string(data), `"loops"`, `"recovery": {}, "loops"`, 1))
	n.mkdir(".config/superloop/recovery")
	n.write(".config/superloop/recovery/own.yaml", fixHandler)
	n.write("repo/check", "#!/bin/sh\n[ -f fresh ] && exit 0\necho mytool: the index is stale >&2\nexit 3\n")
	n.write("repo/refresh", "#!/bin/sh\ntouch fresh\n")
	for _, name := range []string{"repo/check", "repo/refresh"} {
		if err := os.Chmod(n.path(name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	n.git("add", "-A")
	n.git("commit", "-q", "-m", "all")
	return n
}

// TestFixLooksAgain: what an operator said yes to is what runs, or they are asked once
// more.
func TestFixLooksAgain(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		typed     string
		meanwhile func(n *testEnv)
		code      int
		asked     int
		shows     string
		made      string
	}{
		"nothing changed": {"y\n", func(*testEnv) {}, exitOK, 1, "superloop: level 1 runs: ./refresh", "fresh"},
		"what it reads, and no": {"y\nn\n", func(n *testEnv) { n.write("repo/refresh", "#!/bin/sh\ntouch evil\n") }, 3, 2,
			"superloop: not begun, since something has changed: what the command reads has changed", ""},
		"what it reads, and yes": {"y\ny\n", func(n *testEnv) { n.write("repo/refresh", "#!/bin/sh\ntouch fresh\n# now\n") }, exitOK, 2, "refresh: changed (read by refresh)", "fresh"},
		"the policy denies it":   {"y\n", func(n *testEnv) { n.deny() }, 3, 1, "superloop: not run: ./refresh (no list names it, and on_unknown is deny)", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := fixEnv(t)
			code, shown := n.onTerminal(c.typed, func(string) { c.meanwhile(n) }, "fix", "--", "./check")
			shown = strings.ReplaceAll(shown, "\r\n", "\n")
			if code != c.code || strings.Count(shown, "let this run? [y/N] ") != c.asked || !strings.Contains(shown, c.shows) {
				t.Errorf("it gave %d\n%s", code, shown)
			}
			for _, file := range []string{"fresh", "evil"} {
				if _, err := os.Lstat(n.path("repo/" + file)); (err == nil) != (file == c.made) {
					t.Errorf("%s: %v\n%s", file, err, shown)
				}
			}
		})
	}
}

// deny has the configuration deny what is not listed.
func (n *testEnv) deny() {
	n.t.Helper()
	data, err := os.ReadFile(n.path("repo/.superloop/config.json"))
	if err != nil {
		n.t.Fatal(err)
	}
	n.write("repo/.superloop/config.json", strings.Replace(string(data), `"recovery": {}`, `"recovery": {"on_unknown": "deny", "require_human": []}`, 1))
}
