package doctor

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/loop/journal"
	"github.com/superloop/superloop/loop/layout"
	"github.com/superloop/superloop/recovery/sandbox"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case proc.SpawnerArg:
			os.Exit(proc.SpawnerMain())
		case sandbox.ShimArg:
			os.Exit(sandbox.ShimMain())
		case sandbox.KnockArg:
			os.Exit(sandbox.KnockMain(os.Args[2:]))
		}
	}
	flag.Parse()
	os.Exit(elsewhere(m))
}

// elsewhere runs the tests with a state directory of their own: superloop's view of a repository is in there.
func elsewhere(m *testing.M) int {
	dir, err := os.MkdirTemp("", "")
	if err == nil {
		defer os.RemoveAll(dir)
		err = os.Setenv("XDG_STATE_HOME", dir)
	}
	if err != nil {
		panic(err)
	}
	return m.Run()
}

const configText = `{
  "runners": {"agent": {"command": ["agent"], "prompt_mode": "stdin"}, "spare": {"command": ["spare-agent"]}},
  "recovery": {"auto_approve": ["npm ci"]}, "webhooks": {"on_escalation": "https://hooks.example.org/x"},
  "loops": [{"id": "demo", "spec_file": ".superloop/specs/demo.md", "max_iterations": 3,
             "completion_promise": "DONE", "tests": {"commands": ["true"]}, "roles": {"implementer": {"runner": "agent"}}}]
}`

// ward is a patient in whom everything is well, and hands to hurt it with.
type ward struct {
	t      testing.TB
	repo   string
	state  string // XDG_STATE_HOME
	bin    string // first on the PATH
	target Target
}

func (w *ward) write(path, text string, perm fs.FileMode) {
	w.t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		w.t.Fatal(err)
	}
	// A process that another test forks meanwhile would hold the file open for
	// writing, and the system does not start a program that is being written.
	syscall.ForkLock.RLock()
	err := os.WriteFile(path, []byte(text), perm)
	syscall.ForkLock.RUnlock()
	if err != nil {
		w.t.Fatal(err)
	}
	w.chmod(path, perm)
}

func (w *ward) chmod(path string, perm fs.FileMode) {
	w.t.Helper()
	if err := os.Chmod(path, perm); err != nil {
		w.t.Fatal(err)
	}
}

func (w *ward) remove(path string) {
	w.t.Helper()
	if err := os.RemoveAll(path); err != nil {
		w.t.Fatal(err)
	}
}

func (w *ward) git(args ...string) {
	w.t.Helper()
	args = append([]string{"git", "-C", w.repo, "-c", "user.name=T", "-c", "user.email=t@example.org"}, args...)
	if _, err := (proc.Tool{}).Run(context.Background(), args...); err != nil {
		w.t.Fatal(err)
	}
}

func (w *ward) configure(text string) {
	w.write(w.target.ConfigPath, text, 0o644)
	w.target.Config, w.target.ConfigErr = config.Load(w.target.ConfigPath)
}

// gemini makes the runner of the loop one of a CLI that is known, with these
// settings besides.
func (w *ward) gemini(settings string) {
	w.write(filepath.Join(w.bin, "gemini"), `#!/bin/sh
case "$1" in
--version) echo 0.61.0 ;;
--help) printf 'Options:\n  -o, --output-format  [string]\n      --approval-mode  [string]\n      --session-id     [string]\n' ;;
*) touch "$0.ran"; exit 1 ;;
esac
`, 0o755)
	w.configure(strings.Replace(configText, `["agent"], "prompt_mode": "stdin"`, `["gemini"]`+settings, 1))
}

func (w *ward) loop() *Place { return &w.target.Loops[0] }

// ran writes a journal of n events with its head, and the state of the last.
func (w *ward) ran(n int) {
	w.t.Helper()
	l := w.loop()
	for _, dir := range []string{l.Private, filepath.Dir(l.Events)} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			w.t.Fatal(err)
		}
	}
	j, err := journal.Open(durable.OS(), l.Events, journal.Options{Head: l.Head})
	if err != nil {
		w.t.Fatal(err)
	}
	for range n {
		if _, err := j.Append(true, journal.Event{Timestamp: time.Now(), Event: "tick", LoopID: l.ID, RunID: "r", Iteration: 1}); err != nil {
			w.t.Fatal(err)
		}
	}
	if err := j.Close(); err != nil {
		w.t.Fatal(err)
	}
	w.write(l.State, `{"loop_id":"demo","status":"running","iteration":1,"seq":2}`, 0o644)
}

