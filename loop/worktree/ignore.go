package worktree

import (
	"fmt"
	"path"
	"strings"
)

// Filter parts changes into those that count and those that the globs ignore.
//
// The globs have the meaning of .gitignore: "*.log" is a name at any depth,
// "dir/" a directory with all below it, "a/b" and "/b" begin at the top, "**"
// stands for any number of directories, "!" takes back what a glob before it
// ignored, but nothing below a directory that is ignored, and of several that
// match the last one decides. An empty one ignores nothing. A glob that is not
// valid is an error, and then nothing is ignored.
func Filter(changes []Change, globs []string) (counted, ignored []Change, err error) {
	list, err := compileIgnore(globs)
	if err != nil {
		return changes, nil, err
	}
	for _, c := range changes {
		if list.ignores(c.Path) {
			ignored = append(ignored, c)
		} else {
			counted = append(counted, c)
		}
	}
	return counted, ignored, nil
}

type ignoreGlob struct {
	segs    []string
	negated bool
	dirOnly bool
}

type ignoreList []ignoreGlob

func compileIgnore(globs []string) (ignoreList, error) {
	var list ignoreList
	for _, text := range globs {
		g := ignoreGlob{}
		s := strings.TrimPrefix(text, "./")
		if rest, ok := strings.CutPrefix(s, "!"); ok {
			g.negated, s = true, rest
		}
		if rest, ok := strings.CutSuffix(s, "/"); ok {
			g.dirOnly, s = true, rest
		}
		anchored := strings.Contains(s, "/")
		s = strings.TrimPrefix(s, "/")
		if s == "" {
			continue
		}
		if !anchored {
			g.segs = []string{"**"}
		}
		for _, seg := range strings.Split(s, "/") {
			seg = strings.ReplaceAll(seg, "[!", "[^")
			if _, err := path.Match(seg, ""); err != nil || seg == "" {
				return nil, fmt.Errorf("reading the ignore list: %q is not a valid glob", text)
			}
			if seg == "**" && len(g.segs) > 0 && g.segs[len(g.segs)-1] == "**" {
				continue
			}
			g.segs = append(g.segs, seg)
		}
		list = append(list, g)
	}
	return list, nil
}

// ignores reports whether a file is ignored, or a directory that it is in.
func (l ignoreList) ignores(file string) bool {
	if len(l) == 0 {
		return false
	}
	dir := strings.HasSuffix(file, "/") // a repository of its own
	parts := strings.Split(strings.TrimSuffix(file, "/"), "/")
	for n := 1; n <= len(parts); n++ {
		hit := false
		for _, g := range l {
			if g.dirOnly && n == len(parts) && !dir {
				continue
			}
			if matchSegs(g.segs, parts[:n]) {
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
	for len(segs) > 0 {
		if segs[0] == "**" {
			if len(segs) == 1 {
				return len(parts) > 0
			}
			for i := range parts {
				if matchSegs(segs[1:], parts[i:]) {
					return true
				}
			}
			return false
		}
		if len(parts) == 0 {
			return false
		}
		if ok, _ := path.Match(segs[0], parts[0]); !ok {
			return false
		}
		segs, parts = segs[1:], parts[1:]
	}
	return len(parts) == 0
}
