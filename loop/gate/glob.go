package gate

import (
	"io/fs"
	"maps"
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
	filesOnly := segs[len(segs)-1] == "**"
	if filesOnly {
		segs = append(segs, "*")
	}
	at, guessed := []string{"."}, false
	// A link that leads out is an error where the pattern names it, and no match where a wildcard found it.
	passOver := func(err error) bool {
		reason := faultOf(err).reason
		return reason == ReasonNotFound || guessed && reason == ReasonOutside
	}
	for i, seg := range segs {
		found := map[string]bool{}
		for _, dir := range at {
			if err := t.below(dir, seg, filesOnly && i == len(segs)-1, found); err != nil && !passOver(err) {
				return nil, err
			}
		}
		guessed = guessed || seg != "**" && strings.ContainsAny(seg, wildcards)
		at = slices.Sorted(maps.Keys(found))
	}
	var out []string
	for _, p := range at {
		if _, err := t.root.Lstat(p); err == nil {
			out = append(out, p)
		} else if !passOver(err) {
			return nil, err
		}
	}
	return out, nil
}

const wildcards = `*?[\`

// below adds to found what one name of a pattern stands for in a directory: for "**" that is the directory, and all
// below it that are not in found already.
func (t *tree) below(dir, seg string, filesOnly bool, found map[string]bool) error {
	if seg == "**" {
		return fs.WalkDir(t.root.FS(), dir, func(p string, e fs.DirEntry, err error) error {
			switch {
			case err != nil && faultOf(err).reason != ReasonNotFound:
				return err
			case err != nil, !e.IsDir():
				return nil
			case found[p], p != dir && strings.HasPrefix(e.Name(), "."):
				return fs.SkipDir
			}
			found[p] = true
			return nil
		})
	}
	if !strings.ContainsAny(seg, wildcards) {
		found[path.Join(dir, seg)] = true
		return nil
	}
	list, err := t.entries(dir)
	for _, e := range list {
		ok, _ := path.Match(seg, e.Name())
		hidden := strings.HasPrefix(e.Name(), ".") && !strings.HasPrefix(seg, ".")
		if ok && !hidden && !(filesOnly && e.IsDir()) {
			found[path.Join(dir, e.Name())] = true
		}
	}
	return err
}
