package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/layout"
	"github.com/superloop/superloop/recovery/undo"
)

func TestSetsOf(t *testing.T) {
	t.Parallel()
	set := func(id, loopID string, n int) undo.Kept {
		return undo.Kept{ID: id, Label: undo.Label{Loop: loopID, Recovery: n}}
	}
	all := []undo.Kept{set("a", "x", 1), set("b", "y", 1), set("c", "x", 2), set("d", "x", 1)}
	for _, c := range []struct {
		id   string
		n    int
		want string
	}{{"x", 0, "acd"}, {"x", 1, "ad"}, {"y", 0, "b"}, {"x", 3, ""}, {"z", 0, ""}} {
		var got strings.Builder
		for _, k := range setsOf(all, c.id, c.n) {
			got.WriteString(k.ID)
		}
		if got.String() != c.want {
			t.Errorf("%s %d: %q, want %q", c.id, c.n, got.String(), c.want)
		}
	}
}

func TestAtWork(t *testing.T) {
	t.Parallel()
	for status, want := range map[loop.Status]bool{loop.Pending: true, loop.Running: true, loop.Recovering: true, loop.AwaitingHuman: false,
		loop.AwaitingApproval: false, loop.RateLimited: false, loop.Paused: false, loop.Completed: false, loop.Cancelled: false, "": true} {
		if atWork(status) != want {
			t.Errorf("%q: %v", status, !want)
		}
	}
}

