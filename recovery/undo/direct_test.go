package undo

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestOtherRepositories: none, one without a commit, a part of one, one with
// SHA-256, a linked work tree.
func TestOtherRepositories(t *testing.T) {
	t.Parallel()
	for name, make := range map[string]func(t *testing.T) box{
		"none": func(t *testing.T) box {
			b := newBox(t)
			b.rm(".git")
			return b
		},
		"without a commit": func(t *testing.T) box {
			b := newBox(t)
			b.put("staged", "1")
			b.git("add", "staged")
			return b
		},
		"a part": func(t *testing.T) box {
			b := newBox(t)
			b.put("sub/file", "1")
			b.put("file", "outside of it")
			b.commit()
			b.put("file", "edited outside of it")
			b.dir = b.path("sub")
			b.store.Repo = b.dir
			return b
		},
		"SHA-256": func(t *testing.T) box {
			b := newBox(t)
			b.rm(".git")
			b.git("init", "-q", "--object-format=sha256")
			b.put("file", "1")
			b.commit()
			return b
		},
		"a linked work tree": func(t *testing.T) box {
			b := newBox(t)
			b.put("file", "1")
			b.commit()
			other := filepath.Join(t.TempDir(), "other")
			b.git("worktree", "add", "-q", other)
			b.dir = other
			b.store.Repo = other
			return b
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := make(t)
			b.put("untracked", "2")
			b.put("tree/x", "3")
			before := b.state()
			k := b.keep(Targets{Paths: []Target{{Path: "tree", Deleted: true}}, Untracked: true})
			b.sh("rm -rf tree; for f in *; do echo x > $f; done")
			b.seal(k)
			r := b.restore(k, false)
			if name == "none" {
				if len(r.NotKept) != 1 || k.Ref != "" {
					t.Errorf("%+v", r)
				}
				b.put("untracked", "2")
			}
			if got := b.state(); got != before || !r.Complete() {
				t.Errorf("%+v\n%s", r, got)
			}
			if err := b.store.Drop(t.Context(), k.ID); err != nil {
				t.Error(err)
			}
			if name != "none" {
				b.nothingLeft()
			}
		})
	}
}

// TestCleanRepository: where no tracked file differs, git is told to write a ref and nothing else, runs no program of the
// operator, and HEAD's commit gets the set's ref.
func TestCleanRepository(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.put("tracked", "1")
	b.put("package.json", "{}")
	b.put("filtered.dat", "2")
	b.put(".gitattributes", "*.dat filter=evil\n")
	b.put(".gitignore", "node_modules\n")
	b.commit()
	before := b.state()
	// The operator's configuration has a filter, and all of the index looks so new
	// that git has to read the files.
	ran, person := filepath.Join(t.TempDir(), "ran"), filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(person, []byte("[filter \"evil\"]\n\tclean = touch "+ran+"; cat\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	old := time.Unix(1_000_000_000, 0)
	if err := os.Chtimes(b.path(".git/index"), old, old); err != nil {
		t.Fatal(err)
	}
	personal := b
	personal.env = append(b.env[:len(b.env):len(b.env)], "GIT_CONFIG_GLOBAL="+person)
	if _, out := personal.run(kill{step: 1 << 30}, "keep-clean", ""); out != "reads config rev-parse diff-index\nprograms git" {
		t.Errorf("%q", out)
	}
	if _, err := os.Stat(ran); err == nil {
		t.Error("the operator's filter ran")
	}
	sets, err := b.store.List()
	if err != nil || len(sets) != 1 || sets[0].Tracked != 0 || sets[0].Commit != b.git("rev-parse", "HEAD") || sets[0].Files != 1 {
		t.Fatalf("%+v %v", sets, err)
	}
	b.nothingLeft()
	b.sh("rm -rf tracked; echo x > package.json; mkdir node_modules")
	b.git("-c", "user.name=Ada", "-c", "user.email=ada@example.org", "commit", "-q", "--amend", "-m", "another")
	b.git("-c", "gc.reflogExpire=now", "-c", "gc.reflogExpireUnreachable=now", "gc", "-q", "--prune=now")
	b.seal(sets[0])
	if r := b.restore(sets[0], false); !r.Complete() || strings.Join(r.Restored, " ") != "package.json tracked" || strings.Join(r.Created, " ") != "node_modules" {
		t.Errorf("%+v", r)
	}
	b.rm("node_modules")
	if got := b.state(); got != before {
		t.Errorf("got\n%s\nwant\n%s", got, before)
	}
}
