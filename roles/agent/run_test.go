package agent

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/roles"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == proc.SpawnerArg {
		os.Exit(proc.SpawnerMain())
	}
	goleak.VerifyTestMain(m)
}

// spawner returns a real spawner that ends with the test.
func spawner(t *testing.T) *proc.Spawner {
	t.Helper()
	s, err := proc.Start(proc.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// shell is a request for `sh -c script`.
func shell(t *testing.T, script string) Request {
	t.Helper()
	req := request(t, "the prompt\n")
	req.CLI = CLI{Command: []string{"sh", "-c", script, "agent"}}
	return req
}

func run(t *testing.T, r Runner, req Request, o Options) Result {
	t.Helper()
	if o.Environ == nil {
		o.Environ = os.Environ()
	}
	res, err := Run(t.Context(), r, req, o)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func TestRunGivesThePromptInEachMode(t *testing.T) {
	t.Parallel()
	r := spawner(t)
	for mode, cli := range map[string]CLI{
		"stdin":  {Command: []string{"cat"}, PromptMode: "stdin"},
		"":       {Command: []string{"cat"}},
		"file":   {Command: []string{"sh", "-c", `cat "$1"; cat`, "agent"}, Args: []string{"{prompt_file}"}, PromptMode: "file"},
		"arg":    {Command: []string{"printf", "%s"}, PromptMode: "arg"},
		"placed": {Command: []string{"printf"}, Args: []string{"%s%s", "{prompt}", ""}, PromptMode: "arg"},
	} {
		t.Run("mode "+mode, func(t *testing.T) {
			prompt := "a {model} of\n$(work) 'quoted' \"too\"\n"
			req := request(t, prompt)
			req.CLI, req.Model = cli, "m"
			res := run(t, r, req, Options{})
			if res.FinalMessage != prompt || res.From != roles.FromStdout || res.Proc.Code != 0 || res.Proc.Ended != proc.Exited {
				t.Errorf("%q from %s, ended %s with %d: %v", res.FinalMessage, res.From, res.Proc.Ended, res.Proc.Code, res.Proc.Err)
			}
			if For(req.CLI).Name() != "generic" || res.LastLine != `$(work) 'quoted' "too"` {
				t.Errorf("last line %q", res.LastLine)
			}
		})
	}
}

func TestRunPassesTheEnvironmentExactly(t *testing.T) {
	t.Parallel()
	r := spawner(t)
	req := request(t, "p")
	req.CLI = CLI{Command: []string{"env"}, Env: map[string]string{"FOO": "{loop}"}}
	o := Options{Environ: []string{"PATH=" + os.Getenv("PATH"), "LOGIN=kept", "SUPERLOOP_TEST_X=1", "PWD=/"}}
	res := run(t, r, req, o)
	want := strings.Join(build(t, req, o.Environ...).Env, "\n") + "\n"
	if res.FinalMessage != want {
		t.Errorf("the agent saw\n%s\nwant\n%s", res.FinalMessage, want)
	}
	if strings.Contains(want, "SUPERLOOP_TEST_X") || !strings.Contains(want, "LOGIN=kept\n") || !strings.Contains(want, "FOO=demo\n") {
		t.Errorf("environment\n%s", want)
	}
}

func TestRunTakesTheLastMessageByTheContract(t *testing.T) {
	t.Parallel()
	r := spawner(t)
	const promise = "<promise>DONE</promise>"
	half := messageHalf
	cases := map[string]struct {
		script, from, want string
		problem            string
	}{
		"file":          {`echo out; printf ' mine\n' >"$SUPERLOOP_LAST_MESSAGE_FILE"`, roles.FromFile, " mine\n", ""},
		"blank file":    {`echo out; echo >"$SUPERLOOP_LAST_MESSAGE_FILE"`, roles.FromStdout, "out\n", ""},
		"no file":       {`echo out; echo err >&2`, roles.FromStdout, "out\n", ""},
		"no output":     {`exit 3`, roles.FromStdout, "", ""},
		"not UTF-8":     {`printf 'caf\351'`, roles.FromStdout, "caf?", ""},
		"link":          {`echo out; ln -s /etc/passwd "$SUPERLOOP_LAST_MESSAGE_FILE"`, roles.FromStdout, "out\n", "a symbolic link"},
		"dangling link": {`echo out; ln -s /nowhere "$SUPERLOOP_LAST_MESSAGE_FILE"`, roles.FromStdout, "out\n", "a symbolic link"},
		"pipe":          {`echo out; mkfifo "$SUPERLOOP_LAST_MESSAGE_FILE"`, roles.FromStdout, "out\n", "a pipe"},
		"directory":     {`echo out; mkdir "$SUPERLOOP_LAST_MESSAGE_FILE"`, roles.FromStdout, "out\n", "a directory"},
		"100 MB, sparse": {
			`echo start >"$SUPERLOOP_LAST_MESSAGE_FILE"; truncate -s 100M "$SUPERLOOP_LAST_MESSAGE_FILE"; printf '` + promise + `' >>"$SUPERLOOP_LAST_MESSAGE_FILE"`,
			roles.FromFile, "start\n" + strings.Repeat("\x00", half-6) + "\n[... 103809047 bytes left out ...]\n" + strings.Repeat("\x00", half-len(promise)) + promise, "",
		},
		"5 MB of output": {
			`head -c 5000000 /dev/zero | tr '\0' x; printf '` + promise + `'`,
			roles.FromStdout, strings.Repeat("x", half) + "\n[superloop: 3951447 bytes left out here]\n" + strings.Repeat("x", half-len(promise)) + promise, "",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			res := run(t, r, shell(t, c.script), Options{})
			if res.FinalMessage != c.want || res.From != c.from {
				t.Errorf("%d bytes %.80q from %s, want %d bytes %.80q from %s", len(res.FinalMessage), res.FinalMessage, res.From, len(c.want), c.want, c.from)
			}
			if !strings.Contains(res.MessageProblem, c.problem) || (c.problem == "") != (res.MessageProblem == "") {
				t.Errorf("problem %q, want %q", res.MessageProblem, c.problem)
			}
		})
	}
}

func TestRunTellsHowItEnded(t *testing.T) {
	t.Parallel()
	r := spawner(t)
	t.Run("exit code", func(t *testing.T) {
		res := run(t, r, shell(t, `printf '\033[31mno key\033[0m\r\n' >&2; exit 41`), Options{})
		if res.Proc.Code != 41 || res.LastLine != "no key" {
			t.Errorf("exit %d, last line %q", res.Proc.Code, res.LastLine)
		}
	})
	t.Run("timeout", func(t *testing.T) {
		res := run(t, r, shell(t, `echo at work; sleep 60`), Options{Timeout: 2 * time.Second, Grace: time.Second})
		if res.Proc.Ended != proc.TimedOut || res.LastLine != "at work" || res.FinalMessage != "at work\n" {
			t.Errorf("ended %s, last line %q", res.Proc.Ended, res.LastLine)
		}
	})
	t.Run("killed", func(t *testing.T) {
		kill, cancel := context.WithCancel(t.Context())
		defer cancel()
		res, err := Run(kill, r, shell(t, `echo at work; sleep 60`), Options{Environ: os.Environ(), Progress: func(string) { cancel() }})
		if err != nil || res.Proc.Ended != proc.Killed {
			t.Errorf("ended %s, %v", res.Proc.Ended, err)
		}
	})
	t.Run("no such program", func(t *testing.T) {
		req := request(t, "p")
		req.CLI.Command = []string{"no-such-agent-here"}
		res := run(t, r, req, Options{})
		if res.Proc.Ended != proc.NotStarted || res.Proc.Err == nil || res.FinalMessage != "" {
			t.Errorf("ended %s, %v", res.Proc.Ended, res.Proc.Err)
		}
	})
	t.Run("no command", func(t *testing.T) {
		req := request(t, "p")
		req.CLI.Command = nil
		if _, err := Run(t.Context(), nil, req, Options{}); err == nil || !strings.Contains(err.Error(), "no command") {
			t.Error(err)
		}
		req = request(t, "p")
		req.RunID = ""
		if _, err := Run(t.Context(), nil, req, Options{}); err == nil || !strings.Contains(err.Error(), "run id") {
			t.Error(err)
		}
	})
}

func TestRunLogsAndShowsProgress(t *testing.T) {
	t.Parallel()
	r := spawner(t)
	var mu sync.Mutex
	var shown []string
	var log bytes.Buffer
	// The agent waits until its first line was shown, so that it must have
	// been shown while the agent still ran.
	req := shell(t, `echo first; while [ ! -e seen ]; do sleep 0.01; done; i=0; while [ $i -lt 2000 ]; do echo line $i; i=$((i+1)); done; printf last`)
	res := run(t, r, req, Options{Log: &log, Progress: func(line string) {
		mu.Lock()
		defer mu.Unlock()
		if len(shown) == 0 {
			if err := os.WriteFile(filepath.Join(req.WorkDir, "seen"), nil, 0o644); err != nil {
				t.Error(err)
			}
		}
		shown = append(shown, line)
	}})
	if res.Proc.Code != 0 || len(shown) < 2 || shown[0] != "first" || shown[len(shown)-1] != "last" || res.LastLine != "last" {
		t.Errorf("exit %d, shown %q, last line %q", res.Proc.Code, shown, res.LastLine)
	}
	if len(shown) > 3+int(res.Proc.Duration/progressGap) {
		t.Errorf("%d calls in %s", len(shown), res.Proc.Duration)
	}
	if want := "line 1999\nlast"; !strings.HasSuffix(log.String(), want) || !strings.HasPrefix(log.String(), "first\n") {
		t.Errorf("log of %d bytes ends %q", log.Len(), log.String()[max(0, log.Len()-40):])
	}
}

// A program below the working directory is found from there, wherever the
// supervisor itself stands.
func TestRunFindsARelativeProgram(t *testing.T) {
	t.Parallel()
	r := spawner(t)
	req := request(t, "p")
	// A link, not a script written here: a fork of a parallel test could hold
	// that open for writing, and it could not be executed.
	shell, err := proc.LookPath("sh", os.Environ())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(shell, filepath.Join(req.WorkDir, "sh")); err != nil {
		t.Fatal(err)
	}
	req.CLI.Command = []string{"./sh", "-c", "pwd"}
	res := run(t, r, req, Options{})
	if res.FinalMessage != req.WorkDir+"\n" {
		t.Errorf("%q, %v", res.FinalMessage, res.Proc.Err)
	}
}
