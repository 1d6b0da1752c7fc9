package durable

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestClearingMakesRoom: whatever an agent put at a path that superloop writes, it is kept beside the path, said, and
// the write succeeds.
func TestClearingMakesRoom(t *testing.T) {
	t.Parallel()
	plants := map[string]func(path string) error{
		"link":          func(p string) error { return os.Symlink(filepath.Join(filepath.Dir(p), "victim"), p) },
		"dangling link": func(p string) error { return os.Symlink("nothing", p) },
		"fifo":          func(p string) error { return syscall.Mkfifo(p, 0o600) },
		"directory":     func(p string) error { return os.MkdirAll(filepath.Join(p, "full"), 0o700) },
	}
	for plant, put := range plants {
		for name, write := range map[string]func(d Disk, path string) error{
			"append": func(d Disk, p string) error {
				a, err := d.OpenAppend("op", p, 0o600)
				if err == nil {
					err = a.Append([]byte("text"))
				}
				return err
			},
			"write":   func(d Disk, p string) error { return d.WriteFile("op", p, []byte("text"), 0o600) },
			"project": func(d Disk, p string) error { return d.WriteProjection("op", p, []byte("text"), 0o600) },
			"create": func(d Disk, p string) error {
				f, err := d.Create("op", p, 0o600)
				if err == nil {
					_, err = f.Write([]byte("text"))
				}
				return err
			},
			"slots": func(d Disk, p string) error { _, err := d.OpenSlots("op", p, 0o600); return err },
			"lock":  func(d Disk, p string) error { _, err := d.Lock(p, nil); return err },
			"mkdir": func(d Disk, p string) error { return d.MkdirAll("op", filepath.Join(p, "sub"), 0o700) },
		} {
			if plant == "directory" && name == "mkdir" {
				continue // nothing is in the way
			}
			t.Run(plant+"/"+name, func(t *testing.T) {
				t.Parallel()
				top := t.TempDir()
				path := filepath.Join(top, "root", "f")
				victim := filepath.Join(top, "root", "victim")
				if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(victim, []byte("old"), 0o600); err != nil {
					t.Fatal(err)
				}
				if err := put(path); err != nil {
					t.Fatal(err)
				}
				var said []string
				if err := write(OS().Clearing(func(from, to string) { said = append(said, from, to) }, filepath.Join(top, "root")), path); err != nil {
					t.Fatal(err)
				}
				if len(said) != 2 || said[0] != path || !strings.HasPrefix(said[1], path+".foreign-") {
					t.Fatalf("said %q", said)
				}
				if _, err := os.Lstat(said[1]); err != nil {
					t.Error("what was in the way is gone:", err)
				}
				if info, err := os.Lstat(path); err != nil || !info.Mode().IsRegular() && name != "mkdir" {
					t.Errorf("%v, %v", info, err)
				}
				if text, err := os.ReadFile(victim); err != nil || string(text) != "old" {
					t.Errorf("written through a link: %q, %v", text, err)
				}
				if err := write(OS().Clearing(nil, filepath.Join(top, "other")), path+".other"); err != nil && name != "mkdir" {
					t.Error(err)
				}
			})
		}
	}
}

// TestClearingStaysBelowItsRoots: a path that no root holds is of somebody else.
func TestClearingStaysBelowItsRoots(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	d := OS().Clearing(func(from, to string) { t.Errorf("moved %s to %s", from, to) }, path, dir+"x")
	if _, err := d.OpenAppend("op", path, 0o600); err == nil {
		t.Error("a directory was opened")
	}
}
