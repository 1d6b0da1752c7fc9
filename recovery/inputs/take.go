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
	maxFiles   = 200_000   // paths
	maxStored  = 128 << 20 // bytes of content
	maxWalked  = 50_000    // entries of the work tree
	maxHashed  = 1 << 20   // bytes of a script of which a digest is taken
	maxHashAll = 256 << 20 // bytes of all of them
)

// Request says what baseline is wanted.
type Request struct {
	Repo string // the repository's directory
	File string // where the baseline is kept, in a private directory
	From Source
	// Queries are the commands that it will be used for, as far as they are known: the entries of the policy. Their
	// scripts are kept with their content, so that an operator can be shown a diff.
	Queries []Query
	// Previous is a baseline of before. With Head, files that are in no commit (an ignored .npmrc) are taken over from
	// it.
	Previous *Baseline
	Time     time.Time
}

// ErrNoHead: there is no commit to take a baseline from.
var ErrNoHead = errors.New("the repository has no commit")

// Take takes a baseline now and keeps it in req.File (mode 0600, its directory 0700). When it returns, the file
// survives a power cut; whenever it is killed the file is the one of before. Nothing of the repository is executed: git
// is run without hooks, filters, monitors and the network.
func Take(ctx context.Context, disk durable.Disk, req Request) (*Baseline, error) {
	tree, err := Open(req.Repo)
	if err != nil {
		return nil, err
	}
	defer func() { _ = tree.Close() }() // it was only read
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
	stored   int64 // bytes of content
	hashed   int64 // bytes of files of the work tree
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
	// git's own files are in no commit.
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
	slices.Reverse(t.b.files) // of two with the same path the later one is newer
	slices.SortStableFunc(t.b.files, byPath)
	t.b.files = slices.CompactFunc(t.b.files, func(a, b known) bool { return a.path == b.path })
}

// committed takes what HEAD knows: every path with its id, and the content of what the table names.
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

// carry takes over what was in no commit and still is in none.
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

// walk lays the work tree over what HEAD knows: of files that the table names their content, of scripts their digest.
// What it does not look at stays as HEAD has it.
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
	if !t.b.Partial { // what is gone from the work tree is gone
		t.b.files = slices.DeleteFunc(t.b.files, func(k known) bool {
			return !here[k.path] && !slices.ContainsFunc(strings.Split(k.path, "/"), skipped)
		})
	}
	t.b.files = append(t.b.files, over...)
	return nil
}

// look takes a file of the work tree if it is one that counts.
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

// scriptLike reports whether a file may be one that a command names.
func scriptLike(p string) bool {
	return among(path.Ext(p), ".sh .bash .zsh .js .cjs .mjs .ts .py .rb .pl .php .lua .txt .toml .yml .yaml .gradle .kts .rake")
}

// ownFiles takes git's own files, where .git is a directory.
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

// scripts keeps the content of what the known commands read.
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

// links gives the links that lie where no walk goes (node_modules/.bin).
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
