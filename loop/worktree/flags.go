package worktree

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// Marks in the mode of an entry of the index that git was told not to look at.
const (
	assumed = 1 << 28 // assume-unchanged
	skipped = 1 << 27 // skip-worktree, which a sparse checkout sets for files that it leaves out
)

// unwatchedTag returns the mark for a tag that git ls-files -v prints: a small letter for assume-unchanged, S for
// skip-worktree, s for both.
func unwatchedTag(tag byte) uint32 {
	switch {
	case tag == 'S' || tag == 's':
		return skipped
	case 'a' <= tag && tag <= 'z':
		return assumed
	}
	return 0
}

// changes returns the index and the paths that differ from HEAD or from the index, or are untracked, each sorted by
// path. A flag that tells git not to look at a file has no effect: anybody who can write the index can set one. Only a
// file that a sparse checkout has left out counts as it is in the index. inside says that a submodule with changes of its
// own differs, too.
func (r *Repo) changes(ctx context.Context, inside bool) (index []entry, list []change, err error) {
	var indexErr error
	var other sync.WaitGroup
	other.Go(func() { index, indexErr = r.index(ctx) }) // half of the time of both
	list, err = r.status(ctx)
	other.Wait()
	if err = cmp.Or(indexErr, err); err != nil {
		return nil, nil, err
	}
	if inside {
		list = r.submodules(ctx, index, list)
	}
	var more []change
	for i := range index {
		e := &index[i]
		mark := e.mode & (assumed | skipped)
		if mark == 0 {
			continue
		}
		e.mode &^= mark
		if at, listed := slices.BinarySearchFunc(list, e.path, changePath); listed && list[at].worktree != '.' {
			continue
		} else if c, differs := r.unwatched(ctx, *e, mark); differs && listed {
			list[at].worktree, list[at].mode = c.worktree, c.mode
		} else if differs {
			more = append(more, c)
		}
	}
	if len(more) > 0 {
		list = append(list, more...)
		slices.SortFunc(list, func(a, b change) int { return strings.Compare(a.path, b.path) })
	}
	return index, list, nil
}

// unwatched compares a file that git does not look at with its entry in the index.
func (r *Repo) unwatched(ctx context.Context, e entry, mark uint32) (c change, differs bool) {
	c = change{path: e.path, staged: '.', worktree: 'M', submodule: "N...", mode: e.mode}
	info, err := os.Lstat(filepath.Join(r.Top, e.path))
	switch {
	case err != nil:
		c.worktree, c.mode = 'D', 0
		return c, mark == assumed
	case e.mode == modeGitlink:
		return c, false
	case info.Mode().IsRegular():
		c.mode = modeFile
		if info.Mode()&0o100 != 0 {
			c.mode = modeExec
		}
	}
	now, _, ok := r.look(ctx, c, false)
	return c, !ok || now != e
}

func changePath(c change, path string) int { return strings.Compare(c.path, path) }
