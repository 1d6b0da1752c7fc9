package worktree

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
)

// Kind says how a path differs between two snapshots.
type Kind string

// The kinds of a Change.
const (
	Added    Kind = "added"
	Modified Kind = "modified"
	Deleted  Kind = "deleted"
)

// Change is one path that differs between two snapshots.
type Change struct {
	Path string
	Kind Kind
}

// Paths are the paths of changes.
func Paths(changes []Change) []string {
	out := make([]string, 0, len(changes))
	for _, c := range changes {
		out = append(out, c.Path)
	}
	return out
}

// Diff lists what changed from a to b, sorted by path.
func Diff(a, b Snapshot) []Change {
	var out []Change
	x, y := a.entries, b.entries
	for len(x) > 0 || len(y) > 0 {
		switch {
		case len(y) == 0 || len(x) > 0 && x[0].path < y[0].path:
			out = append(out, Change{x[0].path, Deleted})
			x = x[1:]
		case len(x) == 0 || y[0].path < x[0].path:
			out = append(out, Change{y[0].path, Added})
			y = y[1:]
		default:
			if x[0].mode != y[0].mode || x[0].sum != y[0].sum {
				out = append(out, Change{x[0].path, Modified})
			}
			x, y = x[1:], y[1:]
		}
	}
	return out
}

// Unchanged returns those of the paths that are the same in a and b, a path
// that is in neither included. With what was dirty when a loop began, a from
// then and b from now, it is what a commit has to leave alone.
func Unchanged(a, b Snapshot, paths []string) []string {
	var out []string
	for _, p := range paths {
		i, inA := a.find(p)
		j, inB := b.find(p)
		if inA != inB || inA && (a.entries[i].mode != b.entries[j].mode || a.entries[i].sum != b.entries[j].sum) {
			continue
		}
		out = append(out, p)
	}
	return out
}

// Signature is a SHA-256, in hex, over the paths, modes and ids: two snapshots
// have the same one exactly when Diff finds nothing.
func (s Snapshot) Signature() string {
	h := sha256.New()
	w := buffered{h: h}
	var mode [4]byte
	for i := range s.entries {
		e := &s.entries[i]
		binary.BigEndian.PutUint32(mode[:], e.mode)
		w.write(mode[:])
		w.write(e.sum[:])
		w.buf = append(w.buf, e.path...)
		w.buf = append(w.buf, 0)
	}
	w.flush()
	return hex.EncodeToString(h.Sum(nil))
}

// buffered saves the hash a call for every few bytes.
type buffered struct {
	h   hash.Hash
	buf []byte
}

func (w *buffered) write(p []byte) {
	if len(w.buf) > 8<<10 {
		w.flush()
	}
	w.buf = append(w.buf, p...)
}

func (w *buffered) flush() {
	w.h.Write(w.buf)
	w.buf = w.buf[:0]
}
