package replay

import (
	"errors"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/journal"
	"github.com/superloop/superloop/recovery"
)

// reading returns a reader of events, as journal.Read is one of a file.
func reading(events []journal.Event) func(int64, func(journal.Event) error) error {
	return func(from int64, fn func(journal.Event) error) error {
		for _, ev := range events[min(len(events), int(from-1)):] {
			if err := fn(ev); err != nil {
				if errors.Is(err, journal.ErrStop) {
					return nil
				}
				return err
			}
		}
		return nil
	}
}

// long returns a journal of at least n events.
func long(t testing.TB, n int) []journal.Event {
	p := newPlayer(t, policy(t, func(s *recovery.Settings) { s.MaxAuto, s.CooldownSeconds = 1<<30, 0 }))
	for len(p.events) < n {
		p.iteration(&fine)
	}
	return p.events
}

// TestWalk: in whatever order one goes, a step shows the state that a replay up to its event has, and what has changed
// leads from the state before to it.
func TestWalk(t *testing.T) {
	t.Parallel()
	events := long(t, 3*block)[:2*block+40]
	var states []loop.State
	fold := loop.NewReplay()
	for _, ev := range events {
		if err := fold.Add(loop.Line{Seq: ev.Seq, Timestamp: ev.Timestamp, Event: ev.Event, LoopID: ev.LoopID, RunID: ev.RunID, Iteration: ev.Iteration, Fields: ev.Fields}); err != nil {
			t.Fatal(err)
		}
		states = append(states, fold.State)
	}
	rapid.Check(t, func(r *rapid.T) {
		w := NewWalk(reading(events))
		for _, seq := range rapid.SliceOfN(rapid.Int64Range(-1, int64(len(events)+2)), 1, 6).Draw(r, "seqs") {
			s, err := w.At(seq)
			if seq < 1 || seq > int64(len(events)) {
				if !errors.Is(err, ErrEnd) {
					r.Fatalf("event %d: %v", seq, err)
				}
				continue
			}
			if err != nil || s.Event.Seq != seq || !reflect.DeepEqual(s.State, states[seq-1]) {
				r.Fatalf("event %d: %v, %+v", seq, err, s)
			}
			before := loop.State{}
			if seq > 1 {
				before = states[seq-2]
			}
			if same := reflect.DeepEqual(before, s.State); same != (len(s.Changes) == 0) {
				r.Fatalf("event %d: %v changes", seq, s.Changes)
			}
		}
		if end, err := w.End(); err != nil || end != int64(len(events)) {
			r.Fatal(end, err)
		}
	})
	w := NewWalk(reading(events))
	s, err := w.At(1)
	if err != nil || !slices.ContainsFunc(s.Changes, func(c loop.Change) bool { return c.Path == "/status" && Value(c.To) == `"running"` }) {
		t.Fatal(err, s.Changes)
	}
	if _, err := NewWalk(reading(events[5:])).At(3); err == nil {
		t.Fatal("a journal that begins in the middle is walked")
	}
}

// TestWalkGrows: events that come while one walks are found.
func TestWalkGrows(t *testing.T) {
	t.Parallel()
	events := long(t, 60)
	now := events[:10]
	w := NewWalk(func(from int64, fn func(journal.Event) error) error { return reading(now)(from, fn) })
	if _, err := w.At(11); !errors.Is(err, ErrEnd) {
		t.Fatal(err)
	}
	now = events
	if s, err := w.At(11); err != nil || s.Event.Seq != 11 {
		t.Fatal(err)
	}
}

// BenchmarkFold is a journal of 100,000 events judged by another policy, against reading its events and following the
// state, which every verb that shows a loop does.
func BenchmarkFold(b *testing.B) {
	events := long(b, 100_000)[:100_000]
	other := policy(b, func(s *recovery.Settings) { s.AutoApprove = []string{"npm install"} })
	b.Run("state", func(b *testing.B) {
		for b.Loop() {
			fold := loop.NewReplay()
			for _, ev := range events {
				if err := fold.Add(loop.Line{Seq: ev.Seq, Timestamp: ev.Timestamp, Event: ev.Event, LoopID: ev.LoopID, RunID: ev.RunID, Iteration: ev.Iteration, Fields: ev.Fields}); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
	b.Run("judged", func(b *testing.B) {
		for b.Loop() {
			r := fold(b, Options{Policy: other}, events)
			b.ReportMetric(float64(r.Judged), "decisions")
		}
	})
}
