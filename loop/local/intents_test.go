package local

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/control"
	"github.com/superloop/superloop/loop/journal"
)

func TestACancellationEndsTheRoleThatRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t, agentHangs, ``)
	w.when("role_start", func(_ journal.Event, s loop.State) {
		go w.submit(control.Intent{ID: "c1", Kind: control.IntentCancel, By: "ann", Note: "stop it", RunID: s.RunID, At: w.clock()})
	})
	s := w.run(t.Context())
	w.ends(s, loop.Cancelled, loop.ReasonCancelled)
	f := w.one("loop_stop")
	if f["by"] != "ann" || f["note"] != "stop it" || f["intent_id"] != "c1" || s.Detail != "stop it" {
		t.Errorf("loop_stop %v", f)
	}
	if len(w.intents()) != 0 {
		t.Error("the intent is still there")
	}
	// The next run goes on, and the intent that comes back is not taken twice.
	w.on = nil
	w.agent(agentDone)
	w.submit(control.Intent{ID: "c1", Kind: control.IntentCancel, By: "ann", RunID: s.RunID, At: w.now})
	s = w.run(t.Context())
	w.ends(s, loop.Completed, loop.ReasonPromiseKept)
	if len(w.all("intent_ignored")) != 0 || len(w.intents()) != 0 {
		t.Error("an intent that the journal holds was taken again")
	}
}

// failsOnce is an agent whose first run fails.
const failsOnce = `if [ ! -f "${0%/*}/failed" ]; then : > "${0%/*}/failed"; exit 3; fi
` + agentDone

const longBackoff = `"retry": {"attempts": 3, "backoff_seconds": 3000}, "respond": {"enabled": false}`

func TestAKickEndsAWait(t *testing.T) {
	t.Parallel()
	w := newWorld(t, failsOnce, longBackoff)
	w.when("role_retry_wait", func(_ journal.Event, s loop.State) {
		go w.submit(control.Intent{ID: "k1", Kind: control.IntentKick, By: "bob", RunID: s.RunID, At: w.clock()})
	})
	s := w.run(t.Context())
	w.ends(s, loop.Completed, loop.ReasonPromiseKept)
	f := w.one("wait_over")
	if f["reason"] != "kicked" || f["by"] != "bob" || f["intent_id"] != "k1" {
		t.Errorf("wait_over %v", f)
	}
	if len(w.intents()) != 0 || len(w.all("intent_ignored")) != 0 {
		t.Errorf("the kick is still there, or was ignored: %v", w.names())
	}
}

func TestACancellationEndsAWait(t *testing.T) {
	t.Parallel()
	w := newWorld(t, failsOnce, longBackoff)
	w.when("role_retry_wait", func(_ journal.Event, s loop.State) {
		go w.submit(control.Intent{ID: "c1", Kind: control.IntentCancel, By: "bob", RunID: s.RunID, At: w.clock()})
	})
	w.ends(w.run(t.Context()), loop.Cancelled, loop.ReasonCancelled)
	if len(w.all("wait_over")) != 0 {
		t.Error("the wait was over")
	}
}

func TestALoopThatWaitsLeavesAndWaitsOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, failsOnce, longBackoff)
	ctx, stop := context.WithCancel(t.Context())
	w.when("role_retry_wait", func(journal.Event, loop.State) { go stop() })
	s := w.run(ctx)
	if s.Status != loop.Paused || s.Pending == nil || s.Pending.Kind != loop.Wait {
		t.Fatalf("%s, pending %+v", s.Status, s.Pending)
	}
	// Its time has come while nobody ran it.
	w.on = nil
	w.pass(s.Pending.Until.Sub(w.now))
	s = w.run(t.Context())
	w.ends(s, loop.Completed, loop.ReasonPromiseKept)
	if f := w.one("wait_over"); f["reason"] != nil {
		t.Errorf("wait_over %v", f)
	}
}

func TestAShortWaitEndsByItself(t *testing.T) {
	t.Parallel()
	w := newWorld(t, failsOnce, `"retry": {"attempts": 3, "backoff_seconds": "10ms"}, "respond": {"enabled": false}`)
	w.ends(w.run(t.Context()), loop.Completed, loop.ReasonPromiseKept)
	w.inOrder("role_failed", "role_retry_wait", "wait_over", "role_start", "loop_complete")
}

