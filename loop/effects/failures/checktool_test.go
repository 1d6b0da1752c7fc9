package failures

import (
	"context"
	"errors"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/effects"
	"github.com/superloop/superloop/roles/agent"
)

var checkMytool = loop.Effect{ID: "e1", Kind: loop.CheckTool, Tool: "mytool"}

// toolWorld makes a world in which mytool is on PATH and answers by its last argument.
func toolWorld(t *testing.T, answers map[string]proc.Result) *failuresWorld {
	w := newFailuresWorld(t)
	bin := t.TempDir()
	w.write(filepath.Join(bin, "mytool"), "")
	w.Environ = append(w.Environ, "PATH="+bin)
	w.run = func(_ context.Context, spec proc.Spec) (proc.Result, error) {
		res, ok := answers[strings.Join(spec.Argv, " ")]
		if !ok {
			t.Errorf("%q is run", spec.Argv)
		}
		return res, nil
	}
	return w
}

func prints(code int, stdout, stderr string) proc.Result {
	return proc.Result{Ended: proc.Exited, Code: code, Stdout: proc.Capture{Head: []byte(stdout)}, Stderr: proc.Capture{Head: []byte(stderr)}}
}

// Conforms: 001-sec-isolation, 001-sec-hang
func TestAToolWorks(t *testing.T) {
	t.Parallel()
	w := toolWorld(t, map[string]proc.Result{"mytool --version": prints(0, "mytool 4.1\n", "")})
	hurry := make(chan struct{})
	fact, err := w.Perform(effects.WithHurry(t.Context(), hurry), checkMytool, w.s)
	if want := (loop.ToolChecked{Of: loop.To(checkMytool), Tool: "mytool", Result: loop.ToolWorks}); err != nil || fact != want {
		t.Errorf("%+v %v", fact, err)
	}
	if len(w.ran) != 1 {
		t.Fatalf("%+v", w.ran)
	}
	spec := w.ran[0]
	for _, v := range []string{"SUPERLOOP_MARK=run-1", "SUPERLOOP_LOOP_DIR=" + w.Paths.Loop, "MY_TOKEN=verysecretvalue"} {
		if !slices.Contains(spec.Env, v) {
			t.Errorf("%s is not in %q", v, spec.Env)
		}
	}
	if want := agent.Environment(w.Env(), agent.Request{WorkDir: w.Repo.Top, Repo: w.Paths.Repo, LoopDir: w.Paths.Loop, Loop: "one", RunID: "run-1",
		Role: "verify", Iteration: 3, Attempt: 1}); !slices.Equal(spec.Env, want) {
		t.Errorf("%q", spec.Env)
	}
	spec.Env = nil
	want := proc.Spec{Argv: []string{"mytool", "--version"}, Dir: w.Repo.Top, Timeout: 5 * time.Second, Grace: time.Second, Hurry: hurry, HeadTail: 64 << 10, Marker: "SUPERLOOP_MARK=run-1"}
	if !reflect.DeepEqual(spec, want) {
		t.Errorf("%+v", spec)
	}
	w.said()
}

func TestAToolIsNotLookedAt(t *testing.T) {
	t.Parallel()
	w := toolWorld(t, nil)
	for name, tool := range map[string]string{"no such recipe": "moon", "the repository's own": "theirs"} {
		want := loop.ToolChecked{Tool: tool, Result: loop.ToolSkipped, Why: "its check is the repository's own, its recipe is held, or there is none"}
		e := loop.Effect{ID: "e4", Kind: loop.CheckTool, Tool: tool}
		want.Of = loop.To(e)
		if got := did[loop.ToolChecked](w, e); got != want {
			t.Errorf("%s: %+v", name, got)
		}
	}
	w.run = func(context.Context, proc.Spec) (proc.Result, error) { return proc.Result{}, errTest }
	if got := did[loop.ToolChecked](w, checkMytool); got.Result != loop.ToolSkipped || !strings.Contains(got.Why, "running mytool: "+errTest.Error()) {
		t.Errorf("%+v", got)
	}
	w.Rules = &Rules{read: func() *book { return &book{err: errTest} }}
	if got := did[loop.ToolChecked](w, checkMytool); got.Result != loop.ToolSkipped || !strings.Contains(got.Why, errTest.Error()) {
		t.Errorf("%+v", got)
	}
}

func TestAToolCheckIsBrokenOff(t *testing.T) {
	t.Parallel()
	w := toolWorld(t, map[string]proc.Result{"mytool --version": {Ended: proc.Killed, Code: -1, Signal: "SIGTERM"}})
	if fact, err := w.Perform(t.Context(), checkMytool, w.s); fact != nil || err != nil {
		t.Errorf("%v %v", fact, err)
	}
	ctx, stop := context.WithCancel(t.Context())
	w.run = func(context.Context, proc.Spec) (proc.Result, error) { stop(); return proc.Result{}, ctx.Err() }
	if fact, err := w.Perform(ctx, checkMytool, w.s); fact != nil || err != nil {
		t.Errorf("%v %v", fact, err)
	}
}

