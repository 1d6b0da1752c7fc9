package local

import (
	"fmt"

	"github.com/superloop/superloop/loop"

	"go.uber.org/zap"

	"github.com/superloop/superloop/loop/journal"
)

// step puts a fact through the machine and into the journal: first the lines
// (the fact and the records that it implies, in one write), then the state. If
// the write fails nothing has happened.
func (d *driver) step(fact loop.Fact) error {
	at := d.host.Now(d.state)
	runID := d.state.RunID
	if _, ok := fact.(loop.Started); ok {
		runID = newRunID(at)
	}
	next, effects := loop.Step(d.state, loop.Input{At: at, LoopID: d.o.LoopID, RunID: runID, Fact: fact})
	fields, err := loop.Encode(fact)
	if err != nil {
		return fmt.Errorf("writing event %s: %w", fact.Event(), err)
	}
	events := []journal.Event{{Timestamp: at, Event: fact.Event(), LoopID: d.o.LoopID, RunID: runID,
		Iteration: d.state.Iteration, Fields: fields}}
	for _, e := range effects {
		if e.Kind == loop.Record {
			events = append(events, journal.Event{Timestamp: at, Event: e.Event, LoopID: d.o.LoopID,
				RunID: runID, Iteration: e.Iteration, Fields: e.Fields})
		}
	}
	sync := loop.Synced(fact) || next.Status.Ended() || next.Status != loop.Running && next.Status != d.state.Status
	before := d.state
	if err := d.append(sync, next, events); err != nil {
		return err
	}
	d.outbox.Alerts(before, d.state, fact)
	return d.tallyRecovery(before, fact)
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

// record writes an event that is no input of the machine.
func (d *driver) record(event string, fields any) error {
	raw, err := loop.Encode(fields)
	if err != nil {
		return fmt.Errorf("writing event %s: %w", event, err)
	}
	return d.append(false, d.state, []journal.Event{{Timestamp: d.host.Now(d.state), Event: event, LoopID: d.o.LoopID,
		RunID: d.state.RunID, Iteration: d.state.Iteration, Fields: raw}})
}

// to is what a fact says that answers the pending effect.
func (d *driver) to() loop.Of {
	if d.state.Pending == nil {
		return loop.Of{}
	}
	return loop.To(*d.state.Pending)
}
