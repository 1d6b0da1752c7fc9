package space

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/layout"
	"github.com/superloop/superloop/loop/local"
)

var now = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

// repo is a repository with loops that superloop seems to have run.
type repo struct {
	t *testing.T
	layout.Paths
}

func newRepo(t *testing.T) *repo {
	t.Helper()
	top := t.TempDir()
	if err := os.MkdirAll(filepath.Join(top, "repo"), 0o755); err != nil {
		t.Fatal(err)
	}
	p, err := layout.NewPaths(filepath.Join(top, "repo"), "any", filepath.Join(top, "state"))
	if err != nil {
		t.Fatal(err)
	}
	return &repo{t, p}
}

// file writes a file of 8 KiB that is some days old, below the loops.
func (r *repo) file(days int, path string) {
	r.t.Helper()
	path = filepath.Join(r.Super, "loops", path)
	at := now.Add(-time.Duration(days) * 24 * time.Hour)
	err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, make([]byte, 8<<10), 0o644), os.Chtimes(path, at, at), os.Chtimes(filepath.Dir(path), at, at))
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *repo) state(id string, s loop.Status, iteration int) {
	r.t.Helper()
	path := filepath.Join(r.Super, "loops", id, "state.json")
	text := fmt.Sprintf(`{"version": %d, "loop_id": %q, "run_id": "r9", "status": %q, "iteration": %d}`, loop.StateVersion, id, s, iteration)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
		r.t.Fatal(err)
	}
}

func (r *repo) look() Use {
	r.t.Helper()
	use, err := Look(r.t.Context(), r.Paths, 0)
	if err != nil {
		r.t.Fatal(err)
	}
	return use
}

func names(units []Unit) string {
	var all []string
	for _, u := range units {
		all = append(all, strings.TrimPrefix(u.Path, ".superloop/loops/"))
	}
	return strings.Join(all, " ")
}

// files returns all files of the loops but their locks.
func (r *repo) files() map[string]bool {
	all := map[string]bool{}
	_ = filepath.WalkDir(filepath.Join(r.Super, "loops"), func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() && e.Name() != "lock" {
			all[strings.TrimPrefix(path, filepath.Join(r.Super, "loops")+"/")] = true
		}
		return nil
	})
	return all
}

// What is old goes, and then the oldest until the rest is small enough; what a run that has not ended, the last iteration,
// a fresh start and people need stays.
func TestWhatGoes(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	r.state("done", loop.Completed, 3)
	r.state("waits", loop.AwaitingHuman, 2)
	r.state("pauses", loop.Paused, 2)
	for i, days := range []int{60, 50, 40} {
		r.file(days, fmt.Sprintf("done/logs/iter-%d/reviewer.log", i+1))
		r.file(days, fmt.Sprintf("waits/logs/iter-%d/reviewer.log", i+1))
		r.file(days, fmt.Sprintf("pauses/logs/iter-%d/reviewer.log", i+1))
		r.file(days, fmt.Sprintf("unknown/logs/iter-%d/reviewer.log", i+1))
	}
	r.file(5, "done/logs/iter-2/tester.log") // it is as young as its youngest file
	r.file(70, "done/logs/mine/x")
	for _, path := range []string{"done/archive/r9/plan.md", "done/archive/r1/logs/iter-1/x.log", "waits/archive/r1/plan.md", "unknown/archive/r1/x", "done/events.jsonl", "done/review.md", "done/policies/a.json"} {
		r.file(90, path)
	}
	r.file(10, "done/archive/r2/plan.md")
	use := r.look()
	if got := names(use.Due(Limits{}, now)); got != "" {
		t.Errorf("without a limit: %s", got)
	}
	if got := names(use.Due(Limits{Age: 30 * 24 * time.Hour}, now)); got != "done/archive/r1 waits/archive/r1 done/logs/iter-1" {
		t.Errorf("by age: %s", got)
	}
	if got := names(use.Due(Limits{Bytes: use.Logs + use.Archives - 1}, now)); got != "done/archive/r1" {
		t.Errorf("by bytes: %s", got)
	}
	if got := names(use.Due(Limits{Bytes: 1}, now)); got != "done/archive/r1 waits/archive/r1 done/logs/iter-1 done/archive/r2 done/logs/iter-2" {
		t.Errorf("all that may go: %s", got)
	}
	if use.Journals < 8<<10 || use.Reports < 16<<10 || use.Logs < 14*8<<10 || use.Partial {
		t.Errorf("%+v", use)
	}
	if part, err := Look(t.Context(), r.Paths, 5); err != nil || !part.Partial || part.Total() >= use.Total() {
		t.Errorf("five files: %+v %v", part, err)
	}
}