// change rewrites a file.
func (w *ward) change(path string, f func([]byte) []byte) {
	w.t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		w.t.Fatal(err)
	}
	w.write(path, string(f(data)), 0o600)
}

func newWard(t testing.TB) *ward {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := &ward{t: t, repo: filepath.Join(dir, "repo"), state: filepath.Join(dir, "state"), bin: filepath.Join(dir, "bin")}
	super := filepath.Join(w.repo, ".superloop")
	private := filepath.Join(w.state, "superloop", "0123456789abcdef", "loops", "demo")
	w.target = Target{
		Repo: w.repo, ConfigPath: filepath.Join(super, "config.json"), Now: time.Now,
		Path: w.bin + string(filepath.ListSeparator) + os.Getenv("PATH"),
		Loops: []Place{{ID: "demo", Private: private, Head: filepath.Join(private, "head"),
			Events: filepath.Join(super, "loops", "demo", "events.jsonl"), State: filepath.Join(super, "loops", "demo", "state.json"),
			Locks:  []string{filepath.Join(private, "lock"), filepath.Join(super, "loops", "demo", "lock")},
			Holder: func(raw []byte) string { return "held by " + string(raw) }}},
	}
	w.write(filepath.Join(super, "specs", "demo.md"), "Build it.\n", 0o644)
	w.write(filepath.Join(w.bin, "agent"), "#!/bin/sh\necho agent 1.2.3\n", 0o755)
	w.write(filepath.Join(w.bin, "spare-agent"), "#!/bin/sh\necho spare 4.5\n", 0o755)
	w.configure(configText)
	w.git("init", "-q", "-b", "main")
	w.write(filepath.Join(w.repo, "a.txt"), "a\n", 0o644)
	w.git("add", "a.txt")
	w.git("commit", "-q", "-m", "Start")
	return w
}

// tree lists all below dir with mode, size and time.
func tree(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err == nil {
			b.WriteString(strings.Join([]string{path, info.Mode().String(), info.ModTime().String()}, " ") + "\n")
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestWellPatientIsWellAndLeftAlone(t *testing.T) {
	t.Parallel()
	for _, ran := range []bool{false, true} {
		w := newWard(t)
		if ran {
			w.ran(2)
		}
		before := tree(t, filepath.Dir(w.repo))
		var out bytes.Buffer
		checks := Checks(w.target)
		seen := map[string]Result{}
		text := Writer(&out)
		healthy, err := Examine(context.Background(), checks, func(r Result) { seen[r.Name] = r; text(r) })
		if err != nil || !healthy {
			t.Fatalf("healthy %v, err %v:\n%s", healthy, err, &out)
		}
		if after := tree(t, filepath.Dir(w.repo)); after != before {
			t.Errorf("the examination changed files:\n%s\nbefore:\n%s", after, before)
		}
		for name, r := range seen {
			machine := name == "containment" || name == "disk" || name == "inotify" || strings.HasPrefix(name, "enforcement") // may be worse here
			if r.Status != OK && !machine {
				t.Errorf("%s: %+v", name, r)
			}
			if r.Detail == "" || (r.Status == OK) != (r.Fix == "") {
				t.Errorf("%s lacks a detail, or has a fix for nothing, or none: %+v", name, r)
			}
		}
		if len(seen) != len(checks) {
			t.Errorf("%d results of %d checks", len(seen), len(checks))
		}
		for _, want := range []string{"ok   runner:agent ", w.bin + "/agent; nothing is known of agent (adapter generic), so it is not asked", "nothing refuses an agent at L"} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("no %q in:\n%s", want, &out)
			}
		}
	}
}

