package local

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/control"
	"github.com/superloop/superloop/loop/journal"
)

func TestALoopRunsToItsEndAndItsJournalTellsHow(t *testing.T) {
	t.Parallel()
	w := newWorld(t, agentDone, `"tests": {"commands": ["true"]}`)
	w.when("loop_complete", func(_ journal.Event, s loop.State) { // it comes too late
		w.submit(control.Intent{ID: "c1", Kind: control.IntentCancel, By: "ann", RunID: s.RunID, At: w.clock()})
	})
	s := w.run(t.Context())
	w.ends(s, loop.Completed, loop.ReasonPromiseKept)
	if len(w.intents()) != 0 {
		t.Errorf("intents %v", w.intents())
	}
	want := []string{"loop_start", "iteration_start", "config_loaded", "tests_start", "tests_baseline", "role_start", "role_end", "tests_start", "tests_end", "role_start", "role_end",
		"promise_checked"}
	got := w.names()

	for i := range want {
		if i >= len(got) || got[i] != want[i] {
			t.Fatalf("the journal is\n%v\nand not\n%v...", got, want)
		}
	}
	w.inOrder("promise_checked", "iteration_end", "loop_complete")
	if v := w.view(); v.Status != loop.Completed || v.PID != 0 || v.RunID != s.RunID || v.Seq != int64(len(got)) {
		t.Errorf("state.json is not that of the end: %+v", v)
	}
	start := w.one("loop_start")
	if start["version"] != "v-test" || start["pid"] != float64(os.Getpid()) || start["spec_file"] != "spec.md" || start["containment"] == "" {
		t.Errorf("loop_start is %v", start)
	}
	// The observer was told of each event, in the same order.
	var told []string
	for _, ev := range w.seen {
		told = append(told, ev.Event)
	}
	if !slices.Equal(told, got) {
		t.Errorf("the observer was told of %v, the journal holds %v", told, got)
	}
	if !slices.ContainsFunc(w.said, func(s string) bool { return strings.Contains(s, "DONE") }) {
		t.Errorf("the observer has heard %q", w.said)
	}
	if warned := w.logged.FilterLevelExact(zap.WarnLevel).All(); len(warned) != 0 {
		t.Errorf("warnings %v", warned)
	}
	// A completed loop stays as it is.
	again := w.run(t.Context())
	if again.Status != loop.Completed || len(w.names()) != len(got) {
		t.Errorf("a completed loop went on: %v", w.names()[len(got):])
	}
}

func TestALoopEndsWhenItsIterationsAreUsedAndGoesOnWithMore(t *testing.T) {
	t.Parallel()
	w := newWorld(t, `echo nothing`, `"max_iterations": 1`)
	s := w.run(t.Context())
	w.ends(s, loop.LimitReached, loop.ReasonMaxIterations)
	w.configure(`"max_iterations": 2`)
	w.load()
	s = w.run(t.Context())
	w.ends(s, loop.LimitReached, loop.ReasonMaxIterations)
	if s.Iteration != 2 || len(w.all("iteration_start")) != 2 {
		t.Errorf("iteration %d, %v", s.Iteration, w.names())
	}
	f := w.one("loop_resume")
	if f["status"] != string(loop.LimitReached) || f["interrupted"] != nil {
		t.Errorf("loop_resume is %v", f)
	}
}

func TestAnUnknownLoopIsRefusedAndNothingIsWritten(t *testing.T) {
	t.Parallel()
	w := newWorld(t, agentDone, ``)
	w.o.LoopID = "other"
	_, err := Run(t.Context(), w.o)
	wantError(t, err, `no loop "other" in `, w.o.Config.Path)
	if exists(w.paths.Private) || exists(filepath.Join(w.repo, ".superloop", "loops")) {
		t.Error("something was written for a loop that does not exist")
	}
}

func TestADirectoryThatIsNoRepositoryIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, agentDone, ``)
	if err := os.Rename(filepath.Join(w.repo, ".git"), filepath.Join(w.top, "git")); err != nil {
		t.Fatal(err)
	}
	if _, err := Run(t.Context(), w.o); err == nil {
		t.Error("it ran without a repository")
	}
	if exists(w.paths.Private) {
		t.Error("something was written")
	}
	w.o.StateHome = "relative"
	_, err := Run(t.Context(), w.o)
	wantError(t, err, "XDG_STATE_HOME")
}