func TestAToolCheckIsRepaired(t *testing.T) {
	t.Parallel()
	w := toolWorld(t, map[string]proc.Result{"mytool --version": prints(2, "", "usage: mytool [check]\n")})
	got := did[loop.ToolChecked](w, checkMytool)
	if got.Mode != "output" || got.Pattern == "" || got.TimeSavedMS <= 0 {
		t.Errorf("%+v", got)
	}
	got.Pattern, got.TimeSavedMS, got.Mode = "", 0, ""
	want := loop.ToolChecked{Of: loop.To(checkMytool), Tool: "mytool", Result: loop.ToolRepaired, Original: "mytool --version", Repaired: "mytool --version", Method: "output_detection", ExitCode: 2}
	if got != want {
		t.Errorf("%+v", got)
	}
}

// Conforms: 001-sec-data, 001-sec-hang
func TestAToolIsDoubtful(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answers map[string]proc.Result
		code    int
		broken  bool
		why     string
	}{
		"broken at once": {map[string]proc.Result{"mytool --version": prints(127, "", "mytool: error while loading shared libraries: libmine.so.2: cannot open shared object file: No such file or directory\n")},
			127, true, "a shared library is missing"},
		"a signal":     {map[string]proc.Result{"mytool --version": {Ended: proc.Exited, Code: -1, Signal: "SIGSEGV"}}, -1, true, "ended by the signal SIGSEGV"},
		"a time limit": {map[string]proc.Result{"mytool --version": {Ended: proc.TimedOut, Code: 7}}, -1, true, "time limit"},
		"says nothing": {map[string]proc.Result{"mytool --version": prints(3, "", ""), "mytool --help": prints(4, "", ""), "mytool -h": prints(5, "", "")}, 3, false, "exit code 3 instead of 0"},
		"broken in the end": {map[string]proc.Result{"mytool --version": prints(3, "", ""), "mytool --help": prints(4, "", ""),
			"mytool -h": prints(127, "", "mytool: error while loading shared libraries: libmine.so.2: cannot open shared object file: No such file or directory\n")}, 3, true, "mytool -h shows that it is broken"},
		"not started": {map[string]proc.Result{"mytool --version": {Ended: proc.NotStarted, Code: -1, Err: errors.New("exec format error of verysecretvalue")}},
			-1, true, "exec format error of <secret>; its recipe says that PATH needs PATH=$HOME/bin:$PATH"},
	} {
		w := toolWorld(t, c.answers)
		got := did[loop.ToolChecked](w, checkMytool)
		if got.Result != loop.ToolDoubtful || got.ExitCode != c.code || got.Broken != c.broken || !strings.Contains(got.Why, c.why) || got.Original != "mytool --version" || len(w.ran) != len(c.answers) {
			t.Errorf("%s: %+v", name, got)
		}
		if name == "not started" && got.Why != c.why {
			t.Errorf("%s: %q", name, got.Why)
		}
	}
	// What is not on PATH is not started at all.
	w := newFailuresWorld(t)
	got := did[loop.ToolChecked](w, checkMytool)
	if got.Result != loop.ToolDoubtful || got.ExitCode != -1 || !strings.HasSuffix(got.Why, "; its recipe says that PATH needs PATH=$HOME/bin:$PATH") || !strings.Contains(got.Why, "mytool") || len(w.ran) != 0 {
		t.Errorf("%+v", got)
	}
}

// A program in the repository is found from there, whatever the supervisor's directory.
func TestRunsAProgramOfTheRepository(t *testing.T) {
	t.Parallel()
	w := newFailuresWorld(t)
	w.run = func(context.Context, proc.Spec) (proc.Result, error) { return prints(0, "out", "err"), nil }
	c := &toolCheck{Performer: w.Performer, runID: "run-1", env: w.Env()}
	run, err := c.Run(t.Context(), []string{"./refresh", "-v"})
	if err != nil || run.Stdout != "out" || run.Stderr != "err" || len(w.ran) != 1 || w.ran[0].Argv[0] != "./refresh" {
		t.Errorf("%+v %v", run, err)
	}
	if run, err = c.Run(t.Context(), []string{filepath.Join(w.Repo.Top, "refresh")}); err != nil || run.Exit.NotStarted || len(w.ran) != 2 {
		t.Errorf("%+v %v", run, err)
	}
	if run, err = c.Run(t.Context(), []string{"./gone"}); err != nil || !run.Exit.NotStarted || run.Exit.Code != -1 || run.Stderr == "" || len(w.ran) != 2 {
		t.Errorf("%+v %v", run, err)
	}
	if c.first.Stdout != "out" || !c.last.Exit.NotStarted {
		t.Errorf("%+v", c)
	}
	if got := c.inert(strings.Repeat("x", 399) + "é"); got != strings.Repeat("x", 399) {
		t.Errorf("%q", got)
	}
	if got := c.inert("a verysecretvalue b"); got != "a <secret> b" {
		t.Errorf("%q", got)
	}
}
