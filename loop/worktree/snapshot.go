package worktree

import (
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/superloop/superloop/internal/durable"
)

const (
	maxHashed    = 8 << 20 // bytes, beyond which a file that git has no hash of is known by its size and time
	maxUntracked = 5000    // untracked files, beyond which all of them are known by their size and time
	maxWalked    = 50_000  // files of a repository inside the work tree that are looked at

	// Marks beside a mode, for what sum is when it is no object id.
	byStat   = 1 << 30 // size and modification time
	byDigest = 1 << 29 // digest of a directory, see digestDir
)

var errGrew = errors.New("the file changed while it was read")

// entry is one path of a tree: its mode and the id of its content. It is small: a tree may have 100,000 files.
type entry struct {
	path string
	mode uint32
	sum  [32]byte // an object id (SHA-1 leaves the rest zero), or as marked in mode
}

func byPath(a, b entry) int { return strings.Compare(a.path, b.path) }

// stamp is when a file that differed from the index was last changed.
type stamp struct {
	path  string
	size  int64
	mtime int64 // nanoseconds since the epoch
}

// Snapshot is what is in a work tree: every tracked or untracked file that is not ignored, with its mode and the id of
// its content. The zero Snapshot is an empty tree. It is a value and never changes.
type Snapshot struct {
	entries []entry // sorted by path
	dirty   []stamp // of the files that were hashed here, sorted by path
}

// Snapshot takes a snapshot of the work tree with two calls of git.
//
// A file has the id that git knows for it or, when it was changed since it was staged, or never was, the one that git
// would give it. So a commit, by whomever, changes nothing as long as the files stay the same. Three kinds of paths
// have no such id: a file of more than 8 MiB, and every untracked file when there are more than 5,000, is its size and
// time; a submodule is its commit, with the sizes and times of its files when they differ from it; a repository that is
// not a submodule is the sizes and times of its files. Where a filter (line ends, LFS) stores another content than the
// file's, the id changes once, when it is committed; SnapshotSince has neither flaw.
func (r *Repo) Snapshot(ctx context.Context) (Snapshot, error) {
	return r.SnapshotSince(ctx, Snapshot{})
}

// SnapshotSince is Snapshot by someone who has an earlier one of the same tree: a file that git had no id for then, and
// that is the same now, keeps the one that it has there, so that committing it makes no difference for certain.
func (r *Repo) SnapshotSince(ctx context.Context, prev Snapshot) (Snapshot, error) {
	index, err := r.index(ctx)
	if err != nil {
		return Snapshot{}, err
	}
	changes, err := r.status(ctx)
	if err != nil {
		return Snapshot{}, err
	}
	untracked := 0
	for _, c := range changes {
		if c.untracked() {
			untracked++
		}
	}
	var snap Snapshot
	var over []entry
	gone := map[string]bool{}
	for _, c := range changes {
		if !c.untracked() && !c.unmerged && c.worktree == '.' {
			continue // staged as it is; the index has it
		}
		gone[c.path] = true
		if err := ctx.Err(); err != nil {
			return Snapshot{}, err
		}
		e, st, ok := r.look(ctx, c, untracked > maxUntracked)
		if !ok {
			continue
		}
		over = append(over, e)
		if st.path != "" {
			snap.dirty = append(snap.dirty, st)
		}
	}
	snap.entries = merge(index, over, gone)
	r.carry(&snap, prev)
	return snap, nil
}

// merge replaces in a sorted list what is gone by what came over it.
func merge(index, over []entry, gone map[string]bool) []entry {
	if len(gone) == 0 {
		return index
	}
	out := make([]entry, 0, len(index)+len(over))
	for _, e := range index {
		for len(over) > 0 && over[0].path < e.path {
			out, over = append(out, over[0]), over[1:]
		}
		if !gone[e.path] {
			out = append(out, e)
		}
	}
	return append(out, over...)
}

// look gives a changed path its entry; ok is false when nothing is there.
func (r *Repo) look(ctx context.Context, c change, statOnly bool) (e entry, st stamp, ok bool) {
	e.path = c.path
	file := filepath.Join(r.Top, c.path)
	if c.nested() {
		e.mode, e.sum = byDigest, digestDir(file)
		return e, st, true
	}
	info, err := os.Lstat(file)
	if err != nil {
		return e, st, false
	}
	e.mode = c.mode
	switch kind := info.Mode(); {
	case kind.IsDir() && c.mode == modeGitlink:
		e.mode, e.sum = r.submodule(ctx, c, file)
		return e, st, true
	case kind&os.ModeSymlink != 0:
		e.mode = modeLink
	case !kind.IsRegular():
		return e, st, false
	case e.mode != modeFile && e.mode != modeExec:
		e.mode = modeFile
		if kind&0o100 != 0 {
			e.mode = modeExec
		}
	}
	st = stamp{c.path, info.Size(), info.ModTime().UnixNano()}
	if e.mode == modeLink {
		target, err := os.Readlink(file)
		if err == nil {
			e.sum, err = r.blob(strings.NewReader(target), int64(len(target)))
		}
		return e, st, err == nil
	}
	if info.Size() <= maxHashed && (!statOnly || !c.untracked()) {
		if e.sum, err = r.hashFile(file, info.Size()); err == nil {
			return e, st, true
		}
	}
	e.mode, e.sum = e.mode|byStat, [32]byte{}
	binary.BigEndian.PutUint64(e.sum[0:], uint64(st.size))
	binary.BigEndian.PutUint64(e.sum[8:], uint64(st.mtime))
	return e, st, true
}

