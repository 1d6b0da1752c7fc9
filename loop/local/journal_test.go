package local

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/journal"
)

// paused is a loop that was interrupted in its first role.
func paused(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, agentHangs, ``)
	ctx, stop := context.WithCancel(t.Context())
	w.when("role_start", func(journal.Event, loop.State) { stop() })
	w.ends(w.run(ctx), loop.Paused, loop.ReasonInterrupted)
	w.on = nil
	w.agent(agentDone)
	return w
}

func TestAFactThatDoesNotFitIsLeftOut(t *testing.T) {
	t.Parallel()
	w := paused(t)
	d, err := open(t.Context(), w.o)
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	if err := d.fold(); err != nil {
		t.Fatal(err)
	}
	before, n := d.state, len(w.events())
	if err := d.step(loop.WaitOver{ID: "another"}); err != nil {
		t.Fatal(err)
	}
	if len(w.events()) != n || d.state.UpdatedAt != before.UpdatedAt || !w.warned("a fact does not fit the state; it is left out") {
		t.Error("a fact that came too late changed something, or was not told")
	}
	// What the journal does not take has not happened, and nobody is told of it.
	told := len(w.seen)
	w.breaks("events:append", errNoRoom)
	stopped := loop.Stopped{Status: loop.Cancelled, Reason: loop.ReasonCancelled}
	_, err = d.Fact(stopped)
	wantError(t, err, "superloop run --loop l", "nothing that was recorded is lost")
	if d.state.Status != before.Status || len(w.seen) != told {
		t.Errorf("the state is %s, the observer has heard of %v", d.state.Status, w.seen[told:])
	}
}

func TestAChangedJournalIsRefusedAndAFreshRunKeepsIt(t *testing.T) {
	t.Parallel()
	w := paused(t)
	data, err := os.ReadFile(w.paths.Events())
	if err != nil {
		t.Fatal(err)
	}
	cut := data[:strings.IndexByte(string(data), '\n')+1]
	if err := os.WriteFile(w.paths.Events(), cut, 0o644); err != nil {
		t.Fatal(err)
	}
	_, err = Run(t.Context(), w.o)
	var tampered *journal.TamperedError
	if !errors.As(err, &tampered) {
		t.Fatalf("error %v", err)
	}
	w.o.Fresh = true
	w.breaks("tampered:rename", errNoRoom)
	_, err = Run(t.Context(), w.o)
	wantError(t, err, "superloop run --loop l")
	w.breaks("tampered:rename", nil)
	w.ends(w.run(t.Context()), loop.Completed, loop.ReasonPromiseKept)
	kept, _ := filepath.Glob(w.paths.Events() + ".tampered-20261122T120000.000Z")
	heads, _ := filepath.Glob(w.paths.Head() + ".tampered-*")
	if len(kept) != 1 || len(heads) != 1 || w.names()[0] != "loop_start" {
		t.Errorf("kept %v and %v, the journal is %v", kept, heads, w.names())
	}
}