// A pass that is killed at any step leaves each directory whole or gone as far as its name tells, the next pass ends it,
// and links lead nowhere.
func TestRemoveIsKilledAndMisled(t *testing.T) {
	t.Parallel()
	killed := errors.New("killed")
	for step := 1; ; step++ {
		r := newRepo(t)
		r.state("a", loop.Completed, 9)
		for _, path := range []string{"a/logs/iter-1/x.log", "a/logs/iter-1/sub/x", "a/logs/iter-2/x.log", "a/archive/r1/x", "a/events.jsonl", "b/events.jsonl"} {
			r.file(40, path)
		}
		if err := os.Symlink(filepath.Join(r.Super, "loops", "b"), filepath.Join(r.Super, "loops", "a", "logs", "iter-1", "link")); err != nil {
			t.Fatal(err)
		}
		limits, n := Limits{Age: time.Hour}, 0
		disk := durable.OS().WithFault(func(string) error {
			if n++; n >= step {
				return killed
			}
			return nil
		})
		_, err := Remove(t.Context(), disk, r.Paths, r.look().Due(limits, now))
		if _, err := Remove(t.Context(), durable.OS(), r.Paths, r.look().Due(limits, now)); err != nil {
			t.Fatal(err)
		}
		if got := slices.Sorted(maps.Keys(r.files())); !slices.Equal(got, []string{"a/events.jsonl", "a/state.json", "b/events.jsonl"}) {
			t.Fatalf("step %d: %v", step, got)
		}
		if err == nil {
			break
		}
	}
	r := newRepo(t)
	r.state("a", loop.Completed, 9)
	r.file(40, "b/logs/iter-1/x.log")
	r.state("b", loop.Running, 9)
	r.file(40, "a/logs/iter-1/x.log")
	due := r.look().Due(Limits{Age: time.Hour}, now)
	logs := filepath.Join(r.Super, "loops", "a", "logs")
	if err := errors.Join(os.Rename(logs, logs+"-was"), os.Symlink("../b/logs", logs)); err != nil {
		t.Fatal(err)
	}
	if _, err := Remove(t.Context(), durable.OS(), r.Paths, due); err == nil || len(due) != 1 || !r.files()["b/logs/iter-1/x.log"] {
		t.Errorf("%v, %v: %v", due, err, r.files())
	}
	if due := r.look().Due(Limits{Age: time.Hour}, now); len(due) > 0 {
		t.Errorf("through a link: %v", due)
	}
}

// Logs of a loop that begins between Look and Remove stay, and so do those of one that has begun and paused.
func TestALoopThatBeginsKeepsItsLogs(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	r.state("done", loop.Completed, 3)
	r.file(60, "done/logs/iter-1/reviewer.log")
	due := r.look().Due(Limits{Age: 24 * time.Hour}, now)
	remove := func(want int64) {
		t.Helper()
		if freed, err := Remove(t.Context(), durable.OS(), r.Paths, due); err != nil || freed/(8<<10) != want {
			t.Errorf("%d bytes are freed, %v", freed, err)
		}
	}
	held, err := local.Hold(local.Options{Repo: r.Repo, LoopID: "done", StateHome: filepath.Dir(r.State), Disk: durable.OS()})
	if err != nil {
		t.Fatal(err)
	}
	remove(0)
	r.state("done", loop.Paused, 3)
	held.Release()
	remove(0)
	r.state("done", loop.Completed, 3)
	remove(1)
}
