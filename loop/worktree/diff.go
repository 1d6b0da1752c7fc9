package worktree

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
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
			if x[0] != y[0] {
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
		if a.at(p) == b.at(p) {
			out = append(out, p)
		}
	}
	return out
}

// Signature is a SHA-256, in hex, over the paths, modes and ids: two snapshots
// have the same one exactly when Diff finds nothing.
func (s Snapshot) Signature() string {
	h := sha256.New()
	w := bufio.NewWriterSize(h, 8<<10) // a hash costs a call for every few bytes
	for i := range s.entries {
		e := &s.entries[i]
		w.Write(binary.BigEndian.AppendUint32(w.AvailableBuffer(), e.mode))
		w.Write(e.sum[:])
		w.WriteString(e.path)
		w.WriteByte(0)
	}
	w.Flush()
	return hex.EncodeToString(h.Sum(nil))
}
