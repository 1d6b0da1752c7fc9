package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/internal/testkit"
	"github.com/superloop/superloop/loop/layout"
	"github.com/superloop/superloop/server"
)

// patience bounds every wait of a script: far more than anything takes, so that
// a script that hangs says where.
const patience = 2 * time.Minute

// goodAgent is $WORK/good.json: an agent that does its work in one iteration.
const goodAgent = `{
  "version": 1,
  "turns": [
    {"role": "implementer", "steps": [{"append": {"path": "made", "content": "{iteration}\n"}}, {"report": "made"}]},
    {"role": "reviewer", "steps": [{"report": "fine in {iteration} of {run}"}, {"last_message": "All is done. <promise>DONE</promise>"}]}
  ],
  "default": [{"report": "{role} looked"}]
}`

// TestScript plays testdata/script: the program as real processes, each script
// in a home, a state directory and a repository of its own.
func TestScript(t *testing.T) {
	t.Parallel()
	play(t, scripts(t, "testdata/script"))
}

// TestNextAfterScript plays testdata/script and then types what status and inbox name next, in every state in which a
// script has left a loop: what superloop tells an operator to type works.
func TestNextAfterScript(t *testing.T) {
	t.Parallel()
	every := testkit.Sample(0, 4, 1)
	if every == 0 {
		t.Skip("set SUPERLOOP_SLOW_TESTS=1, as .ci/run does")
	}
	var some []string
	for i, file := range scripts(t, "testdata/script") {
		if i%every == 0 {
			some = append(some, file)
		}
	}
	play(t, withNext(t, some))
}

// TestLongScript plays testdata/long, each of which takes a second of processor time or more.
func TestLongScript(t *testing.T) {
	t.Parallel()
	if !slow() {
		t.Skip("set SUPERLOOP_SLOW_TESTS=1, as .ci/run does")
	}
	play(t, scripts(t, "testdata/long"))
}

// scripts are those of a directory that are to be played, sorted.
func scripts(t *testing.T, dir string) []string {
	files, err := filepath.Glob(filepath.Join(dir, "*.txtar"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts in %s: %v", dir, err)
	}
	some := files[:0]
	for i := 0; i < len(files); i += testkit.Every() {
		some = append(some, files[i])
	}
	return some
}

func play(t *testing.T, files []string) {
	testscript.Run(t, testscript.Params{
		Files:               files,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup:               setupScript,
		Condition:           condition,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"gitinit":   gitInit,
			"exits":     exits,
			"start":     start,
			"signal":    sendSignal,
			"ends":      ends,
			"waitfor":   waitFor,
			"noagents":  noAgents,
			"untouched": untouched,
			"event":     event,
			"inorder":   inOrder,
			"json":      jsonFile,
			"next":      typesNext,
			"everynext": typesEveryNext,
			"alike":     alike,
		},
	})
}

func setupScript(env *testscript.Env) error {
	home := filepath.Join(env.WorkDir, "home")
	for key, value := range map[string]string{
		"HOME": home, "XDG_STATE_HOME": filepath.Join(env.WorkDir, "state"),
		"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1",
		"GIT_AUTHOR_NAME": "Ann", "GIT_AUTHOR_EMAIL": "ann@example.invalid",
		"GIT_COMMITTER_NAME": "Ann", "GIT_COMMITTER_EMAIL": "ann@example.invalid",
		"USER": "ann", "LC_ALL": "C", "GOGC": os.Getenv("GOGC"),
	} {
		env.Setenv(key, value)
	}
	examples, err := filepath.Abs("../../examples")
	if err != nil {
		return err
	}
	env.Setenv("EXAMPLES", examples)
	for _, name := range []string{"agent.sh", "bare.sh", "user.sh"} {
		text, err := os.ReadFile(filepath.Join("testdata", name))
		if err == nil {
			err = os.WriteFile(filepath.Join(env.WorkDir, name), text, 0o755)
		}
		if err != nil {
			return err
		}
	}
	env.Values[running{}] = map[string]*process{}
	env.Defer(func() {
		endDaemon(filepath.Join(env.WorkDir, "state"))
		judgeAgain(env.T(), env.WorkDir)
	})
	return errors.Join(os.MkdirAll(home, 0o755), os.MkdirAll(filepath.Join(env.WorkDir, "repo"), 0o755),
		os.WriteFile(filepath.Join(env.WorkDir, "good.json"), []byte(goodAgent), 0o644))
}

