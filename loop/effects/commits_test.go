package effects

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/loop/worktree"
)

func cancelled(t *testing.T) (context.Context, func()) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	return ctx, stop
}

func (w *gateWorld) commits() *Commits {
	return &Commits{Host: w.host, Tree: &Tree{Host: w.host}}
}

var commitEffect = loop.Effect{ID: "e1", Kind: loop.Commit, Reason: "per_iteration"}

func (w *gateWorld) commit(c *Commits) loop.CommitEnded {
	w.t.Helper()
	fact, err := c.Perform(w.t.Context(), commitEffect, w.state)
	gateMust(w.t, err)
	return fact.(loop.CommitEnded)
}

func TestCommit(t *testing.T) {
	t.Parallel()
	w := newGitWorld(t)
	w.put("draft.txt", "a human's\n")
	w.put("a.txt", "a human's change\n")
	c := w.commits()
	w.begin(c.Tree)
	of := loop.Of{EffectID: "e1"}
	gateEqual(t, "nothing to commit", w.commit(c), loop.CommitEnded{Of: of, Outcome: "skipped", Strategy: "per_iteration", Source: "template", Reason: worktree.SkippedNoChanges})

	w.put("b.txt", "new\n")
	w.put("a.txt", "the loop's change\n")
	w.look(c.Tree)
	f := w.commit(c)
	gateEqual(t, "committed", f, loop.CommitEnded{Of: of, Outcome: "success", SHA: w.git("rev-parse", "HEAD"), Subject: "l: iteration 3", Strategy: "per_iteration", Source: "template"})
	gateEqual(t, "what is in it", w.git("show", "--name-only", "--format=", "HEAD"), "a.txt\nb.txt")
	gateEqual(t, "what a human had begun", w.git("status", "--porcelain"), "?? draft.txt")
	body := w.git("show", "-s", "--format=%B", "HEAD")
	for _, text := range []string{"l: iteration 3\n", "r1", "per_iteration"} {
		if !strings.Contains(body, text) {
			t.Errorf("%q is not in %q", text, body)
		}
	}
	f.Reason = worktree.SkippedAlreadyCommitted
	gateEqual(t, "again, as after a crash", w.commit(c), f)

	w.state.Iteration = 4
	w.put("b.txt", "newer\n")
	w.state.Roles = map[string]loop.RoleResult{"reviewer": {Attempt: 1}}
	w.put("@logs/iter-4/reviewer.last-message.md", "<commit>fix: the very long subject of it\n\nBecause.</commit>")
	w.set.Loop.Git.MaxSubjectLength = 12
	w.set.Loop.Git.PreCommitCommands = nil
	f = w.commit(c)
	if f.Source != "reviewer" || f.Outcome != "success" || len(f.Subject) > 12 || !strings.HasPrefix(f.Subject, "fix: the") || !strings.Contains(w.git("show", "-s", "--format=%B", "HEAD"), "\nBecause.\n") {
		t.Errorf("%+v", f)
	}
	gateEqual(t, "the subject", f.Subject, w.git("show", "-s", "--format=%s", "HEAD"))

	// What cannot be committed does not end the loop.
	w.state.Iteration = 5
	w.put("b.txt", "newest\n")
	gateMust(t, os.WriteFile(filepath.Join(w.host.Repo.GitDir, "index.lock"), nil, 0o644))
	c.Patience = time.Second
	f = w.commit(c)
	if f.Outcome != "failed" || !strings.Contains(f.Reason, "index.lock") || f.SHA+f.Subject != "" {
		t.Errorf("%+v", f)
	}
	gateMust(t, os.Remove(filepath.Join(w.host.Repo.GitDir, "index.lock")))

	// A supervisor that leaves ends the commit that it has begun.
	ctx, stop := cancelled(t)
	defer stop()
	fact, err := c.Perform(ctx, commitEffect, w.state)
	if err != nil || fact.(loop.CommitEnded).Outcome != "success" {
		t.Errorf("%v, %v", fact, err)
	}
}

