package local

import (
	"encoding/json"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/control"
	"github.com/superloop/superloop/loop/effects"
	"github.com/superloop/superloop/loop/journal"
)

// step puts a fact through the machine and into the journal: first the lines (the fact and the records that it implies,
// in one write), then the state. If the write fails nothing has happened. A fact that came too late changes nothing.
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

// append writes events and, when they are written, moves to next.
func (d *driver) append(sync bool, next loop.State, events []journal.Event) error {
	written, err := d.journal.Append(sync, events...)
	if err != nil {
		return d.host.Full(err)
	}
	if next.Iteration != d.state.Iteration {
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
	return nil
}

func (d *driver) record(event string, fields any) error {
	raw, err := loop.Encode(fields)
	if err != nil {
		return fmt.Errorf("writing event %s: %w", event, err)
	}
	return d.append(false, d.state, []journal.Event{{Timestamp: d.host.Now(d.state), Event: event, LoopID: d.o.LoopID,
		RunID: d.state.RunID, Iteration: d.state.Iteration, Fields: raw}})
}

// Fold reads a journal and folds it. Next to an error it gives what it has read.
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

// LineOf is an event of a journal as the machine reads it.
func LineOf(ev journal.Event) loop.Line {
	return loop.Line{Seq: ev.Seq, Timestamp: ev.Timestamp, Event: ev.Event, LoopID: ev.LoopID, RunID: ev.RunID, Iteration: ev.Iteration, Fields: ev.Fields}
}

func eventsOf(lines []loop.Line) []journal.Event {
	return loop.Map(lines, func(l loop.Line) journal.Event {
		return journal.Event{Timestamp: l.Timestamp, Event: l.Event, LoopID: l.LoopID, RunID: l.RunID, Iteration: l.Iteration, Fields: l.Fields}
	})
}
