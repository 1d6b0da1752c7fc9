package worktree

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// forked is a repository on main with a branch superloop/x that has one commit of its own, made in a linked work tree.
func forked(t *testing.T) (box, *Repo, *Repo) {
	t.Helper()
	b := newBox(t)
	b.put("a", "1\n")
	b.put("shared", "1\n2\n3\n4\n5\n6\n7\n8\n9\n")
	b.commitAll("one")
	r := b.open()
	w, err := r.AddWorktree(t.Context(), filepath.Join(b.dir, ".superloop/worktrees/x"), "superloop/x")
	must(t, err)
	b.in(".superloop/worktrees/x").put("b", "2\n")
	b.in(".superloop/worktrees/x").put("shared", "one\n2\n3\n4\n5\n6\n7\n8\n9\n")
	commit(t, w, request(1))
	return b, r, w
}

// state is what a merge that is refused must not change.
func (b box) state() string {
	return b.git("rev-parse", "HEAD") + b.git("status", "--porcelain") + b.git("ls-files", "-s") + b.git("diff")
}

func TestMergeFastForward(t *testing.T) {
	t.Parallel()
	b, r, w := forked(t)
	b.put("mine", "untracked\n")
	m, err := r.PlanMerge(t.Context(), "superloop/x")
	must(t, err)
	tip, err := w.Head(t.Context())
	must(t, err)
	if !m.FastForward || m.Nothing || m.Tip != tip || m.Into != b.git("branch", "--show-current") || len(m.Paths) != 2 {
		t.Fatalf("%+v", m)
	}
	sha, err := r.Merge(t.Context(), m, false, "")
	must(t, err)
	equal(t, "head", sha, tip)
	equal(t, "HEAD", b.git("rev-parse", "HEAD"), tip)
	equal(t, "status", b.git("status", "--porcelain", "--", "a", "b", "shared"), "")
	equal(t, "b", b.git("show", ":b"), "2")
	m, err = r.PlanMerge(t.Context(), "superloop/x")
	must(t, err)
	equal(t, "again", m.Nothing, true)
}

func TestMergeSquash(t *testing.T) {
	t.Parallel()
	b, r, _ := forked(t)
	for _, diverged := range []bool{false, true} {
		if diverged {
			b.git("reset", "-q", "--hard", "ORIG_HEAD")
			b.put("shared", "1\n2\n3\n4\n5\n6\n7\n8\nnine\n")
			b.commitAll("two")
		}
		before := b.git("rev-parse", "HEAD")
		m, err := r.PlanMerge(t.Context(), "superloop/x")
		must(t, err)
		equal(t, "fast-forward", m.FastForward, !diverged)
		sha, err := r.Merge(t.Context(), m, true, "The work\n\nof the loop\n")
		must(t, err)
		equal(t, "HEAD", b.git("rev-parse", "HEAD"), sha)
		equal(t, "parents", b.git("log", "-1", "--format=%P %s"), before+" The work")
		equal(t, "ORIG_HEAD", b.git("rev-parse", "ORIG_HEAD"), before)
		equal(t, "status", b.git("status", "--porcelain", "--", ":!.superloop"), "")
		again, err := r.PlanMerge(t.Context(), "superloop/x")
		must(t, err)
		equal(t, "nothing is left", again.Nothing, true)
	}
	data, err := os.ReadFile(filepath.Join(b.dir, "shared"))
	must(t, err)
	equal(t, "both changes", string(data), "one\n2\n3\n4\n5\n6\n7\n8\nnine\n")
}

