package effects

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/superloop/superloop/internal/door"
	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/journal"
	"github.com/superloop/superloop/loop/layout"
	"github.com/superloop/superloop/loop/result"
	"github.com/superloop/superloop/loop/worktree"
	"github.com/superloop/superloop/roles"
)

// Results writes result.md when a loop has ended.
type Results struct{ *Host }

// Write writes result.md, and returns its short form. What it cannot find out of the repository stands in the file as not known; a journal that cannot
// be read is an error.
func (r *Results) Write(ctx context.Context, s loop.State) ([]string, error) {
	main, err := worktree.OpenEnv(ctx, r.Paths.Repo, r.Paths.Git(), r.Env())
	if err != nil {
		main = nil // ResultOf says it
	}
	res, ok, err := ResultOf(ctx, r.Disk, r.Paths, main, r.Settings().Loop.Git.Worktree)
	if err != nil || !ok {
		return nil, r.Full(err)
	}
	if res.RunID != s.RunID {
		return nil, fmt.Errorf("writing result.md: the journal is of run %s, and the loop of run %s", res.RunID, s.RunID)
	}
	return res.Short(), r.Host.Write("result.md", res.Markdown())
}

// ResultOf returns the result of the last run of a loop, with what the repository says of it. main is the repository, nil
// if it cannot be opened; own says that the loop has a work tree of its own. ok is false if the loop has not run yet.
func ResultOf(ctx context.Context, disk durable.Disk, p layout.Paths, main *worktree.Repo, own bool) (res result.Result, ok bool, err error) {
	fold := result.New()
	if err := journal.Read(p.Events(), 0, fold.Add); errors.Is(err, fs.ErrNotExist) {
		return res, false, nil
	} else if err != nil {
		return res, false, fmt.Errorf("reading %s: %w", p.Events(), err)
	}
	if res, ok = fold.Result(); !ok {
		return res, false, nil
	}
	if res.Work, err = workOf(ctx, disk, p, main, own); durable.IsFull(err) {
		return res, true, err
	} else if err != nil {
		res.Work.Unknown = err.Error()
	}
	if file, ok := roles.Deliverable(res.Plan.PromiseRole()); ok {
		res.Work.Review, _, _ = door.Ends(p.File(file), result.MaxReview, 0) // a report that is not there says nothing
	}
	return res, true, nil
}

// workOf finds out what a run has changed and on which branch that is. With an error it returns what else it knows.
func workOf(ctx context.Context, disk durable.Disk, p layout.Paths, main *worktree.Repo, own bool) (w result.Work, err error) {
	w.Own = own
	c, repo, err := Changes(ctx, disk, p, main, own)
	if repo != nil {
		w.Branch, _ = repo.Branch(ctx) // "": HEAD is detached, or git cannot tell
	}
	if own && w.Branch == "" {
		w.Branch = p.OwnBranch()
	}
	if err != nil {
		return w, err
	}
	for _, f := range c.Files {
		w.Changes = append(w.Changes, result.Change(f))
	}
	return w, c.Close()
}

// Why the changes of a run are not known.
var (
	ErrNoRepository = errors.New("the repository cannot be opened")
	ErrNoOwnTree    = errors.New("the loop's own work tree is gone")
	ErrNoBaseline   = errors.New("superloop no longer has the tree from before the first role; the next superloop run --fresh takes it anew")
)

// comparison begins the names of the directories of comparisons. One that is older than comparisonLasts was left by a
// process that was killed.
const (
	comparison      = "compare-"
	comparisonLasts = time.Hour
)

// sweepComparisons removes what killed processes have left of comparisons. What it cannot remove is tried again at the next
// comparison.
func sweepComparisons(disk durable.Disk, private string) {
	entries, _ := os.ReadDir(private)
	for _, e := range entries {
		if info, err := e.Info(); err == nil && e.IsDir() && strings.HasPrefix(e.Name(), comparison) && time.Since(info.ModTime()) > comparisonLasts {
			_ = disk.RemoveAll("compare", filepath.Join(private, e.Name()))
		}
	}
}

// Changes compares the work tree of a loop with that before the first role of its run. It also returns that work tree, nil
// if there is none. The caller closes the comparison.
func Changes(ctx context.Context, disk durable.Disk, p layout.Paths, main *worktree.Repo, own bool) (*worktree.Compared, *worktree.Repo, error) {
	if main == nil {
		return nil, nil, ErrNoRepository
	}
	repo := main
	if own {
		linked, err := main.Linked(ctx, p.OwnTree())
		if err != nil {
			return nil, nil, err
		} else if linked == nil {
			return nil, nil, ErrNoOwnTree
		}
		repo = linked
	}
	var b baseline
	if err := door.ReadState(p.Baseline(), maxBaseline, "what an operator had changed before the loop began", "superloop diff does not work", &b); errors.Is(err, fs.ErrNotExist) || err == nil && b.Tree == "" {
		return nil, repo, ErrNoBaseline
	} else if err != nil {
		return nil, repo, err
	}
	then, err := worktree.Load(p.Tree(b.Tree))
	if errors.Is(err, fs.ErrNotExist) {
		err = ErrNoBaseline
	}
	if err != nil {
		return nil, repo, err
	}
	now, err := repo.SnapshotSince(ctx, then)
	if err != nil {
		return nil, repo, err
	}
	// The daemon may compare for several programs at once, and for the report of the loop.
	sweepComparisons(disk, p.Private)
	dir := filepath.Join(p.Private, comparison+rand.Text())
	c, err := repo.Compare(ctx, disk, dir, p.Kept(), then, now)
	return c, repo, err
}
