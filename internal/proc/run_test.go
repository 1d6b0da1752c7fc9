package proc

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestExitStatus(t *testing.T) {
	t.Parallel()
	eachLevel(t, func(t *testing.T, s *Spawner) {
		for _, c := range []struct {
			script string
			code   int
			signal string
		}{
			{"exit 0", 0, ""},
			{"exit 1", 1, ""},
			{"exit 129", 129, ""},
			{"exit 255", 255, ""},
			{"kill -HUP $$", -1, "SIGHUP"},
			{"kill -KILL $$", -1, "SIGKILL"},
			{"kill -SEGV $$", -1, "SIGSEGV"},
		} {
			res := mustRun(t, s, script("ulimit -c 0; "+c.script))
			if res.Code != c.code || res.Signal != c.signal || res.Ended != Exited || res.LeftBehind != 0 || res.Err != nil {
				t.Errorf("%s: %+v", c.script, res)
			}
			if res.Duration <= 0 {
				t.Errorf("%s: duration %v", c.script, res.Duration)
			}
		}
	})
}

func TestProcessGroupLevel(t *testing.T) {
	t.Parallel()
	s := spawnerAt(t, ProcessGroup)
	spec := script("trap '' TERM; sleep 1000 & echo out; exit 3")
	res := mustRun(t, s, spec)
	if res.Code != 3 || res.LeftBehind != 1 || string(res.Stdout.Head) != "out\n" {
		t.Errorf("%+v", res)
	}
	tap, ready := said("ready")
	spec = script("trap '' TERM; sleep 1000 & echo ready; wait; wait")
	spec.Grace, spec.Stdout = 100*time.Millisecond, tap
	if res, err := s.Run(cancelWhen(t, ready), spec); err != nil || res.Ended != Killed || res.Signal != "SIGKILL" {
		t.Errorf("%v %+v", err, res)
	}
}

func TestCPUTimeOfTheWholeTree(t *testing.T) {
	t.Parallel()
	s := spawnerAt(t, "")
	// The loop runs in a process that its parent does not wait for.
	res := mustRun(t, s, script("exec cat < <(for ((i=0;i<100000;i++)); do :; done)"))
	if res.UserTime+res.SystemTime < 20*time.Millisecond {
		t.Errorf("user %v, system %v", res.UserTime, res.SystemTime)
	}
}

func TestCaptureAndTaps(t *testing.T) {
	t.Parallel()
	s := spawnerAt(t, "")
	var out, errs, log bytes.Buffer
	spec := script("printf 'one\\ntwo\\n'; printf 'bad\\n' >&2; printf half")
	spec.Stdout, spec.Stderr, spec.Log = func(p []byte) { out.Write(p) }, func(p []byte) { errs.Write(p) }, &log
	before := time.Now()
	res := mustRun(t, s, spec)
	if got := res.Stdout.Text(); got != "one\ntwo\nhalf" || out.String() != got || res.Stdout.Bytes != 12 || res.Stdout.Truncated {
		t.Errorf("stdout %q, tap %q, %+v", got, out.String(), res.Stdout)
	}
	if got := res.Stderr.Text(); got != "bad\n" || errs.String() != got {
		t.Errorf("stderr %q, tap %q", got, errs.String())
	}
	// The order of the two streams is not known, and what has no line end may stand before the other's line.
	if got := log.String(); len(got) != 16 || strings.Replace(got, "bad\n", "", 1) != "one\ntwo\nhalf" {
		t.Errorf("log %q", got)
	}
	if res.LastOutput.Before(before) || res.LastOutput.After(time.Now()) {
		t.Errorf("last output at %v", res.LastOutput)
	}
	spec = script("printf 0123456789")
	spec.HeadTail = 3
	if c := mustRun(t, s, spec).Stdout; string(c.Head) != "012" || string(c.Tail) != "789" || c.Bytes != 10 || !c.Truncated ||
		c.Text() != "012\n[superloop: 4 bytes left out here]\n789" {
		t.Errorf("%+v %q", c, c.Text())
	}
	spec.HeadTail = -1
	if c := mustRun(t, s, spec).Stdout; len(c.Head)+len(c.Tail) != 0 || c.Bytes != 10 || !c.Truncated {
		t.Errorf("%+v", c)
	}
	if res = mustRun(t, s, script(":")); !res.LastOutput.IsZero() {
		t.Errorf("last output of a silent command at %v", res.LastOutput)
	}
}

func TestUnfinishedLineReachesTheLogWhileTheCommandRuns(t *testing.T) {
	t.Parallel()
	s := spawnerAt(t, "")
	tap, ready := said("prompt> ")
	spec := script("printf 'prompt> '; exec sleep 1000")
	spec.Log = writerFunc(tap)
	ctx, cancel := context.WithTimeout(cancelWhen(t, ready), 2*time.Minute)
	defer cancel()
	if _, err := s.Run(ctx, spec); err != nil {
		t.Fatal(err)
	}
	if ctx.Err() == context.DeadlineExceeded {
		t.Error("the log never got the prompt")
	}
}

