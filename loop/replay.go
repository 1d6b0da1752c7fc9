package loop

import "fmt"

// Replay folds a journal's events into the state that they lead to.
//
// The events that an input implies (its Record effects) follow it in the same write. A crash can cut that write short:
// Owed are the records of the last input that are missing; the engine appends them before anything else.
type Replay struct {
	State   State
	Events  int64
	Owed    []Line          // the missing records of the last input, with the time of that input
	Intents map[string]bool // the ids of the control intents that the journal has taken in
	owed    []Effect
	last    Line
}

// NewReplay begins an empty fold.
func NewReplay() *Replay { return &Replay{Intents: map[string]bool{}} }

// Add takes the next event, in order. An error means that the journal was written by rules that this build does not
// know.
func (r *Replay) Add(ev Line) error {
	r.Events++
	fact, err := DecodeFact(ev.Event, ev.Fields)
	if err != nil {
		return fmt.Errorf("event %d: %w", ev.Seq, err)
	}
	if fact == nil {
		if len(r.owed) > 0 && r.owed[0].Event == ev.Event {
			r.owed = r.owed[1:]
		}
		return nil
	}
	intent := ""
	switch f := fact.(type) {
	case Stopped:
		intent = f.IntentID
	case WaitOver:
		intent = f.IntentID
	case Resolved:
		intent = f.IntentID
	}
	if intent != "" {
		r.Intents[intent] = true
	}
	next, effects := Step(r.State, Input{At: ev.Timestamp, LoopID: ev.LoopID, RunID: ev.RunID, Fact: fact})
	if next.Rules > CurrentRules {
		return fmt.Errorf("event %d: the loop was started under rules %d, this build knows %d; use a newer superloop",
			ev.Seq, next.Rules, CurrentRules)
	}
	r.State, r.last = next, ev
	r.owed = r.owed[:0]
	for _, e := range effects {
		if e.Kind == Record {
			r.owed = append(r.owed, e)
		}
	}
	return nil
}

// Finish works out what is owed.
func (r *Replay) Finish() {
	r.Owed = nil
	for _, e := range r.owed {
		r.Owed = append(r.Owed, Line{Timestamp: r.last.Timestamp, Event: e.Event, LoopID: r.last.LoopID, RunID: r.last.RunID,
			Iteration: e.Iteration, Fields: e.Fields})
	}
}
