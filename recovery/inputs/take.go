package inputs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/superloop/superloop/recovery/places"
)

// Bounds of a baseline.
const (
	maxFiles   = 200_000   // files and directories of the work tree
	maxStored  = 128 << 20 // bytes of content
	maxProgram = 64 << 10  // bytes of a program that no row of the table names and whose content is stored
	maxHashAll = 256 << 20 // bytes of the files that are read
)

// take returns the work tree in the directory top as it is now, and the files outside of it that steer programs. It
// stores the content of the files that the queries read besides that of the files of the table. It executes nothing.
func take(ctx context.Context, top string, out Outside, queries []Query, at time.Time) (*Baseline, error) {
	tree, err := Open(top)
	if err != nil {
		return nil, err
	}
	defer func() { _ = tree.Close() }() // it was only read; an error of Close changes nothing
	t := taker{b: &Baseline{header: header{Taken: at.UTC()}}, tree: tree, interest: newInterest()}
	err = t.walk(ctx)
	for _, dir := range []string{".git", ".git/hooks"} {
		if err == nil {
			err = t.ownFiles(dir)
		}
	}
	for _, pattern := range places.ByProgram()[""] {
		if out.Home != "" {
			t.b.files = append(t.b.files, tree.outside(out.Home, pattern)...)
		}
	}
	t.sort()
	if err == nil {
		err = t.scripts(queries)
	}
	if err != nil {
		return nil, fmt.Errorf("looking at the files of %s: %w", top, err)
	}
	return t.b, nil
}

type taker struct {
	b        *Baseline
	tree     *WorkTree
	interest interest
	stored   int64 // bytes of stored content
	hashed   int64 // bytes of files that were read
}

func (t *taker) sort() {
	slices.SortFunc(t.b.files, byPath)
	t.b.files = slices.CompactFunc(t.b.files, func(a, b known) bool { return a.path == b.path })
}

// walk adds the files of the work tree: first those that commands usually read, with their content, then the others,
// until the bounds are reached. Of a file beyond the bounds only the name is known.
func (t *taker) walk(ctx context.Context) error {
	var later []string
	entries := 0
	for dirs := []string{"."}; len(dirs) > 0; dirs = dirs[1:] {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		list, err := t.tree.list(dirs[0])
		switch {
		case errors.Is(err, errTooMany):
			t.b.Partial = true
		case err != nil && !errors.Is(err, fs.ErrPermission) && !errors.Is(err, fs.ErrNotExist):
			return err
		}
		for _, e := range list {
			if entries++; entries > maxFiles {
				t.b.Partial = true
				break
			}
			p := path.Join(dirs[0], e.name)
			switch {
			case e.kind == directory && !skipped(e.name):
				dirs = append(dirs, p)
			case e.kind == regular && !t.interest.in(p) && !shellName(p):
				later = append(later, p)
			case e.kind != directory:
				t.look(p, e.kind)
			}
		}
	}
	for i, p := range later {
		if i%1000 == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		t.look(p, regular)
	}
	return nil
}

// look adds a file of the work tree.
func (t *taker) look(p string, kd kind) {
	k := known{path: p, kind: kd}
	switch kd {
	case link:
		to, err := t.tree.target(p)
		if err != nil {
			return // it is gone
		}
		k.text, k.stored = []byte(to), true
	case regular:
		if t.hashed > maxHashAll {
			break
		}
		c, err := t.tree.read(p)
		if errors.Is(err, fs.ErrNotExist) {
			return
		}
		if err != nil {
			break // it cannot be watched
		}
		t.hashed += c.size
		k = t.keep(k, c, t.interest.in(p) || c.size <= maxProgram && (c.exec || shellName(p)))
	}
	t.b.files = append(t.b.files, k)
}

func (t *taker) keep(k known, c content, store bool) known {
	c.name()
	k.size, k.exec, k.sum = c.size, c.exec, c.sum
	if store && c.text != nil && t.stored+c.size <= maxStored {
		k.text, k.stored = c.text, true
		t.stored += c.size
	}
	return k
}

// shellName reports whether the name is that of a script of a shell.
func shellName(p string) bool { return among(path.Ext(p), ".sh .bash .zsh .ksh") }

// ownFiles takes the files of git itself, if .git is a directory.
func (t *taker) ownFiles(dir string) error {
	list, err := t.tree.list(dir)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.ENOTDIR) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range list {
		if p := path.Join(dir, e.name); t.interest.in(p) && e.kind != directory {
			t.look(p, e.kind)
		}
	}
	return nil
}

// scripts stores the content of the files that the queries read.
func (t *taker) scripts(queries []Query) error {
	for _, q := range queries {
		r, err := newReader(t.tree, q)
		if err != nil {
			return err
		}
		var fresh []known
		for p, c := range r.files {
			old, ok := t.b.find(p)
			if ok && old.stored || c.text == nil {
				continue
			}
			if ok {
				*old = t.keep(*old, *c, true)
			} else {
				fresh = append(fresh, t.keep(known{path: p, kind: regular}, *c, true))
			}
		}
		t.b.files = append(t.b.files, append(fresh, t.links(r)...)...)
		t.b.files = append(t.b.files, slices.Collect(maps.Values(r.outer))...)
		t.sort()
	}
	return nil
}

// links returns the links that the queries read in directories that no walk enters (node_modules/.bin).
func (t *taker) links(r *reader) []known {
	var out []known
	for _, in := range r.found {
		if _, ok := t.b.find(in.Path); ok || strings.HasPrefix(in.Path, atHome) {
			continue
		}
		if info, err := t.tree.root.Lstat(in.Path); err == nil && info.Mode()&os.ModeSymlink != 0 {
			if to, err := t.tree.target(in.Path); err == nil {
				out = append(out, known{path: in.Path, kind: link, stored: true, content: content{text: []byte(to)}})
			}
		}
	}
	return out
}

// unwalked reports whether no walk enters a directory of the path: only a query adds such a file to a baseline.
func unwalked(p string) bool {
	return !strings.HasPrefix(p, ".git/") && slices.ContainsFunc(strings.Split(p, "/"), skipped)
}