func TestEnvironmentIsExact(t *testing.T) {
	t.Parallel()
	s := spawnerAt(t, "")
	for _, env := range [][]string{nil, {"A=1"}, {"B=x y", "A=\xff\xfe", "PATH=/none", "EMPTY="}, {"TWICE=1", "TWICE=2"}} {
		res := mustRun(t, s, Spec{Argv: []string{"/usr/bin/env", "-0"}, Env: env})
		if got := unpack(res.Stdout.Head); !slices.Equal(got, append([]string{}, env...)) {
			t.Errorf("gave %q, the command saw %q (%v)", env, got, res.Err)
		}
	}
	res := mustRun(t, s, Spec{Argv: []string{"/usr/bin/printf", "%s|", "", "\xff", "a b", "$HOME"}})
	if got := string(res.Stdout.Head); got != "|\xff|a b|$HOME|" {
		t.Errorf("arguments arrived as %q", got)
	}
}

func TestStdin(t *testing.T) {
	t.Parallel()
	s := spawnerAt(t, "")
	big := bytes.Repeat([]byte("0123456789abcde\n"), 300<<10/16)
	file := filepath.Join(t.TempDir(), "prompt")
	if err := os.WriteFile(file, big, 0o600); err != nil {
		t.Fatal(err)
	}
	spec := script("cat")
	spec.Stdin, spec.HeadTail = file, 512<<10
	if res := mustRun(t, s, spec); !bytes.Equal(res.Stdout.Head, big) {
		t.Errorf("%d bytes of %d came through (%v)", len(res.Stdout.Head), len(big), res.Err)
	}
	spec = script("cat; echo end")
	if res := mustRun(t, s, spec); res.Stdout.Text() != "end\n" {
		t.Errorf("without stdin: %q", res.Stdout.Text())
	}
}

func TestDescriptorsAndDispositions(t *testing.T) {
	t.Parallel()
	eachLevel(t, func(t *testing.T, s *Spawner) {
		res := mustRun(t, s, Spec{Argv: []string{"/bin/ls", "/proc/self/fd"}})
		if got := strings.Fields(res.Stdout.Text()); !slices.Equal(got, []string{"0", "1", "2", "3"}) { // 3 is the directory
			t.Errorf("descriptors in the command: %v", got)
		}
		res = mustRun(t, s, Spec{Argv: []string{"/bin/cat", "/proc/self/status"}})
		if bad := signalState(res.Stdout.Text()); len(bad) > 0 {
			t.Errorf("inherited signals: %v", bad)
		}
		if res = mustRun(t, s, script("ps -o sid= -p $$; echo $$; tty")); res.Ended != Exited {
			t.Errorf("%+v", res)
		}
		if f := strings.Fields(res.Stdout.Text()); len(f) < 2 || f[0] != f[1] || !strings.Contains(res.Stdout.Text(), "not a tty") {
			t.Errorf("not a session of its own without a terminal: %q", res.Stdout.Text())
		}
	})
}

// signalState returns the lines of /proc/PID/status that say that a signal is blocked, ignored or caught.
func signalState(status string) []string {
	var bad []string
	for line := range strings.Lines(status) {
		name, set, _ := strings.Cut(line, ":")
		if slices.Contains([]string{"SigBlk", "SigIgn", "SigCgt"}, name) && strings.Trim(strings.TrimSpace(set), "0") != "" {
			bad = append(bad, line)
		}
	}
	return bad
}

// A supervisor in the background of a shell, with signals ignored and a descriptor that nobody closed.
func TestCarelessParent(t *testing.T) {
	t.Parallel()
	eachLevel(t, func(t *testing.T, s *Spawner) {
		shell := `trap '' INT HUP QUIT TERM PIPE USR1 TSTP TTOU; exec 7</dev/null; exec "$0" ` + superviseArg + ` "$1" A=1 'exec cat /proc/self/status; '`
		res := mustRun(t, s, Spec{Argv: []string{"bash", "-c", shell, os.Args[0], string(Subreaper)}, Env: []string{"PATH=" + os.Getenv("PATH")}})
		if bad := signalState(res.Stdout.Text()); len(bad) > 0 || !strings.Contains(res.Stdout.Text(), "SigIgn") {
			t.Errorf("inherited signals: %v (%s)", bad, res.Stderr.Text())
		}
		shell = strings.Replace(shell, "exec cat /proc/self/status", "exec ls /proc/self/fd", 1)
		res = mustRun(t, s, Spec{Argv: []string{"bash", "-c", shell, os.Args[0], string(Subreaper)}, Env: []string{"PATH=" + os.Getenv("PATH")}})
		if got := res.Stdout.Text(); !strings.HasSuffix(got, "\n0\n1\n2\n3\n") {
			t.Errorf("descriptors in the command: %q (%s)", got, res.Stderr.Text())
		}
	})
}

