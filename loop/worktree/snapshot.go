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

	"github.com/superloop/superloop/internal/door"
)

const (
	maxHashed    = 8 << 20 // bytes; a larger file without an object id of git is identified by its size and time
	maxUntracked = 5000    // number of untracked files; if there are more, all of them are identified by size and time
	maxWalked    = 50_000  // files that superloop looks at in a repository inside the work tree

	// Marks in the mode of an entry, for a sum that is not an object id.
	byStat   = 1 << 30 // sum is the size and the modification time
	byDigest = 1 << 29 // sum is the digest of a directory, see digestDir
)

var errGrew = errors.New("the file changed while it was read")

// entry is one path of a tree, with its mode and the id of its content. It is small, because a tree may have 100,000
// files.
type entry struct {
	path string
	mode uint32
	sum  [32]byte // an object id (for SHA-1 the last 12 bytes are zero), or as the marks in mode say
}

func byPath(a, b entry) int { return strings.Compare(a.path, b.path) }

// stamp holds the size and modification time of a file that differed from the index.
type stamp struct {
	path  string
	size  int64
	mtime int64 // nanoseconds since the epoch
}

// Snapshot lists the files of a work tree: every tracked file, and every untracked file that is not ignored, each with
// its mode and the id of its content. The zero Snapshot is an empty tree. A Snapshot never changes.
type Snapshot struct {
	entries []entry // sorted by path
	dirty   []stamp // the files that superloop hashed itself, sorted by path
	index   []entry // what git tracks, sorted by path; nil in a Snapshot from Load
}

// Snapshot takes a snapshot of the work tree with two calls of git, and more for submodules.
//
// The id of a file is the object id that git has for it. If the file was changed since it was staged, or never was
// staged, it is the object id that git would give it. So a commit does not change the snapshot as long as the files
// stay the same. Three kinds of paths have another id. A file of more than 8 MiB, and every untracked file if there are
// more than 5,000, is identified by its size and time. A submodule is identified by its commit, and by the sizes and
// times of its files if they differ from that commit. A repository that is not a submodule is identified by the sizes
// and times of its files. If git stores other line ends than those of the file, the id changes once, with the commit. No
// filter runs, so a file of LFS that was written since it was staged has the id of its own content. SnapshotSince avoids this change, and the change when a large or untracked file is committed.
func (r *Repo) Snapshot(ctx context.Context) (Snapshot, error) {
	return r.SnapshotSince(ctx, Snapshot{})
}

// SnapshotSince takes a snapshot like Snapshot, for a caller with an earlier snapshot prev of the same tree. A file for
// which git had no id in prev, and which has not changed since, keeps its id of prev. So a commit of that file does not
// change the snapshot.
func (r *Repo) SnapshotSince(ctx context.Context, prev Snapshot) (Snapshot, error) {
	index, changes, err := r.changes(ctx, true)
	if err != nil {
		return Snapshot{}, err
	}
	untracked := 0
	for _, c := range changes {
		if c.untracked() {
			untracked++
		}
	}
	snap := Snapshot{index: index}
	var over []entry
	gone := map[string]bool{}
	for _, c := range changes {
		if !c.untracked() && !c.unmerged && c.worktree == '.' {
			continue // the index has the same content
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

// merge returns the sorted list index without the paths in gone and with the entries of over, sorted.
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

// look makes the entry of a changed path. ok is false if no file is at that path.
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

// carry copies ids from prev to snap, for the files that have an object id of git by now and had none in prev, if their
// content is still the same. carry compares the content by a hash, or by size and time if prev has only these.
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

// at returns the entry of a path, or the zero entry if there is none.
func (s Snapshot) at(path string) entry {
	if i, ok := s.find(path); ok {
		return s.entries[i]
	}
	return entry{}
}

// blob returns the object id that git gives to content of that size. It reads the content as a stream.
func (r *Repo) blob(content io.Reader, size int64) (sum [32]byte, err error) {
	h := sha1.New()
	if r.git != nil && r.git.SHA256 {
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

// hashFile returns the object id that git gives to the content of a file.
func (r *Repo) hashFile(file string, size int64) (sum [32]byte, err error) {
	f, _, err := door.Open(file)
	if err != nil {
		return sum, err
	}
	defer f.Close()
	return r.blob(f, size)
}

// submodule returns the id of a submodule: its current commit, or, if it has changes of its own, a digest of that
// commit and of its files.
func (r *Repo) submodule(ctx context.Context, c change, dir string) (mode uint32, sum [32]byte) {
	if git, err := r.git.Inside(ctx, dir); err == nil {
		head, err := at(git).Head(ctx)
		if raw, bad := hex.DecodeString(head); err == nil && bad == nil {
			copy(sum[:], raw)
		}
	}
	if !strings.ContainsAny(c.submodule, "MU") && sum != [32]byte{} {
		return modeGitlink, sum
	}
	files := digestDir(dir)
	return modeGitlink | byDigest, sha256.Sum256(append(sum[:], files[:]...))
}

// digestDir returns a digest of the path, mode, size and time of at most maxWalked files below dir. It skips the
// entries named .git and .superloop.
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
