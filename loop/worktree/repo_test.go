package worktree

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/superloop/superloop/internal/proc"

	"github.com/superloop/superloop/internal/text"
)

// hermetic is an environment in which git knows nobody's configuration.
func hermetic(t testing.TB) []string {
	t.Helper()
	home := t.TempDir()
	return []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "XDG_CONFIG_HOME=" + home, "GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_CONFIG_SYSTEM=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "TZ=UTC"}
}

// box is a directory with git in it, driven as a user would.
type box struct {
	t   testing.TB
	dir string
	env []string
}

// newBox makes a repository without a commit, with an author.
func newBox(t testing.TB) box {
	t.Helper()
	b := box{t, t.TempDir(), hermetic(t)}
	b.init()
	return b
}

// init makes a repository with an author.
func (b box) init() {
	b.t.Helper()
	b.git("init", "-q", "--template=", "-b", "main")
	f, err := os.OpenFile(filepath.Join(b.dir, ".git/config"), os.O_APPEND|os.O_WRONLY, 0)
	must(b.t, err)
	_, err = f.WriteString("[user]\n\tname = Ada\n\temail = ada@example.org\n")
	must(b.t, errors.Join(err, f.Close()))
}

// git runs git and wants success.
func (b box) git(args ...string) string {
	b.t.Helper()
	out, err := b.try(args...)
	if err != nil {
		b.t.Fatalf("git %s: %v", strings.Join(args, " "), err)
	}
	return strings.TrimSuffix(out, "\n")
}

func (b box) try(args ...string) (string, error) {
	out, err := proc.Tool{Dir: b.dir, Env: b.env}.Run(b.t.Context(), append([]string{"git"}, args...)...)
	return string(out), err
}

// put writes a file.
func (b box) put(name, content string) {
	b.t.Helper()
	p := filepath.Join(b.dir, name)
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(p, []byte(content), 0o644); err != nil {
		b.t.Fatal(err)
	}
}

func (b box) rm(name string) {
	b.t.Helper()
	if err := os.RemoveAll(filepath.Join(b.dir, name)); err != nil {
		b.t.Fatal(err)
	}
}

// commitAll commits everything as the user.
func (b box) commitAll(message string) {
	b.t.Helper()
	b.git("add", "-A")
	b.git("commit", "-q", "-m", message)
}

func (b box) open() *Repo {
	b.t.Helper()
	r, err := OpenEnv(b.t.Context(), b.dir, "", b.env)
	if err != nil {
		b.t.Fatal(err)
	}
	return r
}

// in is another directory under the same environment.
func (b box) in(dir string) box { return box{b.t, filepath.Join(b.dir, dir), b.env} }

