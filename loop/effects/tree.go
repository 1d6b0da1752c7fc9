package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"go.uber.org/zap"

	"github.com/superloop/superloop/loop/worktree"
)

// treeFacts are what the driver knows of the work tree between two effects.
type treeFacts struct {
	last    worktree.Snapshot // the newest snapshot
	first   worktree.Snapshot // that before the iteration
	known   bool              // first and last are set
	changed []string          // paths changed since first, as the last look found
	// branch is the work tree's branch, asked for once in an iteration.
	branch   string
	branchOf int
}

// lookAtTree takes a snapshot and returns its signature. Snapshots are kept
// under their signature, so that a step that is done again after a crash
// compares with the same one.
func (d *driver) lookAtTree(ctx context.Context) (string, error) {
	if err := d.loadTrees(); err != nil {
		return "", err
	}
	// A look at the tree is short and belongs to what was just recorded, so a
	// supervisor that has to leave still takes it.
	snap, err := d.repo.SnapshotSince(context.WithoutCancel(ctx), d.tree.last)
	if err != nil {
		return "", fmt.Errorf("looking at the work tree: %w", err)
	}
	d.tree.last = snap
	changes, _, err := worktree.Filter(worktree.Diff(d.tree.first, snap), d.loop.Stuck.Ignore)
	if err != nil {
		return "", err
	}
	d.tree.changed = worktree.Paths(changes)
	return snap.Signature(), nil
}

// firstSnapshot is the tree before the first role, with what a person had
// changed in it and did not commit.
func (d *driver) firstSnapshot(ctx context.Context) (string, error) {
	ctx = context.WithoutCancel(ctx) // as lookAtTree
	snap, err := d.repo.Snapshot(ctx)
	if err != nil {
		return "", fmt.Errorf("looking at the work tree: %w", err)
	}
	d.tree.first, d.tree.last, d.tree.known = snap, snap, true
	sig := snap.Signature()
	if err := snap.Save(d.o.Disk, d.paths.Tree(sig)); err != nil {
		return "", d.host.Full(err)
	}
	dirty, err := d.repo.Dirty(ctx)
	if err != nil {
		return "", err
	}
	data, err := json.Marshal(baseline{Tree: sig, Dirty: dirty})
	if err != nil {
		return "", err
	}
	if err := d.o.Disk.WriteFile("baseline", d.paths.Baseline(), append(data, '\n'), 0o600); err != nil {
		return "", d.host.Full(err)
	}
	return sig, nil
}

// baseline is what a person's uncommitted work looked like when the loop began:
// it is not the loop's to commit.
type baseline struct {
	Tree  string   `json:"tree"`
	Dirty []string `json:"dirty"`
}

// loadTrees brings the snapshot before the iteration back after a start.
func (d *driver) loadTrees() error {
	if d.tree.known {
		return nil
	}
	first, err := worktree.Load(d.paths.Tree(d.state.Stuck.Tree))
	if err != nil {
		// Lost or damaged by a power cut: the iteration is then compared with the
		// tree as it is now, which can only make the loop look idle once.
		d.log.Warn("the snapshot before this iteration is gone", zap.Error(err))
		if first, err = d.repo.Snapshot(context.Background()); err != nil {
			return fmt.Errorf("looking at the work tree: %w", err)
		}
	}
	d.tree.first, d.tree.last, d.tree.known = first, first, true
	return nil
}

// notOurs are the paths that a person had changed before the loop and that are
// still as they were.
func (d *driver) notOurs() ([]string, error) {
	data, err := os.ReadFile(d.paths.Baseline())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var b baseline
	if err := json.Unmarshal(data, &b); err != nil {
		return nil, fmt.Errorf("reading %s: %w", d.paths.Baseline(), err)
	}
	if len(b.Dirty) == 0 {
		return nil, nil
	}
	then, err := worktree.Load(d.paths.Tree(b.Tree))
	if err != nil {
		// Rather commit nothing of these paths than a person's unfinished work.
		return b.Dirty, nil
	}
	return worktree.Unchanged(then, d.tree.last, b.Dirty), nil
}

// pruneTrees removes the snapshots that nothing refers to any more.
func (d *driver) pruneTrees() error {
	entries, err := os.ReadDir(d.paths.Trees())
	if err != nil {
		return err
	}
	keep := map[string]bool{d.state.Stuck.Tree: true}
	if data, err := os.ReadFile(d.paths.Baseline()); err == nil {
		var b baseline
		if json.Unmarshal(data, &b) == nil {
			keep[b.Tree] = true
		}
	}
	for _, e := range entries {
		if !keep[e.Name()] {
			if err := d.o.Disk.Remove("trees", filepath.Join(d.paths.Trees(), e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return d.host.Full(err)
			}
		}
	}
	return nil
}

// enterWorktree makes the loop's own work tree the place of the work, where the
// configuration asks for one.
func (d *driver) enterWorktree(ctx context.Context) error {
	if !d.loop.Git.Worktree {
		return nil
	}
	dir := filepath.Join(d.paths.Super, "worktrees")
	if err := d.o.Disk.MkdirAll("worktree", dir, 0o755); err != nil {
		return d.host.Full(err)
	}
	// The repository itself must not see its own copy as untracked files.
	ignore := filepath.Join(dir, ".gitignore")
	if _, err := os.Lstat(ignore); errors.Is(err, fs.ErrNotExist) {
		if err := d.o.Disk.WriteFile("worktree", ignore, []byte("*\n"), 0o644); err != nil {
			return d.host.Full(err)
		}
	}
	repo, err := d.repo.AddWorktree(ctx, filepath.Join(dir, d.o.LoopID), "superloop/"+d.o.LoopID)
	if err != nil {
		return fmt.Errorf("making the loop's own work tree: %w", err)
	}
	d.repo, d.host.Repo = repo, repo
	return nil
}
