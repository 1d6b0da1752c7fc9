package inputs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/superloop/superloop/internal/durable"
)

// Bounds of a baseline.
const (
	maxFiles   = 200_000   // files
	maxStored  = 128 << 20 // bytes of content
	maxWalked  = 50_000    // entries of the work tree
	maxHashed  = 1 << 20   // bytes of a script whose digest is stored
	maxHashAll = 256 << 20 // bytes of all such files together
)

// Request says which baseline Take takes.
type Request struct {
	Repo string // the repository's directory
	File string // the file of the baseline, in a private directory
	From Source
	// Queries are the known commands that the baseline will be used for: the entries of the policy. Take stores the
	// content of their scripts, so that Diff can show an operator how they changed.
	Queries []Query
	// Previous is an earlier baseline, or nil. With Head, Take copies from it the files that no commit has (such as an
	// ignored .npmrc).
	Previous *Baseline
	Time     time.Time
}

// ErrNoHead says that the repository has no commit to take a baseline from.
var ErrNoHead = errors.New("the repository has no commit")

// Take takes a baseline now and writes it to req.File (mode 0600, its directory 0700). When Take returns, the file
// survives a power cut. If superloop is killed before, the file is either the previous one or the new one. Take
// executes nothing of the repository: it runs git without hooks, filters, monitors and the network.
func Take(ctx context.Context, disk durable.Disk, req Request) (*Baseline, error) {
	tree, err := Open(req.Repo)
	if err != nil {
		return nil, err
	}
	defer func() { _ = tree.Close() }() // it was only read; an error of Close changes nothing
	b := &Baseline{header: header{From: req.From, Taken: req.Time.UTC(), Format: formatSHA256}}
	t := taker{b: b, tree: tree, interest: newInterest(), git: git(req.Repo)}
	if err := t.take(ctx, req); err != nil {
		return nil, fmt.Errorf("taking a baseline of %s: %w", req.Repo, err)
	}
	if err := disk.MkdirAll("baseline", filepath.Dir(req.File), 0o700); err != nil {
		return nil, err
	}
	if err := disk.WriteFile("baseline", req.File, b.encode(), 0o600); err != nil {
		return nil, err
	}
	return b, nil
}

type taker struct {
	b        *Baseline
	tree     *WorkTree
	interest interest
	git      git
	stored   int64 // bytes of stored content
	hashed   int64 // bytes of files read from the work tree
}

func (t *taker) take(ctx context.Context, req Request) error {
	head, err := t.git.head(ctx)
	switch {
	case err == nil:
		t.b.Commit, t.b.Format = head.commit, head.format
	case req.From == Head || !errors.Is(err, ErrNoHead):
		return err
	}
	t.tree.format = t.b.Format
	if head.commit != "" {
		if err := t.committed(ctx, head); err != nil {
			return err
		}
	}
	if req.From == Head {
		t.carry(req.Previous)
	} else if err := t.walk(); err != nil {
		return err
	}
	// No commit has the files of git itself.
	for _, dir := range []string{".git", ".git/hooks"} {
		if err := t.ownFiles(dir); err != nil {
			return err
		}
	}
	t.sort()
	if req.From == Head {
		t.b.load = func(k known) ([]byte, error) { return t.git.run(ctx, nil, "cat-file", "blob", k.id) }
		defer func() { t.b.load = nil }()
	}
	return t.scripts(req.Queries)
}

func (t *taker) sort() {
	slices.Reverse(t.b.files) // the later entry of a path is newer
	slices.SortStableFunc(t.b.files, byPath)
	t.b.files = slices.CompactFunc(t.b.files, func(a, b known) bool { return a.path == b.path })
}

// committed takes the files of the commit: every path with its id, and the content of the files that match a pattern of
// the table.
func (t *taker) committed(ctx context.Context, head headInfo) error {
	files, more, err := t.git.files(ctx, head.commit)
	if err != nil {
		return err
	}
	t.b.Partial = more
	var wanted []int
	for i, k := range files {
		if t.interest.in(k.path) || k.kind == link {
			wanted = append(wanted, i)
		}
	}
	if t.stored, err = t.git.contents(ctx, files, wanted); err != nil {
		return err
	}
	t.b.files = files
	return nil
}

// carry copies from prev the files that were not committed at that time and are not in HEAD now.
func (t *taker) carry(prev *Baseline) {
	if prev == nil || prev.Format != t.b.Format && len(t.b.files) > 0 {
		return
	}
	slices.SortFunc(t.b.files, byPath)
	var fresh []known
	for _, k := range prev.files {
		if _, ok := t.b.find(k.path); !ok && k.untracked && !strings.HasPrefix(k.path, ".git/") {
			fresh = append(fresh, k)
		}
	}
	t.b.files = append(t.b.files, fresh...)
}

