package respond

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/superloop/superloop/internal/durable"
)

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
		kind CheckKind
		spec CheckSpec
		want string
	}{
		{CheckPath, CheckSpec{Path: "a.txt", Want: "file"}, GroundOK},
		{CheckPath, CheckSpec{Path: "a.txt", Want: "dir"}, GroundBroken},
		{CheckPath, CheckSpec{Path: "d", Want: "file"}, GroundBroken},
		{CheckPath, CheckSpec{Path: "d"}, GroundOK},
		{CheckPath, CheckSpec{Path: "gone/b.txt"}, GroundBroken},
		{CheckPath, CheckSpec{Path: "a.txt/b"}, GroundUnknown},
		{CheckPermission, CheckSpec{Path: "bin/tool", Want: "execute"}, GroundOK},
		{CheckPermission, CheckSpec{Path: "a.txt", Want: "execute"}, GroundBroken},
		{CheckPermission, CheckSpec{Path: "gone", Want: "read"}, GroundBroken},
		{CheckDisk, CheckSpec{FreeMB: 1}, GroundOK},
		{CheckDisk, CheckSpec{Path: "not/yet", FreeMB: 1 << 40}, GroundBroken},
		{CheckTool, CheckSpec{Name: "tool"}, GroundOK},
		{CheckTool, CheckSpec{Name: "no-such-tool"}, GroundBroken},
		{CheckPort, CheckSpec{Port: port, Want: "open"}, GroundOK},
		{CheckPort, CheckSpec{Port: port, Want: "free"}, GroundBroken},
		{CheckPort, CheckSpec{Port: free, Want: "free"}, GroundOK},
		{CheckPort, CheckSpec{Port: free, Want: "open"}, GroundBroken},
		{CheckService, CheckSpec{Address: fmt.Sprint("127.0.0.1:", port)}, GroundOK},
		{CheckService, CheckSpec{Address: fmt.Sprint("127.0.0.1:", free)}, GroundBroken},
		{CheckService, CheckSpec{Address: sock}, GroundOK},
		{CheckAuth, CheckSpec{Name: "codex"}, GroundBroken},
		{CheckAuth, CheckSpec{Name: "claude"}, GroundOK},
		{CheckLimit, CheckSpec{Name: "anthropic"}, GroundBroken},
		{CheckLimit, CheckSpec{Name: "openai"}, GroundOK},
		{CheckDeps, CheckSpec{}, GroundUnknown},
	} {
		var ps Preventions
		p, fresh, err := ps.Add(Prevention{Kind: c.kind, Spec: c.spec, Reason: "it broke", AddedBy: "rules"}, noon)
		if err != nil || !fresh {
			t.Fatalf("%s %+v: %v", c.kind, c.spec, err)
		}
		f := ps.Check(t.Context(), dir, look)
		if len(f) != 1 || f[0].State != c.want || f[0].ID != p.ID || f[0].Category == "" || (c.want != GroundOK) != (f[0].Why != "") {
			t.Errorf("%s %+v: %+v", c.kind, c.spec, f)
		}
		if n := len(Problems(f)); (n == 1) != (c.want == GroundBroken) {
			t.Errorf("%s %+v: %d problems", c.kind, c.spec, n)
		}
	}
}

// TestSpecs: what cannot be looked at is refused, with a reason.
func TestSpecs(t *testing.T) {
	t.Parallel()
	for _, p := range []Prevention{
		{Kind: "moon"}, {Kind: CheckPath}, {Kind: CheckPath, Spec: CheckSpec{Path: "a", Want: "pipe"}}, {Kind: CheckPath, Spec: CheckSpec{Path: "a\nb"}},
		{Kind: CheckPermission, Spec: CheckSpec{Path: "a"}}, {Kind: CheckDeps, Spec: CheckSpec{Manager: "apt"}}, {Kind: CheckDisk},
		{Kind: CheckPort, Spec: CheckSpec{Port: 70000, Want: "free"}}, {Kind: CheckPort, Spec: CheckSpec{Port: 80}}, {Kind: CheckTool, Spec: CheckSpec{Name: "/bin/sh"}},
		{Kind: CheckService, Spec: CheckSpec{Address: "example.com:80"}}, {Kind: CheckService, Spec: CheckSpec{Address: "10.0.0.1:80"}},
		{Kind: CheckService, Spec: CheckSpec{Address: "localhost:http"}}, {Kind: CheckAuth}, {Kind: CheckLimit},
	} {
		var ps Preventions
		if _, _, err := ps.Add(p, noon); err == nil || len(ps.Checks) != 0 {
			t.Errorf("%+v is taken", p)
		}
	}
}

