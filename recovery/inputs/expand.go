package inputs

import (
	"fmt"
	"path"
	"strings"
)

var errMembers = fmt.Errorf("the workspace has more than %d members", maxMembers)

// skipped are directories that no search goes into: installed code, git's own, superloop's own. A path that names one
// literally is looked up all the same.
func skipped(name string) bool {
	return name == "node_modules" || name == ".git" || name == ".superloop"
}

// expand gives the files, not directories, that match a pattern below dir: "*" within a name, "**" for any number of
// directories.
func (r *reader) expand(dir, pattern string) (out []string) {
	r.match(dir, strings.Split(pattern, "/"), func(p string, k kind) {
		if k != directory {
			out = append(out, p)
		}
	})
	return out
}

// expandDirs gives the directories that match one of the alternatives of a glob below dir.
func (r *reader) expandDirs(dir, glob string) (out []string) {
	for _, g := range braces(glob) {
		r.match(dir, strings.Split(path.Clean(g), "/"), func(p string, k kind) {
			if k == directory {
				out = append(out, p)
			}
		})
	}
	return out
}

func (r *reader) match(dir string, segs []string, found func(string, kind)) {
	seg, rest := segs[0], segs[1:]
	each := func(p string, e entry) {
		k := e.kind
		if k == link && len(rest) > 0 {
			k = r.is(p)
		}
		switch {
		case len(rest) == 0:
			if k == link && r.is(p) == directory {
				k = directory
			}
			found(p, k)
		case k == directory:
			r.match(p, rest, found)
		}
	}
	switch {
	case seg == "." || seg == "":
		if len(rest) > 0 {
			r.match(dir, rest, found)
		} else {
			found(dir, directory)
		}
	case seg == "**":
		if len(rest) == 0 {
			rest = []string{"*"} // "**" alone: everything below
		}
		r.match(dir, rest, found)
		for _, e := range r.under(dir) {
			if e.kind == directory && !skipped(e.name) {
				r.match(path.Join(dir, e.name), segs, found)
			}
		}
	case !strings.ContainsAny(seg, `*?[\`):
		p := path.Join(dir, seg)
		real, k, _ := r.resolve(dir)
		if k != directory {
			return
		}
		if e, ok := r.list(real).find(seg); ok {
			each(p, e)
		} else if seg == ".." && dir != "." && len(rest) > 0 {
			r.match(path.Dir(dir), rest, found)
		}
	default:
		for _, e := range r.under(dir) {
			if e.name[0] == '.' && seg[0] != '.' || skipped(e.name) {
				continue
			}
			if ok, err := path.Match(seg, e.name); ok && err == nil {
				each(path.Join(dir, e.name), e)
			}
		}
	}
}

// globs tells what members a list of globs means, "!" before one takes away. A list that cannot be read as globs means
// every directory with that file.
func (r *reader) globs(dir string, list []string, file string) []string {
	var out []string
	gone := map[string]bool{}
	for _, glob := range list {
		if not, ok := strings.CutPrefix(glob, "!"); ok {
			for _, d := range r.expandDirs(dir, not) {
				gone[d] = true
			}
		}
	}
	for _, glob := range list {
		if strings.HasPrefix(glob, "!") {
			continue
		}
		for _, d := range r.expandDirs(dir, glob) {
			if gone[d] || r.is(path.Join(d, file)) == missing {
				continue
			}
			gone[d] = true // it is in the list
			if out = append(out, d); len(out) >= maxMembers {
				r.lose(path.Join(dir, file), "the workspace", errMembers)
				return out
			}
		}
	}
	return out
}

// braces expands a{b,c}d. What has more than that in it means everything, so that no member is overlooked.
func braces(glob string) []string {
	glob = strings.TrimSuffix(strings.TrimPrefix(glob, "./"), "/")
	if strings.ContainsAny(glob, "()[]\\") || strings.Count(glob, "{") > 4 || strings.Count(glob, ",") > 64 || len(glob) > 1000 {
		return []string{"**"}
	}
	begin := strings.LastIndexByte(glob, '{') // the innermost
	if begin < 0 {
		return []string{glob}
	}
	n := strings.IndexByte(glob[begin:], '}')
	if n < 0 {
		return []string{"**"}
	}
	var out []string
	for _, alt := range strings.Split(glob[begin+1:begin+n], ",") {
		out = append(out, braces(glob[:begin]+alt+glob[begin+n+1:])...)
	}
	return out
}
