package failures

import (
	"context"
	"errors"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/loop/effects"
	"github.com/superloop/superloop/recovery/action"
	"github.com/superloop/superloop/recovery/classify"
	"github.com/superloop/superloop/recovery/failures"
	"github.com/superloop/superloop/recovery/plan"
)

var diagnoseTests = loop.Effect{ID: "e1", Kind: loop.Diagnose, Reason: loop.FailedTests}

func TestDiagnosesTheTests(t *testing.T) {
	t.Parallel()
	w := newFailuresWorld(t)
	w.tick = time.Millisecond
	w.set.Loop.Tests = config.Tests{Timeout: 7 * time.Second}
	// What stands around the command's own output is another command's.
	w.printed("./check", "npm error code ENOSPC\n", "mytool: the index is stale\n", "EADDRINUSE: address already in use :::5000\n")
	w.s.TestOutputs = append(w.s.TestOutputs, loop.OutputSpan{Command: "./other", ExitCode: 3})
	c := did[loop.Classified](w, diagnoseTests)
	if len(c.Options) == 0 || c.Options[0].Command != "./refresh" || !c.Options[0].ByItself || c.Options[1].TimeoutMS != 7000 {
		t.Fatalf("%+v", c.Options)
	}
	if len(w.scored) != 1 || w.scored[0] != c.Signature || c.Signature == "" || c.Why == "" || c.Goal == "" {
		t.Errorf("scored %q: %+v", w.scored, c)
	}
	c.Signature, c.Why, c.Goal, c.Options, c.Confidence, c.Hints = "", "", "", nil, 0, nil
	want := loop.Classified{ID: "e1", Source: loop.FailedTests, Command: "./check", ExitCode: 1, Category: "environment", Handler: "stale_index", Layer: "infra", Infra: true,
		Evidence: []string{"mytool: the index is stale"}, Gate: "auto", DurationUS: 1000}
	if !reflect.DeepEqual(c, want) {
		t.Errorf("%+v\nwant %+v", c, want)
	}
	w.said()
}

// How a command ended is known without its output.
func TestDiagnosesBySignal(t *testing.T) {
	t.Parallel()
	w := newFailuresWorld(t)
	w.printed("./check", "", "", "")
	w.s.TestOutputs[0] = loop.OutputSpan{Command: "./check", ExitCode: -1, Signal: "SIGKILL", TimedOut: true}
	c := did[loop.Classified](w, diagnoseTests)
	if c.Signal != "SIGKILL" || !c.TimedOut || c.ExitCode != -1 || c.Category == "" || c.Category == classify.CategoryUnknown {
		t.Errorf("%+v", c)
	}
}