// After a restart a human's unfinished work is known from the disk.
func TestCommitLeavesWhatIsNotOurs(t *testing.T) {
	t.Parallel()
	w := newGitWorld(t)
	w.put("draft.txt", "a human's\n")
	w.begin(&Tree{Host: w.host})
	w.put("b.txt", "new\n")
	ours := func(want ...string) {
		t.Helper()
		got, err := (&Tree{Host: w.host}).notOurs(t.Context(), w.state)
		gateMust(t, err)
		gateEqual(t, "not ours", got, want)
	}
	ours("draft.txt")
	w.put("draft.txt", "changed by the loop\n")
	tree := &Tree{Host: w.host}
	w.look(tree)
	got, err := tree.notOurs(t.Context(), w.state)
	gateMust(t, err)
	gateEqual(t, "the loop has changed it", got, nil)

	gateMust(t, os.Remove(w.host.Paths.Tree(w.state.Stuck.Tree)))
	ours("draft.txt") // rather too little
	gateMust(t, os.WriteFile(w.host.Paths.Baseline(), []byte(`{"tree":"x","dirty":[]}`), 0o600))
	ours()
	gateMust(t, os.Remove(w.host.Paths.Baseline()))
	ours()
	for _, put := range []func() error{
		func() error { return os.WriteFile(w.host.Paths.Baseline(), []byte("garbage"), 0o600) },
		func() error {
			return errors.Join(os.Remove(w.host.Paths.Baseline()), os.Mkdir(w.host.Paths.Baseline(), 0o700))
		},
		func() error { return os.RemoveAll(w.host.Repo.GitDir) },
	} {
		gateMust(t, put())
		if fact, err := w.commits().Perform(t.Context(), commitEffect, w.state); err == nil || fact != nil {
			t.Errorf("%v, %v", fact, err)
		}
	}
}

func TestCommandsBeforeACommit(t *testing.T) {
	t.Parallel()
	w := newGitWorld(t)
	c := w.commits()
	w.begin(c.Tree)
	w.put("b.txt", "new\n")
	w.set.Loop.Git = config.Git{PreCommitCommands: []string{"lint", "fmt"}}
	e := commitEffect
	e.LimitMS = 60_000
	w.turns = []gateTurn{{out: "bad", res: exitedWith(1)}, {out: "x\n", res: proc.Result{Ended: proc.Killed}}}
	fact, err := c.Perform(t.Context(), e, w.state)
	if err != nil || fact != nil {
		t.Errorf("interrupted: %v, %v", fact, err)
	}
	gateEqual(t, "no commit", w.git("rev-list", "--count", "HEAD"), "1")
	gateEqual(t, "the output", w.file("lint-feedback.txt"), "$ lint\nbad\nexit_code: 1\n\n$ fmt\nx\ninterrupted\n")
	gateEqual(t, "what the loop has left", w.specs[0].Timeout, time.Minute)
	if !slices.Contains(w.specs[0].Env, "SUPERLOOP_ROLE=pre-commit") {
		t.Errorf("%q", w.specs[0].Env)
	}
	w.turns, w.specs = []gateTurn{{res: exitedWith(1)}}, nil
	f := w.commit(c)
	gateEqual(t, "what they say is for the next role", f.Outcome, "success")
	gateEqual(t, "their bound", w.specs[1].Timeout, 10*time.Minute)

	w.put("@logs/iter-3", "in the way")
	w.state.Roles = map[string]loop.RoleResult{"reviewer": {}}
	gateEqual(t, "without a message that can be read", w.commit(c).Source, "template")
	w.host.Environ = []string{"PATH=/nowhere"}
	if fact, err := c.Perform(t.Context(), e, w.state); err == nil || fact != nil {
		t.Errorf("without a shell: %v, %v", fact, err)
	}
}

func TestCommandsBeforeACommitOnAFullDisk(t *testing.T) {
	t.Parallel()
	everyStep(t, func(t *testing.T) (*gateWorld, func() error) {
		w := newGateWorld(t)
		w.set.Loop.Git.PreCommitCommands = []string{"lint"}
		w.turns = []gateTurn{{res: proc.Result{Ended: proc.Killed}}}
		return w, func() error { _, err := w.commits().Perform(t.Context(), commitEffect, w.state); return err }
	}, "lint-feedback:write")
}

// A commit that another git's lock holds up succeeds when the lock is gone.
func TestACommitWaitsForAnotherGit(t *testing.T) {
	t.Parallel()
	w := newGitWorld(t)
	c := w.commits()
	w.begin(c.Tree)
	w.put("b.txt", "new\n")
	w.look(c.Tree)
	lock := filepath.Join(w.host.Repo.GitDir, "index.lock")
	gateMust(t, os.WriteFile(lock, nil, 0o644))
	gone := time.AfterFunc(time.Second, func() { _ = os.Remove(lock) })
	defer gone.Stop()
	if f := w.commit(c); f.Outcome != "success" {
		t.Errorf("%+v", f)
	}
}
