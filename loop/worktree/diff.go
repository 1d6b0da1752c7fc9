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

// Diff lists the paths that differ between a and b, sorted: what was added, modified or deleted.
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

// Unchanged returns those of the paths that are the same in a and b, a path that is in neither included. With what was
// dirty when a loop began, a from then and b from now, it is what a commit has to leave alone.
func Unchanged(a, b Snapshot, paths []string) (out []string) {
	for _, p := range paths {
		if a.at(p) == b.at(p) {
			out = append(out, p)
		}
	}
	return out
}

// Signature is a SHA-256, in hex, of paths, modes and ids: two are the same exactly when Diff finds nothing.
func (s Snapshot) Signature() string {
	h := sha256.New()
	var buf []byte // a hash costs a call for every few bytes
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

// Filter parts changed paths into those that count and those that the globs ignore.
//
// The globs have the meaning of .gitignore: "*.log" is a name at any depth, "dir/" a directory with all below it, "a/b"
// and "/b" begin at the top, "**" stands for any number of directories, "!" takes back what a glob before it ignored,
// but nothing below a directory that is ignored, and of several that match the last one decides. An empty one ignores
// nothing. A glob that is not valid is an error, and then nothing is ignored.
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

// ignores reports whether a file is ignored, or a directory that it is in.
func (l ignoreList) ignores(file string) bool {
	file, dir := strings.CutSuffix(file, "/") // a repository of its own
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

// matchSegs matches names against a glob's. A last "**" is one name or more.
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
