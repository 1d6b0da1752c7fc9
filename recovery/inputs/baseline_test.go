package inputs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestNoGit: a directory that is no repository, and one without a commit.
func TestNoGit(t *testing.T) {
	t.Parallel()
	for _, unborn := range []bool{false, true} {
		b := box{t: t, dir: t.TempDir(), env: os.Environ()}
		b.files(project)
		if unborn {
			b.git("init", "-q")
		}
		q := query("./scripts/fix.sh")
		base := b.take(q)
		if got := names(b.check(base, q)); got != "" {
			t.Errorf("nothing changed: %s", got)
		}
		b.put("scripts/lib.sh", "evil")
		if got := names(b.check(base, q)); got != "changed scripts/lib.sh" {
			t.Errorf("got %s", got)
		}
		// A script that the policy did not name is known by its digest.
		b.put("scripts/gen.js", "evil")
		if got := b.check(base, query("node scripts/gen.js")); names(got) != "changed scripts/gen.js" || !strings.Contains(Diff(got), "digest") {
			t.Errorf("not named: %s\n%s", names(got), Diff(got))
		}
	}
}

// TestSubdirectory: the repository of superloop may be a part of one of git.
func TestSubdirectory(t *testing.T) {
	t.Parallel()
	b := newBox(t, "-- app/package.json --\n{\"scripts\": {\"prepare\": \"x\"}}\n-- package.json --\n{\"scripts\": {\"prepare\": \"y\"}}\n")
	top := b.dir
	b.dir = filepath.Join(b.dir, "app")
	q := query("npm ci")
	base := b.take(q)
	if got := names(b.check(base, q)); got != "" {
		t.Errorf("nothing changed: %s", got)
	}
	b.put("package.json", `{"scripts": {"prepare": "evil"}}`)
	if got := names(b.check(base, q)); got != "changed package.json scripts.prepare" {
		t.Errorf("got %s in %s", got, top)
	}
}

// TestNothingIsExecuted: what the repository's configuration and attributes tell
// git to run is not run.
func TestNothingIsExecuted(t *testing.T) {
	t.Parallel()
	b := newBox(t, project)
	b.put(".gitattributes", "* filter=evil diff=evil\n")
	b.commit()
	ran := filepath.Join(b.dir, "ran")
	script := filepath.Join(t.TempDir(), "evil.sh")
	if err := os.WriteFile(script, []byte("#!/bin/sh\ntouch "+ran+"\ncat\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, k := range []string{"filter.evil.clean", "filter.evil.smudge", "filter.evil.process", "core.fsmonitor", "diff.external", "diff.evil.textconv", "core.pager",
		"core.sshCommand", "core.editor"} {
		b.git("config", k, script)
	}
	b.git("config", "core.hooksPath", filepath.Dir(script))
	q := query("./scripts/fix.sh && make && npm ci && git pull")
	base := b.take(q)
	b.check(base, q)
	if _, err := os.Stat(ran); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a program of the repository's configuration ran: %v", err)
	}
}

func TestLoadRefusesWhatIsNone(t *testing.T) {
	t.Parallel()
	b := newBox(t, project)
	good := b.take().encode()
	file := filepath.Join(t.TempDir(), "b")
	if _, err := load(file); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing: %v", err)
	}
	for i := range 40 {
		bad := append([]byte(nil), good...)
		if i%2 == 0 {
			bad = bad[:len(bad)*i/40]
		} else {
			bad[len(bad)*i/40] ^= 1
		}
		if err := os.WriteFile(file, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := load(file); !errors.Is(err, errBaseline) {
			t.Fatalf("damaged (%d): %v", i, err)
		}
	}
	if err := os.WriteFile(file, good, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := load(file); err != nil {
		t.Error(err)
	}
	if err := os.Symlink(file, file+"-link"); err != nil {
		t.Fatal(err)
	}
	if _, err := load(file + "-link"); err == nil {
		t.Error("a link was read")
	}
}
