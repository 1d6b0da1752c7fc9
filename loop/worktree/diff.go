package worktree

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"path"
	"slices"
	"strings"
)

// Diff returns the paths that differ between a and b (added, modified or deleted), sorted.
func Diff(a, b Snapshot) (paths []string) {
	x, y := a.entries, b.entries
	for len(x) > 0 || len(y) > 0 {
		switch {
		case len(y) == 0 || len(x) > 0 && x[0].path < y[0].path:
			paths, x = append(paths, x[0].path), x[1:]
		case len(x) == 0 || y[0].path < x[0].path:
			paths, y = append(paths, y[0].path), y[1:]
		default:
			if x[0] != y[0] {
				paths = append(paths, x[0].path)
			}
			x, y = x[1:], y[1:]
		}
	}
	return paths
}

// Unchanged returns those of the paths that are the same in a and b, or are in neither. If paths were dirty at the
// start of a loop, a is the snapshot from then and b a current one, it returns the paths that a commit has to leave
// alone.
func Unchanged(a, b Snapshot, paths []string) (out []string) {
	for _, p := range paths {
		if a.at(p) == b.at(p) {
			out = append(out, p)
		}
	}
	return out
}

// Signature returns a SHA-256, in hex, over the paths, modes and ids. Two signatures are the same if and only if Diff
// finds no difference.
func (s Snapshot) Signature() string {
	h := sha256.New()
	var buf []byte // collects entries, because each call of the hash costs time
	for i := range s.entries {
		e := &s.entries[i]
		buf = binary.BigEndian.AppendUint32(buf, e.mode)
		buf = append(append(append(buf, e.sum[:]...), e.path...), 0)
		if len(buf) > 8<<10 || i == len(s.entries)-1 {
			h.Write(buf)
			buf = buf[:0]
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Filter splits changed paths into those that count and those that the globs ignore.
//
// The globs have the syntax of .gitignore: "*.log" matches a name at any depth, "dir/" matches a directory with
// everything below it, "a/b" and "/b" begin at the top, and "**" matches any number of directories. "!" takes back an
// earlier glob, but not below a directory that is ignored. If several globs match, the last one decides. An empty glob
// ignores nothing. An invalid glob is an error, and then Filter ignores nothing.
func Filter(paths, globs []string) (counted, ignored []string, err error) {
	list, err := compileIgnore(globs)
	if err != nil {
		return paths, nil, err
	}
	for _, p := range paths {
		if list.ignores(p) {
			ignored = append(ignored, p)
		} else {
			counted = append(counted, p)
		}
	}
	return counted, ignored, nil
}

type ignoreGlob struct {
	segs             []string
	negated, dirOnly bool
}

type ignoreList []ignoreGlob

func compileIgnore(globs []string) (ignoreList, error) {
	var list ignoreList
	for _, text := range globs {
		var g ignoreGlob
		s := strings.TrimPrefix(text, "./")
		s, g.negated = strings.CutPrefix(s, "!")
		s, g.dirOnly = strings.CutSuffix(s, "/")
		if !strings.Contains(s, "/") {
			s = "**/" + s
		}
		if s = strings.TrimPrefix(s, "/"); s == "" || s == "**/" {
			continue
		}
		g.segs = strings.Split(strings.ReplaceAll(s, "[!", "[^"), "/")
		for _, seg := range g.segs {
			if _, err := path.Match(seg, ""); err != nil || seg == "" {
				return nil, fmt.Errorf("reading the ignore list: %q is not a valid glob", text)
			}
		}
		g.segs = slices.CompactFunc(g.segs, func(a, b string) bool { return a == "**" && b == "**" })
		list = append(list, g)
	}
	return list, nil
}

// ignores reports whether the list ignores a file or one of the directories above it.
func (l ignoreList) ignores(file string) bool {
	file, dir := strings.CutSuffix(file, "/") // a slash at the end marks a repository of its own
	parts := strings.Split(file, "/")
	for n := 1; n <= len(parts); n++ {
		hit := false
		for _, g := range l {
			if (dir || !g.dirOnly || n < len(parts)) && matchSegs(g.segs, parts[:n]) {
				hit = !g.negated
			}
		}
		if hit {
			return true
		}
	}
	return false
}

// matchSegs matches the names of a path against the segments of a glob. A final "**" matches one name or more.
func matchSegs(segs, parts []string) bool {
	switch {
	case len(segs) == 0 || len(parts) == 0:
		return len(segs) == len(parts)
	case segs[0] == "**":
		return len(segs) == 1 || matchSegs(segs[1:], parts) || matchSegs(segs, parts[1:])
	}
	ok, _ := path.Match(segs[0], parts[0])
	return ok && matchSegs(segs[1:], parts[1:])
}
