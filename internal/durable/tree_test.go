package durable

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// A tree goes as a whole, also when a kill interrupts the removal and it is asked for again; nothing goes that lies behind
// a link, wherever the link is.
func TestRemoveTree(t *testing.T) {
	t.Parallel()
	make := func() (top, precious string) {
		dir := t.TempDir()
		top, precious = filepath.Join(dir, "top"), filepath.Join(dir, "precious", "b")
		for _, d := range []string{filepath.Join(top, "a", "b", "c"), filepath.Join(top, "a", "other"), precious} {
			if err := os.MkdirAll(d, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(d, "x"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Symlink(precious, filepath.Join(top, "a", "b", "link")); err != nil {
			t.Fatal(err)
		}
		return top, precious
	}
	here := func(path string) bool { _, err := os.Lstat(path); return err == nil }
	killed := errors.New("killed")
	for step := 1; step <= 3; step++ {
		top, precious := make()
		n := 0
		err := OS().WithFault(func(string) error {
			if n++; n == step {
				return killed
			}
			return nil
		}).RemoveTree("t", top, "a/b")
		whole, rest := here(filepath.Join(top, "a/b/c/x")), filepath.Join("a", goneMark+"b")
		if whole == here(filepath.Join(top, rest)) && err != nil || (err == nil) != (step == 3) {
			t.Errorf("step %d: %v, whole %v", step, err, whole)
		}
		if !whole && err != nil { // a directory of the same name has come meanwhile
			if err := errors.Join(os.Mkdir(filepath.Join(top, "a/b"), 0o755), OS().RemoveTree("t", top, "a/b")); err != nil {
				t.Error(err)
			}
		} else if err != nil {
			if err := OS().RemoveTree("t", top, "a/b"); err != nil {
				t.Error(err)
			}
		}
		if here(filepath.Join(top, "a/b")) || here(filepath.Join(top, rest)) || !here(filepath.Join(top, "a/other/x")) || !here(filepath.Join(precious, "x")) {
			t.Errorf("step %d: not as it should be", step)
		}
	}
	top, precious := make()
	if err := errors.Join(os.Rename(filepath.Join(top, "a"), filepath.Join(top, "was")), os.Symlink(filepath.Dir(precious), filepath.Join(top, "a"))); err != nil {
		t.Fatal(err)
	}
	if err := OS().RemoveTree("t", top, "a/b"); err == nil || !here(filepath.Join(precious, "x")) {
		t.Errorf("through a link: %v", err)
	}
	if err := errors.Join(os.Remove(filepath.Join(top, "a")), os.Symlink("was", filepath.Join(top, "a"))); err != nil {
		t.Fatal(err)
	}
	if err := OS().RemoveTree("t", top, "a/b"); err == nil || !here(filepath.Join(top, "was/b/c/x")) {
		t.Errorf("through a link inside: %v", err)
	}
	if err := OS().RemoveTree("t", top, "was/b/link"); err == nil || !here(filepath.Join(precious, "x")) {
		t.Errorf("a link itself: %v", err)
	}
}