func TestNotStarted(t *testing.T) {
	t.Parallel()
	s := spawnerAt(t, "")
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	plain := write("plain", "echo hi\n", 0o644)
	noInterp := write("nointerp", "#!/no/such/interpreter -x\n", 0o755)
	garbage := write("garbage", "\x01\x02\x03", 0o755)
	path := []string{"PATH=/usr/bin:/bin:" + dir}
	for _, c := range []struct {
		name string
		spec Spec
		want string
	}{
		{"empty argv", Spec{}, "no command"},
		{"empty name", Spec{Argv: []string{""}}, "no command"},
		{"NUL in argv", Spec{Argv: []string{"echo", "a\x00b"}, Env: path}, "argument 1 contains a NUL"},
		{"NUL in env", Spec{Argv: []string{"echo"}, Env: []string{"X=a\x00b"}}, `"X" contains a NUL`},
		{"NUL in dir", Spec{Argv: []string{"echo"}, Env: path, Dir: "/a\x00"}, "NUL"},
		{"no program", Spec{Argv: []string{"no-such-agent"}, Env: path}, `"no-such-agent" not found; searched PATH=/usr/bin:`},
		{"no PATH", Spec{Argv: []string{"echo"}}, "PATH is not set"},
		{"no such path", Spec{Argv: []string{"./agent"}, Env: path, Dir: dir}, filepath.Join(dir, "agent") + " does not exist"},
		{"not executable", Spec{Argv: []string{"plain"}, Env: path}, plain + " is not executable"},
		{"a directory", Spec{Argv: []string{dir}}, "is not executable"},
		{"interpreter", Spec{Argv: []string{noInterp}}, "#!/no/such/interpreter -x"},
		{"garbage", Spec{Argv: []string{garbage}}, "not a program"},
		{"missing dir", Spec{Argv: []string{"echo"}, Env: path, Dir: dir + "/gone"}, "working directory " + dir + "/gone does not exist"},
		{"dir is a file", Spec{Argv: []string{"echo"}, Env: path, Dir: plain}, "is not a directory"},
		{"stdin", Spec{Argv: []string{"echo"}, Env: path, Stdin: dir + "/gone"}, "standard input: open " + dir + "/gone"},
		{"stdin is a directory", Spec{Argv: []string{"echo"}, Env: path, Stdin: dir}, "is not a regular file"},
		{"one argument too long", Spec{Argv: []string{"echo", strings.Repeat("x", 200<<10)}, Env: path}, "prompt_mode"},
		{"all too long", Spec{Argv: append([]string{"echo"}, slices.Repeat([]string{strings.Repeat("x", 100<<10)}, 80)...), Env: path}, "prompt_mode"},
		{"more than a frame", Spec{Argv: append([]string{"echo"}, slices.Repeat([]string{strings.Repeat("x", 10<<20)}, 6)...), Env: path}, "prompt_mode"},
		{"marker", Spec{Argv: []string{"echo"}, Env: path, Marker: "A=1"}, "marker"},
	} {
		res, err := s.Run(context.Background(), c.spec)
		if err != nil || res.Ended != NotStarted || res.Code != -1 || res.Err == nil || !strings.Contains(res.Err.Error(), c.want) {
			text := ""
			if res.Err != nil {
				text = res.Err.Error()
			}
			t.Errorf("%s: %v %v %q, want %q", c.name, err, res.Ended, text, c.want)
		}
	}
	if res := mustRun(t, s, Spec{Argv: []string{"no-such-agent"}, Env: path}); !errors.Is(res.Err, fs.ErrNotExist) {
		t.Errorf("%v", res.Err)
	}
	// After all that the same spawner process still works.
	if res := mustRun(t, s, script("exit 7")); res.Code != 7 {
		t.Errorf("%+v", res)
	}
}

func TestRelativeProgramAndDir(t *testing.T) {
	t.Parallel()
	s := spawnerAt(t, "")
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "agent.sh"), []byte("#!/bin/sh\necho $0; pwd\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	res := mustRun(t, s, Spec{Argv: []string{"./agent.sh"}, Dir: dir})
	if got := res.Stdout.Text(); got != filepath.Join(dir, "agent.sh")+"\n"+dir+"\n" {
		t.Errorf("%q %v", got, res.Err)
	}
	wd, _ := os.Getwd()
	if got := mustRun(t, s, script("pwd")).Stdout.Text(); got != wd+"\n" {
		t.Errorf("no Dir: %q, want %q", got, wd)
	}
}

// A script that is still open for writing in somebody's child, for a moment.
func TestTextFileBusy(t *testing.T) {
	t.Parallel()
	s := spawnerAt(t, "")
	path := filepath.Join(t.TempDir(), "agent")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("#!/bin/sh\nexit 3\n"); err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(busyPause*3/2, func() { f.Close() })
	if res := mustRun(t, s, Spec{Argv: []string{path}}); res.Code != 3 {
		t.Errorf("%+v", res)
	}
}
