package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/server/api"
)

// Verbs that the daemon carries out at the same time have nothing in common, and say what they say in a process of their
// own. What does not look like a flag is none.
func TestVerbsOfTheDaemon(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := errors.Join(os.MkdirAll(filepath.Join(dir, ".superloop"), 0o755),
		os.WriteFile(filepath.Join(dir, ".superloop", "config.json"), []byte(`{"runners": {"sh": {"command": ["sh"]}}, "recovery": {"auto_approve": ["true"], "require_human": []},
			"loops": [{"id": "l", "spec_file": "s.md", "completion_promise": "DONE", "completion": {"allow_ungated": true}, "roles": ["reviewer"]}]}`), 0o644)); err != nil {
		t.Fatal(err)
	}
	a := newApp(durable.OS(), strings.NewReader(""), io.Discard, io.Discard)
	a.env = func(name string) string {
		if name == "XDG_STATE_HOME" {
			return filepath.Join(dir, "state")
		}
		return ""
	}
	var all sync.WaitGroup
	for _, c := range []struct {
		args []string
		exit int
		says string
	}{
		{[]string{"policy", "check", "--repo=" + dir, "--command=true", "--json"}, 0, `"verdict": "auto"`},
		{[]string{"policy", "check", "--repo=" + dir, "--command=--help", "--json"}, 0, `"command": "--help"`},
		{[]string{"policy", "check", "--repo=" + dir, "--command=rm -rf x", "--json"}, 0, `"verdict": "human"`},
		{[]string{"policy", "lint", "--repo=" + dir, "--json"}, 0, `"findings"`},
		{[]string{"chain", "show", "--repo=" + dir, "--loop=l", "--json"}, exitNothing, "has no chain now"},
		{[]string{"stats", "--repo=" + dir, "--loop=--help", "--json"}, exitNotFound, `no loop "--help"`},
	} {
		for range 3 {
			all.Go(func() {
				out, err := a.verb(t.Context(), api.VerbCall{Args: c.args})
				refused := &api.Refused{}
				if errors.As(err, &refused) {
					out = []byte(refused.Error())
				}
				if refused.Exit != c.exit || !strings.Contains(string(out), c.says) {
					t.Errorf("%q: %d %s %v, want %d %s", c.args, refused.Exit, out, err, c.exit, c.says)
				}
			})
		}
	}
	all.Wait()
}
