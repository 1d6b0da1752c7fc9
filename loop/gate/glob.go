package gate

import (
	"errors"
	"path"
	"slices"
	"strings"
)

// expand lists what a pattern names, sorted, each path once, relative to the
// repository. The pattern is the shell's with globstar: "*", "?" and "[...]"
// within one name, "**" as a whole name for any number of directories, and a
// leading dot matched only by a dot. A last "**" is every file below. "**" does
// not follow symbolic links; a pattern that is itself the name of something
// that exists (app/[id]/page.tsx) is that name. Nothing matched is an empty
// list; a directory that cannot be read is an error, because what it holds
// would be passed over in silence.
func (t *tree) expand(pattern string) ([]string, error) {
	rel, err := t.rel(pattern)
	if err != nil {
		return nil, err
	}
	if _, err := t.root.Lstat(rel); err == nil {
		return []string{rel}, nil
	}
	var segs []string
	for _, seg := range strings.Split(rel, "/") {
		if seg == "**" && len(segs) > 0 && segs[len(segs)-1] == "**" {
			continue
		}
		seg = strings.ReplaceAll(seg, "[!", "[^")
		if _, err := path.Match(seg, ""); err != nil {
			return nil, &fault{reason: ReasonBadPattern, err: err}
		}
		segs = append(segs, seg)
	}
	if segs[len(segs)-1] == "**" {
		segs = append(segs, "*")
		e := expansion{tree: t, filesOnly: true, seen: map[visit]bool{}}
		err = e.walk(".", segs)
		return e.sorted(), err
	}
	e := expansion{tree: t, seen: map[visit]bool{}}
	err = e.walk(".", segs)
	return e.sorted(), err
}

// visit is a directory with the number of names left to match there; no pair is
// walked twice, so that several "**" cost no more than one each.
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
		return notFoundIsNothing(err)
	}
	for _, entry := range list {
		name := entry.Name()
		if seg == "**" {
			if entry.IsDir() && !strings.HasPrefix(name, ".") {
				if err := e.walk(path.Join(dir, name), segs); err != nil {
					return err
				}
			}
			continue
		}
		if strings.HasPrefix(name, ".") && !strings.HasPrefix(seg, ".") {
			continue
		}
		if ok, _ := path.Match(seg, name); !ok {
			continue
		}
		if len(rest) == 0 && e.filesOnly && entry.IsDir() {
			continue
		}
		err := e.step(path.Join(dir, name), rest)
		if f := (*fault)(nil); errors.As(err, &f) && f.reason == ReasonOutside && len(rest) > 0 {
			continue // a link to a directory elsewhere, which the pattern did not name
		}
		if err != nil {
			return err
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
		return notFoundIsNothing(faultOf(err))
	}
	e.found = append(e.found, p)
	return nil
}

func (e *expansion) sorted() []string {
	slices.Sort(e.found)
	return slices.Compact(e.found)
}

func notFoundIsNothing(err error) error {
	var f *fault
	if errors.As(err, &f) && f.reason == ReasonNotFound {
		return nil
	}
	return err
}
