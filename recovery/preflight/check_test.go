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

	"github.com/superloop/superloop/recovery/failures"
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

// TestChecks: each kind, on good and on a broken environment.
// Conforms: 003-req-4, 003-c2.1-prevent, 003-c5-prevention-path
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
		kind failures.CheckKind
		spec failures.CheckSpec
		want string
	}{
		{failures.CheckPath, failures.CheckSpec{Path: "a.txt", Want: "file"}, failures.CheckOK},
		{failures.CheckPath, failures.CheckSpec{Path: "a.txt", Want: "dir"}, failures.CheckBroken},
		{failures.CheckPath, failures.CheckSpec{Path: "d", Want: "file"}, failures.CheckBroken},
		{failures.CheckPath, failures.CheckSpec{Path: "d"}, failures.CheckOK},
		{failures.CheckPath, failures.CheckSpec{Path: "gone/b.txt"}, failures.CheckBroken},
		{failures.CheckPath, failures.CheckSpec{Path: "a.txt/b"}, failures.CheckUnknown},
		{failures.CheckPermission, failures.CheckSpec{Path: "bin/tool", Want: "execute"}, failures.CheckOK},
		{failures.CheckPermission, failures.CheckSpec{Path: "a.txt", Want: "execute"}, failures.CheckBroken},
		{failures.CheckPermission, failures.CheckSpec{Path: "gone", Want: "read"}, failures.CheckBroken},
		{failures.CheckDisk, failures.CheckSpec{FreeMB: 1}, failures.CheckOK},
		{failures.CheckDisk, failures.CheckSpec{Path: "not/yet", FreeMB: 1 << 40}, failures.CheckBroken},
		{failures.CheckTool, failures.CheckSpec{Name: "tool"}, failures.CheckOK},
		{failures.CheckTool, failures.CheckSpec{Name: "no-such-tool"}, failures.CheckBroken},
		{failures.CheckPort, failures.CheckSpec{Port: port, Want: "open"}, failures.CheckOK},
		{failures.CheckPort, failures.CheckSpec{Port: port, Want: "free"}, failures.CheckBroken},
		{failures.CheckPort, failures.CheckSpec{Port: free, Want: "free"}, failures.CheckOK},
		{failures.CheckPort, failures.CheckSpec{Port: free, Want: "open"}, failures.CheckBroken},
		{failures.CheckService, failures.CheckSpec{Address: fmt.Sprint("127.0.0.1:", port)}, failures.CheckOK},
		{failures.CheckService, failures.CheckSpec{Address: fmt.Sprint("127.0.0.1:", free)}, failures.CheckBroken},
		{failures.CheckService, failures.CheckSpec{Address: sock}, failures.CheckOK},
		{failures.CheckAuth, failures.CheckSpec{Name: "codex"}, failures.CheckBroken},
		{failures.CheckAuth, failures.CheckSpec{Name: "claude"}, failures.CheckOK},
		{failures.CheckLimit, failures.CheckSpec{Name: "anthropic"}, failures.CheckBroken},
		{failures.CheckLimit, failures.CheckSpec{Name: "openai"}, failures.CheckOK},
		{failures.CheckDeps, failures.CheckSpec{}, failures.CheckUnknown},
	} {
		var ps failures.Preventions
		p, fresh, err := ps.Add(failures.Prevention{Kind: c.kind, Spec: c.spec, Reason: "it broke", AddedBy: "rules"}, noon)
		if err != nil || !fresh {
			t.Fatalf("%s %+v: %v", c.kind, c.spec, err)
		}
		f := Check(t.Context(), ps.Checks, dir, look)
		if len(f) != 1 || f[0].State != c.want || f[0].ID != p.ID || f[0].Category == "" || (c.want != failures.CheckOK) != (f[0].Why != "") {
			t.Errorf("%s %+v: %+v", c.kind, c.spec, f)
		}
		if n := len(failures.Problems(f)); (n == 1) != (c.want == failures.CheckBroken) {
			t.Errorf("%s %+v: %d problems", c.kind, c.spec, n)
		}
	}
}

// oneOfEach is a check of every kind.
func oneOfEach(t testing.TB) (ps failures.Preventions) {
	t.Helper()
	for _, k := range []failures.Prevention{{Kind: failures.CheckPath, Spec: failures.CheckSpec{Path: "x"}}, {Kind: failures.CheckDisk, Spec: failures.CheckSpec{FreeMB: 1}}, {Kind: failures.CheckTool, Spec: failures.CheckSpec{Name: "sh"}},
		{Kind: failures.CheckPort, Spec: failures.CheckSpec{Port: 1, Want: "free"}}, {Kind: failures.CheckService, Spec: failures.CheckSpec{Address: "127.0.0.1:1"}}} {
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
		if f.State != failures.CheckUnknown {
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
		if !ps.Retire(p.ID, "an operator says so", noon) {
			t.Fatalf("%s was not active", p.ID)
		}
	}
	if f := Check(t.Context(), ps.Checks, t.TempDir(), Look{}); len(f) != 1 || f[0].ID != good {
		t.Errorf("%+v", f)
	}
}