func TestAnIntentThatNothingWaitsForIsIgnoredAndSaid(t *testing.T) {
	t.Parallel()
	w := newWorld(t, agentDone, ``)
	w.submit(control.Intent{ID: "k1", Kind: control.IntentKick, By: "bob", RunID: "of another run", At: w.now})
	w.submit(control.Intent{ID: "c1", Kind: control.IntentCancel, By: "eve", RunID: "of another run", At: w.now})
	if err := os.WriteFile(filepath.Join(w.paths.Control(), "damaged.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.when("role_start", func(journal.Event, loop.State) { _ = os.Remove(filepath.Join(w.paths.Control(), "damaged.json")) })
	w.ends(w.run(t.Context()), loop.Completed, loop.ReasonPromiseKept)
	var ignored []any
	for _, f := range w.all("intent_ignored") {
		ignored = append(ignored, f["kind"], f["by"], f["intent_id"])
	}
	if len(ignored) != 6 || !slices.Contains(ignored, any("k1")) || !slices.Contains(ignored, any("c1")) || !slices.Contains(ignored, any("eve")) {
		t.Errorf("ignored %v", ignored)
	}
	if len(w.intents()) != 0 {
		t.Error("they are still there")
	}
	if !w.warned("a control file cannot be read") {
		t.Error("the damaged control file was not told")
	}
}

// An intent that the journal holds is not taken again, however often its file cannot be removed.
func TestAnIntentThatCannotBeRemovedIsSaidOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, agentDone, ``)
	w.submit(control.Intent{ID: "k1", Kind: control.IntentKick, By: "bob", RunID: "of another run", At: w.now})
	w.breaks("control:remove", errNoRoom)
	for range 2 {
		_, err := Run(t.Context(), w.o)
		wantError(t, err, "superloop run --loop l", "nothing that was recorded is lost")
	}
	if len(w.all("intent_ignored")) != 1 || len(w.intents()) != 1 {
		t.Errorf("%v, and the files are %v", w.all("intent_ignored"), w.intents())
	}
	w.breaks("control:remove", nil)
	w.ends(w.run(t.Context()), loop.Completed, loop.ReasonPromiseKept)
	if len(w.all("intent_ignored")) != 1 || len(w.intents()) != 0 {
		t.Errorf("%v, and the files are %v", w.all("intent_ignored"), w.intents())
	}
}

func TestAnIntentStaysWhileItsRecordIsNotOnTheDisk(t *testing.T) {
	t.Parallel()
	w := newWorld(t, agentDone, ``)
	w.submit(control.Intent{ID: "k1", Kind: control.IntentKick, By: "bob", RunID: "of another run", At: w.now})
	w.when("config_loaded", func(journal.Event, loop.State) { w.breaks("events:sync", errNoRoom) })
	_, err := Run(t.Context(), w.o)
	wantError(t, err, "superloop run --loop l", "nothing that was recorded is lost")
	if len(w.intents()) != 1 {
		t.Error("the intent is gone, its record may be too")
	}
}

func TestCancelOfALoopThatNobodyRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t, agentHangs, ``)
	ctx, stop := context.WithCancel(t.Context())
	w.when("role_start", func(journal.Event, loop.State) { stop() })
	s := w.run(ctx)
	// Nothing was submitted: nothing happens.
	n := len(w.events())
	if err := Cancel(t.Context(), w.o); err != nil || len(w.events()) != n {
		t.Errorf("it wrote without an intent: %v", err)
	}
	w.submit(control.Intent{ID: "c1", Kind: control.IntentCancel, By: "ann", RunID: s.RunID, At: w.now})
	w.submit(control.Intent{ID: "c2", Kind: control.IntentCancel, By: "bob", RunID: s.RunID, At: w.now})
	damaged := w.under(w.paths.Control(), "damaged.json")
	w.write(damaged, "{")
	// One whose journal cannot be written stays.
	w.breaks("events:append", errNoRoom)
	wantError(t, Cancel(t.Context(), w.o), "superloop run --loop l")
	if !w.warned("a control file cannot be read") {
		t.Error("the damaged control file was not told")
	}
	if err := os.Remove(filepath.Join(w.top, damaged)); err != nil {
		t.Fatal(err)
	}
	if len(w.intents()) != 2 {
		t.Fatal("an intent is gone and the loop is not cancelled")
	}
	w.breaks("events:append", nil)
	w.breaks("control:remove", errBroken)
	wantError(t, Cancel(t.Context(), w.o), errBroken.Error())
	w.breaks("control:remove", nil)
	if f := w.all("loop_stop"); f[len(f)-1]["status"] != "cancelled" {
		t.Errorf("%v", f)
	}
	// What is left over is removed, and nothing is said twice.
	n = len(w.events())
	if err := Cancel(t.Context(), w.o); err != nil || len(w.events()) != n || len(w.intents()) != 0 {
		t.Errorf("%v, %d events more, %v", err, len(w.events())-n, w.intents())
	}
	o := w.o
	o.LoopID = "other"
	wantError(t, Cancel(t.Context(), o), `no loop "other"`)
}
