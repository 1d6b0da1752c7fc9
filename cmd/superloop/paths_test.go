package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/superloop/superloop/internal/testkit"
)

// mark is a secret of the private state. It appears in nothing that agents can read.
const mark = "only for the supervisor's eyes"

// plants are what an agent can leave at a path. The first argument is the path, which is free, and the second what was
// there, or "".
var plants = map[string]func(path, was, top string) error{
	"link to a file": func(p, _, top string) error { return os.Symlink(filepath.Join(top, "victim"), p) },
	"dangling link":  func(p, _, _ string) error { return os.Symlink("/nowhere/at/all", p) },
	"link to the private state": func(p, _, top string) error {
		return os.Symlink(filepath.Join(top, "state/superloop/secret"), p)
	},
	"link to a private directory": func(p, _, top string) error { return os.Symlink(filepath.Join(top, "state/superloop"), p) },
	"fifo":                        func(p, _, _ string) error { return syscall.Mkfifo(p, 0o644) },
	"socket": func(p, _, _ string) error {
		fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
		if err != nil {
			return err
		}
		defer syscall.Close(fd)
		// A socket's path is short, so it is bound from its directory.
		dir, err := os.Getwd()
		if err == nil {
			err = os.Chdir(filepath.Dir(p))
		}
		if err == nil {
			err = syscall.Bind(fd, &syscall.SockaddrUnix{Name: filepath.Base(p)})
		}
		return errors.Join(err, os.Chdir(dir))
	},
	"directory":      func(p, _, _ string) error { return os.Mkdir(p, 0o755) },
	"full directory": func(p, _, _ string) error { return os.MkdirAll(filepath.Join(p, "a", "b"), 0o755) },
	"sparse terabyte": func(p, _, _ string) error {
		return errors.Join(os.WriteFile(p, []byte("{"), 0o644), os.Truncate(p, 1<<40))
	},
	"deep JSON": func(p, _, _ string) error {
		return os.WriteFile(p, []byte(strings.Repeat(`{"a":`, 10_000)+"1"+strings.Repeat("}", 10_000)), 0o644)
	},
	"unreadable": func(p, _, _ string) error { return errors.Join(os.WriteFile(p, []byte("{}"), 0o644), os.Chmod(p, 0)) },
	"half a file": func(p, was, _ string) error {
		text, err := os.ReadFile(was)
		if err != nil {
			text = []byte(`{"version": 1, "a`)
		}
		return os.WriteFile(p, text[:len(text)/2], 0o644)
	},
}

// plant puts something at a path, as an agent can; what was there is kept elsewhere.
func plant(kind, path, top string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	was := filepath.Join(top, fmt.Sprintf("was-%d", time.Now().UnixNano()))
	if err := os.Rename(path, was); errors.Is(err, fs.ErrNotExist) {
		was = ""
	} else if err != nil {
		return err
	}
	return plants[kind](path, was, top)
}

// plantMain is the program "plant" in tests: its arguments are those of plant. It plants once in a test.
func plantMain() {
	kind, path, top := os.Args[1], os.Args[2], os.Args[3]
	once, err := os.OpenFile(filepath.Join(top, "planted"), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		os.Exit(0)
	}
	if err == nil {
		err = errors.Join(once.Close(), plant(kind, path, top))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "plant:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// bounded runs the program and returns its exit code, its output and the most memory that it had, in bytes. After
// patience it fails the test: it hangs. term sends SIGTERM after that time, 0: never.
func (n *testEnv) bounded(what string, term time.Duration, args ...string) (code int, output string) {
	n.t.Helper()
	ctx, stop := context.WithTimeout(n.t.Context(), patience)
	defer stop()
	cmd := exec.CommandContext(ctx, n.path("bin/superloop"), args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGQUIT) }
	cmd.WaitDelay = time.Second
	cmd.Dir, cmd.Env = n.path("repo"), n.env
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		n.t.Fatal(err)
	}
	if term > 0 {
		timer := time.AfterFunc(term, func() { _ = cmd.Process.Signal(syscall.SIGTERM) })
		defer timer.Stop()
	}
	_ = cmd.Wait()
	text := out.String()
	if ctx.Err() != nil {
		n.t.Fatalf("%s: %v hangs\n%s", what, args, text)
	}
	if strings.Contains(text, "goroutine ") || strings.Contains(text, "panic:") {
		n.t.Fatalf("%s: %v ended badly\n%s", what, args, text)
	}
	if use, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok && !raceEnabled && use.Maxrss > 200<<10 {
		n.t.Errorf("%s: %v needed %d MiB", what, args, use.Maxrss>>10)
	}
	return cmd.ProcessState.ExitCode(), text
}