func TestFindings(t *testing.T) {
	t.Parallel()
	hour := time.Now().Add(time.Hour)
	for _, c := range []struct {
		name   string
		hurt   func(w *ward)
		check  string
		status Status
		detail string
		fix    string
	}{
		{"no bash", func(w *ward) { w.target.Path = w.bin }, "bash", Fail, "not found", "install bash"},
		{"no repository", func(w *ward) { w.remove(filepath.Join(w.repo, ".git")) }, "repository", Fail, "not in a git work tree", "init"},
		{"no commit", func(w *ward) { w.remove(filepath.Join(w.repo, ".git")); w.git("init", "-q") }, "repository", Warn, "no commit yet", "commit"},
		{"no commit for a worktree", func(w *ward) {
			w.remove(filepath.Join(w.repo, ".git"))
			w.git("init", "-q")
			w.configure(strings.Replace(configText, `"max_iterations"`, `"git": {"worktree": true}, "max_iterations"`, 1))
		}, "repository", Fail, "wants a worktree", "commit"},
		{"detached", func(w *ward) { w.git("checkout", "-q", "--detach") }, "repository", Warn, "without a branch", "switch -c"},
		{"index.lock", func(w *ward) { w.write(filepath.Join(w.repo, ".git", "index.lock"), "", 0o644) }, "work-tree", Warn, "/.git/index.lock", "rm "},
		{"merge", func(w *ward) {
			w.git("checkout", "-q", "-b", "side")
			w.write(filepath.Join(w.repo, "a.txt"), "side\n", 0o644)
			w.git("commit", "-q", "-am", "Side")
			w.git("checkout", "-q", "main")
			w.git("merge", "--no-ff", "--no-commit", "side")
		}, "work-tree", Warn, "/.git/MERGE_HEAD", "git merge --abort"},
		{"rebase", func(w *ward) { w.write(filepath.Join(w.repo, ".git", "rebase-merge", "done"), "", 0o644) }, "work-tree", Warn, "/.git/rebase-merge", "git rebase --abort"},
		{"dirty", func(w *ward) { w.write(filepath.Join(w.repo, "b.txt"), "b\n", 0o644) }, "work-tree", OK, "1 path changed or untracked and not committed, such as b.txt", ""},
		{"no config", func(w *ward) {
			w.remove(w.target.ConfigPath)
			w.target.Config, w.target.ConfigErr = config.Load(w.target.ConfigPath)
		}, "config", Fail, "there is no ", "superloop init"},
		{"bad config", func(w *ward) {
			w.configure(strings.Replace(configText, `"max_iterations": 3`, `"max_iterations": "x"`, 1))
		}, "config", Fail, "max_iterations", "superloop validate"},
		{"config with warnings", func(w *ward) { w.configure(strings.Replace(configText, `"max_iterations": 3,`, "", 1)) }, "config", Warn, "1 warning: ", "superloop validate"},
		{"no recovery", func(w *ward) {
			w.configure(strings.Replace(configText, `"recovery": {`, `"recovery": {"enabled": false, `, 1))
		},
			"switched-off", Warn, "1 part off: recovery of demo: nothing is ever executed, failures are diagnosed only (recovery.auto_approve turns it on)", "superloop init --dry-run --force"},
		{"no gate", func(w *ward) { w.configure(strings.Replace(configText, `["true"]`, `[]`, 1)) },
			"switched-off", Warn, "gates of demo: no test, ", "set these keys in "},
		{"tests switched off", func(w *ward) {
			w.configure(strings.Replace(configText, `"tests": {`, `"approval": {"enabled": true, "require_on_completion": true}, "tests": {"mode": "disabled", `, 1))
		}, "switched-off", OK, "recovery, gates, limits and a channel are on", ""},
		{"no limit", func(w *ward) { w.configure(strings.Replace(configText, `"max_iterations": 3,`, "", 1)) },
			"switched-off", Warn, "limits of demo: nothing bounds its iterations, its time or its money", "set these keys in "},
		{"no channel", func(w *ward) { w.configure(strings.Replace(configText, `"webhooks"`, `"_comment webhooks"`, 1)) },
			"switched-off", Warn, "1 part off: channels: nobody is told when a loop needs an operator (webhooks.on_escalation turns it on)", "set these keys in "},
		{"config of the group", func(w *ward) { w.chmod(w.target.ConfigPath, 0o664) }, "config-permissions", Warn, "its group may change", "chmod go-w "},
		{"config of all", func(w *ward) { w.chmod(w.target.ConfigPath, 0o646) }, "config-permissions", Warn, "everybody may change", "chmod go-w "},
		{"directory of all", func(w *ward) { w.chmod(filepath.Dir(w.target.ConfigPath), 0o777) }, "config-permissions", Warn, ".superloop (mode 0777)", "chmod go-w "},
		{"no spec", func(w *ward) { w.remove(filepath.Join(w.repo, ".superloop/specs/demo.md")) }, "specs", Fail, "there is no .superloop/specs/demo.md", "superloop validate"},
		{"no agent is not the specs' matter", func(w *ward) { w.remove(filepath.Join(w.bin, "agent")) }, "specs", OK, "demo.md", ""},
		{"no agent", func(w *ward) { w.remove(filepath.Join(w.bin, "agent")) }, "runner:agent", Fail, "not found", "install it"},
		{"no spare agent", func(w *ward) { w.remove(filepath.Join(w.bin, "spare-agent")) }, "runner:spare", Warn, "no loop uses it", "install it"},
		{"agent by its path is not run", func(w *ward) {
			w.write(filepath.Join(w.repo, "agent.sh"), "#!/bin/sh\ntouch \"$0.ran\"\nexit 1\n", 0o755)
			w.configure(strings.Replace(configText, `["agent"]`, `["./agent.sh"]`, 1))
		}, "runner:agent", OK, "so it is not asked", ""},
		{"agent by its path may not be executed", func(w *ward) {
			w.write(filepath.Join(w.repo, "agent.sh"), "#!/bin/sh\n", 0o644)
			w.configure(strings.Replace(configText, `["agent"]`, `["{repo}/agent.sh"]`, 1))
		}, "runner:agent", Fail, "agent.sh", "make it executable"},
		{"agent without its interpreter", func(w *ward) { w.write(filepath.Join(w.bin, "agent"), "#!/no/such/node\n", 0o755) },
			"runner:agent", Fail, "is a script for /no/such/node", "install node"},
		{"gemini is well", func(w *ward) { w.gemini(`, "args": ["--approval-mode=plan"], "env": {"GEMINI_API_KEY": "k"}`) },
			"runner:agent", OK, "0.61.0 at ", ""},
		{"gemini fails", func(w *ward) {
			w.gemini(`, "args": ["--approval-mode=plan"], "env": {"GEMINI_API_KEY": "k"}`)
			w.write(filepath.Join(w.bin, "gemini"), "#!/bin/sh\n: \"$@\"; echo no node here >&2; exit 3\n", 0o755)
		}, "runner:agent", Fail, "no node here", "--version"},
		{"gemini with a flag that is gone", func(w *ward) {
			w.gemini(`, "args": ["--approval-mode=plan", "--checkpointing"], "env": {"GEMINI_API_KEY": "k"}`)
		}, "runner:agent", Fail, "gemini 0.61.0 does not know --checkpointing (runners.agent.args[1])", "write general.checkpointing in settings.json instead"},
		{"gemini without a login", func(w *ward) {
			w.gemini(`, "args": ["--approval-mode=plan", "--gone"], "env": {"GEMINI_API_KEY": "", "HOME": "/nowhere"}`)
		}, "runner:agent", Fail, "gemini has no login: ", "superloop doctor --runner agent shows all"},
		{"gemini that may do nothing", func(w *ward) { w.gemini(`, "env": {"GEMINI_API_KEY": "k", "HOME": "/nowhere"}`) },
			"runner:agent", Warn, "gemini may change nothing", `"permissions": "workspace"`},
		{"state inside", func(w *ward) { w.loop().Private = filepath.Join(w.repo, "s/superloop/id/loops/demo") }, "private-state", Fail, "inside the repository", "XDG_STATE_HOME"},
		{"state inside by a link", func(w *ward) {
			if err := os.Symlink(w.repo, w.state); err != nil {
				w.t.Fatal(err)
			}
		}, "private-state", Fail, "inside the repository", "XDG_STATE_HOME"},
		{"state open", func(w *ward) { w.ran(1); w.chmod(w.loop().Private, 0o750) }, "private-state", Warn, "mode 0750, not 0700", "chmod 700 "},
		{"state is a file", func(w *ward) { w.write(w.state, "", 0o600) }, "private-state", Fail, "is not a directory", "mv "},
		{"state has no place", func(w *ward) { w.target.PlacesErr = errors.New("no home") }, "private-state", Fail, "no home", "XDG_STATE_HOME"},
		{"held", func(w *ward) {
			w.ran(1)
			lock, err := durable.OS().Lock(w.loop().Locks[0], []byte("me"))
			if err != nil {
				w.t.Fatal(err)
			}
			w.t.Cleanup(func() { _ = lock.Unlock() })
		}, "supervisor:demo", OK, "runs now: held by me", ""},
		{"lock is a link", func(w *ward) {
			w.ran(1)
			if err := os.Symlink(w.loop().Events, w.loop().Locks[0]); err != nil {
				w.t.Fatal(err)
			}
		}, "supervisor:demo", Fail, "lock", "regular file"},
		{"line changed", func(w *ward) {
			w.ran(2)
			w.change(w.loop().Events, func(b []byte) []byte { return bytes.Replace(b, []byte("tick"), []byte("tock"), 1) })
		}, "journal:demo", Fail, "hash", "superloop events --verify --loop demo"},
		{"line cut off", func(w *ward) {
			w.ran(2)
			w.change(w.loop().Events, func(b []byte) []byte { return b[:bytes.IndexByte(b, '\n')+1] })
		}, "journal:demo", Fail, "events.jsonl", "superloop events --verify --loop demo"},
		{"journal gone", func(w *ward) { w.ran(2); w.remove(w.loop().Events) }, "journal:demo", Fail, "is gone", "superloop events --verify --loop demo"},
		{"torn", func(w *ward) {
			w.ran(2)
			w.change(w.loop().Events, func(b []byte) []byte { return append(b, `{"seq":3,"time`...) })
		}, "journal:demo", Warn, "2 events, the chain is whole up to a torn last line", "superloop run --loop demo"},
		{"state.json broken", func(w *ward) { w.ran(2); w.write(w.loop().State, "{", 0o644) }, "state:demo", Warn, "state.json", "writes it anew"},
		{"state.json gone", func(w *ward) { w.ran(2); w.remove(w.loop().State) }, "state:demo", Warn, "there is no ", "writes it anew"},
		{"state.json of another", func(w *ward) { w.ran(2); w.write(w.loop().State, `{"loop_id":"x"}`, 0o644) }, "state:demo", Warn, `of the loop "x"`, "writes it anew"},
		{"state.json ahead", func(w *ward) { w.ran(1) }, "state:demo", Warn, "as of event 2, but the journal ends at event 1", "events --verify"},
		{"future", func(w *ward) {
			if err := os.Chtimes(filepath.Join(w.repo, "a.txt"), hour, hour); err != nil {
				w.t.Fatal(err)
			}
		}, "clock", Warn, "1 file from the future, ", "touch "},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWard(t)
			c.hurt(w)
			var got *Result
			for _, check := range Checks(w.target) {
				if check.Name != c.check {
					continue
				}
				if _, err := Examine(context.Background(), []Check{check}, func(r Result) { got = &r }); err != nil {
					t.Fatal(err)
				}
			}
			if got == nil {
				t.Fatalf("no check %s", c.check)
			}
			if got.Status != c.status || !strings.Contains(got.Detail, c.detail) || !strings.Contains(got.Fix, c.fix) || (c.fix == "") != (got.Fix == "") {
				t.Errorf("got  %+v\nwant %s, ...%s..., fix ...%s...", *got, c.status, c.detail, c.fix)
			}
			for _, ran := range []string{filepath.Join(w.repo, "agent.sh.ran"), filepath.Join(w.bin, "gemini.ran")} {
				if _, err := os.Lstat(ran); err == nil {
					t.Error("an agent began to work: " + ran)
				}
			}
		})
	}
}

