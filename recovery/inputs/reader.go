package inputs

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"runtime"
	"slices"
	"strings"
)

// Bounds of one query. Every bound that is exceeded adds an input that counts as changed.
const (
	maxEntries = 50_000
	maxBytes   = 64 << 20
	maxInputs  = 4_000
	maxMembers = 2_000
	maxDirs    = 32 // directories in which a command may run, after cd
	maxDepth   = 12 // nesting of scripts that run scripts, and of files that include files
	maxSteps   = 20_000
)

// reader collects the inputs of one query.
type reader struct {
	tree     Tree
	query    Query
	programs map[string]program
	found    map[key]Input
	files    map[string]*content // by real path
	dirs     map[string]*listing // by real path
	seen     map[string]int      // commands that were read, with their smallest depth
	members  map[key][]string    // members of a workspace, by program and directory
	outer    map[string]known    // files outside of the repository, by their paths
	steps    int                 // commands that may still be read
	entries  int                 // directory entries that may still be listed
	bytes    int64               // bytes that may still be read
}

type listing struct {
	entries []entry
	err     error
}

func (r *reader) strict() bool { return r.query.Mode == Strict }

// was reports whether id was already read at this depth or a smaller one. From a smaller depth, scripts are followed
// further.
func (r *reader) was(id string, depth int) bool {
	if before, ok := r.seen[id]; ok && before <= depth {
		return true
	}
	r.seen[id] = depth
	return false
}

// add adds an input. If several programs read it, the first one is named.
func (r *reader) add(in Input) {
	k := key{in.Path, in.Part}
	if _, ok := r.found[k]; ok {
		return
	}
	if len(r.found) >= maxInputs {
		r.found[key{".", "inputs"}] = Input{Path: ".", Part: "inputs", For: in.For, lost: fmt.Sprintf("the command has more than %d inputs", maxInputs)}
		return
	}
	if in.Sum == "" && in.Text != nil {
		sum := sha256.Sum256(in.Text)
		in.Sum = hex.EncodeToString(sum[:])
	}
	r.found[k] = in
}

// text adds a part of a file, or a text in place of a file that cannot be read.
func (r *reader) text(file, part, by, text string) {
	if part != "" && r.strict() {
		return // the whole file is an input
	}
	r.add(Input{Path: file, Part: part, For: by, Text: []byte(text)})
}

// lose adds a file that cannot be watched, with the reason.
func (r *reader) lose(file, by string, why error) {
	r.add(Input{Path: file, Part: "", For: by, lost: why.Error()})
}

// beyond adds what lies behind a bound, as a part of its own beside the file.
func (r *reader) beyond(file, part, by, why string, bound int) {
	r.found[key{file, part}] = Input{Path: file, Part: part, For: by, lost: fmt.Sprintf(why, bound)}
}

// deep adds what lies behind the deepest file that is read.
func (r *reader) deep(file, by string) {
	r.beyond(file, "nesting", by, "it is nested more than %d deep", maxDepth)
}

// whole adds the complete file, if it exists.
func (r *reader) whole(file, by string) (*content, bool) {
	real, k, to := r.resolve(file)
	switch k {
	case missing, directory:
		return nil, false
	case link:
		r.text(file, "", by, "a link to "+to)
		return nil, false
	case odd:
		r.text(file, "", by, "not a regular file")
		return nil, false
	}
	c, err := r.content(real)
	switch {
	case errors.Is(err, fs.ErrPermission): // the command cannot read it either, so it is an input like any other
		r.text(file, "", by, "may not be read")
		return nil, false
	case err != nil:
		r.lose(file, by, err)
		return nil, false
	}
	c.name()
	r.add(Input{Path: file, For: by, Text: c.text, Sum: c.sum})
	return c, true
}

// open reads a file of which only parts count. It returns nil if the file is missing, or if open has added the whole
// file because its content is not available. In strict mode open adds the whole file, too.
func (r *reader) open(file, by string) []byte {
	text := r.peek(file)
	if text == nil || r.strict() {
		r.whole(file, by)
	}
	return text
}

// content reads the file at a real path, once per query.
func (r *reader) content(real string) (*content, error) {
	if c, ok := r.files[real]; ok {
		return c, nil
	}
	if r.bytes <= 0 {
		return nil, fmt.Errorf("the inputs have more than %d MiB", maxBytes>>20)
	}
	c, err := r.tree.read(real)
	if err != nil {
		return nil, err
	}
	r.bytes -= int64(len(c.text))
	r.files[real] = &c
	return &c, nil
}