// newPathsEnv is a loop with recovery and an agent that runs "$TOP/before.sh" before each of its turns.
func newPathsEnv(t testing.TB) *testEnv {
	n := newTestEnv(t, false)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(exe, n.path("bin/plant")); err != nil {
		t.Fatal(err)
	}
	n.write("before.sh", "")
	n.write("agent.sh", fmt.Sprintf(". %q\nexec %q __agent %q\n", n.path("before.sh"), n.path("bin/superloop"), n.path("scenario.json")))
	config, err := os.ReadFile(n.path("repo/.superloop/config.json"))
	if err != nil {
		t.Fatal(err)
	}
	n.write("repo/.superloop/config.json", strings.Replace(string(config),
		fmt.Sprintf(`"command": [%q, "__agent", %q]`, n.path("bin/superloop"), n.path("scenario.json")),
		fmt.Sprintf(`"command": ["sh", %q]`, n.path("agent.sh")), 1))
	n.mkdir("state/superloop")
	n.write("state/superloop/secret", mark+"\n")
	n.write("victim", "untouched\n")
	return n
}

// looked are paths that superloop looks at, and that a run without trouble does not make.
var looked = []string{"recovery.json", "root-cause.json", "approval.json", "decisions.jsonl", "stuck-report.md", "lint-feedback.txt", "archive",
	"tasks", "escalation.json", "test-report.md"}

// usedPaths are the paths below the loop's directory, .superloop, the private state and the repository that a whole run
// leaves, besides those of looked.
func usedPaths(t *testing.T) (rel []string) {
	n := newPathsEnv(t)
	if code, out := n.bounded("undisturbed", 0, "run", "--unprotected"); code != exitOK {
		t.Fatalf("the undisturbed run gave %d\n%s", code, out)
	}
	seen := map[string]bool{}
	private := n.privateDir()
	for _, dir := range []string{n.path("repo"), n.path("state/superloop")} {
		err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
			if err != nil || path == dir {
				return err
			}
			if e.Name() == ".git" || e.Name() == "secret" || strings.HasSuffix(path, "/undo") {
				if e.IsDir() {
					return fs.SkipDir
				}
				return nil
			}
			path = strings.Replace(path, private, n.path("PRIVATE"), 1)
			if strings.Contains(path, "/trees/") || strings.HasPrefix(e.Name(), "account-") {
				return nil // their names differ from run to run
			}
			r, err := filepath.Rel(n.root, path)
			seen[r] = true
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range looked {
		seen["repo/.superloop/loops/l/"+name] = true
	}
	delete(seen, "repo/.superloop")
	for p := range seen {
		rel = append(rel, p)
	}
	slices.Sort(rel)
	return rel
}

// privateDir is the private directory of the repository; its name is made of its inode.
func (n *testEnv) privateDir() string {
	n.t.Helper()
	found, err := filepath.Glob(n.path("state/superloop/*/loops"))
	if err != nil || len(found) != 1 {
		n.t.Fatal(found, err)
	}
	return filepath.Dir(found[0])
}

func (n *testEnv) hasPrivateDir() bool {
	found, _ := filepath.Glob(n.path("state/superloop/*/loops"))
	return len(found) > 0
}

// mayRefuse reports whether a run may end with an error because of what is at a path: the configuration, which is the
// operator's; the journal, which is refused when somebody else has written it; the private state, which no agent
// reaches at L1. The error says what to type.
func mayRefuse(rel string) bool {
	return strings.HasPrefix(rel, "PRIVATE") || strings.HasPrefix(rel, "state/") || strings.HasSuffix(rel, "config.json") ||
		strings.Contains(rel, "/events.jsonl") || strings.HasPrefix(rel, "repo/.superloop/specs") ||
		rel == "repo/.superloop/loops" || rel == "repo/.superloop/loops/l"
}

// testerWrites reports whether the scripted tester, which puts things at paths, or an agent after it writes to a path.
func testerWrites(rel string) bool {
	return strings.HasPrefix(rel, "repo/work-") || strings.HasSuffix(rel, "/test-report.md") || strings.HasSuffix(rel, "/tester.last-message.md")
}

// TestWhateverLiesAtAPath puts things that an agent can make at each path that superloop reads or writes, one at a time:
// before a run, while a role runs, and with a SIGTERM in the middle. The run ends or asks, in bounded memory; nothing is
// written through a link, or copied from the private state to where agents read; the next run goes on.
func TestWhateverLiesAtAPath(t *testing.T) {
	t.Parallel()
	var cases [][3]string
	for _, rel := range usedPaths(t) {
		for kind := range plants {
			for _, when := range []string{"before", "during", "SIGTERM"} {
				if (kind == "fifo" || kind == "link to a file") && when == "during" && testerWrites(rel) || strings.HasPrefix(rel, "repo/work-") && when != "during" {
					continue // the scripted agent would write into it itself
				}
				if kind == "gigabyte" && when == "during" && strings.HasSuffix(rel, "/.gitignore") {
					continue // git itself reads it whole
				}
				cases = append(cases, [3]string{rel, kind, when})
			}
		}
	}
	slices.SortFunc(cases, func(a, b [3]string) int { return slices.Compare(a[:], b[:]) })
	if len(cases) < 1000 {
		t.Fatalf("only %d cases", len(cases))
	}
	only := os.Getenv("SUPERLOOP_TEST_PATH") // a part of a case's name
	for i := 0; i < len(cases); i++ {
		c := cases[i]
		name := strings.ReplaceAll(strings.Join(c[:], "|"), " ", "_")
		if only == "" && i%testkit.Sample(1997, 31, 1) != 0 || only != "" && !strings.Contains(name, only) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			planted(t, c[0], c[1], c[2])
		})
	}
}

