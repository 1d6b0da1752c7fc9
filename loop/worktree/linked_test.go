package worktree

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// Loops that start together make their work trees together, each as a process of its own would.
func TestAddWorktreeOfTenAtOnce(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.put("a", "1")
	b.commitAll("one")
	errs := make([]error, 10)
	var all sync.WaitGroup
	for i := range errs {
		r := b.open()
		all.Go(func() {
			name := fmt.Sprint("x", i)
			_, errs[i] = r.AddWorktree(t.Context(), filepath.Join(b.dir, ".superloop/worktrees", name), "superloop/"+name)
		})
	}
	all.Wait()
	for i, err := range errs {
		must(t, err)
		if _, err := os.Stat(filepath.Join(b.dir, ".superloop/worktrees", fmt.Sprint("x", i), "a")); err != nil {
			t.Error(err)
		}
	}
}

func TestAddWorktree(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	b := newBox(t)
	r := b.open()
	at := filepath.Join(b.dir, ".superloop/worktrees/my loop")
	if _, err := r.AddWorktree(ctx, at, "superloop/x"); !errors.Is(err, ErrUnborn) {
		t.Errorf("without a commit: %v", err)
	}
	b.put("a", "1")
	b.commitAll("one")
	before := snap(t, r)
	w, err := r.AddWorktree(ctx, at, "superloop/x")
	must(t, err)
	equal(t, "top", resolved(w.Top), resolved(at))
	if !strings.Contains(w.GitDir, "/.git/worktrees/") {
		t.Errorf("git dir: %s", w.GitDir)
	}
	branch, err := w.Branch(ctx)
	if branch != "superloop/x" || err != nil {
		t.Errorf("branch: %q %v", branch, err)
	}
	equal(t, "files", diff(before, snap(t, w)), "")
	equal(t, "the main one does not see it", diff(before, snap(t, r)), "")

	// Work there, and find it again.
	b.in(".superloop/worktrees/my loop").put("b", "2")
	res := commit(t, w, request(1))
	again, err := r.AddWorktree(ctx, at, "superloop/x")
	must(t, err)
	head, err := again.Head(ctx)
	if head != res.SHA || err != nil {
		t.Errorf("head: %s %v", head, err)
	}
	must(t, os.WriteFile(filepath.Join(w.GitDir, "index.lock"), nil, 0o644))
	b.in(".superloop/worktrees/my loop").put("c", "3")
	if _, err := w.Commit(ctx, request(2)); !errors.Is(err, ErrBusy) || !strings.Contains(err.Error(), "worktrees") {
		t.Errorf("its own lock: %v", err)
	}
	must(t, os.Remove(filepath.Join(w.GitDir, "index.lock")))
	// From within the linked one as well.
	if _, err := w.AddWorktree(ctx, at, "superloop/x"); err != nil {
		t.Errorf("from itself: %v", err)
	}

	if _, err := r.AddWorktree(ctx, at, "other"); err == nil || !strings.Contains(err.Error(), "on superloop/x and not on other") {
		t.Errorf("another branch: %v", err)
	}
	if _, err := r.AddWorktree(ctx, filepath.Join(b.dir, "w2"), "superloop/x"); err == nil {
		t.Error("one branch in two work trees")
	}
	if _, err := r.AddWorktree(ctx, filepath.Join(b.dir, "w2"), "-bad name"); err == nil {
		t.Error("a bad name for a branch")
	}
	b.put("occupied/file", "")
	if _, err := r.AddWorktree(ctx, filepath.Join(b.dir, "occupied"), "y"); err == nil {
		t.Error("a directory with files in it was taken")
	}

	known, err := r.linkedAt(ctx, at)
	must(t, err)
	_, err = r.git.Admin(ctx, "worktree", "remove", "--force", known.path)
	must(t, err)
	if known, err = r.linkedAt(ctx, at); known != nil || err != nil {
		t.Errorf("it is known: %v %v", known, err)
	}
	if _, err := os.Stat(at); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it is there: %v", err)
	}
	// The branch stayed, and is checked out.
	w, err = r.AddWorktree(ctx, at, "superloop/x")
	must(t, err)
	if head, _ := w.Head(ctx); head != res.SHA {
		t.Errorf("the branch was made anew: %s", head)
	}
}

func TestAddWorktreeAfterACrash(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	b := newBox(t)
	b.put("a", "1")
	b.commitAll("one")
	r := b.open()
	at := filepath.Join(b.dir, "w")
	_, err := r.AddWorktree(ctx, at, "x")
	must(t, err)
	otherDir := filepath.Join(b.dir, "other")
	_, err = r.AddWorktree(ctx, otherDir, "y")
	must(t, err)

	// The directory is gone, and so is another one, which may only be unmounted.
	must(t, os.RemoveAll(at))
	must(t, os.RemoveAll(otherDir))
	w, err := r.AddWorktree(ctx, at, "x")
	must(t, err)
	equal(t, "files", len(snap(t, w).entries), 1)
	if !strings.Contains(b.git("worktree", "list", "--porcelain"), otherDir) {
		t.Error("another work tree was pruned")
	}

	// The checkout was cut off: git marks it while it works.
	must(t, os.WriteFile(filepath.Join(w.GitDir, "locked"), []byte("initializing"), 0o644))
	must(t, os.Remove(filepath.Join(at, "a")))
	w, err = r.AddWorktree(ctx, at, "x")
	must(t, err)
	equal(t, "files", len(snap(t, w).entries), 1)
	if _, err := os.Stat(filepath.Join(w.GitDir, "locked")); !errors.Is(err, os.ErrNotExist) {
		t.Error("it is still marked as unfinished")
	}

	// An operator's lock is respected, and the work tree used.
	b.git("worktree", "lock", "--reason", "mine", at)
	_, err = r.AddWorktree(ctx, at, "x")
	must(t, err)
	must(t, os.RemoveAll(at))
	if _, err := r.AddWorktree(ctx, at, "x"); err == nil {
		t.Error("a locked work tree was removed")
	}
}
