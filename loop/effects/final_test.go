package effects

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/gate"
)

// The last tests run in a directory of their own, which holds what is committed and nothing else, and is gone behind them.
func TestFinal(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	w := newGitWorld(t)
	w.set.Loop.Gates.Setup, w.set.Loop.Tests.Commands = []string{"install"}, []string{"make test"}
	w.put(".gitignore", "ignored\n")
	w.put("dir/b.txt", "two\n")
	gateMust(t, os.Symlink("../dir/b.txt", filepath.Join(w.host.Paths.Repo, "dir/link")))
	w.git("add", "-A", "dir", ".gitignore")
	w.git("commit", "-q", "-m", "second")
	head := w.git("rev-parse", "HEAD")
	w.put("ignored", "x")
	w.put("loose", "x")
	w.put("a.txt", "changed\n")
	w.git("update-index", "--assume-unchanged", "a.txt")
	run := func(turns ...gateTurn) loop.FinalEnded {
		t.Helper()
		w.facts, w.specs, w.turns = nil, nil, turns
		fact, err := w.tests().Perform(t.Context(), loop.Effect{ID: "e1", Kind: loop.RunFinal}, w.state)
		gateMust(t, err)
		if left, err := filepath.Glob(os.Getenv("TMPDIR") + "/*"); err != nil || len(left) > 0 {
			t.Errorf("left behind: %q, %v", left, err)
		}
		return fact.(loop.FinalEnded)
	}
	want := loop.FinalEnded{Of: loop.Of{EffectID: "e1"}, Commit: head, Status: gate.StatusOK, Results: w.host.Paths.Rel(w.host.Paths.File(finalOutput))}
	var there []string
	look := func(spec proc.Spec) {
		there = nil
		gateMust(t, filepath.WalkDir(spec.Dir, func(p string, d os.DirEntry, err error) error {
			if !d.IsDir() {
				there = append(there, strings.TrimPrefix(p, spec.Dir+"/"))
			}
			return err
		}))
		data, err := os.ReadFile(filepath.Join(spec.Dir, "a.txt"))
		gateMust(t, err)
		gateEqual(t, "a.txt", string(data), "one\n")
		gateMust(t, os.WriteFile(filepath.Join(spec.Dir, "made"), nil, 0o600))
	}
	gateEqual(t, "the outcome", run(gateTurn{do: look}), want)
	gateEqual(t, "the files", there, []string{".gitignore", "a.txt", "dir/b.txt", "dir/link"})
	gateEqual(t, "the start", w.facts, []loop.Fact{loop.FinalStarted{Of: want.Of, Commit: head, Commands: []string{"install", "make test"}}})
	if len(w.specs) != 2 || w.specs[0].Dir != w.specs[1].Dir || strings.HasPrefix(w.specs[0].Dir, w.host.Paths.Repo) {
		t.Errorf("%+v", w.specs)
	}
	gateMust(t, os.MkdirAll(filepath.Join(w.specs[0].Dir, "of/a/killed/one"), 0o700))
	gateEqual(t, "another time", run(gateTurn{do: look}), want)
	gateEqual(t, "the files", there, []string{".gitignore", "a.txt", "dir/b.txt", "dir/link"})

	failed := want
	failed.Status, failed.ExitCode, failed.Failed = gate.StatusFailed, 3, "make test"
	gateEqual(t, "red tests", run(gateTurn{}, gateTurn{res: exitedWith(3)}), failed)
	failed.ExitCode, failed.Failed, failed.Details = 0, "", "HEAD has moved to another commit meanwhile"
	gateEqual(t, "another commit", run(gateTurn{do: func(proc.Spec) { w.git("commit", "-q", "--allow-empty", "-m", "third") }}), failed)
	interrupted := loop.FinalEnded{Of: want.Of, Commit: w.git("rev-parse", "HEAD"), Status: gate.StatusFailed, Results: want.Results, Interrupted: true}
	gateEqual(t, "interrupted", run(gateTurn{res: proc.Result{Ended: proc.Killed, Code: -1}}), interrupted)

	w.git("update-ref", "-d", "HEAD")
	if f := run(); f.Status != gate.StatusFailed || !strings.Contains(f.Details, "no commit") || len(w.specs) > 0 {
		t.Errorf("without a commit: %+v", f)
	}
}
