package undo

import (
	"errors"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Bounds of a plan.
const (
	maxPlanned = 50_000 // directory entries that are read
	maxTargets = 2_000
)

type kind uint8

const (
	isMissing kind = iota
	isFile
	isDir
	isLink
	isOdd
)

func kindOf(mode uint32) kind {
	switch mode & unix.S_IFMT {
	case 0:
		return isMissing
	case unix.S_IFREG:
		return isFile
	case unix.S_IFDIR:
		return isDir
	case unix.S_IFLNK:
		return isLink
	}
	return isOdd
}

// kind returns the kind of file at a path. It follows no link.
func (p *planner) kind(rel string) kind {
	if rel == "." {
		return isDir
	}
	at, err := open(p.repo, rel)
	if errors.Is(err, ErrLink) {
		return isLink
	}
	if err != nil {
		return isMissing
	}
	defer at.close()
	k, _ := at.kind() // an entry that cannot be read counts as missing
	return k
}

type child struct {
	name string
	kind kind
}

func (p *planner) children(rel string) []child {
	if p.entries <= 0 {
		return nil
	}
	at, err := open(p.repo, path.Join(rel, "x")) // any entry will do: open opens its directory
	if err != nil {
		return nil
	}
	defer at.close()
	names, _ := at.dir.Readdirnames(p.entries) // a directory that cannot be read counts as empty
	p.entries -= len(names)
	slices.Sort(names)
	out := make([]child, len(names))
	for i, n := range names {
		k, _ := at.sibling(n).kind()
		out[i] = child{n, k}
	}
	return out
}

// match returns the existing paths that a word names: literally, and as a glob.
func (p *planner) match(rel string) []string {
	var out []string
	if p.kind(rel) != isMissing {
		out = append(out, rel)
	}
	if strings.ContainsAny(rel, "*?[{") {
		for _, glob := range braces(rel, 0) {
			out = append(out, p.expand(".", strings.Split(glob, "/"))...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func (p *planner) expand(dir string, segs []string) []string {
	seg, rest := segs[0], segs[1:]
	var found []string
	switch {
	case seg == ".":
		found = []string{dir}
	case seg == "**":
		found = append(found, dir)
		for _, c := range p.children(dir) {
			if c.kind == isDir && c.name != "node_modules" && c.name != ".git" {
				found = append(found, p.expand(path.Join(dir, c.name), []string{"**"})...)
			}
		}
	case !strings.ContainsAny(seg, `*?[\`):
		if sub := path.Join(dir, seg); p.kind(sub) != isMissing {
			found = []string{sub}
		}
	default:
		for _, c := range p.children(dir) {
			if ok, err := path.Match(seg, c.name); ok && err == nil && (c.name[0] != '.' || seg[0] == '.') {
				found = append(found, path.Join(dir, c.name))
			}
		}
	}
	if len(rest) == 0 {
		return found
	}
	var out []string
	for _, f := range found {
		if p.kind(f) == isDir {
			out = append(out, p.expand(f, rest)...)
		}
	}
	return out
}

// braces expands up to five pairs of braces into their alternatives.
func braces(glob string, depth int) []string {
	begin := strings.LastIndexByte(glob, '{')
	n := strings.IndexByte(glob[max(begin, 0):], '}')
	if begin < 0 || n < 0 || depth > 4 {
		return []string{glob}
	}
	var out []string
	for alt := range strings.SplitSeq(glob[begin+1:begin+n], ",") {
		out = append(out, braces(glob[:begin]+alt+glob[begin+n+1:], depth+1)...)
	}
	return out
}