func TestATornEndIsRepairedAndSaid(t *testing.T) {
	t.Parallel()
	w := paused(t)
	f, err := os.OpenFile(w.paths.Events(), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"seq":`); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	w.ends(w.run(t.Context()), loop.Completed, loop.ReasonPromiseKept)
	got := w.one("journal_repaired")
	if got["cut_bytes"] != 7.0 || !strings.HasPrefix(got["kept_in"].(string), ".superloop/loops/l/") {
		t.Errorf("journal_repaired %v", got)
	}
}

func TestAFullDiskStopsBeforeAnythingIsLost(t *testing.T) {
	t.Parallel()
	w := paused(t)
	n := len(w.events())
	for _, op := range []string{"dirs:mkdir", "events:append"} {
		w.breaks(op, errNoRoom)
		w.o.StateHome = filepath.Join(w.top, "state")
		if op == "dirs:mkdir" {
			w.o.StateHome = filepath.Join(w.top, "new")
		}
		_, err := Run(t.Context(), w.o)
		w.breaks(op, nil)
		wantError(t, err, "superloop run --loop l", "nothing that was recorded is lost")
	}
	if len(w.events()) < n {
		t.Error("events are lost")
	}
}

func TestTheViewIsReadFromTheJournalWhereItIsGoneOrDamaged(t *testing.T) {
	t.Parallel()
	w := paused(t)
	want := w.view()
	for _, damage := range []func() error{
		func() error { return os.WriteFile(w.paths.File("state.json"), []byte("{"), 0o644) },
		func() error { return os.Remove(w.paths.File("state.json")) },
	} {
		if err := damage(); err != nil {
			t.Fatal(err)
		}
		got, err := ReadView(w.paths)
		if err != nil || got.Status != loop.Paused || got.RunID != want.RunID || got.Seq != want.Seq || got.PID != 0 {
			t.Errorf("%+v %v", got, err)
		}
	}
	// One that is as new as the journal is believed; nothing is folded for it.
	fresh, err := loop.EncodeIndent(loop.ViewOf(loop.State{Version: 1, Status: loop.Cancelled}, want.Seq, 0), "")
	if err != nil {
		t.Fatal(err)
	}
	w.write(w.under(w.paths.Loop, "state.json"), string(fresh))
	if got, err := ReadView(w.paths); err != nil || got.Status != loop.Cancelled {
		t.Errorf("a view that is new: %+v %v", got, err)
	}
	// A supervisor that is killed right after an event leaves an older view.
	old, err := loop.EncodeIndent(loop.ViewOf(loop.State{Version: 1, Status: loop.Cancelled}, want.Seq-1, 0), "")
	if err != nil {
		t.Fatal(err)
	}
	w.write(w.under(w.paths.Loop, "state.json"), string(old))
	if got, err := ReadView(w.paths); err != nil || got.Status != loop.Paused || got.Seq != want.Seq {
		t.Errorf("an old view: %+v %v", got, err)
	}
	if err := os.Remove(w.paths.File("state.json")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(w.paths.Events(), []byte("what\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadView(w.paths); err == nil {
		t.Error("a damaged journal is read")
	}
	if err := os.Remove(w.paths.Events()); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadView(w.paths); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a loop that never ran: %v", err)
	}
}

// A crash in the middle of a write leaves a fact without the lines that it implies.
func TestWhatTheLastWriteOwesIsPaid(t *testing.T) {
	t.Parallel()
	w := paused(t)
	data, err := os.ReadFile(w.paths.Events())
	if err != nil {
		t.Fatal(err)
	}
	events, at, owed := w.events(), 0, ""
	for n := len(events) - 1; n > 0 && owed == ""; n-- {
		fold := loop.NewReplay()
		for _, ev := range events[:n] {
			if err := fold.Add(LineOf(ev)); err != nil {
				t.Fatal(err)
			}
		}
		if len(fold.Owed) == 1 {
			at, owed = n, fold.Owed[0].Event
		}
	}
	if owed == "" {
		t.Fatalf("no event of %v owes one line", w.names())
	}
	lines := strings.SplitAfter(string(data), "\n")
	if err := os.WriteFile(w.paths.Events(), []byte(strings.Join(lines[:at], "")), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(w.paths.Head()); err != nil {
		t.Fatal(err)
	}
	w.ends(w.run(t.Context()), loop.Completed, loop.ReasonPromiseKept)
	if names := w.names(); names[at] != owed {
		t.Errorf("%s is owed after %v, and not there: %v", owed, names[:at], names[at:])
	}
}

// TestTheJournalIsSealedAtTheEndOfAnIteration: the state, the view and the next
// run come from all segments, and a fresh run puts all of them aside.
func TestTheJournalIsSealedAtTheEndOfAnIteration(t *testing.T) {
	t.Parallel()
	w := newWorld(t, `echo $SUPERLOOP_ITERATION >> made; [ "$SUPERLOOP_ITERATION$SUPERLOOP_ROLE" != 4reviewer ] || echo '<promise>DONE</promise>'`, `"max_iterations": 4`)
	w.o.SealBeyond = 1
	for _, op := range []string{"seal:write", "swap:rename"} { // what fails is told, and stops nothing
		w.breaks(op, errNoRoom)
		w.o.Once = true
		w.ends(w.run(t.Context()), loop.Paused, loop.ReasonOnce)
		w.breaks(op, nil)
	}
	w.o.Once = false
	if !w.warned("the journal could not be sealed") {
		t.Error("a sealing that failed was not told")
	}
	w.ends(w.run(t.Context()), loop.Completed, loop.ReasonPromiseKept)
	segments, _ := filepath.Glob(filepath.Join(journal.Segments(w.paths.Events()), "*.gz"))
	if info, err := os.Stat(w.paths.Events()); len(segments) < 2 || err != nil || info.Size() != 0 {
		t.Fatalf("%v, %v", segments, err)
	}
	if names := w.names(); names[0] != "loop_start" || slices.Index(names, "loop_complete") < 0 {
		t.Errorf("the journal is %v", names)
	}
	if v, err := ReadView(w.paths); err != nil || v.Status != loop.Completed || v.Iteration != 4 {
		t.Errorf("%+v, %v", v, err)
	}
	if err := os.Remove(segments[len(segments)-1]); err != nil {
		t.Fatal(err)
	}
	if _, err := Run(t.Context(), w.o); !isTampered(err) {
		t.Fatalf("error %v", err)
	}
	w.o.Fresh = true
	w.ends(w.run(t.Context()), loop.Completed, loop.ReasonPromiseKept)
	kept, _ := filepath.Glob(w.paths.Events() + ".tampered-*.segments/*.gz")
	if len(kept) != len(segments)-1 || w.names()[0] != "loop_start" {
		t.Errorf("%v were kept of %v", kept, segments)
	}
}

func isTampered(err error) bool {
	_, is := errors.AsType[*journal.TamperedError](err)
	return is
}