// space counts what superloop takes in all repositories, and names the verb where something old may go.
func TestSpace(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	other := t.TempDir()
	for _, repo := range []string{w.repo, other} {
		p, err := layout.NewPaths(repo, "a", t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		w.target.Kept = append(w.target.Kept, p)
		if err := errors.Join(os.MkdirAll(p.File("archive/r1"), 0o755), os.WriteFile(p.Events(), make([]byte, 1<<20), 0o600),
			os.WriteFile(p.File("archive/r1/x.log"), make([]byte, 2<<20), 0o600), os.WriteFile(p.File("state.json"), []byte(`{"status": "completed", "run_id": "r2"}`), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	r := w.target.space(t.Context())
	if r.Status != OK || !strings.Contains(r.Detail, "journals 1.0 MiB, logs 0 bytes, archives 2.0 MiB") || !strings.Contains(r.Detail, "; in all repositories (2) 6.0 MiB") || r.Fix != "" {
		t.Errorf("%+v", r)
	}
	w.target.Now = func() time.Time { return time.Now().Add(31 * 24 * time.Hour) }
	if r := w.target.space(t.Context()); r.Status != OK || !strings.Contains(r.Fix, "superloop clean   (removes 2.0 MiB") {
		t.Errorf("%+v", r)
	}
}

// What the operator chose for one run counts for that run; what is on is not named.
func TestSwitchedOff(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	c := w.target.Config
	if off := SwitchedOff(c, c.Loops, false); len(off) > 0 {
		t.Errorf("everything is on, and it says %v", off)
	}
	off := SwitchedOff(c, c.Loops, true)
	if len(off) != 1 || !strings.HasPrefix(off[0].String(), "enforcement (L0): nothing keeps an agent ") {
		t.Errorf("unprotected, it says %v", off)
	}
}