func TestASecondSupervisorIsToldWhoHasTheLoop(t *testing.T) {
	t.Parallel()
	w := newWorld(t, agentDone, ``)
	first, err := open(t.Context(), w.o)
	if err != nil {
		t.Fatal(err)
	}
	_, err = Run(t.Context(), w.o)
	var held *HeldError
	if !errors.As(err, &held) || held.LoopID != "l" || held.Holder.PID != os.Getpid() || !held.Holder.Since.Equal(w.now) {
		t.Fatalf("error %v", err)
	}
	wantError(t, err, "loop l is run by another supervisor (pid ", " since 2026-11-2")
	// One with a state directory of its own sees the lock in the repository.
	o := w.o
	o.StateHome = filepath.Join(w.top, "elsewhere")
	if _, err = Run(t.Context(), o); !errors.As(err, &held) {
		t.Errorf("another state home: %v", err)
	}
	first.close()
	s := w.run(t.Context())
	w.ends(s, loop.Completed, loop.ReasonPromiseKept)
	if got := (Holder{}).String(); got != "which did not say who it is" {
		t.Errorf("nobody is %q", got)
	}
}

func TestAFreshRunKeepsWhatTheLastOneLeftInTheArchive(t *testing.T) {
	t.Parallel()
	w := newWorld(t, agentDone, ``)
	first := w.run(t.Context())
	w.write("repo/.superloop/loops/l/notes-of-mine.md", "keep")
	w.write("repo/.superloop/loops/l/usage.jsonl", "{}\n")
	w.write("repo/.superloop/loops/l/events.jsonl.old", "x\n")
	before := len(w.events())
	w.o.Fresh = true
	second := w.run(t.Context())
	w.ends(second, loop.Completed, loop.ReasonPromiseKept)
	if second.RunID == first.RunID || second.RunID == "" {
		t.Errorf("the run is %q, the last one was %q", second.RunID, first.RunID)
	}
	archive := filepath.Join(w.paths.Loop, "archive", first.RunID)
	for _, name := range []string{"notes-of-mine.md", "logs"} {
		if !exists(filepath.Join(archive, name)) {
			t.Errorf("%s is not in the archive", name)
		}
	}
	for _, name := range []string{"lock", "state.json", "usage.jsonl", "events.jsonl", "events.jsonl.old", "archive"} {
		if exists(filepath.Join(archive, name)) || !exists(w.paths.File(name)) {
			t.Errorf("%s was moved to the archive", name)
		}
	}
	if exists(w.paths.File("notes-of-mine.md")) {
		t.Error("a file of the last run is still there")
	}
	if all := w.events(); len(all) <= before || all[before].Event != "loop_start" || all[before].RunID != second.RunID {
		t.Errorf("the journal does not go on: %v", w.names())
	}
}

func TestALoopThatIsInterruptedInARoleGoesOnWithTheNextAttempt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, agentHangs, ``)
	ctx, stop := context.WithCancel(t.Context())
	w.when("role_start", func(journal.Event, loop.State) { stop() })
	s := w.run(ctx)
	w.ends(s, loop.Paused, loop.ReasonInterrupted)
	if v := w.view(); v.PID != 0 || v.Status != loop.Paused {
		t.Errorf("the view of a paused loop: %+v", v)
	}
	w.on = nil
	w.agent(agentDone)
	s = w.run(t.Context())
	w.ends(s, loop.Completed, loop.ReasonPromiseKept)
	var attempts []any
	for _, f := range w.all("role_start") {
		attempts = append(attempts, f["role"], f["attempt"])
	}
	if !slices.Equal(attempts, []any{"planner", 1.0, "planner", 2.0, "reviewer", 1.0}) {
		t.Errorf("attempts %v", attempts)
	}
	if s.Iteration != 1 {
		t.Errorf("iteration %d", s.Iteration)
	}
}

func TestTheCauseOfALeaveIsInItsReason(t *testing.T) {
	t.Parallel()
	w := newWorld(t, agentHangs, ``)
	ctx, stop := context.WithCancelCause(t.Context())
	w.when("loop_start", func(journal.Event, loop.State) { stop(errors.New("terminated")) })
	s := w.run(ctx)
	w.ends(s, loop.Paused, loop.ReasonInterrupted+": terminated")
	if len(w.all("role_start")) != 0 {
		t.Error("a role was started after the supervisor had to leave")
	}
}

func TestHurryEndsWhatRunsAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, `trap '' TERM; echo ready; sleep 1000 & while :; do wait; done`, ``)
	hurry := make(chan struct{})
	w.o.Hurry = hurry
	ctx, stop := context.WithCancel(t.Context())
	w.when("role_start", func(journal.Event, loop.State) { stop(); close(hurry) })
	s := w.run(ctx)
	w.ends(s, loop.Paused, loop.ReasonInterrupted)
}
