package effects

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/superloop/superloop/internal/door"
	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/layout"
	"github.com/superloop/superloop/loop/worktree"
)

// Tree gives performers snapshots of the work tree. State.Stuck.Tree names the snapshot that was taken before the
// iteration; its file lies in the private directory. The snapshots that Tree holds in memory are a cache. One goroutine
// at a time may use a Tree.
type Tree struct {
	*Host
	first worktree.Snapshot // the snapshot before the iteration
	of    string            // the name of first in the state
	known bool              // first and last are set
	last  worktree.Snapshot // the newest snapshot
	sig   string            // the signature of last
	seen  sight
}

// Look takes a snapshot and returns its signature. It has three seconds for this when ctx has ended: the snapshot belongs
// to the fact that the supervisor records before it leaves.
func (t *Tree) Look(ctx context.Context, s loop.State) (string, error) {
	ctx, stop := Linger(ctx)
	defer stop()
	if err := t.load(ctx, s); err != nil {
		return "", err
	}
	snap, err := t.Repo.SnapshotSince(ctx, t.last)
	if err != nil {
		return "", fmt.Errorf("looking at the work tree: %w", err)
	}
	t.last, t.sig = snap, snap.Signature()
	return t.sig, nil
}

// Branch returns the branch of the work tree, or "" if HEAD is detached or git cannot tell.
func (t *Tree) Branch(ctx context.Context) string {
	branch, _ := t.Repo.Branch(ctx)
	return branch
}

// diff returns the paths that differ between the snapshot before the iteration and the newest snapshot.
func (t *Tree) diff() (counted, ignored []string, err error) {
	return worktree.Filter(worktree.Diff(t.first, t.last), t.Settings().Loop.Stuck.Ignore)
}

// iteration returns the paths that changed in the iteration, and the signature of the tree at its end. The newest
// snapshot was taken with the check of the promise. After a restart in between, iteration takes another one.
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

// keep saves the newest snapshot, which becomes the snapshot before the next iteration when the journal says so. keep
// removes the snapshots that nothing refers to any more, so that their number does not grow with the iterations.
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
		if keep[e.Name()] || e.IsDir() { // superloop makes no directory there
			continue
		}
		if err := t.Disk.Remove("trees", filepath.Join(t.Paths.Trees(), e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return t.Full(err)
		}
	}
	return nil
}

// First takes the snapshot before the first role and returns its signature. It also notes the uncommitted changes that
// the operator had made by then.
func (t *Tree) First(ctx context.Context) (string, error) {
	ctx, stop := Linger(ctx)
	defer stop()
	snap, err := t.Repo.Snapshot(ctx)
	if err != nil {
		return "", fmt.Errorf("looking at the work tree: %w", err)
	}
	sig := snap.Signature()
	t.first, t.of, t.last, t.sig, t.known = snap, sig, snap, sig, true
	if err := snap.Save(t.Disk, t.Paths.Tree(sig)); err != nil {
		return "", t.Full(err)
	}
	if err := t.Full(t.Repo.Keep(ctx, t.Disk, t.Paths.Kept(), snap)); durable.IsFull(err) {
		return "", err
	} else if err != nil {
		t.Log.Warn("superloop diff will not show what uncommitted files held before the loop", zap.Error(err))
	}
	dirty, err := t.Repo.Dirty(ctx)
	if err != nil {
		return "", err
	}
	return sig, t.note(baseline{Tree: sig, Dirty: dirty})
}

// TestsWrote takes a snapshot after the tests before the first role, and notes the paths that they have changed. Such a
// path is no work of the loop when the tests change it again.
func (t *Tree) TestsWrote(ctx context.Context, s loop.State) error {
	if _, err := t.Look(ctx, s); err != nil {
		return err
	}
	b, err := t.baseline()
	if err != nil {
		return err
	}
	b.Wrote = worktree.Diff(t.first, t.last)
	if len(b.Wrote) > maxWrote {
		b.Wrote = nil
	}
	return t.note(b)
}

// maxWrote bounds the paths that TestsWrote notes. Of tests that change more it notes none.
const maxWrote = 10_000

// baseline names the operator's uncommitted changes at the start of the loop, which the loop must not commit, and the
// paths that the tests before the first role wrote.
type baseline struct {
	Tree  string   `json:"tree"`
	Dirty []string `json:"dirty"`
	Wrote []string `json:"tests_wrote,omitempty"`
}

