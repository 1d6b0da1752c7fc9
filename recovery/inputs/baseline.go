package inputs

import (
	"cmp"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"
)

// Source says where a baseline is taken from.
type Source string

const (
	// Head is the commit that HEAD is at: what is committed is trusted, whatever lies in the work tree. It is for the
	// beginning of a run. A file that is not committed is not in such a baseline, unless Request.Previous has it.
	Head Source = "head"
	// Now is the work tree as it is: for the moment in which a person pins
	// the policy, and for a directory that is no repository of git.
	Now Source = "now"
)

// Baseline is what inputs are compared with: the files of a repository as they were at one moment, those that the table
// names with their content and the others by their digest. It never changes. It is a Tree.
type Baseline struct {
	From   Source
	Commit string    // that HEAD was at; "" without one
	Taken  time.Time // UTC
	// Partial says that there were more files than a baseline holds; those that are not in it count as new.
	Partial bool

	format string
	files  []known // sorted by path
	load   func(file known) ([]byte, error)
}

// known is a file of a baseline.
type known struct {
	path      string
	kind      kind
	exec      bool
	untracked bool   // HEAD does not know it, the work tree had it
	stored    bool   // text is the content
	text      []byte // of a link its target
	size      int64
	id        string // as git names it, "" if it was never computed
	sum       string // SHA-256 of what is too big to be stored
}

func byPath(a, b known) int { return cmp.Compare(a.path, b.path) }

func (b *Baseline) objects() string { return b.format }

func (b *Baseline) find(name string) (*known, bool) {
	i, ok := b.from(name)
	if !ok {
		return nil, false
	}
	return &b.files[i], true
}

// from is the place of the first file that is not before name, and whether it has that name.
func (b *Baseline) from(name string) (int, bool) {
	return slices.BinarySearchFunc(b.files, name, func(k known, n string) int { return cmp.Compare(k.path, n) })
}

func (b *Baseline) list(dir string) ([]entry, error) {
	prefix := dir + "/"
	if dir == "." {
		prefix = ""
	}
	var out []entry
	for i, _ := b.from(prefix); i < len(b.files); {
		rest, ok := strings.CutPrefix(b.files[i].path, prefix)
		if !ok {
			break
		}
		name, _, deeper := strings.Cut(rest, "/")
		if !deeper {
			out = append(out, entry{name, b.files[i].kind})
			i++
			continue
		}
		out = append(out, entry{name, directory})
		i, _ = b.from(prefix + name + "0") // "0" is what follows "/"
	}
	if len(out) == 0 && prefix != "" {
		return nil, fmt.Errorf("%s: %w", dir, fs.ErrNotExist)
	}
	// "a.b" stands before "a/", "a" before both: the order of paths is not that of names.
	slices.SortFunc(out, func(a, b entry) int { return cmp.Compare(a.name, b.name) })
	return slices.Compact(out), nil
}

func (b *Baseline) target(name string) (string, error) {
	k, ok := b.find(name)
	if !ok || k.kind != link {
		return "", fmt.Errorf("%s: %w", name, fs.ErrNotExist)
	}
	if k.stored {
		return string(k.text), nil
	}
	if b.load == nil {
		return "", fmt.Errorf("%s: the baseline does not hold it", name)
	}
	text, err := b.load(*k)
	return string(text), err
}

func (b *Baseline) read(name string) (content, error) {
	k, ok := b.find(name)
	if !ok || k.kind != regular {
		return content{}, fmt.Errorf("%s: %w", name, fs.ErrNotExist)
	}
	c := content{size: k.size, exec: k.exec, id: k.id, sum: k.sum}
	switch {
	case k.stored:
		c.text, c.id = k.text, ""
	case b.load != nil && k.size <= maxText:
		text, err := b.load(*k)
		if err != nil {
			return content{}, err
		}
		c.text, c.id = append([]byte{}, text...), ""
	}
	return c, nil
}

// interesting reports whether a path is one that the table looks for, in whatever directory.
type interest struct {
	names map[string]bool // last name, without wildcards and in any directory
	globs [][]string
}

func newInterest() interest {
	in := interest{names: map[string]bool{}}
	for _, p := range patterns() {
		if !strings.ContainsAny(p, "/*?") {
			in.names[p] = true
			continue
		}
		in.globs = append(in.globs, strings.Split(strings.TrimPrefix(p, "**/"), "/"))
	}
	return in
}

func (in interest) in(file string) bool {
	segs := strings.Split(file, "/")
	if in.names[segs[len(segs)-1]] {
		return true
	}
	for _, g := range in.globs {
		for i := range segs {
			if matches(g, segs[i:]) {
				return true
			}
		}
	}
	return false
}

// matches: "**" is the last of a pattern here, if it is there, and then one name or more.
func matches(glob, segs []string) bool {
	for i, g := range glob {
		if i >= len(segs) {
			return false
		}
		if g == "**" {
			return true
		}
		if ok, _ := path.Match(g, segs[i]); !ok {
			return false
		}
	}
	return len(glob) == len(segs)
}
