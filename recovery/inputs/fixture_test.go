package inputs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/superloop/superloop/internal/proc"
)

// box is a repository that an operator has committed, and that an agent edits.
type box struct {
	t   testing.TB
	dir string
	env []string
}

// newBox makes a repository with the files of a txtar archive in one commit.
func newBox(t testing.TB, archive string) box {
	t.Helper()
	home := t.TempDir()
	b := box{t, t.TempDir(), []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "XDG_CONFIG_HOME=" + home, "GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_CONFIG_SYSTEM=/dev/null", "GIT_CONFIG_NOSYSTEM=1"}}
	b.files(archive)
	b.git("init", "-q", "--template=", "-b", "main")
	b.commit()
	return b
}

func (b box) commit() {
	b.t.Helper()
	b.git("add", "-A")
	b.git("-c", "user.name=Ada", "-c", "user.email=ada@example.org", "commit", "-q", "--allow-empty", "-m", "x")
}

func (b box) git(args ...string) string {
	b.t.Helper()
	out, err := proc.Tool{Dir: b.dir, Env: b.env}.Run(b.t.Context(), append([]string{"git"}, args...)...)
	if err != nil {
		b.t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// files writes the files of an archive.
func (b box) files(archive string) {
	b.t.Helper()
	for _, f := range txtar.Parse([]byte(archive)).Files {
		b.put(f.Name, string(f.Data))
	}
}

func (b box) put(name, text string) {
	b.t.Helper()
	p := filepath.Join(b.dir, name)
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
		b.t.Fatal(err)
	}
}

func (b box) rm(name string) {
	b.t.Helper()
	if err := os.RemoveAll(filepath.Join(b.dir, name)); err != nil {
		b.t.Fatal(err)
	}
}

func (b box) replace(name, old, text string) {
	b.t.Helper()
	data, err := os.ReadFile(filepath.Join(b.dir, name))
	if err != nil || !strings.Contains(string(data), old) {
		b.t.Fatalf("%s does not hold %q: %v", name, old, err)
	}
	b.put(name, strings.Replace(string(data), old, text, 1))
}

// link makes a symbolic link.
func (b box) link(target, name string) {
	b.t.Helper()
	p := filepath.Join(b.dir, name)
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.Symlink(target, p); err != nil {
		b.t.Fatal(err)
	}
}

// take takes a baseline of the files as they are.
func (b box) take(queries ...Query) *Baseline {
	b.t.Helper()
	base, err := take(b.t.Context(), b.dir, outsideOf(queries), queries, time.Unix(1_700_000_000, 0))
	if err != nil {
		b.t.Fatal(err)
	}
	return base
}

// query is a command that is a list of simple commands joined by &&.
func query(command string) Query {
	q := Query{Mode: Scripts}
	for _, c := range strings.Split(command, " && ") {
		q.Commands = append(q.Commands, strings.Fields(c))
	}
	return q
}

func (b box) check(base *Baseline, q Query) []Change {
	b.t.Helper()
	tree, err := Open(b.dir)
	if err != nil {
		b.t.Fatal(err)
	}
	defer tree.Close()
	q.Repo = b.dir
	rep, err := Check(base, tree, q)
	if err != nil {
		b.t.Fatal(err)
	}
	return rep.Changes
}

// names is "kind path part" of each change, joined.
func names(changes []Change) string {
	var out []string
	for _, c := range changes {
		out = append(out, c.Kind+" "+c.Name())
	}
	return strings.Join(out, ", ")
}

// outsideOf returns what the queries say of the places outside of the repository.
func outsideOf(queries []Query) (out Outside) {
	for _, q := range queries {
		out = q.Outside
	}
	return out
}