// list lists the directory at a real path, once per query.
func (r *reader) list(real string) *listing {
	if l, ok := r.dirs[real]; ok {
		return l
	}
	l := &listing{}
	if r.entries <= 0 {
		l.err = fmt.Errorf("the directories searched have more than %d entries", maxEntries)
	} else if l.entries, l.err = r.tree.list(real); l.err == nil {
		r.entries -= len(l.entries) + 1
	}
	r.dirs[real] = l
	if l.err != nil && !errors.Is(l.err, fs.ErrNotExist) && !errors.Is(l.err, fs.ErrPermission) {
		r.lose(real, "the search", l.err)
	}
	return l
}

// find looks up a name. On macOS it ignores case, as the file system does.
func (l *listing) find(name string) (entry, bool) {
	i, ok := slices.BinarySearchFunc(l.entries, name, func(e entry, n string) int { return strings.Compare(e.name, n) })
	if ok {
		return l.entries[i], true
	}
	if runtime.GOOS == "darwin" {
		for _, e := range l.entries {
			if strings.EqualFold(e.name, name) {
				return e, true
			}
		}
	}
	return entry{}, false
}

// resolve follows a path below the repository, including symbolic links. It returns the real path and the kind of file.
// For a link that leads out of the repository, and after more than maxLinks links, k is link and to is the target of
// the link.
func (r *reader) resolve(p string) (real string, k kind, to string) {
	todo := strings.Split(path.Clean(p), "/")
	real, k = ".", directory
	for hops := 0; len(todo) > 0; {
		name := todo[0]
		todo = todo[1:]
		switch {
		case name == "." || name == "":
			continue
		case k != directory:
			return real, missing, ""
		case name == "..":
			if real == "." {
				return real, missing, ""
			}
			real = path.Dir(real)
			continue
		}
		e, ok := r.list(real).find(name)
		if !ok {
			return real, missing, ""
		}
		if e.kind != link {
			real, k = path.Join(real, e.name), e.kind
			continue
		}
		to, err := r.tree.target(path.Join(real, e.name))
		if err != nil {
			return real, odd, ""
		}
		if hops++; hops > maxLinks || path.IsAbs(to) {
			return real, link, to
		}
		if _, ok := below(real, to); !ok {
			return real, link, to
		}
		todo = append(strings.Split(to, "/"), todo...)
	}
	return real, k, ""
}

// is returns the kind of file that a path leads to.
func (r *reader) is(p string) kind {
	_, k, _ := r.resolve(p)
	return k
}

// under returns the entries of a directory.
func (r *reader) under(dir string) []entry {
	if real, k, _ := r.resolve(dir); k == directory {
		return r.list(real).entries
	}
	return nil
}

// upwards returns dir and the directories above it, up to the top of the repository.
func upwards(dir string) []string {
	out := []string{dir}
	for dir != "." {
		dir = path.Dir(dir)
		out = append(out, dir)
	}
	return out
}

var errMembers = fmt.Errorf("the workspace has more than %d members", maxMembers)

// skipped reports whether searches leave out a directory: installed code, and the directories of git and superloop. A
// path that names such a directory literally is looked up all the same.
func skipped(name string) bool {
	return name == "node_modules" || name == ".git" || name == ".superloop"
}

// expand returns the files, not directories, that match a pattern below dir: "*" matches within a name, "**" any number
// of directories.
func (r *reader) expand(dir, pattern string) (out []string) {
	r.match(dir, strings.Split(pattern, "/"), func(p string, k kind) {
		if k != directory {
			out = append(out, p)
		}
	})
	return out
}

// expandDirs returns the directories below dir that match the glob. The glob may have alternatives in braces.
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
			rest = []string{"*"} // "**" alone matches everything below
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

// globs returns the members of a workspace: the directories below dir that match a glob of the list and contain file. A
// glob with a leading "!" excludes directories. A glob that braces cannot expand matches every directory.
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
			gone[d] = true // prevents a second entry
			if out = append(out, d); len(out) >= maxMembers {
				r.lose(path.Join(dir, file), "the workspace", errMembers)
				return out
			}
		}
	}
	return out
}

// braces expands a{b,c}d to abd and acd. It replaces a more complex glob by "**", so that no member is overlooked.
func braces(glob string) []string {
	glob = strings.TrimSuffix(strings.TrimPrefix(glob, "./"), "/")
	if strings.ContainsAny(glob, "()[]\\") || strings.Count(glob, "{") > 4 || strings.Count(glob, ",") > 64 || len(glob) > 1000 {
		return []string{"**"}
	}
	begin := strings.LastIndexByte(glob, '{') // the innermost brace
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
