package effects

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/loop/gate"
)

func (w *gateWorld) tests() *Tests {
	return &Tests{Host: w.host, Journal: w, Tree: w, Learner: w}
}

func exitedWith(code int) proc.Result { return proc.Result{Ended: proc.Exited, Code: code} }

func runTests(reason string) loop.Effect {
	return loop.Effect{ID: "e1", Kind: loop.RunTests, Reason: reason}
}

func TestRunTests(t *testing.T) {
	t.Parallel()
	w := newGateWorld(t)
	w.set.Loop.Tests = config.Tests{Mode: "every", Commands: []string{"make a", "make b", "make c"}, Timeout: time.Minute}
	w.turns = []gateTurn{
		{out: "fine\n", res: exitedWith(0), took: 2 * time.Second},
		{out: "Error: no", res: exitedWith(3), took: time.Second},
		{out: "", res: exitedWith(5)},
	}
	w.after = func(s loop.State) loop.State { s.RunID = "r2"; return s } // the state that follows counts
	hurry := make(chan struct{})
	ctx := WithHurry(t.Context(), hurry)
	fact, err := w.tests().Perform(ctx, runTests(loop.ReasonIteration), w.state)
	gateMust(t, err)
	of := loop.Of{EffectID: "e1"}
	gateEqual(t, "the facts before", w.facts, []loop.Fact{loop.TestsStarted{Of: of, Mode: "every", Commands: w.set.Loop.Tests.Commands, Reason: loop.ReasonIteration}})
	gateEqual(t, "the order", w.log, []string{"tests_start", "before", "run make a", "run make b", "run make c", "look at r2"})
	out := "$ make a\nfine\nexit_code: 0\n\n$ make b\nError: no\nexit_code: 3\n\n$ make c\nexit_code: 5\n\n"
	gateEqual(t, "the output", w.file("test-output.txt"), out)
	from := int64(strings.Index(out, "Error"))
	last := int64(strings.Index(out, "exit_code: 5"))
	gateEqual(t, "the outcome", fact, loop.Fact(loop.TestsEnded{Of: of, Status: "failed", ExitCode: 3, DurationMS: 3000, Failed: "make b", Tree: "tree-2",
		Reason: loop.ReasonIteration, Failures: []loop.TestFailure{{Command: "make b", ExitCode: 3, Signature: signature([]byte("Error: no"))},
			{Command: "make c", ExitCode: 5, Signature: signature(nil)}},
		Outputs: []loop.OutputSpan{{Command: "make b", ExitCode: 3, From: from, To: from + 9}, {Command: "make c", ExitCode: 5, From: last, To: last}}}))
	gateEqual(t, "who was told", w.said, []string{"tests: fine", "tests: Error: no"})
	var results []gate.CommandResult
	for i, o := range []string{"fine\n", "Error: no", ""} {
		results = append(results, gate.CommandResult{Command: w.set.Loop.Tests.Commands[i], ExitCode: []int{0, 3, 5}[i],
			Duration: []time.Duration{2 * time.Second, time.Second, 0}[i], Output: []byte(o)})
	}
	gateEqual(t, "test-status.json", w.file("test-status.json"), string(gate.TestStatus(results).StatusJSON(gateDay.Add(3*time.Second))))

	shell, err := proc.LookPath("bash", w.host.Environ)
	gateMust(t, err)
	for i, spec := range w.specs {
		gateEqual(t, "argv", spec.Argv, []string{shell, "-c", w.set.Loop.Tests.Commands[i]})
		if spec.Dir != w.host.Repo.Top || spec.Timeout != time.Minute || spec.Grace != 15*time.Second || spec.LogLimit != 64<<20 || spec.Marker != Mark("r2") {
			t.Errorf("bounds of %v: %+v", spec.Argv, spec)
		}
		if spec.Hurry == nil || spec.Hurry != Hurry(ctx) {
			t.Error("the end of the grace is not handed on")
		}
		for _, kv := range []string{"SUPERLOOP_LOOP_DIR=" + w.host.Paths.Loop, Mark("r2"), "SUPERLOOP_ROLE=tests", "SUPERLOOP_ITERATION=3", "SUPERLOOP_ATTEMPT=1"} {
			if !slices.Contains(spec.Env, kv) {
				t.Errorf("%s is not in %q", kv, spec.Env)
			}
		}
	}
}