// walk adds the files of the work tree: the content of those that match a pattern of the table, the digest of scripts.
// They replace the entries of HEAD. Entries of other files stay as HEAD has them.
func (t *taker) walk() error {
	slices.SortFunc(t.b.files, byPath)
	var over []known
	entries := 0
	here := map[string]bool{}
	for dirs := []string{"."}; len(dirs) > 0; dirs = dirs[1:] {
		list, err := t.tree.list(dirs[0])
		switch {
		case errors.Is(err, errTooMany):
			t.b.Partial = true
		case err != nil && !errors.Is(err, fs.ErrPermission) && !errors.Is(err, fs.ErrNotExist):
			return err
		}
		for _, e := range list {
			if entries++; entries > maxWalked {
				t.b.Partial = true
				break
			}
			p := path.Join(dirs[0], e.name)
			switch {
			case e.kind != directory:
				here[p] = true
				if k, ok := t.look(p, e.kind); ok {
					over = append(over, k)
				}
			case !skipped(e.name):
				dirs = append(dirs, p)
			}
		}
	}
	if !t.b.Partial { // files that no longer exist in the work tree are removed
		t.b.files = slices.DeleteFunc(t.b.files, func(k known) bool {
			return !here[k.path] && !slices.ContainsFunc(strings.Split(k.path, "/"), skipped)
		})
	}
	t.b.files = append(t.b.files, over...)
	return nil
}

// look reads a file of the work tree if the baseline needs it.
func (t *taker) look(p string, kd kind) (known, bool) {
	k := known{path: p, kind: kd}
	if _, ok := t.b.find(p); !ok {
		k.untracked = true
	}
	switch kd {
	case link:
		to, err := t.tree.target(p)
		k.text, k.stored = []byte(to), true
		return k, err == nil
	case odd:
		return k, true
	}
	wanted := t.interest.in(p)
	info, err := t.tree.root.Lstat(p)
	if err != nil || !wanted && (info.Size() > maxHashed || t.hashed > maxHashAll || info.Mode()&0o111 == 0 && !scriptLike(p)) {
		return k, false
	}
	c, err := t.tree.read(p)
	if err != nil {
		return k, false
	}
	t.hashed += c.size
	return t.keep(k, c, wanted), true
}

func (t *taker) keep(k known, c content, store bool) known {
	c.name(t.b.Format)
	k.size, k.exec, k.id, k.sum = c.size, c.exec, c.id, c.sum
	if store && c.text != nil && t.stored+c.size <= maxStored {
		k.text, k.stored = c.text, true
		t.stored += c.size
	}
	return k
}

// scriptLike reports whether the extension is one of scripts and project files that commands name.
func scriptLike(p string) bool {
	return among(path.Ext(p), ".sh .bash .zsh .js .cjs .mjs .ts .py .rb .pl .php .lua .txt .toml .yml .yaml .gradle .kts .rake")
}

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
			if k, ok := t.look(p, e.kind); ok {
				t.b.files = append(t.b.files, k)
			}
		}
	}
	return nil
}

// scripts stores the content of the files that the queries read.
func (t *taker) scripts(queries []Query) error {
	var from Tree = t.b
	if t.b.From == Now {
		from = t.tree
	}
	for _, q := range queries {
		r, err := newReader(from, q)
		if err != nil {
			return err
		}
		var fresh []known
		for p, c := range r.files {
			old, ok := t.b.find(p)
			if ok && old.stored || c.text == nil {
				continue
			}
			k := known{path: p, kind: regular, untracked: !ok}
			if ok {
				k = *old
			}
			fresh = append(fresh, t.keep(k, *c, true))
		}
		if t.b.From == Now {
			fresh = append(fresh, t.links(r)...)
		}
		t.b.files = append(t.b.files, fresh...)
		t.sort()
	}
	return nil
}

// links returns the links that the queries read in directories that no walk enters (node_modules/.bin).
func (t *taker) links(r *reader) []known {
	var out []known
	for _, in := range r.found {
		if _, ok := t.b.find(in.Path); ok {
			continue
		}
		if info, err := t.tree.root.Lstat(in.Path); err == nil && info.Mode()&os.ModeSymlink != 0 {
			if to, err := t.tree.target(in.Path); err == nil {
				out = append(out, known{path: in.Path, kind: link, untracked: true, stored: true, content: content{text: []byte(to)}})
			}
		}
	}
	return out
}
