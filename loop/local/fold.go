package local

import (
	"encoding/json"
	"fmt"

	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/control"
	"github.com/superloop/superloop/loop/journal"
)

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
	fold.Finish()
	return fold, nil
}

// LineOf is an event of a journal as the machine reads it.
func LineOf(ev journal.Event) loop.Line {
	return loop.Line{Seq: ev.Seq, Timestamp: ev.Timestamp, Event: ev.Event, LoopID: ev.LoopID, RunID: ev.RunID, Iteration: ev.Iteration, Fields: ev.Fields}
}

// eventsOf are lines as the journal takes them.
func eventsOf(lines []loop.Line) []journal.Event {
	var out []journal.Event
	for _, l := range lines {
		out = append(out, journal.Event{Timestamp: l.Timestamp, Event: l.Event, LoopID: l.LoopID, RunID: l.RunID, Iteration: l.Iteration, Fields: l.Fields})
	}
	return out
}
