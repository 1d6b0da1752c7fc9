//go:build linux

package proc

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestTrusted: a program that an agent can replace is passed over, wherever it stands on the PATH.
func TestTrusted(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	for _, dir := range []string{"bin", "home/.local/bin"} {
		if err := os.MkdirAll(filepath.Join(base, dir), 0o755); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"sh", "only-here"} {
			if err := os.WriteFile(filepath.Join(base, dir, name), []byte("#!/bin/sh\n"), 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := os.Symlink("/bin/sh", filepath.Join(base, "bin", "linked")); err != nil {
		t.Fatal(err)
	}
	path := base + "/bin:" + base + "/home/.local/bin:.:" + os.Getenv("PATH")
	got, err := lookTrusted("sh", "", path, base+"/home")
	if err != nil || strings.HasPrefix(got, base) || !filepath.IsAbs(got) {
		t.Errorf("sh: %q %v", got, err)
	}
	for _, name := range []string{"only-here", "linked", "no-such-program", "", "../bin/sh"} {
		if got, err := lookTrusted(name, "", path, base+"/home"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %q %v", name, got, err)
		}
	}
	if _, err := lookTrusted("only-here", "", path, ""); err == nil || !strings.Contains(err.Error(), base+"/bin/only-here") || !strings.Contains(err.Error(), "install it for the whole system") {
		t.Errorf("what was refused is not named: %v", err)
	}
}

// TestSystemHasNoEnvironment: nothing of the supervisor's environment reaches a program of the system.
func TestSystemHasNoEnvironment(t *testing.T) {
	t.Setenv("WEBHOOK_SECRET", "x")
	out, err := System(t.Context(), "/", "env")
	if err != nil || strings.Contains(string(out), "WEBHOOK") || strings.Contains(string(out), "HOME=") {
		t.Errorf("%s %v", out, err)
	}
}
