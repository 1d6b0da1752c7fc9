package inputs

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestResolve(t *testing.T) {
	t.Parallel()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	at := func(p string) string { return filepath.Join(base, p) }
	tool := func(p string, mode os.FileMode) {
		if err := os.MkdirAll(filepath.Dir(at(p)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(os.WriteFile(at(p), []byte("#!/bin/sh\n"), 0o700), os.Chmod(at(p), mode)); err != nil {
			t.Fatal(err)
		}
	}
	tool("bin/good", 0o755)
	tool("bin/group", 0o775)
	tool("bin/others", 0o757)
	tool("bin/plain", 0o644)
	tool("bin2/plain", 0o755)
	tool("repo/bin/mine", 0o755)
	tool("open/all", 0o755)
	tool("sticky/tool", 0o755)
	if err := errors.Join(os.Chmod(at("open"), 0o777), os.Chmod(at("sticky"), 0o777|os.ModeSticky), os.MkdirAll(at("bin/dir"), 0o755),
		os.Symlink(at("repo/bin/mine"), at("bin/into")), os.Symlink("good", at("bin/also")), os.Symlink("nowhere", at("bin/dead")), os.Symlink(at("bin/group"), at("bin2/linked"))); err != nil {
		t.Fatal(err)
	}
	path := at("bin") + ":" + at("bin2") + ":" + at("open") + ":" + at("sticky")
	for _, c := range []struct{ argv0, path, want string }{
		{"good", path, at("bin/good")},
		{"also", path, at("bin/good")},
		{"plain", path, at("bin2/plain")}, // bash goes on, too
		{"tool", path, at("sticky/tool")},
		{"cd", path, "builtin"},
		{at("bin/good"), path, at("bin/good")},
		{"./bin/mine", path, "inside"},
		{"bin/mine", path, "inside"},
		{at("repo/bin/mine"), path, "inside"},
		{"group", path, "chmod go-w"},
		{"others", path, "chmod go-w"},
		{"linked", path, "chmod go-w"},
		{"all", path, "chmod o-w"},
		{"into", path, "lies in the repository"},
		{"mine", at("repo/bin") + ":" + path, "lies in the repository"},
		{"good", "bin:" + path, "PATH has an entry that is not absolute"},
		{"good", ":" + path, "PATH has an entry that is not absolute"},
		{"dead", path, "was not found"},
		{"dir", path, "was not found"},
		{"nothing", path, "was not found"},
		{"", path, "is not written out"},
		{"a...b", path, "is not written out"},
		{"./nothing", path, "cannot be followed"},
	} {
		p, err := Resolve(c.argv0, at("repo"), c.path, at("repo"))
		got := p.Path
		switch {
		case err != nil:
			var refused *ResolveError
			if got = err.Error(); !errors.As(err, &refused) {
				t.Errorf("%q: %T", c.argv0, err)
			}
		case p.Builtin:
			got = "builtin"
		case p.Inside:
			got = "inside"
		}
		if got != c.want && (err == nil || !strings.Contains(got, c.want)) {
			t.Errorf("Resolve(%q): got %s, want %s", c.argv0, got, c.want)
		}
	}
}