// endDaemon ends the daemon that a script has left, which otherwise would outlive the test.
func endDaemon(stateHome string) {
	state, err := layout.StateRoot(stateHome)
	if err != nil {
		return
	}
	if by, alive := server.Daemon(state); alive {
		_ = proc.Signal(by.Identity, syscall.SIGKILL) // its agents end with it
	}
}

// gitInit makes the current folder a repository with one commit of all that is
// in it.
func gitInit(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) == 0, "gitinit")
	for _, cmd := range []string{"init -q --template= -b main", "add -A", "commit -q --allow-empty -m first"} {
		ts.Check(ts.Exec("git", strings.Fields(cmd)...))
	}
}

// exits runs a program and wants exactly this exit code.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) >= 2, "exits CODE PROGRAM [ARG...]")
	err := ts.Exec(args[1], args[2:]...)
	if got := exitCode(ts, err); fmt.Sprint(got) != args[0] {
		ts.Fatalf("exit code %d, want %s", got, args[0])
	}
}

func exitCode(ts *testscript.TestScript, err error) int {
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		ts.Fatalf("running the program: %v", err)
	}
	if exit == nil {
		return 0
	}
	return exit.ExitCode()
}

// running is the key of a script's background processes.
type running struct{}

type process struct {
	cmd  *exec.Cmd
	done chan error
}

// start runs a program in the background; what it prints is in $WORK/NAME.out
// and $WORK/NAME.err.
func start(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) >= 2, "start NAME PROGRAM [ARG...]")
	work := ts.Getenv("WORK")
	var env []string
	for _, key := range []string{"PATH", "HOME", "USER", "LC_ALL", "TMPDIR", "WORK", "XDG_STATE_HOME", "GIT_CONFIG_GLOBAL",
		"GIT_CONFIG_NOSYSTEM", "GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL",
		"TESTSCRIPT_COMMAND_DIR", "GOCOVERDIR", "ANTHROPIC_API_KEY", "RESET"} {
		if value := ts.Getenv(key); value != "" {
			env = append(env, key+"="+value)
		}
	}
	path := ""
	for _, dir := range filepath.SplitList(ts.Getenv("PATH")) {
		if _, err := os.Stat(filepath.Join(dir, args[1])); err == nil {
			path = filepath.Join(dir, args[1])
			break
		}
	}
	out, err := os.Create(filepath.Join(work, args[0]+".out"))
	ts.Check(err)
	defer out.Close()
	errs, err := os.Create(filepath.Join(work, args[0]+".err"))
	ts.Check(err)
	defer errs.Close()
	cmd := &exec.Cmd{Path: path, Args: args[1:], Dir: ts.MkAbs("."), Env: env, Stdout: out, Stderr: errs}
	ts.Check(cmd.Start())
	p := &process{cmd, make(chan error, 1)}
	over := make(chan struct{})
	go func() {
		p.done <- cmd.Wait()
		close(over)
	}()
	ts.Value(running{}).(map[string]*process)[args[0]] = p
	ts.Defer(func() {
		select {
		case <-over:
		default:
			_ = cmd.Process.Kill() // a script that failed half way
			<-over
		}
	})
}

func started(ts *testscript.TestScript, name string) *process {
	p := ts.Value(running{}).(map[string]*process)[name]
	if p == nil {
		ts.Fatalf("nothing was started as %q", name)
	}
	return p
}