// A merge that is refused changes nothing, and says why.
func TestMergeRefuses(t *testing.T) {
	t.Parallel()
	hooks := func(b box, name string) {
		b.put(".git/hooks/"+name, "#!/bin/sh\ntouch hooked\nexit 1\n")
		must(t, os.Chmod(filepath.Join(b.dir, ".git/hooks", name), 0o755))
	}
	for name, c := range map[string]struct {
		make func(b box)
		why  string
		path string
		is   error
	}{
		"a changed file":          {func(b box) { b.put("a", "changed\n") }, UnfitDirty, "a", nil},
		"a staged file":           {func(b box) { b.put("new", "n\n"); b.git("add", "new") }, UnfitDirty, "new", nil},
		"a file said to be equal": {func(b box) { b.git("update-index", "--assume-unchanged", "a"); b.put("a", "hidden\n") }, UnfitDirty, "a", nil},
		"a conflict":              {func(b box) { b.put("shared", "eins\n2\n3\n4\n5\n6\n7\n8\n9\n"); b.commitAll("two") }, UnfitConflict, "shared", nil},
		"an untracked file":       {func(b box) { b.put("b", "mine\n") }, UnfitUntracked, "b", nil},
		"an ignored file":         {func(b box) { b.put(".git/info/exclude", "b\n"); b.put("b", "mine\n") }, UnfitUntracked, "b", nil},
		"superloop's own files": {func(b box) {
			w := b.in(".superloop/worktrees/x")
			w.put(".superloop/config.json", "{}")
			w.git("add", "-f", ".superloop/config.json")
			w.git("commit", "-q", "-m", "an agent's policy")
		}, UnfitSteers, ".superloop/config.json", nil},
		"a filter": {func(b box) { b.put(".git/info/attributes", "b filter=lfs\n") }, UnfitFiltered, "b", nil},
		"no branch": {func(b box) {
			b.git("worktree", "remove", "--force", ".superloop/worktrees/x")
			b.git("branch", "-D", "superloop/x")
		}, "", "", ErrNoBranch},
		"no branch checked out": {func(b box) { b.git("checkout", "-q", "--detach") }, "", "", ErrDetached},
		"a merge under way":     {func(b box) { b.put(".git/MERGE_HEAD", b.git("rev-parse", "HEAD")+"\n") }, "", "", ErrBusy},
	} {
		b, r, _ := forked(t)
		c.make(b)
		hooks(b, "post-checkout")
		hooks(b, "reference-transaction")
		before := b.state()
		m, err := r.PlanMerge(t.Context(), "superloop/x")
		if err == nil {
			_, err = r.Merge(t.Context(), m, false, "")
		}
		unfit, _ := errors.AsType[*UnfitError](err)
		switch {
		case c.is != nil && !errors.Is(err, c.is), c.is == nil && (unfit == nil || unfit.Why != c.why || len(unfit.Paths) != 1 || unfit.Paths[0] != c.path):
			t.Errorf("%s: %v", name, err)
		}
		equal(t, name, b.state(), before)
		if _, err := os.Stat(filepath.Join(b.dir, "hooked")); err == nil {
			t.Errorf("%s: a hook ran", name)
		}
	}
}

func TestPushToADirectory(t *testing.T) {
	t.Parallel()
	b, r, _ := forked(t)
	remote := filepath.Join(t.TempDir(), "remote.git")
	b.git("init", "-q", "--bare", remote)
	b.git("remote", "add", "origin", remote)
	b.git("remote", "add", "other", "x")
	b.git("config", "remote.other.pushurl", "ext::sh -c touch% hooked")
	must(t, os.MkdirAll(filepath.Join(b.dir, ".git/hooks"), 0o755))
	b.put(".git/hooks/pre-push", "#!/bin/sh\ntouch hooked\n")
	must(t, os.Chmod(filepath.Join(b.dir, ".git/hooks/pre-push"), 0o755))
	all, err := r.Remotes(t.Context())
	must(t, err)
	equal(t, "origin", all["origin"], remote)
	tip, err := r.Tip(t.Context(), "superloop/x")
	must(t, err)
	must(t, r.Push(t.Context(), all["origin"], tip, "superloop/x"))
	equal(t, "pushed", b.git("--git-dir="+remote, "rev-parse", "superloop/x"), tip)
	if err := r.Push(t.Context(), all["other"], tip, "superloop/x"); err == nil {
		t.Error("a program was taken for an address")
	}
	if _, err := os.Stat(filepath.Join(b.dir, "hooked")); err == nil {
		t.Error("a hook or a program ran")
	}
}
