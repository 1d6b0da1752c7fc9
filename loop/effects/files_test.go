package effects

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/superloop/superloop/internal/durable"
)

const recAside = ".foreign-20261122T120000.000000000"

// What is in the way of a directory is moved aside, and nothing lands behind it.
func TestDir(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		make  func(r *recHost)
		aside string // below the loop's directory
	}{
		"nothing":     {func(*recHost) {}, ""},
		"a directory": {func(r *recHost) { r.noErr(os.MkdirAll(r.Paths.File("a/b"), 0o755)) }, ""},
		"a link":      {func(r *recHost) { r.noErr(os.Symlink(r.Paths.Private, r.Paths.File("a"))) }, "a"},
		"a link below": {func(r *recHost) {
			r.noErr(os.Mkdir(r.Paths.File("a"), 0o755))
			r.noErr(os.Symlink(r.Paths.Private, r.Paths.File("a/b")))
		}, "a/b"},
		"a file": {func(r *recHost) { r.put(r.Paths.File("a/b"), "x") }, "a/b"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRecHost(t)
			c.make(r)
			r.noErr(r.Dir("x", r.Paths.File("a/b/c")))
			at := r.Paths.Loop
			for _, part := range []string{"a", "b", "c"} {
				at = filepath.Join(at, part)
				if info, err := os.Lstat(at); err != nil || !info.IsDir() {
					t.Errorf("%s: %v %v", at, info, err)
				}
			}
			if c.aside != "" {
				if _, err := os.Lstat(r.Paths.File(c.aside) + recAside); err != nil {
					t.Error(err)
				}
			}
			if c.aside != "" != (r.logged.Len() == 1) || len(r.names(r.Paths.Private)) != 0 {
				t.Error(r.logged.All(), r.names(r.Paths.Private))
			}
		})
	}
}

func TestDirInTrouble(t *testing.T) {
	t.Parallel()
	r := newRecHost(t)
	r.fail["x:mkdir"] = syscall.ENOSPC
	r.wantErr(r.Dir("x", r.Paths.File("a")), syscall.ENOSPC)
	r.put(r.Paths.File("b"), "")
	r.fail["x:rename"] = syscall.EDQUOT
	r.wantErr(r.Dir("x", r.Paths.File("b")), syscall.EDQUOT)
	if err := r.Dir("x", "relative"); err == nil {
		t.Error("a path that is not below the loop's")
	}
	if err := r.Dir("x", r.Paths.File(strings.Repeat("n", 300))); err == nil {
		t.Error("a name that is none")
	}
	if _, err := r.File("x", r.Paths.File("b/c")); err == nil {
		t.Error("its directory is a file")
	}
}

func TestFile(t *testing.T) {
	t.Parallel()
	outside := func(r *recHost) string { return filepath.Join(r.Paths.Private, "outside") }
	for name, c := range map[string]struct {
		make  func(r *recHost, path string)
		aside bool
	}{
		"nothing":       {func(*recHost, string) {}, false},
		"a plain file":  {func(r *recHost, path string) { r.put(path, "longer than the new one") }, false},
		"a link":        {func(r *recHost, path string) { r.noErr(os.Symlink(outside(r), path)) }, true},
		"a second name": {func(r *recHost, path string) { r.noErr(os.Link(outside(r), path)) }, true},
		"a directory":   {func(r *recHost, path string) { r.noErr(os.Mkdir(path, 0o755)) }, true},
		"a pipe":        {func(r *recHost, path string) { r.noErr(syscall.Mkfifo(path, 0o600)) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRecHost(t)
			r.put(outside(r), "precious")
			path := r.Paths.File("logs/x.log")
			r.noErr(os.Mkdir(filepath.Dir(path), 0o755))
			c.make(r, path)
			r.noErr(r.Create("x", path, "new"))
			info, err := os.Lstat(path)
			r.noErr(err)
			if c.aside && info.Mode()&0o111 != 0 { // whatever the umask is
				t.Error(info.Mode())
			}
			if !plain(info) || r.read(path) != "new" || r.read(outside(r)) != "precious" {
				t.Errorf("%v %q %q", info.Mode(), r.read(path), r.read(outside(r)))
			}
			want := "x.log"
			if c.aside {
				want += " x.log" + recAside
			}
			if got := strings.Join(r.names(filepath.Dir(path)), " "); got != want {
				t.Errorf("%q, want %q", got, want)
			}
		})
	}
}

func TestWritesInTrouble(t *testing.T) {
	t.Parallel()
	for step, write := range map[string]func(*recHost) error{
		"x:create": func(r *recHost) error { return r.Create("x", r.Paths.File("a"), "b") },
		"x:write":  func(r *recHost) error { return r.Create("x", r.Paths.File("a"), "b") },
		"x:close":  func(r *recHost) error { return r.Create("x", r.Paths.File("a"), "b") },
		"x:rename": func(r *recHost) error {
			r.noErr(os.Mkdir(r.Paths.File("a"), 0o755))
			return r.Create("x", r.Paths.File("a"), "b")
		},
		"x:open":          func(r *recHost) error { return r.Append("x", "a", []byte("b\n")) },
		"x:append":        func(r *recHost) error { return r.Append("x", "a", []byte("b\n")) },
		"state:rename":    func(r *recHost) error { return r.Write("state.json", nil) },
		"a.tar:write":     func(r *recHost) error { return r.Write("a.tar.gz", []byte("x")) },
		"decisions:write": func(r *recHost) error { return r.Write("decisions", []byte("x")) },
	} {
		r := newRecHost(t)
		r.fail[step] = syscall.ENOSPC
		err := write(r)
		if r.wantErr(err, syscall.ENOSPC); err == nil {
			t.Error(step)
		}
	}
	// The first error counts.
	r := newRecHost(t)
	r.fail["x:append"], r.fail["x:write"], r.fail["x:close"] = syscall.ENOSPC, syscall.ENOSPC, errRec
	r.wantErr(r.Append("x", "a", []byte("b\n")), syscall.ENOSPC)
	r.wantErr(r.Create("x", r.Paths.File("c"), "b"), syscall.ENOSPC)
	r.fail = map[string]error{"x:close": errRec}
	r.wantErr(r.Append("x", "a", []byte("b\n")), errRec)
}

func TestWriteAndAppend(t *testing.T) {
	t.Parallel()
	r := newRecHost(t)
	for range 2 {
		r.noErr(r.Write("state.json", []byte("{}")))
		r.noErr(r.Append("x", "log", []byte("line\n")))
	}
	if r.read(r.Paths.File("state.json")) != "{}" || r.read(r.Paths.File("log")) != "line\nline\n" {
		t.Error(r.read(r.Paths.File("log")))
	}
	if info, err := os.Stat(r.Paths.File("state.json")); err != nil || info.Mode() != 0o644 {
		t.Error(info, err)
	}
}

func TestFull(t *testing.T) {
	t.Parallel()
	h := &Host{LoopID: "l"}
	if h.Full(nil) != nil || h.Full(errRec) != errRec {
		t.Error("an error is another one")
	}
	for _, err := range []error{syscall.ENOSPC, &durable.Error{Op: "x:write", Path: "/a", Err: syscall.EDQUOT}} {
		got := h.Full(err)
		if !durable.IsFull(got) || !strings.Contains(got.Error(), "superloop run --loop l") {
			t.Error(got)
		}
	}
}