func snap(t *testing.T, r *Repo) Snapshot {
	t.Helper()
	s, err := r.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// diff is "kind path" for each change, joined.
func diff(a, b Snapshot) string {
	var out []string
	for _, p := range Diff(a, b) {
		kind := "modified"
		if a.at(p) == (entry{}) {
			kind = "added"
		} else if b.at(p) == (entry{}) {
			kind = "deleted"
		}
		out = append(out, kind+" "+p)
	}
	return strings.Join(out, ", ")
}

func equal[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func TestOpen(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	b := newBox(t)
	b.put("sub dir/ü/x", "1")
	r, err := OpenEnv(ctx, filepath.Join(b.dir, "sub dir", "ü"), "", b.env)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "top", resolved(r.Top), resolved(b.dir))
	equal(t, "git dir", resolved(r.GitDir), resolved(filepath.Join(b.dir, ".git")))

	// Unborn.
	head, err := r.Head(ctx)
	if head != "" || err != nil {
		t.Errorf("head of nothing: %q %v", head, err)
	}
	branch, err := r.Branch(ctx)
	if branch != "main" || err != nil {
		t.Errorf("branch of nothing: %q %v", branch, err)
	}
	b.commitAll("one")
	if head, err = r.Head(ctx); err != nil || head != b.git("rev-parse", "HEAD") {
		t.Errorf("head: %q %v", head, err)
	}
	b.git("checkout", "-q", "--detach")
	if branch, err = r.Branch(ctx); branch != "" || err != nil {
		t.Errorf("detached: %q %v", branch, err)
	}

	// A variable of a hook that superloop was started from must not lead astray.
	other := newBox(t)
	env := append([]string{"GIT_DIR=" + filepath.Join(other.dir, ".git"), "GIT_INDEX_FILE=/nowhere", "GIT_WORK_TREE=" + other.dir}, b.env...)
	if r, err := OpenEnv(ctx, b.dir, "", env); err != nil || resolved(r.Top) != resolved(b.dir) {
		t.Errorf("with GIT_DIR set: %+v %v", r, err)
	}
}

func TestOpenWhatIsNoWorkTree(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	b := box{t, t.TempDir(), hermetic(t)}
	b.put("file", "")
	_, err := OpenEnv(ctx, b.dir, "", b.env)
	if !errors.Is(err, ErrNotRepo) || !strings.Contains(err.Error(), "git -C "+text.Paste(b.dir)+" init") {
		t.Errorf("no repository: %v", err)
	}
	if _, err := Open(ctx, b.dir, t.TempDir()); !errors.Is(err, ErrNotRepo) {
		t.Errorf("no repository, with the environment of the test: %v", err)
	}
	b.git("init", "-q", "--bare", "bare.git")
	if _, err := OpenEnv(ctx, b.dir+"/bare.git", "", b.env); !errors.Is(err, ErrNotRepo) || !strings.Contains(err.Error(), "bare") {
		t.Errorf("bare: %v", err)
	}
	b.git("init", "-q", "r")
	if _, err := OpenEnv(ctx, b.dir+"/r/.git", "", b.env); !errors.Is(err, ErrNotRepo) || !strings.Contains(err.Error(), "inside a git directory") {
		t.Errorf("in .git: %v", err)
	}
	for _, dir := range []string{b.dir + "/file", b.dir + "/gone"} {
		if _, err := OpenEnv(ctx, dir, "", b.env); !errors.Is(err, ErrNotRepo) {
			t.Errorf("%s: %v", dir, err)
		}
	}
}

func TestDirty(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.put("kept", "1")
	b.put("gone", "1")
	b.put("changed", "1")
	b.put("old name", "some content that is long enough to be a rename\n")
	b.put(".gitignore", "*.log\n")
	b.commitAll("one")
	b.put("changed", "2")
	b.put("x.log", "")
	b.put("a \"quoted\"\nna\tme é", "")
	b.put("staged", "")
	b.git("add", "staged")
	b.git("mv", "old name", "new name")
	b.rm("gone")
	b.put(".superloop/state.json", "{}")
	b.put("sub/.superloop/state.json", "{}")
	got, err := b.open().Dirty(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "dirty", strings.Join(got, "|"), "a \"quoted\"\nna\tme é|changed|gone|new name|old name|staged")
}

func TestParsersRefuseNonsense(t *testing.T) {
	t.Parallel()
	for _, out := range []string{"1 .M\x00", "x y\x00", "? \x00"[:1] + "\x00", "1 M N... 1 2 3 4 5 path\x00", "1 .M N... 100644 100644 9 a b path\x00"} {
		if list, err := parseStatus([]byte(out)); err == nil {
			t.Errorf("status %q: %+v", out, list)
		}
	}
	for _, out := range []string{"x\x00", "100644 zz 0\tp\x00", "100644 " + strings.Repeat("g", 40) + " 0\tp\x00", "100644 " + strings.Repeat("a", 80) + " 0\tp\x00",
		"10064x " + strings.Repeat("a", 40) + " 0\tp\x00", "100644 " + strings.Repeat("a", 40) + " 0 p\x00"} {
		if list, err := parseIndex([]byte(out)); err == nil {
			t.Errorf("index %q: %+v", out, list)
		}
	}
	id := strings.Repeat("a", 40)
	index, err := parseIndex([]byte("H 100644 " + id + " 0\tz\x00M 100644 " + id + " 2\tconflict\x00H 100755 " + id + " 0\ta\x00"))
	if err != nil || len(index) != 2 || index[0].path != "a" || index[1].path != "z" {
		t.Errorf("an index out of order: %+v %v", index, err)
	}
	list, err := parseStatus([]byte("# branch.oid x\x00! ignored\x002 R. N... 100644 100644 100644 a b R100 to\x00from\x00? z\x00"))
	if err != nil || len(list) != 2 || list[0].path != "to" || list[1].path != "z" {
		t.Errorf("got %+v %v", list, err)
	}
}
