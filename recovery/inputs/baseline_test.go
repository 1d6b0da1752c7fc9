package inputs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/superloop/superloop/internal/durable"
)

func TestHeadTrustsWhatIsCommitted(t *testing.T) {
	t.Parallel()
	b := newBox(t, project)
	q := query("npm install")
	b.replace("package.json", `"husky"`, `"evil"`) // in the work tree when the run begins
	base := b.take(Head, q)
	if base.Commit != b.git("rev-parse", "HEAD") || base.From != Head || base.Partial {
		t.Errorf("%+v", base)
	}
	if got := names(b.check(base, q)); got != "changed package.json scripts.prepare" {
		t.Errorf("an edit that is not committed: %s", got)
	}
	again := b.git("rev-parse", "HEAD")
	b.commit()
	if got := names(b.check(base, q)); got != "changed package.json scripts.prepare" {
		t.Errorf("an edit that is committed after the baseline: %s", got)
	}
	b.git("reset", "-q", "--soft", again)
	if got := names(b.check(b.take(Now, q), q)); got != "" {
		t.Errorf("pinned as it is: %s", got)
	}
}

// TestIgnoredFiles: what is in no commit is trusted if it was there when a
// operator pinned the policy, and stays so for the baselines of later runs.
func TestIgnoredFiles(t *testing.T) {
	t.Parallel()
	b := newBox(t, project)
	b.put(".gitignore", ".npmrc\n.venv\n")
	b.commit()
	b.put(".npmrc", "registry=https://r.example.org/\n")
	b.put(".venv/bin/tool", "#!/bin/sh\n")
	b.link("/usr/bin/python3", ".venv/bin/python")
	npm, venv := query("npm install"), query("./.venv/bin/python manage.py && .venv/bin/tool x")
	if got := names(b.check(b.take(Head, npm), npm)); got != "appeared .npmrc settings" {
		t.Errorf("HEAD alone: %s", got)
	}
	pin := b.take(Now, npm, venv)
	b.replace("package.json", `"husky"`, `"other"`)
	b.commit()
	run := b.request(Request{From: Head, Previous: b.again(pin), Queries: []Query{npm, venv}})
	for _, q := range []Query{npm, venv} {
		if got := names(b.check(run, q)); got != "" {
			t.Errorf("carried over: %s", got)
		}
	}
	b.put(".npmrc", "script-shell=./evil\n")
	b.put(".venv/bin/tool", "evil")
	b.rm(".venv/bin/python")
	b.link("../../evil", ".venv/bin/python")
	if got := names(b.check(run, npm)); got != "changed .npmrc settings" {
		t.Errorf("edited: %s", got)
	}
	if got := names(b.check(run, venv)); got != "vanished .venv/bin/python, changed .venv/bin/tool" {
		t.Errorf("edited: %s", got)
	}
}

// TestNoGit: a directory that is no repository, and one without a commit.
func TestNoGit(t *testing.T) {
	t.Parallel()
	for _, unborn := range []bool{false, true} {
		b := box{t: t, dir: t.TempDir(), env: os.Environ()}
		b.files(project)
		if unborn {
			b.git("init", "-q")
		}
		req := Request{Repo: b.dir, File: filepath.Join(t.TempDir(), "b"), From: Head, Time: time.Now()}
		if _, err := Take(t.Context(), durable.OS(), req); !errors.Is(err, ErrNoHead) {
			t.Errorf("HEAD: %v", err)
		}
		q := query("./scripts/fix.sh")
		base := b.take(Now, q)
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
	base := b.take(Head, q)
	if got := names(b.check(base, q)); got != "" {
		t.Errorf("nothing changed: %s", got)
	}
	b.put("package.json", `{"scripts": {"prepare": "evil"}}`)
	if got := names(b.check(base, q)); got != "changed package.json scripts.prepare" {
		t.Errorf("got %s in %s", got, top)
	}
}

func TestSHA256Repository(t *testing.T) {
	t.Parallel()
	b := box{t: t, dir: t.TempDir(), env: os.Environ()}
	b.files(project)
	b.git("init", "-q", "--object-format=sha256")
	b.commit()
	base := b.take(Head)
	q := query("./scripts/fix.sh")
	if got := names(b.check(base, q)); got != "" {
		t.Errorf("nothing changed: %s", got)
	}
	b.put("scripts/fix.sh", "evil")
	if got := names(b.check(base, q)); !strings.Contains(got, "changed scripts/fix.sh") {
		t.Errorf("got %s", got)
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
	base := b.take(Head, q)
	b.check(base, q)
	b.take(Now, q)
	if _, err := os.Stat(ran); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a program of the repository's configuration ran: %v", err)
	}
}

// TestTakeIsAtomic: whichever step fails, the baseline is the old one or, after
// the last step, the new one.
func TestTakeIsAtomic(t *testing.T) {
	t.Parallel()
	b := newBox(t, project)
	req := Request{Repo: b.dir, File: filepath.Join(t.TempDir(), "p", "b"), From: Head, Time: time.Unix(1, 0)}
	var steps []string
	record := durable.OS().WithFault(func(op string) error { steps = append(steps, op); return nil })
	old, err := Take(t.Context(), record, req)
	if err != nil {
		t.Fatal(err)
	}
	if len(steps) < 8 {
		t.Fatalf("steps: %v", steps)
	}
	b.put("package.json", "{}")
	b.commit()
	boom := errors.New("boom")
	for n := range steps[2:] { // the directory is there by now
		k := n
		_, err := Take(t.Context(), durable.OS().WithFault(func(string) error {
			if k--; k == -1 {
				return boom
			}
			return nil
		}), req)
		if !errors.Is(err, boom) {
			t.Fatalf("step %d: %v", n, err)
		}
		got, err := Load(req.File)
		if err != nil {
			t.Fatal(err)
		}
		if last := n == len(steps)-3; got.Commit != old.Commit && !last {
			t.Errorf("step %s: the baseline is another", steps[n+2])
		}
	}
}

func TestLoadRefusesWhatIsNone(t *testing.T) {
	t.Parallel()
	b := newBox(t, project)
	good := b.take(Head).encode()
	file := filepath.Join(t.TempDir(), "b")
	if _, err := Load(file); !errors.Is(err, fs.ErrNotExist) {
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
		if _, err := Load(file); !errors.Is(err, errBaseline) {
			t.Fatalf("damaged (%d): %v", i, err)
		}
	}
	if err := os.WriteFile(file, good, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(file); err != nil {
		t.Error(err)
	}
	if err := os.Symlink(file, file+"-link"); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(file + "-link"); err == nil {
		t.Error("a link was read")
	}
}