func TestKnowsNothing(t *testing.T) {
	t.Parallel()
	recovery := loop.Effect{ID: "e1", Kind: loop.Diagnose, Reason: loop.FailedRecovery, Command: "./refresh"}
	mute := []loop.OutputSpan{{Command: "./check", ExitCode: 2, From: 5, To: 5}}
	for name, c := range map[string]struct {
		e    loop.Effect
		s    loop.State
		want loop.Classified
	}{
		"mute":            {diagnoseTests, loop.State{TestOutputs: mute}, loop.Classified{Why: "it ended with exit code 2 without a word of output"}},
		"no tests":        {diagnoseTests, loop.State{}, loop.Classified{Why: "nothing is known of what the tests printed"}},
		"no recovery":     {recovery, loop.State{TestOutputs: mute}, loop.Classified{Command: "./refresh", Why: "nothing is known of how the command ended"}},
		"no recovery run": {recovery, loop.State{Recovery: &loop.RecoveryState{}}, loop.Classified{Command: "./refresh", Why: "nothing is known of how the command ended"}},
	} {
		w := newFailuresWorld(t)
		w.s = c.s
		c.want.ID, c.want.Source, c.want.Category, c.want.Gate, c.want.Evidence = "e1", c.e.Reason, "unknown", "none", []string{}
		if got := did[loop.Classified](w, c.e); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestMute(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		span loop.OutputSpan
		want bool
	}{
		"says no":         {loop.OutputSpan{ExitCode: 1, From: 3, To: 3}, true},
		"as a shell says": {loop.OutputSpan{ExitCode: 125}, true},
		"not executable":  {loop.OutputSpan{ExitCode: 126}, false},
		"said something":  {loop.OutputSpan{ExitCode: 1, From: 3, To: 4}, false},
		"not started":     {loop.OutputSpan{}, false},
		"a signal":        {loop.OutputSpan{ExitCode: 1, Signal: "SIGKILL"}, false},
		"timed out":       {loop.OutputSpan{ExitCode: 1, TimedOut: true}, false},
		"lost":            {loop.OutputSpan{ExitCode: -1}, false},
	} {
		if got := mute(loop.State{TestOutputs: []loop.OutputSpan{c.span}}); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if mute(loop.State{}) {
		t.Error("no output at all")
	}
}

func TestDiagnosesARecovery(t *testing.T) {
	t.Parallel()
	w := newFailuresWorld(t)
	w.write(filepath.Join(w.Paths.Repo, "logs", "r.log"), "sub/a.txt:7: nothing\nmytool: the index is stale\n")
	w.write(filepath.Join(w.Paths.Repo, "sub", "refresh"), "#!/bin/sh\n")
	w.s.Recovery = &loop.RecoveryState{Attempt: action.Draft{Command: "./refresh", WorkingDir: "sub"}.Action(),
		LastRun: &loop.Run{Command: "./refresh", ExitCode: 4, Ended: "exit", LogFile: "logs/r.log"}}
	e := loop.Effect{ID: "e2", Kind: loop.Diagnose, Reason: loop.FailedRecovery, Command: "./refresh"}
	c := did[loop.Classified](w, e)
	if c.Handler != "stale_index" || c.ExitCode != 4 || c.TimedOut || c.Source != loop.FailedRecovery || c.Command != "./refresh" || c.ID != "e2" {
		t.Errorf("%+v", c)
	}
	if o := c.Options[0]; o.Command != "./refresh" || o.WorkingDir != "sub" {
		t.Errorf("its remedy is %q in %q", o.Command, o.WorkingDir)
	}
	w.s.Recovery.LastRun = &loop.Run{Command: "./refresh", Ended: "timeout", Signal: "SIGTERM", DurationMS: 5000}
	if c = did[loop.Classified](w, e); !c.TimedOut || c.Signal != "SIGTERM" || c.Category != "timeout" || len(c.Evidence) != 0 {
		t.Errorf("%+v", c)
	}
	// Nothing is known of the end but that it was one: that counts as a failure, too.
	w.s.Recovery.LastRun = &loop.Run{Command: "./refresh", LogFile: "logs/gone.log"}
	if c = did[loop.Classified](w, e); c.ExitCode != 0 || c.Category != "unknown" || strings.HasPrefix(c.Why, "it could not be looked at") {
		t.Errorf("%+v", c)
	}
}

func TestDiagnosisIsBrokenOff(t *testing.T) {
	t.Parallel()
	w := newFailuresWorld(t)
	w.printed("./check", "", "mytool: the index is stale\n", "")
	if fact, err := w.Perform(gone(), diagnoseTests, w.s); fact != nil || err != nil {
		t.Errorf("%v %v", fact, err)
	}
	w.Rules = &Rules{read: func() *book { return &book{err: errTest} }}
	if fact, err := w.Perform(t.Context(), diagnoseTests, w.s); fact != nil || !errors.Is(err, errTest) {
		t.Errorf("%v %v", fact, err)
	}
}

func TestDescribesAFailure(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 400)
	var c loop.Classified
	describeFailure(&c, classify.Failure{Category: "a", Handler: "b", Layer: "c", Code: true, Weak: true, Confidence: 0.5, Signature: "d", Why: "e",
		Evidence: []classify.Evidence{{Text: long + "y"}, {Text: "f", File: "g", FileLine: 7}}})
	want := loop.Classified{Category: "a", Handler: "b", Layer: "c", Code: true, Weak: true, Confidence: 0.5, Signature: "d", Why: "e", Evidence: []string{long, "g:7: f"}}
	if !reflect.DeepEqual(c, want) {
		t.Errorf("%+v", c)
	}
}

func TestClassifiesARole(t *testing.T) {
	t.Parallel()
	w := newFailuresWorld(t)
	w.tick = time.Millisecond
	log := filepath.Join(w.Paths.Logs(3), "planner.log")
	w.write(log, "mytool: the index is stale\n")
	e := loop.Effect{ID: "e3", Kind: loop.RunRole, Role: "planner"}
	r := loop.RoleEnded{Role: "planner", Runner: "claude", Outcome: loop.OutcomeExit, ExitCode: 1}
	g, took := w.ClassifyRole(t.Context(), e, w.s, r, log)
	if g == nil || g.Signature == "" || g.Persistence == "" || took != 1000 {
		t.Fatalf("%+v %d", g, took)
	}
	want := failures.Classified{Category: "environment", Handler: "stale_index", Persistence: g.Persistence, Infra: true, Signature: g.Signature, Confidence: 0.8}
	if *g != want {
		t.Errorf("%+v", g)
	}
	w.said("failure_classified")
	l := w.lines[0].fields
	for k, v := range map[string]any{"source": "role_process", "role": "planner", "command": "claude", "exit_code": 1.0, "handler": "stale_index", "category": "environment",
		"signature": g.Signature, "duration_us": 1000.0, "id": nil, "timed_out": nil, "signal": nil} {
		if l[k] != v {
			t.Errorf("%s is %v", k, l[k])
		}
	}
	// That it is not in the journal changes nothing for the failure policy.
	w.recordErr = errTest
	if g, took := w.ClassifyRole(t.Context(), e, w.s, r, log); g == nil || took != 1000 {
		t.Error(g, took)
	}
	w.recordErr = nil
	for name, c := range map[string]loop.RoleEnded{
		"timeout":     {Outcome: loop.OutcomeTimeout, ExitCode: -1, Signal: "SIGKILL"},
		"silent":      {Outcome: loop.OutcomeInactive, ExitCode: 143},
		"unknown":     {Outcome: loop.OutcomeExit, ExitCode: 1},
		"ended with0": {Outcome: loop.OutcomeError},
		"no result":   {Outcome: loop.OutcomeError, Class: "no_result"},
		"unclassed":   {Outcome: loop.OutcomeExit, ExitCode: 1, Class: "unknown"},
	} {
		w.events, w.lines = nil, nil
		if g, took := w.ClassifyRole(t.Context(), e, w.s, c, filepath.Join(w.Paths.Loop, "none")); g != nil || took != 1000 {
			t.Errorf("%s: %+v %d", name, g, took)
		}
		w.said("failure_classified")
		if got, _ := w.lines[0].fields["timed_out"].(bool); got != (name == "timeout" || name == "silent") {
			t.Errorf("%s: timed out %v", name, got)
		}
	}
	w.events = nil
	if g, _ := w.ClassifyRole(t.Context(), e, w.s, loop.RoleEnded{Outcome: loop.OutcomeNotStarted, ExitCode: -1}, log); g == nil || g.Category == "environment" && g.Handler == "" {
		t.Errorf("not started: %+v", g)
	}
}

func TestClassifiesNoRoleThatIsKnown(t *testing.T) {
	t.Parallel()
	w := newFailuresWorld(t)
	log := filepath.Join(w.Paths.Logs(3), "planner.log")
	w.write(log, "mytool: the index is stale\n")
	failed := loop.RoleEnded{Outcome: loop.OutcomeExit, ExitCode: 1}
	nothing := func(name string, ctx context.Context, s loop.State, r loop.RoleEnded) {
		t.Helper()
		if g, took := w.ClassifyRole(ctx, loop.Effect{}, s, r, log); g != nil || took != 0 {
			t.Errorf("%s: %+v %d", name, g, took)
		}
		w.said()
	}
	w.tick = time.Millisecond
	nothing("ok", t.Context(), w.s, loop.RoleEnded{Outcome: loop.OutcomeOK})
	nothing("interrupted", t.Context(), w.s, loop.RoleEnded{Outcome: loop.OutcomeInterrupted})
	nothing("a limit", t.Context(), w.s, loop.RoleEnded{Outcome: loop.OutcomeExit, Limit: &loop.LimitFact{}})
	nothing("a class", t.Context(), w.s, loop.RoleEnded{Outcome: loop.OutcomeExit, Class: "auth"})
	nothing("broken off", gone(), w.s, failed)
	off := w.s
	off.Plan.Remediation, off.Plan.Respond = false, nil
	nothing("switched off", t.Context(), off, failed)
	w.Rules = &Rules{read: func() *book { return &book{err: errTest} }}
	nothing("no rules", t.Context(), w.s, failed)
	w.Rules = &Rules{read: testBook}
	for _, half := range []loop.Plan{{Remediation: true}, {Respond: &loop.RespondPlan{}}} {
		s := w.s
		s.Plan = half
		if g, _ := w.ClassifyRole(t.Context(), loop.Effect{}, s, failed, log); g == nil {
			t.Errorf("%+v is enough", half)
		}
	}
}

// proc makes an entry in the process table.
func (w *failuresWorld) process(pid int, env ...string) {
	w.write(filepath.Join(w.Processes.Dir, strconv.Itoa(pid), "environ"), strings.Join(env, "\x00")+"\x00")
}

const portInUse = "Error: listen EADDRINUSE: address already in use :::5000\n"

func TestEndsLeftovers(t *testing.T) {
	t.Parallel()
	w := newFailuresWorld(t)
	w.printed("./check", "", portInUse, "")
	mine := "SUPERLOOP_LOOP_DIR=" + w.Paths.Loop
	free := filepath.Join(filepath.Dir(w.Paths.Loop), "free")
	busy := filepath.Join(filepath.Dir(w.Paths.Loop), "busy")
	w.write(filepath.Join(busy, "lock"), "")
	lock, err := w.Disk.Lock(filepath.Join(busy, "lock"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lock.Unlock() }()
	odd := filepath.Join(filepath.Dir(w.Paths.Loop), "odd")
	w.write(filepath.Join(odd, "lock", "x"), "")
	w.process(1, mine, effects.Mark("init"))
	w.process(2, mine, effects.Mark("low"))
	w.process(10, "A=b", mine, effects.Mark("old-b"))
	w.process(11, mine, effects.Mark("old-b"))
	w.process(12, effects.Mark("old-a"), "SUPERLOOP_LOOP_DIR="+free+"/")
	w.process(13, mine, effects.Mark("run-1"))
	w.process(14, mine)
	w.process(15, effects.Mark("no-dir"))
	w.process(16, effects.Mark("elsewhere"), "SUPERLOOP_LOOP_DIR="+filepath.Join(t.TempDir(), "one"))
	w.process(17, effects.Mark("alive"), "SUPERLOOP_LOOP_DIR="+busy)
	w.write(filepath.Join(w.Processes.Dir, "self", "environ"), mine+"\x00"+effects.Mark("self")+"\x00")
	w.sweep = map[string][]int{effects.Mark("old-a"): {12}, effects.Mark("old-b"): {10, 11}}
	c := did[loop.Classified](w, diagnoseTests)
	if !reflect.DeepEqual(w.swept, []string{effects.Mark("low"), effects.Mark("old-a"), effects.Mark("old-b")}) {
		t.Errorf("swept %v", w.swept)
	}
	w.said("leftovers_ended")
	if want := map[string]any{"pids": []any{12.0, 10.0, 11.0}, "port": "5000", "of_runs": []any{"low", "old-a", "old-b"}}; !reflect.DeepEqual(w.lines[0].fields, want) {
		t.Errorf("%v", w.lines[0].fields)
	}
	again := plan.Choice{Key: "superloop/leftovers/run_again", ID: "run_again", Label: "Run it again, now that what was left behind is gone",
		Strategy: "retry", Availability: "ready", Executor: "wrapper", Draft: action.Draft{Confidence: "high"}, WaitsMS: []int64{100, 2000}, ByItself: true}
	if c.Gate != "retry" || len(c.Options) < 2 || !reflect.DeepEqual(c.Options[0], again) {
		t.Errorf("%s %+v", c.Gate, c.Options)
	}
	// Not recorded, they are ended all the same.
	w.recordErr = errTest
	if c := did[loop.Classified](w, diagnoseTests); c.Gate != "retry" {
		t.Errorf("%+v", c)
	}
	// There was nothing any more when it was to be ended.
	w.recordErr, w.sweep, w.events = nil, nil, nil
	if c := did[loop.Classified](w, diagnoseTests); c.Gate == "retry" || c.Category != "port_in_use" {
		t.Errorf("%+v", c)
	}
	w.said()
	// Another failure leaves everything alone.
	w.swept = nil
	w.printed("./check", "", "mytool: the index is stale\n", "")
	did[loop.Classified](w, diagnoseTests)
	w.Processes.Dir += "-gone"
	w.printed("./check", "", portInUse, "")
	did[loop.Classified](w, diagnoseTests)
	if w.swept != nil {
		t.Errorf("swept %v", w.swept)
	}
}
