package worktree

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	maxSurveyed = 1_000_000       // files that a Survey looks at
	maxSeen     = 500_000         // files and directories that a Survey keeps one by one
	maxContent  = 1 << 20         // bytes; a larger file counts by its size, times and inode
	maxListed   = 5000            // names in a directory; the files of a larger one count by their sizes, times and inodes
	maxDeep     = 500             // directories in one another
	maxOutside  = 20_000          // files that a Survey looks at outside of the work tree
	surveyTime  = 2 * time.Minute // bounds a Survey, because a file system can hang
	// A file system stamps files by a clock that ticks: at every 10 ms or more often if it keeps fractions of a second, at
	// every two seconds or more often if it does not. Each bound is longer than the tick.
	fineTick   = int64(100 * time.Millisecond)
	coarseTick = int64(2500 * time.Millisecond)
)

// ErrTooManyFiles means that a work tree has more files than a Survey looks at, or that they lie too deep.
var ErrTooManyFiles = fmt.Errorf("the work tree has more than %d files, or %d outside of directories of installed packages, or %d directories in one another",
	maxSurveyed, maxSeen, maxDeep)

// Survey is superloop's own look at the files of a work tree: all that tests could read there, whatever git tracks,
// ignores or is told about them. The zero Survey has no file. A Survey never changes.
type Survey struct {
	files []seen // in the order of byWalk
}

// seen is one file of a Survey, or, with a slash at the end of its path, the files of one directory of a bulk rule.
type seen struct {
	path  string
	sum   [32]byte // over kind, permissions, and content or times
	times times
	read  int64 // when sum was made from the content, in nanoseconds since the epoch; 0 for a sum without content
}

// times identify the state of a file without its content. A program without special rights cannot set ctime.
type times struct {
	size, mtime, ctime int64
	inode              uint64
}

// settled reports whether a change of the file after the time read, in nanoseconds since the epoch, shows in its times.
func (t times) settled(read int64) bool {
	tick := fineTick
	if t.ctime%int64(time.Second) == 0 { // the file system keeps no fractions
		tick = coarseTick
	}
	return t.ctime < read-tick
}

// SurveyOptions say what a Survey looks at.
type SurveyOptions struct {
	// Prev is an earlier Survey of the same tree. A file whose size, times and inode are the same is not read again.
	Prev Survey
	// Tree is a recent Snapshot, which knows what git tracks.
	Tree Snapshot
	// Outputs are globs, in the syntax of Filter, of files that do not count although no rule of outputs.txt says so.
	Outputs []string
	// Sources leaves out the directories of bulk rules, which take the most time. Such a Survey serves as the first one of
	// Settle, if the files in these directories are the commands' own.
	Sources bool
	// Home is the user's home directory. If it is in the work tree, the untracked files and directories in it whose names
	// begin with a dot do not count: tools and agents keep their state there.
	Home string
	// State is superloop's state directory, which does not count.
	State string
}

// Survey looks at every file below Top, without git. What does not count is the git directory, superloop's own directory
// at the top, and what outputs.txt says of files that git does not track: results, caches and compiled copies.
//
// A file of at most 1 MiB counts by its content and permissions. A larger one, one in a directory of more than 5,000
// names, and a file in a directory of a bulk rule (node_modules) counts by its size, times and inode. A link counts by its
// target, and what it leads to outside of the work tree by size, times and inode, up to 20,000 files in all.
//
// It opens nothing but regular files and directories, follows no link while it opens them, and ends within two minutes.
func (r *Repo) Survey(ctx context.Context, o SurveyOptions) (Survey, error) {
	const doing = "looking at the files of the work tree"
	globs, err := compileIgnore(o.Outputs)
	if err != nil {
		return Survey{}, err
	}
	tracked := o.Tree.index
	if tracked == nil {
		if tracked, err = r.index(ctx); err != nil {
			return Survey{}, err
		}
	}
	ctx, stop := context.WithTimeout(ctx, surveyTime)
	defer stop()
	below := func(dir string) string {
		rel, err := filepath.Rel(r.Top, resolved(dir))
		if dir == "" || err != nil || !filepath.IsLocal(rel) {
			return ".." // no path in the work tree
		}
		return filepath.ToSlash(rel)
	}
	w := &walker{home: below(o.Home), state: below(o.State), ctx: ctx, top: r.Top, tracked: tracked, globs: globs, sources: o.Sources, rules: theOutputs(), prev: o.Prev.files, now: time.Now().UnixNano(), left: maxSurveyed, beyond: maxOutside,
		files: make([]seen, 0, len(o.Prev.files)+64)}
	done := make(chan error, 1)
	go func() { done <- w.walk() }() // its own goroutine, because a call to a file system cannot be ended
	select {
	case err = <-done:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		if !errors.Is(err, ErrTooManyFiles) {
			err = fmt.Errorf("%s %s: %w", doing, r.Top, err)
		}
		return Survey{}, err
	}
	return Survey{files: w.files}, nil
}