// sendSignal sends INT, TERM or KILL to what was started.
func sendSignal(ts *testscript.TestScript, neg bool, args []string) {
	sig := map[string]syscall.Signal{"INT": syscall.SIGINT, "TERM": syscall.SIGTERM, "KILL": syscall.SIGKILL, "HUP": syscall.SIGHUP}
	usage(ts, !neg && len(args) == 2 && sig[args[1]] != 0, "signal NAME INT|TERM|KILL|HUP")
	ts.Check(started(ts, args[0]).cmd.Process.Signal(sig[args[1]]))
}

// ends waits for what was started to end with exactly this exit code (-1: by a
// signal), optionally within a time.
func ends(ts *testscript.TestScript, neg bool, args []string) {
	soon := len(args) == 3 && args[2] == "soon"
	usage(ts, !neg && (len(args) == 2 || soon), "ends NAME CODE [soon]")
	limit := patience
	if soon {
		// Less than the grace of an agent. The race detector sleeps for a second at the exit of each of superloop's own
		// processes, which wait for each other.
		limit = map[bool]time.Duration{false: 10 * time.Second, true: patience}[raceEnabled]
	}
	show := func() string {
		return ts.ReadFile(filepath.Join(ts.Getenv("WORK"), args[0]+".out")) + ts.ReadFile(filepath.Join(ts.Getenv("WORK"), args[0]+".err"))
	}
	select {
	case err := <-started(ts, args[0]).done:
		if got := exitCode(ts, err); fmt.Sprint(got) != args[1] {
			ts.Fatalf("%s ended with exit code %d, want %s; it said\n%s", args[0], got, args[1], show())
		}
	case <-time.After(limit):
		ts.Fatalf("%s did not end within %s; it said\n%s", args[0], limit, show())
	}
}

// waitFor looks at a file until it matches.
func waitFor(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) == 2, "waitfor FILE REGEXP")
	want, err := regexp.Compile("(?m)" + args[1])
	ts.Check(err)
	var data []byte
	until(ts, func() bool {
		data, _ = os.ReadFile(ts.MkAbs(args[0]))
		return want.Match(data)
	}, func() string { return fmt.Sprintf("%s never matched %s; it is\n%s", args[0], args[1], data) })
}

// until looks again and again, as a file or a process that somebody else ends
// does not tell.
func until(ts *testscript.TestScript, ok func() bool, why func() string) {
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline.C:
			ts.Fatalf("%s", why())
		}
	}
}

// noAgents wants that nothing that the script's loops started is alive now.
func noAgents(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) == 0, "noagents")
	if alive := agents(ts); len(alive) > 0 {
		ts.Fatalf("processes are left: %s", strings.Join(alive, "; "))
	}
}

// agents are the processes of the script's loops, by their environment: what a
// process does (a session or a parent of its own) does not change that.
func agents(ts *testscript.TestScript) []string {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	ts.Check(err)
	var alive []string
	for _, dir := range dirs {
		environ, err := os.ReadFile(filepath.Join(dir, "environ"))
		if err != nil {
			continue // it has ended, or is somebody else's
		}
		vars := strings.Split(string(environ), "\x00")
		mine := slices.Contains(vars, "XDG_STATE_HOME="+ts.Getenv("XDG_STATE_HOME"))
		if mine && slices.ContainsFunc(vars, func(v string) bool { return strings.HasPrefix(v, "SUPERLOOP_LOOP=") }) {
			line, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
			alive = append(alive, filepath.Base(dir)+" "+string(bytes.ReplaceAll(line, []byte{0}, []byte{' '})))
		}
	}
	return alive
}

// untouched wants that no loop has left anything, here or in the state directory.
func untouched(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) == 0, "untouched")
	for _, path := range []string{".superloop/loops", ".superloop/state.json", ".superloop/worktrees", ts.Getenv("XDG_STATE_HOME")} {
		if _, err := os.Lstat(ts.MkAbs(path)); err == nil {
			ts.Fatalf("%s was written", path)
		}
	}
}

func usage(ts *testscript.TestScript, ok bool, line string) {
	if !ok {
		ts.Fatalf("usage: %s", line)
	}
}