// The tests before the first role leave the files of the tests alone, and say what they wrote.
func TestRunTestsBeforeTheFirstRole(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		res  proc.Result
		want loop.TestsBaseline
		log  []string
	}{
		{exitedWith(0), loop.TestsBaseline{Status: loop.BaselineGreen, DurationMS: 2000}, []string{"tests_start", "run a", "look at what the tests of r1 wrote"}},
		{exitedWith(4), loop.TestsBaseline{Status: loop.BaselineRed, ExitCode: 4, Failed: "a", DurationMS: 2000}, []string{"tests_start", "run a", "look at what the tests of r1 wrote"}},
		{proc.Result{Ended: proc.Killed}, loop.TestsBaseline{DurationMS: 2000, Interrupted: true}, []string{"tests_start", "run a"}},
	} {
		w := newGateWorld(t)
		w.set.Loop.Tests = config.Tests{Commands: []string{"a"}}
		w.turns = []gateTurn{{out: "said\n", res: c.res, took: 2 * time.Second}}
		fact, err := w.tests().Perform(t.Context(), runTests(loop.ReasonBaseline), w.state)
		gateMust(t, err)
		c.want.Of = loop.Of{EffectID: "e1"}
		gateEqual(t, "the outcome", fact, loop.Fact(c.want))
		gateEqual(t, "the order", w.log, c.log)
		if out := w.file("tests-baseline.txt"); !strings.HasPrefix(out, "$ a\nsaid\n") {
			t.Errorf("the output is %q", out)
		}
		for _, name := range []string{"test-output.txt", "test-status.json"} {
			if exists(w.host.Paths.File(name)) {
				t.Errorf("%s is there", name)
			}
		}
	}
}

func TestRunTestsThatPass(t *testing.T) {
	t.Parallel()
	w := newGateWorld(t)
	w.set.Loop.Tests = config.Tests{Commands: []string{"a"}}
	fact, err := w.tests().Perform(t.Context(), runTests(loop.ReasonIteration), w.state)
	gateMust(t, err)
	gateEqual(t, "the outcome", fact, loop.Fact(loop.TestsEnded{Of: loop.Of{EffectID: "e1"}, Status: "ok", Tree: "tree-2", Reason: loop.ReasonIteration}))
}

