package preflight

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/superloop/superloop/recovery/respond"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// tree writes files into a new directory; a name that ends in / is a directory.
func tree(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		put(t, dir, name, text)
	}
	return dir
}

func put(t testing.TB, dir, name, text string) {
	t.Helper()
	at := filepath.Join(dir, filepath.FromSlash(name))
	if strings.HasSuffix(name, "/") {
		must(t, os.MkdirAll(at, 0o755))
		return
	}
	must(t, os.MkdirAll(filepath.Dir(at), 0o755))
	must(t, os.WriteFile(at, []byte(text), 0o644))
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestChecks: each kind, on good and on broken ground.
func TestChecks(t *testing.T) {
	t.Parallel()
	dir := tree(t, map[string]string{"a.txt": "x", "d/": "", "bin/tool": ""})
	must(t, os.Chmod(filepath.Join(dir, "bin/tool"), 0o755))
	must(t, os.Chmod(filepath.Join(dir, "a.txt"), 0o644))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	port := l.Addr().(*net.TCPAddr).Port
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	free := closed.Addr().(*net.TCPAddr).Port
	must(t, closed.Close())
	sock := filepath.Join(dir, "s.sock")
	u, err := net.Listen("unix", sock)
	must(t, err)
	defer u.Close()
	look := Look{Path: filepath.Join(dir, "bin"), Now: noon, Limits: map[string]time.Time{"anthropic": noon.Add(time.Hour), "openai": noon},
		NoLogin: map[string]string{"codex": "401"}}
	for _, c := range []struct {
		kind respond.CheckKind
		spec respond.CheckSpec
		want string
	}{
		{respond.CheckPath, respond.CheckSpec{Path: "a.txt", Want: "file"}, respond.GroundOK},
		{respond.CheckPath, respond.CheckSpec{Path: "a.txt", Want: "dir"}, respond.GroundBroken},
		{respond.CheckPath, respond.CheckSpec{Path: "d", Want: "file"}, respond.GroundBroken},
		{respond.CheckPath, respond.CheckSpec{Path: "d"}, respond.GroundOK},
		{respond.CheckPath, respond.CheckSpec{Path: "gone/b.txt"}, respond.GroundBroken},
		{respond.CheckPath, respond.CheckSpec{Path: "a.txt/b"}, respond.GroundUnknown},
		{respond.CheckPermission, respond.CheckSpec{Path: "bin/tool", Want: "execute"}, respond.GroundOK},
		{respond.CheckPermission, respond.CheckSpec{Path: "a.txt", Want: "execute"}, respond.GroundBroken},
		{respond.CheckPermission, respond.CheckSpec{Path: "gone", Want: "read"}, respond.GroundBroken},
		{respond.CheckDisk, respond.CheckSpec{FreeMB: 1}, respond.GroundOK},
		{respond.CheckDisk, respond.CheckSpec{Path: "not/yet", FreeMB: 1 << 40}, respond.GroundBroken},
		{respond.CheckTool, respond.CheckSpec{Name: "tool"}, respond.GroundOK},
		{respond.CheckTool, respond.CheckSpec{Name: "no-such-tool"}, respond.GroundBroken},
		{respond.CheckPort, respond.CheckSpec{Port: port, Want: "open"}, respond.GroundOK},
		{respond.CheckPort, respond.CheckSpec{Port: port, Want: "free"}, respond.GroundBroken},
		{respond.CheckPort, respond.CheckSpec{Port: free, Want: "free"}, respond.GroundOK},
		{respond.CheckPort, respond.CheckSpec{Port: free, Want: "open"}, respond.GroundBroken},
		{respond.CheckService, respond.CheckSpec{Address: fmt.Sprint("127.0.0.1:", port)}, respond.GroundOK},
		{respond.CheckService, respond.CheckSpec{Address: fmt.Sprint("127.0.0.1:", free)}, respond.GroundBroken},
		{respond.CheckService, respond.CheckSpec{Address: sock}, respond.GroundOK},
		{respond.CheckAuth, respond.CheckSpec{Name: "codex"}, respond.GroundBroken},
		{respond.CheckAuth, respond.CheckSpec{Name: "claude"}, respond.GroundOK},
		{respond.CheckLimit, respond.CheckSpec{Name: "anthropic"}, respond.GroundBroken},
		{respond.CheckLimit, respond.CheckSpec{Name: "openai"}, respond.GroundOK},
		{respond.CheckDeps, respond.CheckSpec{}, respond.GroundUnknown},
	} {
		var ps respond.Preventions
		p, fresh, err := ps.Add(respond.Prevention{Kind: c.kind, Spec: c.spec, Reason: "it broke", AddedBy: "rules"}, noon)
		if err != nil || !fresh {
			t.Fatalf("%s %+v: %v", c.kind, c.spec, err)
		}
		f := Check(t.Context(), ps.Checks, dir, look)
		if len(f) != 1 || f[0].State != c.want || f[0].ID != p.ID || f[0].Category == "" || (c.want != respond.GroundOK) != (f[0].Why != "") {
			t.Errorf("%s %+v: %+v", c.kind, c.spec, f)
		}
		if n := len(respond.Problems(f)); (n == 1) != (c.want == respond.GroundBroken) {
			t.Errorf("%s %+v: %d problems", c.kind, c.spec, n)
		}
	}
}

// oneOfEach is a check of every kind.
func oneOfEach(t testing.TB) (ps respond.Preventions) {
	t.Helper()
	for _, k := range []respond.Prevention{{Kind: respond.CheckPath, Spec: respond.CheckSpec{Path: "x"}}, {Kind: respond.CheckDisk, Spec: respond.CheckSpec{FreeMB: 1}}, {Kind: respond.CheckTool, Spec: respond.CheckSpec{Name: "sh"}},
		{Kind: respond.CheckPort, Spec: respond.CheckSpec{Port: 1, Want: "free"}}, {Kind: respond.CheckService, Spec: respond.CheckSpec{Address: "127.0.0.1:1"}}} {
		_, _, err := ps.Add(k, noon)
		must(t, err)
	}
	return ps
}

// TestCheckEnded: an ended context looks at nothing.
func TestCheckEnded(t *testing.T) {
	t.Parallel()
	ps := oneOfEach(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, f := range Check(ctx, ps.Checks, t.TempDir(), Look{}) {
		if f.State != respond.GroundUnknown {
			t.Errorf("%+v", f)
		}
	}
}

// The looks of every kind, one each.
func BenchmarkCheck(b *testing.B) {
	ps := oneOfEach(b)
	dir := b.TempDir()
	for b.Loop() {
		Check(b.Context(), ps.Checks, dir, Look{})
	}
}

// TestRetiredIsNotLookedAt: a check that was given up costs no look.
func TestRetiredIsNotLookedAt(t *testing.T) {
	t.Parallel()
	ps := oneOfEach(t)
	good := ps.Checks[0].ID
	for _, p := range ps.Checks[1:] {
		if !ps.Retire(p.ID, "a person says so", noon) {
			t.Fatalf("%s was not active", p.ID)
		}
	}
	if f := Check(t.Context(), ps.Checks, t.TempDir(), Look{}); len(f) != 1 || f[0].ID != good {
		t.Errorf("%+v", f)
	}
}
