package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// missing stands for the content of a file that is not there.
const missing = "\x00missing"

func put(name, text string) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func content(t *testing.T, dir, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return missing
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func oneOf(name string, want ...string) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		t.Helper()
		if got := content(t, dir, name); !slices.Contains(want, got) {
			t.Errorf("%s is %q, want one of %q", name, got, want)
		}
	}
}

// prefixed: old, and then any beginning of tail.
func prefixed(name, old, tail string) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		t.Helper()
		got := content(t, dir, name)
		if got == missing && old == "" {
			return
		}
		rest, ok := strings.CutPrefix(got, old)
		if !ok || !strings.HasPrefix(tail, rest) {
			t.Errorf("%s is %q", name, got)
		}
	}
}

func asides(t *testing.T, dir string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "f.broken-12*"))
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, n := range names {
		all = append(all, content(t, dir, filepath.Base(n)))
	}
	return all
}

func noTemps(t *testing.T, dir string) {
	t.Helper()
	if names, _ := filepath.Glob(filepath.Join(dir, ".*")); len(names) > 0 {
		t.Errorf("left over: %v", names)
	}
}