func planted(t *testing.T, rel, kind, when string) {
	n := newPathsEnv(t)
	run := []string{"run", "--unprotected", "--exit-on-escalation"}
	if strings.HasPrefix(rel, "PRIVATE") || strings.Contains(rel, "iter-2") {
		n.write("scenario.json", strings.Replace(threeIterations, `"turns": [`, `"turns": [{"role": "planner", "iteration": 2, "steps": [{"exit": 1}]},`, 1))
		for wait := 300 * time.Millisecond; !n.hasPrivateDir(); wait *= 2 { // a loaded machine needs longer
			n.bounded("until it fails", wait, run...)
		}
		n.write("scenario.json", threeIterations)
	}
	path := n.path(rel)
	if rest, private := strings.CutPrefix(rel, "PRIVATE"); private {
		path = n.privateDir() + rest
	}
	what := fmt.Sprintf("%s at %s, %s", kind, rel, when)
	term := time.Duration(0)
	if when == "during" {
		n.write("before.sh", fmt.Sprintf("[ \"$SUPERLOOP_ROLE\" != tester ] || %q %q %q %q || exit 1\n", n.path("bin/plant"), kind, path, n.root))
	} else if err := plant(kind, path, n.root); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	if when == "SIGTERM" {
		term = 400 * time.Millisecond
	}
	fine := []int{exitOK, exitHuman, exitStuck, exitLimit}
	code, out := n.bounded(what, term, run...)
	// A SIGTERM can come before the run has begun. That the run has ended is enough.
	if !slices.Contains(fine, code) && when != "SIGTERM" && !mayRefuse(rel) {
		t.Errorf("%s: run gave %d\n%s", what, code, out)
	}
	for i := 0; i < 3 && !slices.Contains(fine, code); i++ {
		if code, out = n.bounded(what, 0, run...); slices.Contains(fine, code) {
			break
		}
		if !mayRefuse(rel) {
			t.Fatalf("%s: the next run gave %d\n%s", what, code, out)
		}
		// The operator does what the error says.
		_, command, aside := strings.Cut(out, "to put it aside type: ")
		switch {
		case aside:
			n.sh(strings.SplitN(command, "\n", 2)[0])
		case !strings.Contains(out, "hint: "):
			t.Errorf("%s: no next command\n%s", what, out)
		}
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
		if rel == "repo/.superloop/config.json" || strings.Contains(rel, "specs") {
			break // the operator's own file is gone
		}
		code, out = n.bounded(what, 0, append(run, "--fresh")...)
	}
	if !slices.Contains(fine, code) && !(mayRefuse(rel) && code == exitConfig) {
		t.Errorf("%s: the last run gave %d\n%s", what, code, out)
	}
	if text, err := os.ReadFile(n.path("victim")); err != nil || string(text) != "untouched\n" {
		t.Errorf("%s: written through a link: %q, %v", what, text, err)
	}
	n.notLeaked(what)
}

// notLeaked wants that no file of the loop holds the mark of the private state.
func (n *testEnv) notLeaked(what string) {
	n.t.Helper()
	_ = filepath.WalkDir(n.path("repo/.superloop"), func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return nil
		}
		if info, err := e.Info(); err != nil || info.Size() > 1<<20 {
			return nil
		}
		if text, err := os.ReadFile(path); err == nil && bytes.Contains(text, []byte(mark)) {
			n.t.Errorf("%s: %s holds what only the supervisor may read", what, path)
		}
		return nil
	})
}
