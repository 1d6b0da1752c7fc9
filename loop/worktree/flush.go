package worktree

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/superloop/superloop/internal/durable"
)

// An agent's git flushes few of its writes: objects, refs and the index are in the memory of the system for up to half a
// minute. A commit of superloop leads to them, and so does what superloop says of an iteration. So superloop flushes
// what changed in the git directory since it last did so.

const (
	// unwritten is the time after which every system has written a file by itself.
	unwritten = 10 * time.Minute
	// maxFlush bounds the wait for the disk at the end of a role.
	maxFlush = 10 * time.Second
	// coarse is more than the step of the clock that stamps files.
	coarse = 2 * time.Second
)

// durability is what a Repo knows of its own flushes.
type durability struct {
	mu   sync.Mutex
	last time.Time // what was written before is on the disk; zero before the first flush
	head string    // the commit of HEAD at the last flush, or ""
}

// Flush makes HEAD survive a power cut: its objects, the refs, the index, and the files of the work tree that commits
// since the last Flush changed. Otherwise such a file could be empty after a power cut, and the next commit would take
// that for work. If nothing was written since the last Flush, it only looks at directories.
func (r *Repo) Flush(ctx context.Context) error {
	r.durable.mu.Lock()
	defer r.durable.mu.Unlock()
	begin := time.Now()
	objects, refs := r.newObjects(), r.newRefs()
	if len(objects)+len(refs) == 0 {
		r.durable.last = begin
		return nil
	}
	head, err := r.Head(ctx)
	if err != nil {
		return err
	}
	if err := r.flush(ctx, objects, head, nil); err != nil {
		return err
	}
	if err := durable.OS().Flush("git-flush", refs); err != nil {
		return err
	}
	r.durable.last = begin
	return nil
}

// FlushAll is Flush for everything in the work tree, committed or not, ignored or not, if the system can do that. It
// waits for the disk until ctx ends, and for at most ten seconds.
func (r *Repo) FlushAll(ctx context.Context) error {
	if r.git == nil {
		return fmt.Errorf("%w: %s", ErrNotRepo, r.Top)
	}
	type result struct {
		done bool
		err  error
	}
	begin, ended := time.Now(), make(chan result, 1)
	go func() {
		done, err := durable.OS().FlushSystems("tree-flush", []string{r.Top, r.git.Common})
		ended <- result{done, err}
	}()
	select {
	case res := <-ended:
		if !res.done && res.err == nil {
			return r.Flush(ctx)
		}
		if res.err == nil {
			r.durable.mu.Lock()
			r.durable.last, r.durable.head = begin, ""
			r.durable.mu.Unlock()
		}
		return res.err
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(maxFlush):
		return fmt.Errorf("the disk of %s needs more than %v to write what it got", r.Top, maxFlush)
	}
}

// flushBefore makes everything survive a power cut to which a commit leads: the objects, the files of the work tree at
// paths, and those that differ between HEAD at the last flush and head, the parent of the commit.
func (r *Repo) flushBefore(ctx context.Context, head string, paths []string) error {
	r.durable.mu.Lock()
	defer r.durable.mu.Unlock()
	return r.flush(ctx, r.newObjects(), head, paths)
}

// flushRef makes it survive a power cut that HEAD leads to sha, a commit that flushBefore has flushed.
func (r *Repo) flushRef(sha string) error {
	r.durable.mu.Lock()
	defer r.durable.mu.Unlock()
	r.durable.head = sha
	return durable.OS().Flush("git-flush", r.newRefs())
}

func (r *Repo) flush(ctx context.Context, objects []string, head string, paths []string) error {
	if was := r.durable.head; was != "" && head != "" && was != head {
		paths = append(slices.Clone(paths), r.between(ctx, was, head)...)
	}
	err := durable.OS().Flush("git-flush", append(objects, withDirs(r.Top, paths)...))
	if err == nil {
		r.durable.head = head
	}
	return err
}

// since returns the time before which everything that git wrote is on the disk.
func (r *Repo) since() time.Time {
	if r.durable.last.IsZero() {
		return time.Now().Add(-unwritten)
	}
	return r.durable.last.Add(-coarse)
}

// between returns the files that differ between two commits, relative to the top.
func (r *Repo) between(ctx context.Context, from, to string) []string {
	out, err := r.read(ctx, "diff-tree", "-r", "-z", "--name-only", "--no-renames", from, to)
	if err != nil || len(out) == 0 {
		return nil // one of them is damaged, and then there is nothing to keep
	}
	return strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
}

// withDirs returns the files below top and the directories that lead to them, each once.
func withDirs(top string, paths []string) (all []string) {
	seen := map[string]bool{}
	for _, p := range paths {
		for at := filepath.Join(top, p); len(at) >= len(top) && !seen[at]; at = filepath.Dir(at) {
			seen[at] = true
			all = append(all, at)
		}
	}
	return all
}

// newObjects returns the loose objects, packs and directories of objects that changed since the last Flush.
func (r *Repo) newObjects() (paths []string) {
	since := r.since()
	top := filepath.Join(r.git.Common, "objects")
	dirs, _ := os.ReadDir(top)
	for _, d := range dirs {
		dir := filepath.Join(top, d.Name())
		if !d.IsDir() || !changedSince(dir, since) {
			continue
		}
		files, _ := os.ReadDir(dir)
		for _, f := range files {
			if p := filepath.Join(dir, f.Name()); f.Type().IsRegular() && changedSince(p, since) {
				paths = append(paths, p)
			}
		}
		paths = append(paths, dir)
	}
	if len(paths) > 0 {
		paths = append(paths, top)
	}
	return paths
}

// newRefs returns the refs, logs of refs, indexes and their directories that changed since the last Flush.
func (r *Repo) newRefs() (paths []string) {
	since := r.since()
	for _, dir := range unique(r.GitDir, r.git.Common) {
		n := len(paths)
		for _, name := range []string{"HEAD", "index", "packed-refs"} {
			if p := filepath.Join(dir, name); changedSince(p, since) {
				paths = append(paths, p)
			}
		}
		for _, name := range []string{"refs", "logs", "reftable"} {
			_ = filepath.WalkDir(filepath.Join(dir, name), func(p string, d fs.DirEntry, err error) error {
				if err == nil && (d.IsDir() || d.Type().IsRegular()) && changedSince(p, since) {
					paths = append(paths, p)
				}
				return nil
			})
		}
		if len(paths) > n {
			paths = append(paths, dir)
		}
	}
	return paths
}

func unique(a, b string) []string {
	if a == b {
		return []string{a}
	}
	return []string{a, b}
}

// changedSince reports whether a file or directory changed since a time. Nobody can set the time that it looks at.
func changedSince(path string, since time.Time) bool {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return !errors.Is(err, fs.ErrNotExist)
	}
	return !time.Unix(st.Ctim.Unix()).Before(since)
}
