package worktree

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Modes of git's own, and what else a snapshot's entry can be.
const (
	modeFile    = 0o100644
	modeExec    = 0o100755
	modeLink    = 0o120000
	modeGitlink = 0o160000
)

// change is a path that git status tells of.
type change struct {
	path      string
	staged    byte // X: HEAD against the index; '.' the same, '?' for both untracked
	worktree  byte // Y: the index against the work tree
	submodule string
	mode      uint32 // in the work tree; 0 when it is deleted or untracked
	unmerged  bool
}

func (c change) untracked() bool { return c.worktree == '?' }

// nested is an untracked repository inside the work tree.
func (c change) nested() bool { return c.untracked() && strings.HasSuffix(c.path, "/") }

// own reports whether a path is superloop's.
func own(path string) bool {
	return strings.Contains("/"+path+"/", "/.superloop/")
}

// status lists what differs from HEAD or the index or is untracked, sorted by path. It is one call of git.
func (r *Repo) status(ctx context.Context) ([]change, error) {
	out, err := r.read(ctx, "status", "--porcelain=v2", "-z", "--untracked-files=all", "--ignored=no", "--no-renames", "--ignore-submodules=none")
	return parsed(out, err, parseStatus, "reading the status of "+r.Top)
}

// parseStatus reads the output of git status --porcelain=v2 -z.
func parseStatus(out []byte) ([]change, error) {
	var list []change
	for len(out) > 0 {
		var rec []byte
		rec, out, _ = bytes.Cut(out, []byte{0})
		if len(rec) == 0 || rec[0] == '#' || rec[0] == '!' {
			continue
		}
		// How many fields stand before the path, and which is the mode in the work tree.
		fields := map[byte][2]int{'1': {8, 5}, '2': {9, 5}, 'u': {10, 6}, '?': {1, 0}}[rec[0]]
		parts := strings.SplitN(string(rec), " ", fields[0]+1)
		good := fields[0] > 0 && len(parts) == fields[0]+1
		if good && rec[0] == '2' { // a rename, which was not asked for: the old name follows
			_, out, _ = bytes.Cut(out, []byte{0})
		}
		c := change{path: parts[len(parts)-1], staged: '?', worktree: '?', unmerged: rec[0] == 'u'}
		if good && rec[0] != '?' {
			m, err := strconv.ParseUint(parts[fields[1]], 8, 32)
			if good = err == nil && len(parts[1]) == 2; good {
				c.staged, c.worktree, c.submodule, c.mode = parts[1][0], parts[1][1], parts[2], uint32(m)
			}
		}
		if !good {
			return nil, fmt.Errorf("git status printed the record %q", rec)
		}
		if !own(strings.TrimSuffix(c.path, "/")) {
			list = append(list, c)
		}
	}
	slices.SortFunc(list, func(a, b change) int { return strings.Compare(a.path, b.path) })
	return list, nil
}

// index lists the files of the index, sorted by path; a path with a conflict is left out. It is one call of git.
func (r *Repo) index(ctx context.Context) ([]entry, error) {
	out, err := r.read(ctx, "ls-files", "--stage", "-z")
	return parsed(out, err, parseIndex, "listing the files of "+r.Top)
}

// parsed is what parse finds in the output of a git that ended with err; doing stands before each error.
func parsed[T any](out []byte, err error, parse func([]byte) ([]T, error), doing string) (list []T, _ error) {
	if err == nil {
		list, err = parse(out)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	return list, nil
}

// parseIndex reads the output of git ls-files --stage -z: for each file "mode object stage<TAB>path".
func parseIndex(out []byte) ([]entry, error) {
	list := make([]entry, 0, bytes.Count(out, []byte{0}))
	sorted := true
	for len(out) > 0 {
		var rec []byte
		rec, out, _ = bytes.Cut(out, []byte{0})
		meta, path, ok := bytes.Cut(rec, []byte{'\t'})
		if !ok || len(meta) < 6+1+40+1+1 || meta[6] != ' ' || meta[len(meta)-2] != ' ' {
			return nil, fmt.Errorf("git ls-files printed the record %q", rec)
		}
		if meta[len(meta)-1] != '0' {
			continue
		}
		mode, err := strconv.ParseUint(string(meta[:6]), 8, 32)
		object := meta[7 : len(meta)-2]
		e := entry{path: string(path), mode: uint32(mode)}
		if err == nil && hex.DecodedLen(len(object)) <= len(e.sum) {
			_, err = hex.Decode(e.sum[:], object)
		} else {
			err = hex.ErrLength
		}
		if err != nil {
			return nil, fmt.Errorf("git ls-files printed the record %q", rec)
		}
		if own(e.path) {
			continue
		}
		sorted = sorted && (len(list) == 0 || list[len(list)-1].path < e.path)
		list = append(list, e)
	}
	if !sorted {
		slices.SortFunc(list, byPath)
	}
	return list, nil
}
