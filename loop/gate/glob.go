package gate

import (
	"path"
	"slices"
	"strings"
)

// each calls f for every path that the patterns name (see expand), each path once, until f says no. An error is told
// with its pattern; that a pattern matches nothing is one. Empty patterns are passed over.
func (t *tree) each(patterns []string, f func(path string, err error) bool) {
	seen := map[string]bool{"": true}
	for _, pattern := range patterns {
		if pattern == "" {
			continue
		}
		paths, err := t.expand(pattern)
		if err == nil && len(paths) == 0 {
			err = &fault{reason: ReasonNotFound}
		}
		if err != nil && !f(pattern, err) {
			return
		}
		if err != nil {
			continue
		}
		for _, p := range paths {
			if !seen[p] && !f(p, nil) {
				return
			}
			seen[p] = true
		}
	}
}

// expand lists what a pattern names, sorted, each path once, relative to the repository. The pattern is the shell's
// with globstar: "*", "?" and "[...]" within one name, "**" as a whole name for any number of directories, and a
// leading dot matched only by a dot. A last "**" is every file below. "**" does not follow symbolic links; a pattern
// that is itself the name of something that exists (app/[id]/page.tsx) is that name. Nothing matched is an empty list;
// a directory that cannot be read is an error, because what it holds would be passed over in silence.
func (t *tree) expand(pattern string) ([]string, error) {
	rel, err := t.rel(pattern)
	if err != nil {
		return nil, err
	}
	if _, err := t.root.Lstat(rel); err == nil {
		return []string{rel}, nil
	}
	segs := strings.Split(strings.ReplaceAll(rel, "[!", "[^"), "/")
	for _, seg := range segs {
		if _, err := path.Match(seg, ""); err != nil {
			return nil, &fault{ReasonBadPattern, err}
		}
	}
	segs = slices.CompactFunc(segs, func(a, b string) bool { return a == "**" && b == "**" })
	e := expansion{tree: t, seen: map[visit]bool{}}
	if segs[len(segs)-1] == "**" {
		segs, e.filesOnly = append(segs, "*"), true
	}
	err = e.walk(".", segs)
	slices.Sort(e.found)
	return slices.Compact(e.found), err
}

// visit is a directory with the number of names left to match there; no pair is walked twice, so that several "**" cost
// no more than one each.
type visit struct {
	dir  string
	left int
}

type expansion struct {
	*tree
	filesOnly bool
	seen      map[visit]bool
	found     []string
}

func (e *expansion) walk(dir string, segs []string) error {
	at := visit{dir, len(segs)}
	if e.seen[at] {
		return nil
	}
	e.seen[at] = true
	seg, rest := segs[0], segs[1:]
	if seg == "**" {
		if err := e.walk(dir, rest); err != nil {
			return err
		}
	} else if !strings.ContainsAny(seg, `*?[\`) {
		return e.step(path.Join(dir, seg), rest)
	}
	list, err := e.entries(dir)
	if err != nil {
		return unlessNotFound(err)
	}
	for _, entry := range list {
		name := entry.Name()
		hidden := strings.HasPrefix(name, ".")
		if seg == "**" {
			if entry.IsDir() && !hidden {
				if err := e.walk(path.Join(dir, name), segs); err != nil {
					return err
				}
			}
			continue
		}
		ok, _ := path.Match(seg, name)
		if !ok || hidden && !strings.HasPrefix(seg, ".") || len(rest) == 0 && e.filesOnly && entry.IsDir() {
			continue
		}
		err := e.step(path.Join(dir, name), rest)
		if err != nil && (len(rest) == 0 || faultOf(err).reason != ReasonOutside) {
			return err // but for a link to a directory elsewhere, which the pattern did not name
		}
	}
	return nil
}

// step takes a name that matched: it is found when it was the last one.
func (e *expansion) step(p string, rest []string) error {
	if len(rest) > 0 {
		return e.walk(p, rest)
	}
	if _, err := e.root.Lstat(p); err != nil {
		return unlessNotFound(err)
	}
	e.found = append(e.found, p)
	return nil
}

func unlessNotFound(err error) error {
	if faultOf(err).reason == ReasonNotFound {
		return nil
	}
	return err
}
