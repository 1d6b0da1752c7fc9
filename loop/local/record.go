package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/superloop/superloop/internal/door"
	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/loop/control"
	"github.com/superloop/superloop/loop/effects"
	"github.com/superloop/superloop/loop/journal"
	"github.com/superloop/superloop/loop/layout"
)

// step puts a fact through the machine. It first writes the lines to the journal (the fact and its records, in one
// write) and then takes the new state. If the write fails, nothing has happened. A fact that came too late changes
// nothing.
func (d *driver) step(fact loop.Fact) error {
	w, err := loop.WireOf(fact, time.Time{})
	if err != nil {
		return err
	}
	if _, ok := fact.(loop.Started); ok {
		w.LoopID, w.RunID = d.o.LoopID, newRunID(d.host.Now(d.state))
	}
	before := d.state
	next, lines, taken, err := loop.Apply(before, w, d.o.Now())
	if err != nil {
		return err
	}
	if !taken {
		d.log.Warn("a fact does not fit the state; it is left out", zap.String("event", w.Event), zap.String("effect", w.Effect))
		return nil
	}
	if err := d.append(loop.SyncedStep(before, next, w), next, eventsOf(lines)); err != nil {
		return err
	}
	d.outbox.Alerts(before, next, fact)
	return effects.Usage{Host: d.host}.Recovery(before, next, fact)
}

// append writes events to the journal and then makes next the state of the driver.
func (d *driver) append(sync bool, next loop.State, events []journal.Event) error {
	written, err := d.journal.Append(sync, events...)
	if err != nil {
		return d.host.Full(err)
	}
	before := d.state
	if before.Renews(next) {
		d.adopt()
	}
	d.state = next
	d.putViews()
	for _, ev := range written {
		d.log.Debug("event", zap.String("event", ev.Event), zap.Int64("seq", ev.Seq))
		if d.o.Observer != nil {
			d.o.Observer.Event(ev, next)
		}
	}
	if next.Iteration != before.Iteration || next.Status.Ended() && !before.Status.Ended() {
		// No agent runs now. After a failure nothing is lost, and if the file has to be opened again, the next append says so.
		d.host.Warn("the journal could not be sealed", d.journal.Seal())
	}
	return nil
}

// record writes an event that is no input of the machine.
func (d *driver) record(event string, fields any) error {
	raw, err := loop.Encode(fields)
	if err != nil {
		return fmt.Errorf("writing event %s: %w", event, err)
	}
	return d.append(false, d.state, []journal.Event{{Timestamp: d.host.Now(d.state), Event: event, LoopID: d.o.LoopID,
		RunID: d.state.RunID, Iteration: d.state.Iteration, Fields: raw}})
}

// Fold reads a journal and computes the state that it leads to. With an error it returns what it has read so far.
func Fold(path string) (*loop.Replay, error) {
	fold := loop.NewReplay()
	err := journal.Read(path, 0, func(ev journal.Event) error {
		if f := (control.Ignored{}); ev.Event == f.Event() && json.Unmarshal(ev.Fields, &f) == nil {
			fold.Intents[f.IntentID] = true
		}
		return fold.Add(LineOf(ev))
	})
	if err != nil {
		return fold, fmt.Errorf("reading %s: %w", path, err)
	}
	return fold, nil
}

// LineOf converts an event of a journal into the line that the machine reads.
func LineOf(ev journal.Event) loop.Line {
	return loop.Line{Seq: ev.Seq, Timestamp: ev.Timestamp, Event: ev.Event, LoopID: ev.LoopID, RunID: ev.RunID, Iteration: ev.Iteration, Fields: ev.Fields}
}

func eventsOf(lines []loop.Line) []journal.Event {
	return loop.Map(lines, func(l loop.Line) journal.Event {
		return journal.Event{Timestamp: l.Timestamp, Event: l.Event, LoopID: l.LoopID, RunID: l.RunID, Iteration: l.Iteration, Fields: l.Fields}
	})
}

// viewInterval is the least time between two writes of state.json while a loop runs. At every pause and at the end
// superloop writes it at once.
const viewInterval = 100 * time.Millisecond

const maxView = 4 << 20 // bounds a state.json, in bytes

// LastView reads state.json as it was written last, and not the journal: while a supervisor holds the loop it is at most
// viewInterval older than the journal. It is for those who look again when the file changes.
func LastView(p layout.Paths) (v loop.View, err error) {
	data, err := door.ReadJSON(p.File("state.json"), maxView)
	if err == nil {
		err = text.Decode(data, &v)
	}
	return v, err
}

// ReadView reads state.json. If that file is gone, damaged or older than the journal's end, ReadView computes the view
// from the journal. For a loop that never ran, the error is fs.ErrNotExist.
func ReadView(p layout.Paths) (loop.View, error) {
	v, err := LastView(p)
	if !exists(p.Events()) {
		return v, err
	}
	if err == nil {
		// A killed supervisor leaves a view that can be older than the journal by viewInterval.
		last, terr := journal.Tail(p.Events(), 1)
		if terr != nil || len(last) == 0 || last[0].Seq <= v.Seq {
			return v, nil
		}
	}
	fold, jerr := Fold(p.Events())
	if jerr != nil || fold.State.Version == 0 {
		return v, errors.Join(err, jerr)
	}
	return loop.ViewOf(fold.State, fold.Events, v.PID), nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// putViews hands the state to the views. While a question to an operator is not yet in escalation.json, the views keep the
// state before it: state.json must never say that the loop waits for a question that nobody can read.
func (d *driver) putViews() {
	if d.state.Version == 0 || !d.approvals.Shown(d.state) {
		return
	}
	pid := os.Getpid()
	if d.state.Status.Ended() || d.state.Status == loop.Paused {
		pid = 0
	}
	// The projections may write later. They then write this state, because the next step replaces d.state.
	s, seq := d.state, d.journal.LastSeq()
	index := slices.IndexFunc(d.o.Config.Loops, func(l config.Loop) bool { return l.ID == d.o.LoopID })
	d.view.Put(func() ([]byte, error) { return encodeView(loop.ViewOf(s, seq, pid)) })
	d.super.Put(func() ([]byte, error) { return encodeView(d.repoView(s, index)) })
}

func encodeView(v any) ([]byte, error) {
	data, err := loop.EncodeIndent(v, "  ")
	return append(data, '\n'), err
}

func (d *driver) repoView(s loop.State, index int) loop.RepoView {
	var v loop.RepoView
	if data, err := door.ReadJSON(filepath.Join(d.paths.Super, "state.json"), maxView); err == nil {
		_ = json.Unmarshal(data, &v) // a view that cannot be read is replaced
	}
	if v.Loops == nil {
		v.Loops = map[string]loop.Status{}
	}
	v.Version, v.LoopIndex, v.Active = 1, max(0, index), !s.Status.Ended() && s.Status != loop.Paused
	v.Iteration, v.CurrentLoopID, v.Status, v.UpdatedAt = s.Iteration, d.o.LoopID, s.Status, s.UpdatedAt
	v.Loops[d.o.LoopID] = s.Status
	return v
}

// flushViews writes the views now. If it cannot, no data is lost, because the journal holds the truth. So flushViews
// only warns, except for a full disk, which is an error that an operator must hear about.
func (d *driver) flushViews() error {
	err := errors.Join(d.view.Flush(), d.super.Flush())
	d.host.Warn("state.json could not be written; the journal is whole", err)
	if durable.IsFull(err) {
		return d.host.Full(err)
	}
	return nil
}