// Signature returns a SHA-256, in hex, over all that counts. Two signatures are the same if and only if Changed finds no
// difference.
func (s Survey) Signature() string {
	h := sha256.New()
	var buf []byte
	for i := range s.files {
		f := &s.files[i]
		buf = append(append(append(buf, f.sum[:]...), f.path...), 0)
		if len(buf) > 8<<10 || i == len(s.files)-1 {
			h.Write(buf)
			buf = buf[:0]
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

// byWalk compares two paths in the order in which a walk meets them: by the names of the path, one after the other.
func byWalk(a, b string) int {
	for i := 0; i < len(a) && i < len(b); i++ {
		if x, y := a[i], b[i]; x != y {
			switch {
			case x == '/':
				return -1
			case y == '/':
				return 1
			}
			return int(x) - int(y)
		}
	}
	return len(a) - len(b)
}

// differences calls each for every path that differs between a and b. A file that is in one of them only has no path in
// the other.
func differences(a, b Survey, each func(was, is seen)) {
	x, y := a.files, b.files
	for len(x) > 0 || len(y) > 0 {
		switch {
		case len(y) == 0 || len(x) > 0 && byWalk(x[0].path, y[0].path) < 0:
			each(x[0], seen{})
			x = x[1:]
		case len(x) == 0 || byWalk(y[0].path, x[0].path) < 0:
			each(seen{}, y[0])
			y = y[1:]
		default:
			if x[0].sum != y[0].sum {
				each(x[0], y[0])
			}
			x, y = x[1:], y[1:]
		}
	}
}

// Changed returns the paths that differ between a and b, sorted. A path with a slash at the end stands for the files of a
// directory of a bulk rule.
func Changed(a, b Survey) (paths []string) {
	differences(a, b, func(was, is seen) { paths = append(paths, max(was.path, is.path)) })
	slices.Sort(paths)
	return paths
}

// Settle returns the Survey that counts after commands ran between before and after, and the files of others that changed
// or went while they ran.
//
// What the commands made, and what they changed of their own files, counts as it is in after. A file is their own if
// others does not say otherwise. A file of others counts as it was before, because nobody knows whether the commands read
// it before or after the change. It counts as it is in after if it is one of usual: files that changed in an earlier run
// as well.
func Settle(before, after Survey, others func(path string) bool, usual map[string]bool) (counts Survey, changed []string) {
	old := map[string]seen{}
	var gone []seen
	differences(before, after, func(was, is seen) {
		if was.path == "" || !others(was.path) {
			return
		}
		if changed = append(changed, was.path); usual[was.path] {
			return
		}
		if is.path == "" {
			gone = append(gone, was)
		} else {
			old[was.path] = was
		}
	})
	if len(old)+len(gone) == 0 {
		return after, changed
	}
	out := slices.Clone(after.files)
	for i, f := range out {
		if was, ok := old[f.path]; ok {
			out[i] = was
		}
	}
	out = append(out, gone...)
	slices.SortFunc(out, func(a, b seen) int { return byWalk(a.path, b.path) })
	return Survey{files: out}, changed
}

// Tracks reports whether git tracks a path. A Snapshot from Load does not know, and says that it does.
func (s Snapshot) Tracks(path string) bool {
	_, tracked := slices.BinarySearchFunc(s.index, path, pathOf)
	return tracked || s.index == nil
}

// Holds reports whether git tracks a path, or a commit of the tree would have it.
func (s Snapshot) Holds(path string) bool {
	_, listed := s.find(path)
	return listed || s.Tracks(path)
}

func pathOf(e entry, path string) int { return strings.Compare(e.path, path) }

// add appends the numbers of t to buf.
func (t times) add(buf []byte) []byte {
	for _, n := range []uint64{uint64(t.size), uint64(t.mtime), uint64(t.ctime), t.inode} {
		buf = binary.BigEndian.AppendUint64(buf, n)
	}
	return buf
}