// What a command's end looks like in test-output.txt and in the fact.
func TestHowCommandsEnd(t *testing.T) {
	t.Parallel()
	killed := proc.Result{Ended: proc.Exited, Code: -1, Signal: "SIGKILL"}
	for name, c := range map[string]struct {
		turn gateTurn
		out  string
		code int
		span loop.OutputSpan
	}{
		"a signal":      {gateTurn{out: "x\n", res: killed}, "x\nexit_code: 137\n\n", 137, loop.OutputSpan{ExitCode: -1, Signal: "SIGKILL", From: 4, To: 6}},
		"too long":      {gateTurn{out: "x", res: proc.Result{Ended: proc.TimedOut, Code: -1}}, "x\ntimed out after 1m0s\nexit_code: 124\n\n", 124, loop.OutputSpan{ExitCode: -1, TimedOut: true, From: 4, To: 5}},
		"not started":   {gateTurn{res: proc.Result{Ended: proc.NotStarted, Code: -1, Err: errors.New("no such")}, err: errBoom}, "no such\nexit_code: 127\n\n", 127, loop.OutputSpan{ExitCode: -1, From: 4, To: 4}},
		"for no reason": {gateTurn{res: proc.Result{Ended: proc.NotStarted, Code: -1}, err: errBoom}, "boom\nexit_code: 127\n\n", 127, loop.OutputSpan{ExitCode: -1, From: 4, To: 4}},
		"trouble":       {gateTurn{out: "x", res: proc.Result{Ended: proc.Lost, Code: -1, Err: errors.New("y")}, err: errBoom}, "x\nboom\nexit_code: 127\n\n", 127, loop.OutputSpan{ExitCode: -1, From: 4, To: 5}},
	} {
		w := newGateWorld(t)
		w.set.Loop.Tests = config.Tests{Commands: []string{"a"}, Timeout: time.Minute}
		w.turns = []gateTurn{c.turn}
		fact, err := w.tests().Perform(t.Context(), runTests(""), w.state)
		gateMust(t, err)
		c.span.Command = "a"
		f := fact.(loop.TestsEnded)
		gateEqual(t, name+": the output", w.file("test-output.txt"), "$ a\n"+c.out)
		gateEqual(t, name+": the span", f.Outputs, []loop.OutputSpan{c.span})
		if len(f.Failures) != 1 || f.Failures[0].ExitCode != c.code || f.ExitCode != c.code || f.Status != "failed" {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

// All commands together have what the loop has left.
func TestTestsHaveWhatIsLeft(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		own  time.Duration
		left int64
		want []time.Duration
	}{
		"no bound":      {0, 0, []time.Duration{0, 0, 0}},
		"their own":     {5 * time.Second, 60_000, []time.Duration{5 * time.Second, 5 * time.Second, 5 * time.Second}},
		"what is left":  {time.Minute, 9_000, []time.Duration{9 * time.Second, 5 * time.Second, time.Second}},
		"nothing left":  {0, 7_000, []time.Duration{7 * time.Second, 3 * time.Second, time.Millisecond}},
		"a millisecond": {0, 1, []time.Duration{time.Millisecond, time.Millisecond, time.Millisecond}},
	} {
		w := newGateWorld(t)
		w.set.Loop.Tests = config.Tests{Commands: []string{"a", "b", "c"}, Timeout: c.own}
		w.turns = []gateTurn{{res: exitedWith(0), took: 4 * time.Second}, {res: exitedWith(0), took: 4 * time.Second}, {res: exitedWith(0), took: 4 * time.Second}}
		e := runTests("")
		e.LimitMS = c.left
		_, err := w.tests().Perform(t.Context(), e, w.state)
		gateMust(t, err)
		var got []time.Duration
		for _, s := range w.specs {
			got = append(got, s.Timeout)
		}
		gateEqual(t, name, got, c.want)
	}
}

func TestInterruptedTests(t *testing.T) {
	t.Parallel()
	w := newGateWorld(t)
	w.set.Loop.Tests.Commands = []string{"a", "b", "c"}
	w.turns = []gateTurn{{out: "1\n", res: exitedWith(0)}, {out: "2", res: proc.Result{Ended: proc.Killed, Code: -1}}}
	fact, err := w.tests().Perform(t.Context(), runTests(loop.ReasonRecovery), w.state)
	gateMust(t, err)
	gateEqual(t, "the outcome", fact, loop.Fact(loop.TestsEnded{Of: loop.Of{EffectID: "e1"}, Rerun: true, Status: "skipped", Details: "interrupted",
		Reason: loop.ReasonRecovery, Interrupted: true}))
	gateEqual(t, "the order", w.log, []string{"tests_rerun_start", "before", "run a", "run b"})
	gateEqual(t, "the output", w.file("test-output.txt"), "$ a\n1\nexit_code: 0\n\n$ b\n2\ninterrupted\n")
	gateEqual(t, "test-status.json", w.file("test-status.json"), "")
}

func TestTestsAfterARecovery(t *testing.T) {
	t.Parallel()
	yes := true
	before := loop.State{}
	before.Gates.Tests, before.TestFailures = "failed", []loop.TestFailure{{Command: "a", ExitCode: 1, Signature: "s"}}
	for name, c := range map[string]struct {
		turn   gateTurn
		reason string
		rec    *loop.RecoveryState
		rerun  bool
		want   string // "" is no verification
	}{
		"helped":            {gateTurn{res: exitedWith(0)}, loop.ReasonRecovery, &loop.RecoveryState{}, true, loop.Verified},
		"the failure stays": {gateTurn{out: "gone missing", res: exitedWith(1)}, loop.ReasonRecovery, &loop.RecoveryState{Pattern: "gone m.ssing", PatternBefore: &yes}, true, loop.Ineffective},
		"another failure":   {gateTurn{out: "else", res: exitedWith(1)}, loop.ReasonRecovery, &loop.RecoveryState{Pattern: "gone m.ssing", PatternBefore: &yes}, true, loop.Verified},
		"no recovery":       {gateTurn{res: exitedWith(0)}, loop.ReasonRecovery, nil, true, ""},
		"the tree changed":  {gateTurn{res: exitedWith(0)}, loop.ReasonTreeChanged, &loop.RecoveryState{}, true, ""},
		"an iteration":      {gateTurn{res: exitedWith(0)}, loop.ReasonIteration, &loop.RecoveryState{}, false, ""},
	} {
		w := newGateWorld(t)
		w.set.Loop.Tests.Commands = []string{"a"}
		w.turns = []gateTurn{c.turn}
		w.state.Gates, w.state.TestFailures, w.state.Recovery = before.Gates, before.TestFailures, c.rec
		fact, err := w.tests().Perform(t.Context(), runTests(c.reason), w.state)
		gateMust(t, err)
		f := fact.(loop.TestsEnded)
		want := []string{loop.TestsStarted{Rerun: c.rerun}.Event(), "before", "run a"}
		got := ""
		if f.Verification != nil {
			got = f.Verification.Result
			gateEqual(t, name+": before", f.Verification.Before, "failed: a (1)")
		}
		if c.want != "" {
			want = append(want, "learned "+c.want+" of r1")
		}
		gateEqual(t, name+": the order", w.log, append(want, "look at r1"))
		gateEqual(t, name, got, c.want)
		gateEqual(t, name+": rerun", f.Rerun, c.rerun)
	}
}

func TestPatternSeenInLongOutput(t *testing.T) {
	t.Parallel()
	w := newGateWorld(t)
	if w.host.PatternSeen("x") != nil {
		t.Error("there is no output to look in")
	}
	w.put("@test-output.txt", "head"+strings.Repeat(".", 1<<20-8)+"last"+"MID"+"next"+strings.Repeat(".", 1<<20-8)+"tail")
	for pattern, want := range map[string]bool{"^head": true, "tail$": true, "last": true, "next": true, "MID": false} {
		if got := w.host.PatternSeen(pattern); got == nil || *got != want {
			t.Errorf("%s: %v", pattern, got)
		}
	}
}

func TestTestsThatCannotRun(t *testing.T) {
	t.Parallel()
	setup := func() *gateWorld {
		w := newGateWorld(t)
		w.set.Loop.Tests.Commands = []string{"a"}
		w.set.Loop.Validation.Commands = []string{"a"}
		return w
	}
	for _, kind := range []loop.EffectKind{loop.RunTests, loop.RunValidation} {
		w := setup()
		w.factErr = errBoom
		if fact, err := w.tests().Perform(t.Context(), loop.Effect{Kind: kind}, w.state); !errors.Is(err, errBoom) || fact != nil || len(w.specs) > 0 || w.file("test-output.txt") != "" {
			t.Errorf("%s: nothing runs before its start is in the journal: %v, %v", kind, fact, err)
		}
		w = setup()
		w.host.Environ = []string{"PATH=/nowhere"}
		if fact, err := w.tests().Perform(t.Context(), loop.Effect{Kind: kind}, w.state); err == nil || fact != nil {
			t.Errorf("%s: without a shell: %v, %v", kind, fact, err)
		}
		w = setup()
		bin := t.TempDir()
		gateMust(t, os.WriteFile(filepath.Join(bin, "sh"), nil, 0o755))
		w.host.Environ = []string{"PATH=" + bin}
		if _, err := w.tests().Perform(t.Context(), loop.Effect{Kind: kind}, w.state); err != nil || w.specs[0].Argv[0] != filepath.Join(bin, "sh") {
			t.Errorf("%s: sh does where there is no bash: %v", kind, err)
		}
	}
	w := setup()
	w.lookErr = errBoom
	if _, err := w.tests().Perform(t.Context(), runTests(""), w.state); !errors.Is(err, errBoom) {
		t.Error(err)
	}
	w = setup()
	ctx, stop := context.WithCancel(t.Context())
	stop()
	fact, err := w.tests().Perform(ctx, runTests(""), w.state)
	if err != nil || !fact.(loop.TestsEnded).Interrupted {
		t.Errorf("%v, %v", fact, err)
	}
}

func TestTestsOnAFullDisk(t *testing.T) {
	t.Parallel()
	for _, kind := range []loop.EffectKind{loop.RunTests, loop.RunValidation} {
		everyStep(t, func(t *testing.T) (*gateWorld, func() error) {
			w := newGateWorld(t)
			gateMust(t, os.RemoveAll(w.host.Paths.Super)) // somebody has tidied up
			w.set.Loop.Tests.Commands, w.set.Loop.Validation.Commands = []string{"a"}, []string{"a"}
			return w, func() error {
				_, err := w.tests().Perform(t.Context(), loop.Effect{Kind: kind}, w.state)
				return err
			}
		}, "test-output:write", "validation-output:write") // the last one is below
	}
	// What stands in the output before an exit code may be missing, the code may not.
	w := newGateWorld(t)
	w.set.Loop.Tests.Commands, w.turns = []string{"a"}, []gateTurn{{out: "x", res: exitedWith(0)}}
	n := 0
	w.fail = func(op string) error {
		if op == "test-output:write" {
			n++
		}
		if n == 3 {
			return errBoom
		}
		return nil
	}
	if fact, err := w.tests().Perform(t.Context(), runTests(""), w.state); !errors.Is(err, errBoom) || fact != nil {
		t.Errorf("%v, %v", fact, err)
	}
}

func TestRunValidation(t *testing.T) {
	t.Parallel()
	w := newGateWorld(t)
	w.put("index.html", "<html><body><p id=a>hello</p></body></html>")
	w.set.Loop.Validation = config.Validation{Mode: "every", Commands: []string{"lint", "fmt"}, Timeout: time.Minute,
		Preflight: &config.Preflight{Entry: "index.html", RequiredText: []string{"absent"}}}
	w.turns = []gateTurn{{out: "bad", res: exitedWith(2), took: time.Second}, {res: exitedWith(0), took: time.Second}}
	e := loop.Effect{ID: "e9", Kind: loop.RunValidation, LimitMS: 30_000}
	w.after = func(s loop.State) loop.State { s.RunID = "r2"; return s }
	fact, err := w.tests().Perform(t.Context(), e, w.state)
	gateMust(t, err)
	pre, err := gate.Preflight(w.host.Repo.Top, gate.PreflightSpec(*w.set.Loop.Validation.Preflight))
	gateMust(t, err)
	if pre.OK {
		t.Fatal("the page should lack something")
	}
	verdict := gate.Validation(&pre, []gate.CommandResult{{From: 7, To: 10, Command: "lint", ExitCode: 2, Duration: time.Second, Output: []byte("bad")},
		{Command: "fmt", Duration: time.Second}})
	at, results := gateDay.Add(2*time.Second), ".superloop/loops/l/validation-results.json"
	gateEqual(t, "the outcome", fact, loop.Fact(loop.GateEnded{Of: loop.Of{EffectID: "e9"}, Gate: "validation", Status: "failed",
		Details: strings.Join(verdict.Failed, "; "), Results: results, DurationMS: 2000}))
	gateEqual(t, "the facts before", w.facts, []loop.Fact{loop.ValidationStarted{Of: loop.Of{EffectID: "e9"}, Mode: "every", Commands: []string{"lint", "fmt"}}})
	gateEqual(t, "the order", w.log, []string{"validation_start", "run lint", "run fmt"})
	gateEqual(t, "results", w.file("validation-results.json"), string(verdict.ResultsJSON("l", 3, at)))
	gateEqual(t, "status", w.file("validation-status.json"), string(gate.StatusJSON("failed", results, at)))
	gateEqual(t, "output", w.file("validation-output.txt"), "$ lint\nbad\nexit_code: 2\n\n$ fmt\nexit_code: 0\n\n")
	gateEqual(t, "bounds", []time.Duration{w.specs[0].Timeout, w.specs[1].Timeout}, []time.Duration{30 * time.Second, 29 * time.Second})
	if !slices.Contains(w.specs[0].Env, "SUPERLOOP_ROLE=validation") || w.specs[0].Marker != Mark("r2") {
		t.Errorf("%q", w.specs[0].Env)
	}
}

func TestValidationThatPassesOrIsInterrupted(t *testing.T) {
	t.Parallel()
	e := loop.Effect{ID: "e9", Kind: loop.RunValidation}
	w := newGateWorld(t)
	w.set.Loop.Validation.Commands = []string{"lint"}
	fact, err := w.tests().Perform(t.Context(), e, w.state)
	gateMust(t, err)
	gateEqual(t, "the outcome", fact, loop.Fact(loop.GateEnded{Of: loop.Of{EffectID: "e9"}, Gate: "validation", Status: "ok", OK: true,
		Results: ".superloop/loops/l/validation-results.json"}))

	w = newGateWorld(t)
	w.set.Loop.Validation.Commands = []string{"lint"}
	w.turns = []gateTurn{{res: proc.Result{Ended: proc.Killed}, took: time.Second}}
	fact, err = w.tests().Perform(t.Context(), e, w.state)
	gateMust(t, err)
	gateEqual(t, "the outcome", fact, loop.Fact(loop.GateEnded{Of: loop.Of{EffectID: "e9"}, Gate: "validation", Status: "skipped", DurationMS: 1000, Interrupted: true}))
	gateEqual(t, "results", w.file("validation-results.json")+w.file("validation-status.json"), "")

	w = newGateWorld(t)
	w.set.Loop.Validation.Preflight = &config.Preflight{Entry: "index.html"}
	w.host.Repo.Top = filepath.Join(w.host.Repo.Top, "gone")
	if fact, err := w.tests().Perform(t.Context(), e, w.state); err == nil || fact != nil {
		t.Errorf("%v, %v", fact, err)
	}
}

// What an agent has put where superloop writes is moved aside, and not written to.
func TestOutputInTheWay(t *testing.T) {
	t.Parallel()
	for name, put := range map[string]func(other, path string) error{"a link": os.Symlink, "another name": os.Link,
		"a directory": func(_, path string) error { return os.Mkdir(path, 0o755) }} {
		setup := func() (*gateWorld, string) {
			w := newGateWorld(t)
			w.set.Loop.Tests.Commands = []string{"a"}
			other := w.put("other", "theirs")
			gateMust(t, put(other, w.host.Paths.File("test-output.txt")))
			return w, other
		}
		w, other := setup()
		_, err := w.tests().Perform(t.Context(), runTests(""), w.state)
		gateMust(t, err)
		data, err := os.ReadFile(other)
		gateMust(t, err)
		gateEqual(t, name+": theirs", string(data), "theirs")
		gateEqual(t, name+": ours", w.file("test-output.txt"), "$ a\nexit_code: 0\n\n")
		if _, err := os.Lstat(w.host.Paths.File("test-output.txt.foreign-20261122T120000.000000000")); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		w, _ = setup()
		w.fail = func(op string) error {
			if op == "test-output:rename" {
				return errBoom
			}
			return nil
		}
		if fact, err := w.tests().Perform(t.Context(), runTests(""), w.state); !errors.Is(err, errBoom) || fact != nil || len(w.specs) > 0 {
			t.Errorf("%s: %v, %v", name, fact, err)
		}
	}
	w := newGateWorld(t)
	gateMust(t, os.RemoveAll(w.host.Paths.Loop))
	gateMust(t, os.Symlink(t.TempDir(), w.host.Paths.Loop))
	_, err := w.tests().Perform(t.Context(), runTests(""), w.state)
	gateMust(t, err)
	if info, err := os.Lstat(w.host.Paths.Loop); err != nil || !info.IsDir() {
		t.Errorf("the loop's directory is a link: %v, %v", info, err)
	}
}