func TestUndone(t *testing.T) {
	t.Parallel()
	set := undo.Kept{Repo: "/a b", Ref: "refs/superloop/undo/x", Label: undo.Label{Recovery: 2}}
	conflict := undo.Report{Conflicts: []undo.Named{{Path: "a"}, {Path: "b"}}}
	for name, c := range map[string]struct {
		report undo.Report
		forced bool
		err    error
		code   int
		hint   string
	}{
		"whole":       {code: exitOK},
		"in conflict": {report: conflict, code: exitFailed, hint: "superloop undo --loop l --recovery 2 --force"},
		"failed":      {report: undo.Report{Failed: []undo.Named{{Path: "a"}}}, code: exitFailed, hint: "git -C '/a b' diff refs/superloop/undo/x"},
		"forced":      {report: conflict, forced: true, code: exitFailed, hint: "git -C '/a b' diff refs/superloop/undo/x"},
		"locked":      {err: &durable.LockedError{}, code: exitHeld, hint: "superloop undo --loop l --recovery 2"},
		"broken":      {err: errors.New("x"), code: exitFailed, hint: "superloop undo --loop l --recovery 2"},
	} {
		err := undone("l", set, c.report, c.forced, c.err)
		if c.code == exitOK {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		var f *fault
		if !errors.As(err, &f) || f.code != c.code || !strings.HasPrefix(f.hint, c.hint) {
			t.Errorf("%s: %#v", name, err)
		}
	}
}

// TestUndoVerb keeps, damages and undoes a real repository.
func TestUndoVerb(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	repo, state := filepath.Join(base, "repo"), filepath.Join(base, "state")
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(repo, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	write(".superloop/config.json", `{"loops":[{"id":"l"}]}`)
	write("dist/app.js", "1")
	write("lock", "kept")
	paths, err := layout.NewPaths(repo, "l", state)
	if err != nil {
		t.Fatal(err)
	}
	store := undo.Store{Disk: durable.OS(), Dir: paths.Undo(), Repo: paths.Repo}
	call := func(args ...string) (code int, stdout, stderr string) {
		t.Helper()
		var out, talk bytes.Buffer
		a := &app{stdout: &out, stderr: &talk, disk: durable.OS(), env: func(name string) string {
			if name == "XDG_STATE_HOME" {
				return state
			}
			return ""
		}}
		verb := a.commands()[slices.IndexFunc(a.commands(), func(c *cli.Command) bool { return c.Name == "undo" })]
		a.finish(verb)
		c := &cli.App{Name: "superloop", Writer: &out, ErrWriter: &talk, ExitErrHandler: func(*cli.Context, error) {}, Commands: []*cli.Command{verb}}
		if err := c.RunContext(t.Context(), append([]string{"superloop", "undo", "--repo", repo}, args...)); err != nil {
			f := classify(err)
			tell(&talk, f, false)
			code = f.code
		}
		return code, out.String(), talk.String()
	}
	is := func(code, want int, text string, parts ...string) {
		t.Helper()
		if code != want {
			t.Errorf("exit %d, want %d", code, want)
		}
		for _, p := range parts {
			if !strings.Contains(text, p) {
				t.Errorf("%q is not in:\n%s", p, text)
			}
		}
	}

	code, _, stderr := call()
	is(code, exitNothing, stderr, "nothing to undo", "superloop undo --list --loop l")
	code, stdout, _ := call("--list")
	is(code, exitOK, stdout, "l: nothing is kept")
	code, _, _ = call("--recovery", "-1")
	is(code, exitUsage, "")

	kept, err := store.Keep(t.Context(), undo.Request{Caps: undo.DefaultCaps(), Time: time.Unix(1_700_000_000, 0),
		Label:   undo.Label{Loop: "l", Run: "r1", Recovery: 1, Command: "rm -rf dist && make"},
		Targets: undo.Targets{Paths: []undo.Target{{Path: "dist", Deleted: true}, {Path: "lock"}}, Refused: []undo.Named{{Path: "/etc/x", Why: "it is not in the repository"}}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(repo, "dist")); err != nil {
		t.Fatal(err)
	}
	if err := store.Seal(t.Context(), kept.ID); err != nil {
		t.Fatal(err)
	}
	write("lock", "changed by an operator since")
	code, stdout, _ = call("--list")
	is(code, exitOK, stdout, "rm -rf dist && make", "1 tree, 1 file", "r1", "1 path")
	code, _, _ = call("--recovery", "2")
	is(code, exitNothing, "")

	// While somebody works there, nothing is touched.
	lock := paths.Locks()[0]
	if err := os.MkdirAll(filepath.Dir(lock), 0o755); err != nil {
		t.Fatal(err)
	}
	held, err := durable.OS().Lock(lock, []byte(`{"pid":1,"host":"elsewhere"}`))
	if err != nil {
		t.Fatal(err)
	}
	write(".superloop/loops/l/state.json", `{"version":1,"loop_id":"l","status":"running","role":"planner"}`)
	code, _, stderr = call()
	is(code, exitHeld, stderr, "is running the planner in loop l", "pid 1 on elsewhere")
	if _, err := os.Lstat(filepath.Join(repo, "dist")); err == nil {
		t.Error("it was put back while a role was running")
	}
	write(".superloop/loops/l/state.json", `{"version":1,"loop_id":"l","status":"awaiting_human"}`)
	code, stdout, _ = call()
	is(code, exitOK, stdout, "put back:\n  dist\n", "left, because the command did not change it and somebody did since:\n  lock\n", "never kept, so it cannot be put back:\n  /etc/x: it is not in")
	if err := held.Unlock(); err != nil {
		t.Fatal(err)
	}

	write("dist/app.js", "changed since")
	code, stdout, stderr = call()
	is(code, exitFailed, stdout, "in conflict, not touched:\n  dist: it has changed since the command\n")
	is(code, exitFailed, stderr, "not put back: dist", "superloop undo --loop l --recovery 1 --force")
	code, stdout, _ = call("--force", "--json")
	var got struct {
		Complete bool     `json:"complete"`
		Recovery int      `json:"recovery"`
		Restored []string `json:"restored"`
	}
	if err := json.Unmarshal([]byte(stdout), &got); err != nil || code != exitOK || !got.Complete || got.Recovery != 1 || strings.Join(got.Restored, " ") != "dist" {
		t.Errorf("%d %v\n%s", code, err, stdout)
	}
	code, stdout, _ = call()
	is(code, exitOK, stdout, "nothing had to be put back")

	// A recovery that was tried twice is undone to its first beginning, once and for all.
	for _, try := range []string{"first", "second"} {
		kept, err := store.Keep(t.Context(), undo.Request{Caps: undo.DefaultCaps(), Time: time.Now(), Label: undo.Label{Loop: "l", Run: "r2", Recovery: 1},
			Targets: undo.Targets{Paths: []undo.Target{{Path: "dist"}}}})
		if err != nil {
			t.Fatal(err)
		}
		write("dist/app.js", try)
		if try == "first" {
			continue // superloop was killed while it ran
		}
		if err := store.Seal(t.Context(), kept.ID); err != nil {
			t.Fatal(err)
		}
	}
	code, stdout, stderr = call()
	is(code, exitFailed, stdout, "recovery 1 of run r2", "put back:\n  dist\n", "it is not known whether the command or somebody else changed it")
	is(code, exitFailed, stderr, "superloop undo --loop l --recovery 1 --force")
	code, stdout, _ = call("--force")
	is(code, exitOK, stdout, "recovery 1 of run r2", "put back:\n  dist\n", "moved beside")
	if text, err := os.ReadFile(filepath.Join(repo, "dist/app.js")); err != nil || string(text) != "1" {
		t.Errorf("%q %v", text, err)
	}
	code, stdout, _ = call()
	is(code, exitOK, stdout, "nothing had to be put back")
}
