package workdir

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
)

func openRoot(t *testing.T, path string) *Root {
	t.Helper()
	r, err := OpenRoot(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

func mkdirs(t *testing.T, paths ...string) {
	t.Helper()
	for _, p := range paths {
		if err := os.MkdirAll(p, 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

func link(t *testing.T, target, path string) {
	t.Helper()
	if err := os.Symlink(target, path); err != nil {
		t.Fatal(err)
	}
}

// Threat T11: which working directories there are.
func TestResolve(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	repo := filepath.Join(top, "repo")
	mkdirs(t, filepath.Join(repo, "a", "b"), filepath.Join(repo, ".git", "hooks"), filepath.Join(repo, ".superloop", "loops"), filepath.Join(repo, "sub", ".git", "hooks"), filepath.Join(repo, ".github"),
		filepath.Join(top, "repo-evil"), filepath.Join(top, "outside"), filepath.Join(repo, "a b"))
	if err := os.WriteFile(filepath.Join(repo, "file"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(repo, "fifo"), 0o644); err != nil {
		t.Fatal(err)
	}
	link(t, "a/b", filepath.Join(repo, "in"))
	link(t, "../a", filepath.Join(repo, "a", "self"))
	link(t, "..", filepath.Join(repo, "up"))
	link(t, "../outside", filepath.Join(repo, "out"))
	link(t, filepath.Join(top, "outside"), filepath.Join(repo, "outabs"))
	link(t, filepath.Join(repo, "a"), filepath.Join(repo, "inabs"))
	link(t, "/", filepath.Join(repo, "slash"))
	link(t, ".git/hooks", filepath.Join(repo, "hooks"))
	link(t, "sub/.git", filepath.Join(repo, "subhooks"))
	link(t, ".superloop", filepath.Join(repo, "state"))
	link(t, "loop", filepath.Join(repo, "loop"))
	link(t, "/proc/self/cwd", filepath.Join(repo, "magic"))
	link(t, repo, filepath.Join(top, "alias"))
	alias := openRoot(t, filepath.Join(top, "alias"))
	for _, r := range []*Root{openRoot(t, repo), alias} {
		for dir, want := range map[string]string{
			"": ".", ".": ".", "./": ".", "a": "a", "a/b": "a/b", "a//b/": "a/b", "./a/./b": "a/b", "a/../a/b": "a/b", "in": "a/b", "a/self/b": "a/b", "in/..": "a", "a b": "a b", ".github": ".github",
			repo: ".", repo + "/": ".", repo + "/a": "a", repo + "//a/b": "a/b", filepath.Join(top, "alias"): "alias only", filepath.Join(top, "alias", "a"): "alias only",
		} {
			d, err := r.Resolve(dir)
			if want == "alias only" {
				if (err == nil) != (r == alias) {
					t.Errorf("%q: %v", dir, err)
				}
				if err == nil {
					d.Close()
				}
				continue
			}
			if err != nil {
				t.Errorf("%q is refused: %v", dir, err)
				continue
			}
			info, err := os.Stat(filepath.Join(repo, want))
			if err != nil {
				t.Fatal(err)
			}
			if st := info.Sys().(*syscall.Stat_t); st.Ino != d.Ino || uint64(st.Dev) != d.Dev {
				t.Errorf("%q is not %s", dir, want)
			}
			d.Close()
		}
	}
	r := openRoot(t, repo)
	for dir, why := range map[string]string{
		"..": "out of", "../repo": "out of", "../repo-evil": "out of", "a/../..": "out of", "a/b/../../../outside": "out of", "out": "out of", "outabs": "out of", "inabs": "out of", "slash": "out of", "slash/etc": "out of", "up": "out of", "up/repo": "out of", "out/..": "out of",
		"/": "not in", "/etc": "not in", repo + "-evil": "not in", repo + "x": "not in", filepath.Join(top, "outside"): "not in", repo + "/../outside": "out of", top: "not in", "~": "does not exist", "~/a": "does not exist", "$HOME": "does not exist",
		".git": "lies in .git", ".git/hooks": "lies in .git", "a/../.git": "lies in .git", ".GIT": "lies in .git", "sub/.git/hooks": "lies in .git", "hooks": "lies in .git", "subhooks": "lies in .git", "subhooks/hooks": "lies in .git",
		".superloop": "lies in .superloop", ".superloop/loops": "lies in .superloop", "state": "lies in .superloop", "state/loops": "lies in .superloop", ".Superloop": "lies in .superloop",
		"none": "does not exist", "file": "not a directory", "file/x": "not a directory", "fifo": "not a directory", "loop": "links", "a\x00b": "NUL", strings.Repeat("a/", 2100): "bytes", strings.Repeat("x", 300): "cannot be opened",
	} {
		d, err := r.Resolve(dir)
		var de *Error
		if err == nil || !errors.As(err, &de) || !strings.Contains(err.Error(), why) {
			t.Errorf("%.60q: %v, want %q", dir, err, why)
		}
		if err == nil {
			d.Close()
		}
	}
	if runtime.GOOS == "linux" {
		if _, err := r.Resolve("magic"); err == nil {
			t.Error("a magic link of /proc is followed")
		}
		if _, err := openRoot(t, "/").Resolve("proc"); err == nil || !strings.Contains(err.Error(), "another device") {
			t.Errorf("/proc below /: %v", err)
		}
	}
	if _, err := OpenRoot(filepath.Join(repo, "nothing")); err == nil {
		t.Error("a repository that is not there is opened")
	}
}

// A loop's work tree lies in .superloop, and is a repository all the same.
func TestResolveInWorkTree(t *testing.T) {
	t.Parallel()
	tree := filepath.Join(t.TempDir(), ".superloop", "worktrees", "x")
	mkdirs(t, filepath.Join(tree, "a"))
	r := openRoot(t, tree)
	for _, dir := range []string{".", "a", tree, filepath.Join(tree, "a")} {
		d, err := r.Resolve(dir)
		if err != nil {
			t.Errorf("%q: %v", dir, err)
			continue
		}
		d.Close()
	}
}

// Both ways to go below a root refuse the same.
func TestResolveWithoutOpenat2(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	repo := filepath.Join(top, "repo")
	mkdirs(t, filepath.Join(repo, "a"), filepath.Join(top, "out"))
	link(t, "../out", filepath.Join(repo, "out"))
	link(t, "a", filepath.Join(repo, "in"))
	link(t, filepath.Join(top, "out"), filepath.Join(repo, "abs"))
	link(t, "/proc/self/cwd", filepath.Join(repo, "magic"))
	if err := errors.Join(os.WriteFile(filepath.Join(repo, "file"), nil, 0o644), syscall.Mkfifo(filepath.Join(repo, "fifo"), 0o644)); err != nil {
		t.Fatal(err)
	}
	r := openRoot(t, repo)
	for dir, good := range map[string]bool{".": true, "a": true, "in": true, "out": false, "..": false, "a/../..": false, "fifo": false, "none": false, "abs": false, "magic": false, "file": false} {
		fd, err := r.beneathRoot(dir)
		if (err == nil) != good {
			t.Errorf("%s: %v", dir, err)
		}
		if err != nil && whyNot(err) == "" {
			t.Errorf("%s: no reason", dir)
		}
		if err == nil {
			_ = syscall.Close(fd)
		}
	}
}

// While somebody exchanges a directory for a link that leads out, again and again,
// what is resolved is never outside.
func TestResolveAgainstRenames(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	repo := filepath.Join(top, "repo")
	mkdirs(t, filepath.Join(repo, "dir", "sub"), filepath.Join(top, "outside", "sub"))
	link(t, "../outside", filepath.Join(repo, "trap"))
	r := openRoot(t, repo)
	good, err := r.Resolve("dir/sub")
	if err != nil {
		t.Fatal(err)
	}
	good.Close()
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		dir, trap, spare := filepath.Join(repo, "dir"), filepath.Join(repo, "trap"), filepath.Join(repo, "spare")
		for {
			select {
			case <-stop:
				return
			default:
			}
			_ = os.Rename(dir, spare)
			_ = os.Rename(trap, dir)
			_ = os.Rename(dir, trap)
			_ = os.Rename(spare, dir)
		}
	})
	found, refused := 0, 0
	for range 3000 {
		d, err := r.Resolve("dir/sub")
		if err != nil {
			refused++
			continue
		}
		found++
		if d.Ino != good.Ino || d.Dev != good.Dev {
			t.Errorf("it led to another directory")
		}
		d.Close()
	}
	close(stop)
	wg.Wait()
	if found == 0 || refused == 0 {
		t.Logf("the attacker was never in the way, or always: %d found, %d refused", found, refused)
	}
}