func (t *Tree) note(b baseline) error {
	data, err := json.Marshal(b)
	if err != nil {
		return err
	}
	return t.Full(t.Disk.WriteFile("baseline", t.Paths.Baseline(), append(data, '\n'), 0o600))
}

const maxBaseline = 16 << 20 // bytes

// baseline reads the file that First wrote. It returns an empty baseline if there is none.
func (t *Tree) baseline() (b baseline, err error) {
	err = door.ReadState(t.Paths.Baseline(), maxBaseline, "what an operator had changed before the loop began", "the next commit takes that in", &b)
	if errors.Is(err, fs.ErrNotExist) {
		return b, nil
	}
	return b, err
}

// work is what the loop has done since the run began, outside of the ignore list, the spec, the checklists, and what the
// tests before the first role had written.
type work struct {
	verdict string // loop.Gates.Change
	changed int    // how many paths differ between the tree before the first role and the newest snapshot
	tests   string // loop.Gates.TestChange
}

// work returns the work of the run. The spec and the checklists say what is to be done, so a change of them is no work.
func (t *Tree) work(ctx context.Context) (work, error) {
	lost := work{verdict: loop.ChangeUnknown, tests: loop.ChangeUnknown}
	b, err := t.baseline()
	if err != nil {
		return lost, nil //nolint:nilerr // WhyMissing says what an operator does about a lost file
	}
	then, err := worktree.Load(t.Paths.Tree(b.Tree))
	if b.Tree == "" || err != nil {
		return lost, nil //nolint:nilerr // as above
	}
	l := t.Settings().Loop
	ignore := append(slices.Clone(l.Stuck.Ignore), "/.superloop/**")
	for _, glob := range l.Checklists {
		ignore = append(ignore, "/"+strings.TrimPrefix(glob, "./"))
	}
	paths, _, err := worktree.Filter(worktree.Diff(then, t.last), ignore)
	if err != nil {
		return work{}, err
	}
	paths = slices.DeleteFunc(paths, func(p string) bool { return p == l.SpecFile || slices.Contains(b.Wrote, p) })
	if len(paths) == 0 {
		return work{verdict: loop.ChangeNone, tests: loop.ChangeNone}, nil
	}
	done := work{verdict: loop.ChangeOK, changed: len(paths), tests: loop.ChangeNone}
	if slices.ContainsFunc(paths, t.holdsTests) {
		done.tests = loop.ChangeOK
	}
	real, err := t.Repo.BeyondSpace(ctx, then, t.last, paths)
	if !real {
		done.verdict, done.tests = loop.ChangeSpace, loop.ChangeNone
	}
	return done, err
}

// load loads the snapshot that was taken before the iteration of s.
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
		// The file is lost, or a power failure has damaged it. The gate then compares the iteration with the current
		// tree. The worst effect is that the loop looks idle once.
		t.Log.Warn("the snapshot before this iteration is gone", zap.Error(err))
		if first, err = t.Repo.Snapshot(ctx); err != nil {
			return fmt.Errorf("looking at the work tree: %w", err)
		}
	}
	t.first, t.of, t.last, t.sig, t.known = first, want, first, first.Signature(), true
	return nil
}

// notOurs returns the paths that the operator had changed before the loop began and that have not changed since.
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
		// Rather leave all these paths out of the commit than commit the operator's unfinished work.
		return b.Dirty, nil
	}
	return worktree.Unchanged(then, t.last, b.Dirty), nil
}

// maxIgnore bounds .superloop/.gitignore, in bytes. git reads all of it into memory.
const maxIgnore = 1 << 20

// Ignore makes git ignore the files that superloop writes, because they grow with every iteration. It leaves an
// existing .superloop/.gitignore as it is, unless the file is larger than maxIgnore.
func (t *Tree) Ignore() error {
	file := filepath.Join(t.Paths.Super, ".gitignore")
	if info, err := os.Lstat(file); err == nil && (!info.Mode().IsRegular() || info.Size() <= maxIgnore) {
		return nil
	} else if err == nil {
		if err := t.setAside("gitignore", file); err != nil {
			return err
		}
	}
	return t.Full(t.Disk.WriteFile("gitignore", file, []byte(layout.Gitignore), 0o644))
}
