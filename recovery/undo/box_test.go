package undo

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/internal/proc"
)

// box is a repository with a store beside it.
type box struct {
	t     testing.TB
	dir   string
	store Store
	env   []string
}

func newBox(t testing.TB) box {
	t.Helper()
	base := t.TempDir()
	b := box{t: t, dir: filepath.Join(base, "repo"), env: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + base, "XDG_CONFIG_HOME=" + base,
		"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_CONFIG_NOSYSTEM=1"}}
	t.Cleanup(func() { // an ordinary user cannot remove the entries of a directory that is read-only
		_, _ = proc.Tool{Dir: base}.Run(context.Background(), "chmod", "-R", "u+rwX", ".")
	})
	b.store = Store{Disk: durable.OS(), Dir: filepath.Join(base, "private", "undo"), Repo: b.dir}
	if err := os.Mkdir(b.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{"objects", "refs/heads", "info", "hooks"} { // what git init makes
		b.mkdir(".git/" + d)
	}
	b.put(".git/HEAD", "ref: refs/heads/main\n")
	b.put(".git/config", "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n")
	return b
}

func (b box) git(args ...string) string {
	b.t.Helper()
	out, err := proc.Tool{Dir: b.dir, Env: b.env}.Run(b.t.Context(), append([]string{"git"}, args...)...)
	if err != nil {
		b.t.Fatal(err)
	}
	return strings.TrimSuffix(string(out), "\n")
}

func (b box) commit() {
	b.t.Helper()
	b.git("add", "-A")
	b.git("-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "gc.auto=0", "-c", "maintenance.auto=false", "commit", "-q", "--allow-empty", "-m", "x")
}

func (b box) path(name string) string { return filepath.Join(b.dir, name) }

func (b box) put(name, text string) { b.putMode(name, text, 0o644) }

func (b box) putMode(name, text string, mode os.FileMode) {
	b.t.Helper()
	p := b.path(name)
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(p, []byte(text), mode); err != nil {
		b.t.Fatal(err)
	}
	if err := os.Chmod(p, mode); err != nil {
		b.t.Fatal(err)
	}
}

func (b box) link(target, name string) {
	b.t.Helper()
	if err := os.MkdirAll(filepath.Dir(b.path(name)), 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.Symlink(target, b.path(name)); err != nil {
		b.t.Fatal(err)
	}
}

func (b box) mkdir(name string) {
	b.t.Helper()
	if err := os.MkdirAll(b.path(name), 0o755); err != nil {
		b.t.Fatal(err)
	}
}

func (b box) rm(name string) {
	b.t.Helper()
	if err := os.RemoveAll(b.path(name)); err != nil {
		b.t.Fatal(err)
	}
}

// sh runs a command line in the repository, as a recovery would be run.
func (b box) sh(command string) {
	b.t.Helper()
	if _, err := (proc.Tool{Dir: b.dir, Env: b.env}).Run(b.t.Context(), "bash", "-c", command); err != nil {
		b.t.Fatal(err)
	}
}

// plan plans simple commands joined by &&.
func (b box) plan(command string) Targets {
	b.t.Helper()
	var list [][]string
	for c := range strings.SplitSeq(command, " && ") {
		list = append(list, strings.Fields(c))
	}
	t, err := Plan(b.dir, ".", list)
	if err != nil {
		b.t.Fatal(err)
	}
	return t
}

func (b box) keep(targets Targets) Kept {
	b.t.Helper()
	return b.keepCaps(targets, DefaultCaps())
}

func (b box) keepCaps(targets Targets, caps Caps) Kept {
	b.t.Helper()
	k, err := b.store.Keep(b.t.Context(), Request{Targets: targets, Caps: caps, Time: time.Unix(1_700_000_000, 0)})
	if err != nil {
		b.t.Fatal(err)
	}
	return k
}

func (b box) seal(k Kept) {
	b.t.Helper()
	if err := b.store.Seal(b.t.Context(), k.ID); err != nil {
		b.t.Fatal(err)
	}
}

func (b box) restore(k Kept, force bool) Report {
	b.t.Helper()
	r, err := b.store.Restore(b.t.Context(), k.ID, Options{Force: force})
	if err != nil {
		b.t.Fatal(err)
	}
	return r
}

// state is everything in the repository but git's own directory: names, kinds,
// modes, contents.
func (b box) state() string {
	b.t.Helper()
	var out []string
	err := filepath.WalkDir(b.dir, func(p string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(b.dir, p)
		if rel == ".git" {
			return fs.SkipDir
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		line := fmt.Sprintf("%q %v", rel, info.Mode())
		switch {
		case info.Mode()&fs.ModeSymlink != 0:
			to, err := os.Readlink(p)
			if err != nil {
				return err
			}
			line += " -> " + to
		case info.Mode().IsRegular():
			data, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			line += fmt.Sprintf(" %q", data)
		}
		out = append(out, line)
		return nil
	})
	if err != nil {
		b.t.Fatal(err)
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}

// index is what the operator has staged, and where HEAD and the branches are, as git
// has it on disk.
func (b box) index() string {
	return b.files(".git/index", ".git/HEAD", ".git/refs/heads", ".git/refs/tags")
}

// files gives the names and contents of files, and of those in directories.
func (b box) files(names ...string) string {
	b.t.Helper()
	var out strings.Builder
	for _, n := range names {
		err := filepath.WalkDir(b.path(n), func(p string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			data, err := os.ReadFile(p)
			fmt.Fprintf(&out, "%s %q\n", p, data)
			return err
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			b.t.Fatal(err)
		}
	}
	return out.String()
}

// nothingLeft fails if the store or the repository hold what no set accounts for.
func (b box) nothingLeft() {
	b.t.Helper()
	entries, err := os.ReadDir(b.store.sets())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		b.t.Fatal(err)
	}
	var sets []string
	for _, e := range entries {
		if id, ok := strings.CutSuffix(e.Name(), manifestFile); ok {
			sets = append(sets, refBase+id)
		}
	}
	for _, e := range entries {
		if id, _, ok := strings.Cut(e.Name(), "."); !ok || !slices.Contains(sets, refBase+id) {
			b.t.Errorf("left over in the store: %s", e.Name())
		}
	}
	temps, err := filepath.Glob(b.path(".git/" + refBase + ".*"))
	if err != nil || len(temps) > 0 {
		b.t.Errorf("left over beside the refs: %v %v", temps, err)
	}
	refs := strings.Fields(b.git("for-each-ref", "--format=%(refname)", "refs/superloop"))
	if !slices.Equal(refs, sets) {
		b.t.Errorf("refs %v, sets %v", refs, sets)
	}
	if s := b.state(); strings.Contains(s, ".superloop-undo-"+"1") || strings.Contains(s, ".new\"") || strings.Contains(s, ".old\"") {
		b.t.Errorf("left over in the repository:\n%s", s)
	}
}

func paths(list []Named) string {
	var out []string
	for _, n := range list {
		out = append(out, n.Path)
	}
	return strings.Join(out, " ")
}