// carry gives files that git has by now, under an id of its own, the ids that prev has for them, when their content is
// still the same: read once more, or by size and time where prev knows no more than that.
func (r *Repo) carry(snap *Snapshot, prev Snapshot) {
	known := make(map[string]bool, len(snap.dirty))
	for _, st := range snap.dirty {
		known[st.path] = true
	}
	for _, st := range prev.dirty {
		i, had := prev.find(st.path)
		j, has := snap.find(st.path)
		if !had || !has || known[st.path] {
			continue
		}
		was, e := prev.entries[i], &snap.entries[j]
		file := filepath.Join(r.Top, st.path)
		info, err := os.Lstat(file)
		if was == *e || err != nil || info.Size() != st.size {
			continue
		}
		if was.mode&byStat != 0 {
			if info.ModTime().UnixNano() != st.mtime {
				continue
			}
		} else if sum, err := r.hashFile(file, st.size); err != nil || sum != was.sum {
			continue
		}
		e.mode, e.sum = e.mode|was.mode&byStat, was.sum
		snap.dirty = append(snap.dirty, st)
	}
	slices.SortFunc(snap.dirty, func(a, b stamp) int { return strings.Compare(a.path, b.path) })
}

func (s Snapshot) find(path string) (int, bool) {
	return slices.BinarySearchFunc(s.entries, path, func(e entry, p string) int { return strings.Compare(e.path, p) })
}

// at is the entry of a path, the zero one when there is none.
func (s Snapshot) at(path string) entry {
	if i, ok := s.find(path); ok {
		return s.entries[i]
	}
	return entry{}
}

// blob is the id that git gives to content of that size, read as a stream.
func (r *Repo) blob(content io.Reader, size int64) (sum [32]byte, err error) {
	h := sha1.New()
	if r.sha256 {
		h = sha256.New()
	}
	fmt.Fprintf(h, "blob %d\x00", size)
	n, err := io.Copy(h, io.LimitReader(content, size+1))
	if err == nil && n != size {
		err = errGrew
	}
	if err == nil {
		h.Sum(sum[:0])
	}
	return sum, err
}

// hashFile is the id that git gives to a file's content.
func (r *Repo) hashFile(file string, size int64) (sum [32]byte, err error) {
	f, err := durable.Open(file)
	if err != nil {
		return sum, err
	}
	defer f.Close()
	return r.blob(f, size)
}

// submodule is the commit that a submodule is at; if it has changes of its own, a digest of that and of its files.
func (r *Repo) submodule(ctx context.Context, c change, dir string) (mode uint32, sum [32]byte) {
	// Without a repository of its own at dir, git must not find the one around it.
	in := Repo{Top: dir, env: append(slices.Clone(r.env), "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir))}
	head, err := in.Head(ctx)
	if raw, bad := hex.DecodeString(head); err == nil && bad == nil {
		copy(sum[:], raw)
	}
	if !strings.ContainsAny(c.submodule, "MU") && sum != [32]byte{} {
		return modeGitlink, sum
	}
	files := digestDir(dir)
	return modeGitlink | byDigest, sha256.Sum256(append(sum[:], files[:]...))
}

// digestDir is a digest over path, mode, size and time of the files below dir, without .git; at most maxWalked.
func digestDir(dir string) (sum [32]byte) {
	h := sha256.New()
	n := 0
	_ = filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(dir, p)
		switch {
		case err != nil:
			fmt.Fprintf(h, "unreadable %q\n", rel)
			return nil
		case d.Name() == ".git" || d.Name() == ".superloop":
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		case d.IsDir():
			return nil
		}
		if n++; n > maxWalked {
			return fs.SkipAll
		}
		if info, err := d.Info(); err == nil {
			fmt.Fprintf(h, "%q %o %d %d\n", filepath.ToSlash(rel), info.Mode(), info.Size(), info.ModTime().UnixNano())
		}
		return nil
	})
	h.Sum(sum[:0])
	return sum
}
