package door

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestOpenRefusesWhatIsNoRegularFile(t *testing.T) {
	t.Parallel()
	for name, make := range map[string]func(path string) error{
		"a symbolic link": func(p string) error { return os.Symlink("/etc/passwd", p) },
		"dangling":        func(p string) error { return os.Symlink("/nowhere", p) },
		"a directory":     func(p string) error { return os.Mkdir(p, 0o755) },
		"a pipe":          func(p string) error { return syscall.Mkfifo(p, 0o644) },
		"a socket": func(p string) error {
			l, err := net.ListenUnix("unix", &net.UnixAddr{Name: p})
			if err == nil {
				l.SetUnlinkOnClose(false)
				err = l.Close()
			}
			return err
		},
	} {
		for _, dir := range []string{"plain", "repo/.superloop/loops/l"} {
			t.Run(name+" in "+dir, func(t *testing.T) {
				t.Parallel()
				top, err := os.MkdirTemp("", "d") // a socket's path is short
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { os.RemoveAll(top) })
				path := filepath.Join(top, dir, "f")
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := make(path); err != nil {
					t.Fatal(err)
				}
				if _, err := Read(path, 100); !errors.Is(err, ErrNotRegular) || name != "dangling" && !strings.Contains(err.Error(), name) {
					t.Errorf("Read: %v", err)
				}
				if _, _, err := Ends(path, 10, 10); !errors.Is(err, ErrNotRegular) {
					t.Errorf("Ends: %v", err)
				}
			})
		}
	}
	if _, err := Read(filepath.Join(t.TempDir(), "f"), 1); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing: %v", err)
	}
}

func TestOpenStaysBelowSuperloop(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	secret := filepath.Join(top, "state", "f")
	path := filepath.Join(top, ".superloop", "logs", "f")
	for _, p := range []string{secret, path} {
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte("text"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if data, err := Read(path, 4); string(data) != "text" || err != nil {
		t.Fatalf("%q, %v", data, err)
	}
	if err := errors.Join(os.RemoveAll(filepath.Dir(path)), os.Symlink(filepath.Dir(secret), filepath.Dir(path))); err != nil {
		t.Fatal(err)
	}
	if data, err := Read(path, 4); !errors.Is(err, ErrNotRegular) {
		t.Errorf("read %q through a link of a directory: %v", data, err)
	}
	if err := errors.Join(os.Remove(filepath.Dir(path)), syscall.Mkfifo(filepath.Dir(path), 0o644)); err != nil {
		t.Fatal(err)
	}
	if data, err := Read(path, 4); !errors.Is(err, ErrNotRegular) { // a read that waits for a writer hangs the test
		t.Errorf("read %q below a FIFO: %v", data, err)
	}
}

func TestReadIsBounded(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "f")
	if err := errors.Join(os.WriteFile(path, []byte("abc"), 0o644), os.Truncate(path, 1<<40)); err != nil {
		t.Skip("no sparse files here:", err)
	}
	if _, err := Read(path, MaxReport); !errors.Is(err, ErrTooLarge) {
		t.Errorf("1 TB: %v", err)
	}
	if text, size, err := Ends(path, 3, 3); size != 1<<40 || !strings.HasPrefix(text, "abc\n[... 1099511627770 bytes") || err != nil {
		t.Errorf("%q, %d, %v", text, size, err)
	}
	for size, ok := range map[int64]bool{0: true, 4: true, 5: false} {
		if err := os.Truncate(path, size); err != nil {
			t.Fatal(err)
		}
		if data, err := Read(path, 4); (err == nil) != ok || ok && (data == nil || int64(len(data)) != size) {
			t.Errorf("%d bytes of 4: %v, %v", size, data, err)
		}
	}
}

func TestEnds(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, []byte("0123456789"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		head, tail int
		want       string
	}{
		{10, 0, "0123456789"},
		{5, 5, "0123456789"},
		{2, 3, "01\n[... 5 bytes left out ...]\n789"},
		{0, 1, "[... 9 bytes left out ...]\n9"},
	} {
		got, size, err := Ends(path, c.head, c.tail)
		if got != c.want || size != 10 || err != nil {
			t.Errorf("head %d tail %d: %q, %d, %v", c.head, c.tail, got, size, err)
		}
	}
}

func TestShallow(t *testing.T) {
	t.Parallel()
	nested := func(n int) string { return strings.Repeat(`{"a":[`, n) + strings.Repeat("]}", n) }
	for text, want := range map[string]bool{
		"": true, nested(MaxDepth / 2): true, nested(MaxDepth/2 + 1): false, nested(5000): false,
		`"` + strings.Repeat("[", 1000) + `"`:     true,
		`"\"` + strings.Repeat("[", 1000) + `"`:   true,
		`"\\"` + strings.Repeat("[", 1000):        false,
		strings.Repeat("[]", 1000):                true,
		`{"a": "` + strings.Repeat("{", 99) + `"`: true,
	} {
		if Shallow([]byte(text)) != want {
			t.Errorf("%.40q: want %v", text, want)
		}
	}
}

// The command that a StateError names takes away whatever lies there, and keeps it.
func TestReadState(t *testing.T) {
	t.Parallel()
	for name, make := range map[string]func(path string) error{
		"no JSON":     func(p string) error { return os.WriteFile(p, []byte("{"), 0o600) },
		"of another":  func(p string) error { return os.WriteFile(p, []byte(`{"A":"x"}`), 0o600) },
		"too large":   func(p string) error { return os.WriteFile(p, []byte(strings.Repeat(" ", 101)), 0o600) },
		"too deep":    func(p string) error { return os.WriteFile(p, []byte(strings.Repeat("[", 100)+"["), 0o600) },
		"a directory": func(p string) error { return os.MkdirAll(p+"/x", 0o700) },
		"a pipe":      func(p string) error { return syscall.Mkfifo(p, 0o600) },
		"a link":      func(p string) error { return os.Symlink("/nowhere", p) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "a file.json")
			if err := make(path); err != nil {
				t.Fatal(err)
			}
			var v struct{ A int }
			err := ReadState(path, 101, "the letter", "it is 0", &v)
			if name == "too large" {
				err = ReadState(path, 100, "the letter", "it is 0", &v)
			}
			var state *StateError
			if !errors.As(err, &state) || !strings.HasPrefix(err.Error(), "reading the letter: ") || strings.Count(err.Error(), path) != 3 ||
				!strings.HasSuffix(err.Error(), "; it is 0 without the file; to put it aside type: "+Aside(path)) {
				t.Fatal(err)
			}
			if out, err := exec.Command("sh", "-c", Aside(path)).CombinedOutput(); err != nil {
				t.Fatal(err, string(out))
			}
			if _, err := os.Lstat(path + ".damaged"); err != nil {
				t.Error(err)
			}
			if err := ReadState(path, 100, "the letter", "it is 0", &v); !errors.Is(err, fs.ErrNotExist) || errors.As(err, &state) {
				t.Error(err)
			}
		})
	}
}
