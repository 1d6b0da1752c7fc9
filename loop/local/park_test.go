package local

import (
	"bytes"
	"runtime"
	"testing"
	"time"

	"github.com/superloop/superloop/escalation"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/control"
	"github.com/superloop/superloop/loop/journal"
	"github.com/superloop/superloop/roles/agent"
	"github.com/superloop/superloop/roles/agent/cooldown"
)

// parks lets the runs of a world leave whenever they have to wait, and holds the loop between them as a daemon does.
func (w *world) parks() *Waiting {
	w.t.Helper()
	held, err := Hold(w.o)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(held.Release)
	waits := &Waiting{}
	w.o.ExitOnEscalation, w.o.Held, w.o.Park, w.o.Now = false, held, func(p Waiting) bool { *waits = p; return true }, w.clock
	return waits
}

// A loop that waits for an operator needs no supervisor in memory. Nobody else can take it meanwhile, and an answer
// stirs it.
func TestAParkedLoopStirsWhenItIsAnswered(t *testing.T) {
	t.Parallel()
	w := newBroken(t)
	waits := w.parks()
	s := w.run(t.Context())
	if s.Status != loop.AwaitingHuman || waits.Question == "" || waits.Question != s.Human.Question || !waits.Until.After(w.clock()) {
		t.Fatalf("%s, %+v", s.Status, *waits)
	}
	if _, err := Hold(w.o); err == nil {
		t.Error("another supervisor took the parked loop")
	}
	if waits.Stirs(w.o) {
		t.Error("it stirs although nobody has answered")
	}
	w.o.Woken = true
	if s = w.run(t.Context()); s.Human == nil || s.Human.Question != waits.Question || len(w.all("recovery_escalated")) != 1 {
		t.Fatalf("run again for nothing, it asked again: %+v", s.Human)
	}
	w.answer(escalation.Approve)
	if !waits.Stirs(w.o) {
		t.Fatal("the answer does not stir it")
	}
	w.ends(w.run(t.Context()), loop.Completed, loop.ReasonPromiseKept)
	if w.ran() != 1 {
		t.Errorf("the approved command ran %d times", w.ran())
	}
}

// A loop that waits for a limit stirs when its time has come, when an operator kicks it, and when another loop has found
// the limit gone.
func TestAParkedLoopStirsWhenItsLimitIsGone(t *testing.T) {
	t.Parallel()
	for name, gone := range map[string]func(w *world, waits Waiting){
		"time": func(w *world, waits Waiting) { w.pass(waits.Until.Sub(w.clock())) },
		"kick": func(w *world, _ Waiting) {
			w.submit(control.Intent{ID: "k", Kind: control.IntentKick, By: "ann", RunID: w.view().RunID, At: w.clock()})
		},
		"elsewhere": func(w *world, waits Waiting) {
			if err := cooldown.New(w.o.Disk, w.paths.Cooldowns()).Clear(waits.Account); err != nil {
				w.t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := limited(t)
			waits := w.parks()
			if s := w.run(t.Context()); s.Status != loop.RateLimited || waits.Until.Sub(w.clock()) < 50*time.Minute || waits.Account == (agent.Account{}) {
				t.Fatalf("%s, %+v", s.Status, *waits)
			}
			if waits.Stirs(w.o) {
				t.Error("it stirs while the limit is there")
			}
			gone(w, *waits)
			if !waits.Stirs(w.o) {
				t.Fatal("it does not stir")
			}
			if name == "time" {
				return // the memory of limits has a clock of its own, for which no time has passed
			}
			w.o.Woken = true
			w.ends(w.run(t.Context()), loop.Completed, loop.ReasonPromiseKept)
		})
	}
}

// A loop with an open question about a runner is not taken for mended when it is only woken.
func TestAWokenLoopIsNoWord(t *testing.T) {
	t.Parallel()
	w := loggedOut(t)
	waits := w.parks()
	s := w.run(t.Context())
	if s.Status != loop.AwaitingHuman || waits.Question == "" {
		t.Fatalf("%s, %+v", s.Status, *waits)
	}
	w.o.Woken = true
	if again := w.run(t.Context()); again.Human == nil || again.Human.Question != waits.Question {
		t.Errorf("%s: %+v", again.Status, again.Human)
	}
}

// A drained loop ends what runs and pauses before the next effect.
func TestADrainedLoopLeavesBetweenTwoEffects(t *testing.T) {
	t.Parallel()
	w := newWorld(t, agentDone, `"roles": ["implementer", "reviewer"]`)
	drain := make(chan struct{})
	w.o.Drain = drain
	w.when("role_start", func(journal.Event, loop.State) { close(drain) })
	s := w.run(t.Context())
	if f := w.all("role_end"); s.Status != loop.Paused || len(f) != 1 {
		t.Fatalf("%s after %v", s.Status, f)
	}
	w.o.Drain = nil
	w.ends(w.run(t.Context()), loop.Completed, loop.ReasonPromiseKept)
	if f := w.all("role_start"); len(f) != 2 {
		t.Errorf("roles started %d times", len(f))
	}
}

// A run leaves nothing behind in a process that goes on, such as a daemon: a watch of the system is one of 128.
func TestARunLeavesNoWatch(t *testing.T) { // alone, because it looks at all goroutines
	w := newWorld(t, agentDone, "")
	w.ends(w.run(t.Context()), loop.Completed, loop.ReasonPromiseKept)
	all := make([]byte, 1<<20)
	for bytes.Contains(all[:runtime.Stack(all, true)], []byte("config/watch.(*watcher)")) {
		<-time.After(time.Millisecond)
	}
}
