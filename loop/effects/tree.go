package effects

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"go.uber.org/zap"

	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/layout"
	"github.com/superloop/superloop/loop/worktree"
)

// Tree gives performers snapshots of the work tree. State.Stuck.Tree names the snapshot before the iteration, which
// lies in the private directory; what Tree keeps in memory is a cache. It is for one goroutine at a time.
type Tree struct {
	*Host
	first worktree.Snapshot // before the iteration
	of    string            // what the state calls first
	known bool              // first and last are set
	last  worktree.Snapshot // the newest look
	sig   string            // the signature of last
}

// Look takes a snapshot and returns its signature. A look is short and belongs to what was just recorded, so a
// supervisor that has to leave still takes it.
func (t *Tree) Look(ctx context.Context, s loop.State) (string, error) {
	if err := t.load(ctx, s); err != nil {
		return "", err
	}
	snap, err := t.Repo.SnapshotSince(context.WithoutCancel(ctx), t.last)
	if err != nil {
		return "", fmt.Errorf("looking at the work tree: %w", err)
	}
	t.last, t.sig = snap, snap.Signature()
	return t.sig, nil
}

// Branch is the work tree's branch; "" when HEAD is detached, or git cannot tell.
func (t *Tree) Branch(ctx context.Context) string {
	branch, _ := t.Repo.Branch(ctx)
	return branch
}

// diff is what changed from the tree before the iteration to the last look.
func (t *Tree) diff() (counted, ignored []string, err error) {
	return worktree.Filter(worktree.Diff(t.first, t.last), t.Settings().Loop.Stuck.Ignore)
}

// iteration is what changed in the iteration, and the signature of the tree at its end. The look was taken with the
// promise; after a restart in between it is taken again.
func (t *Tree) iteration(ctx context.Context, s loop.State) (counted, ignored []string, sig string, err error) {
	if err := t.load(ctx, s); err != nil {
		return nil, nil, "", err
	}
	if t.sig != s.Tree {
		if _, err := t.Look(ctx, s); err != nil {
			return nil, nil, "", err
		}
	}
	counted, ignored, err = t.diff()
	return counted, ignored, t.sig, err
}

// keep saves the last look, which is the tree before the next iteration as soon as the journal says so. Snapshots that
// nothing refers to any more are removed, so that their number does not grow with the iterations.
func (t *Tree) keep(s loop.State) error {
	if t.sig == s.Stuck.Tree {
		return nil
	}
	if err := t.last.Save(t.Disk, t.Paths.Tree(t.sig)); err != nil {
		return t.Full(err)
	}
	return t.prune(s.Stuck.Tree, t.sig)
}

// Prune removes the snapshots that the state does not refer to.
func (t *Tree) Prune(s loop.State) error { return t.prune(s.Stuck.Tree) }

func (t *Tree) prune(used ...string) error {
	entries, err := os.ReadDir(t.Paths.Trees())
	if err != nil {
		return fmt.Errorf("removing old snapshots of the tree: %w", err)
	}
	keep := map[string]bool{}
	for _, sig := range used {
		keep[sig] = true
	}
	if b, err := t.baseline(); err == nil {
		keep[b.Tree] = true
	}
	for _, e := range entries {
		if keep[e.Name()] {
			continue
		}
		if err := t.Disk.Remove("trees", filepath.Join(t.Paths.Trees(), e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return t.Full(err)
		}
	}
	return nil
}

// First is the signature of the tree before the first role. It also notes what a human had changed by then and did not
// commit.
func (t *Tree) First(ctx context.Context) (string, error) {
	ctx = context.WithoutCancel(ctx) // as Look
	snap, err := t.Repo.Snapshot(ctx)
	if err != nil {
		return "", fmt.Errorf("looking at the work tree: %w", err)
	}
	sig := snap.Signature()
	t.first, t.of, t.last, t.sig, t.known = snap, sig, snap, sig, true
	if err := snap.Save(t.Disk, t.Paths.Tree(sig)); err != nil {
		return "", t.Full(err)
	}
	dirty, err := t.Repo.Dirty(ctx)
	if err != nil {
		return "", err
	}
	data, err := json.Marshal(baseline{Tree: sig, Dirty: dirty})
	if err != nil {
		return "", err
	}
	if err := t.Disk.WriteFile("baseline", t.Paths.Baseline(), append(data, '\n'), 0o600); err != nil {
		return "", t.Full(err)
	}
	return sig, nil
}

// baseline is what a human's uncommitted work looked like when the loop began: it is not the loop's to commit.
type baseline struct {
	Tree  string   `json:"tree"`
	Dirty []string `json:"dirty"`
}

// baseline reads what First noted; an empty one if there is none.
func (t *Tree) baseline() (b baseline, err error) {
	data, err := os.ReadFile(t.Paths.Baseline())
	if errors.Is(err, fs.ErrNotExist) {
		return b, nil
	}
	if err != nil {
		return b, err
	}
	if err := json.Unmarshal(data, &b); err != nil {
		return b, fmt.Errorf("reading %s: %w", t.Paths.Baseline(), err)
	}
	return b, nil
}

// load brings the snapshot before the state's iteration back.
func (t *Tree) load(ctx context.Context, s loop.State) error {
	want := s.Stuck.Tree
	switch {
	case t.known && t.of == want:
		return nil
	case t.known && t.sig == want: // another iteration has begun
		t.first, t.of = t.last, want
		return nil
	}
	first, err := worktree.Load(t.Paths.Tree(want))
	if err != nil {
		// Lost or damaged by a power cut: the iteration is then compared with the tree as it is now, which can only
		// make the loop look idle once.
		t.Log.Warn("the snapshot before this iteration is gone", zap.Error(err))
		if first, err = t.Repo.Snapshot(context.WithoutCancel(ctx)); err != nil {
			return fmt.Errorf("looking at the work tree: %w", err)
		}
	}
	t.first, t.of, t.last, t.sig, t.known = first, want, first, first.Signature(), true
	return nil
}

// notOurs are the paths that a human had changed before the loop and that are still as they were.
func (t *Tree) notOurs(ctx context.Context, s loop.State) ([]string, error) {
	if err := t.load(ctx, s); err != nil {
		return nil, err
	}
	b, err := t.baseline()
	if err != nil || len(b.Dirty) == 0 {
		return nil, err
	}
	then, err := worktree.Load(t.Paths.Tree(b.Tree))
	if err != nil {
		// Rather commit nothing of these paths than a human's unfinished work.
		return b.Dirty, nil
	}
	return worktree.Unchanged(then, t.last, b.Dirty), nil
}

// Ignore makes sure that git does not walk through what superloop itself writes, which grows with every iteration. A
// .superloop/.gitignore that is there stays as it is, whatever is in it.
func (t *Tree) Ignore() error {
	file := filepath.Join(t.Paths.Super, ".gitignore")
	if exists(file) {
		return nil
	}
	return t.Full(t.Disk.WriteFile("gitignore", file, []byte(layout.Gitignore), 0o644))
}