// TestRetire: false alarms, checks that never hit and old ones are given up; what
// saves runs stays; a retired one that is added again wakes up.
func TestRetire(t *testing.T) {
	t.Parallel()
	var ps Preventions
	add := func(name string) string {
		p, _, err := ps.Add(Prevention{Kind: CheckTool, Spec: CheckSpec{Name: name}, Reason: "r", AddedBy: "rules"}, noon)
		must(t, err)
		return p.ID
	}
	of := func(id string) Prevention {
		for _, p := range ps.Checks {
			if p.ID == id {
				return p
			}
		}
		t.Fatalf("%s is gone", id)
		return Prevention{}
	}
	hit := func(id, state string, n int, at time.Time) {
		for range n {
			ps.Note([]Finding{{ID: id, State: state}}, at)
		}
	}
	idle, alarms, good, old := add("idle"), add("alarms"), add("good"), add("old")
	hit(idle, GroundOK, idleRuns-1, noon)
	if !of(idle).Active() {
		t.Error("too early")
	}
	if gone := ps.Note([]Finding{{ID: idle, State: GroundUnknown}}, noon); len(gone) != 1 || gone[0].ID != idle || gone[0].RetiredOf == "" {
		t.Errorf("%+v", gone)
	}
	hit(alarms, GroundBroken, 3, noon)
	ps.Saved(alarms)
	ps.Overrule(alarms, noon)
	if !of(alarms).Active() {
		t.Error("one false alarm is none")
	}
	ps.Overrule(alarms, noon)
	if of(alarms).Active() {
		t.Errorf("%+v", of(alarms))
	}
	hit(good, GroundBroken, 1, noon)
	ps.Saved(good)
	hit(good, GroundOK, 2*idleRuns, noon)
	if p := of(good); !p.Active() || p.Hits != 1 || p.Prevented != 1 || p.Runs != 2*idleRuns+1 {
		t.Errorf("%+v", p)
	}
	hit(old, GroundBroken, 1, noon)
	hit(old, GroundOK, quietRuns, noon.Add(59*24*time.Hour))
	if !of(old).Active() {
		t.Error("it is not old yet")
	}
	hit(old, GroundOK, 1, noon.Add(61*24*time.Hour))
	if of(old).Active() {
		t.Error("it is old")
	}
	if f := ps.Check(t.Context(), t.TempDir(), Look{}); len(f) != 1 || f[0].ID != good {
		t.Errorf("%+v", f)
	}
	if _, fresh, err := ps.Add(Prevention{Kind: CheckTool, Spec: CheckSpec{Name: "good"}}, noon); fresh || err != nil || of(good).Runs == 0 {
		t.Error("it is added twice")
	}
	if _, fresh, _ := ps.Add(Prevention{Kind: CheckTool, Spec: CheckSpec{Name: "old"}}, noon); !fresh || !of(old).Active() || len(ps.Checks) != 4 {
		t.Error("it does not wake up")
	}
	if !ps.Retire(good, "a person says so", noon) || of(good).Active() || ps.Retire(good, "again", noon) {
		t.Error("a person cannot retire it")
	}
	for n := range 3 * maxChecks {
		add(fmt.Sprint("more", n))
	}
	if len(ps.Checks) != maxChecks {
		t.Errorf("%d checks", len(ps.Checks))
	}
}

// oneOfEach is a check of every kind.
func oneOfEach(t testing.TB) (ps Preventions) {
	t.Helper()
	for _, k := range []Prevention{{Kind: CheckPath, Spec: CheckSpec{Path: "x"}}, {Kind: CheckDisk, Spec: CheckSpec{FreeMB: 1}}, {Kind: CheckTool, Spec: CheckSpec{Name: "sh"}},
		{Kind: CheckPort, Spec: CheckSpec{Port: 1, Want: "free"}}, {Kind: CheckService, Spec: CheckSpec{Address: "127.0.0.1:1"}}} {
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
	for _, f := range ps.Check(ctx, t.TempDir(), Look{}) {
		if f.State != GroundUnknown {
			t.Errorf("%+v", f)
		}
	}
}

// The looks of every kind, one each.
func BenchmarkCheck(b *testing.B) {
	ps := oneOfEach(b)
	dir := b.TempDir()
	for b.Loop() {
		ps.Check(b.Context(), dir, Look{})
	}
}

// TestStore: what one supervisor adds another one sees, nothing is lost, and a
// damaged file is said.
func TestStore(t *testing.T) {
	t.Parallel()
	s := Store[Preventions]{Disk: durable.OS(), Path: filepath.Join(t.TempDir(), "preventions.json")}
	if v, err := s.Load(); err != nil || len(v.Checks) != 0 {
		t.Fatalf("%+v, %v", v, err)
	}
	var all sync.WaitGroup
	for n := range 8 {
		all.Go(func() {
			_, err := s.Update(t.Context(), func(ps *Preventions) bool {
				_, fresh, err := ps.Add(Prevention{Kind: CheckTool, Spec: CheckSpec{Name: fmt.Sprint("t", n)}}, noon)
				return err == nil && fresh
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	v, err := s.Load()
	if err != nil || len(v.Checks) != 8 {
		t.Fatalf("%d checks, %v", len(v.Checks), err)
	}
	before, err := os.Stat(s.Path)
	must(t, err)
	same, err := s.Update(t.Context(), func(*Preventions) bool { return false })
	after, _ := os.Stat(s.Path)
	if err != nil || !reflect.DeepEqual(same, v) || !os.SameFile(before, after) || before.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", err, before.Mode())
	}
	must(t, os.WriteFile(s.Path, []byte("{"), 0o600))
	var damaged *DamagedError
	if _, err := s.Load(); !errors.As(err, &damaged) || damaged.Path != s.Path {
		t.Errorf("%v", err)
	}
	if _, err := s.Update(t.Context(), func(*Preventions) bool { return true }); !errors.As(err, &damaged) {
		t.Errorf("a damaged file is overwritten: %v", err)
	}
}
