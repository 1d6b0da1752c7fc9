package loop

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"
)

// Wire is a fact, or a plain line, on its way from whoever performs an effect to the machine. The fields stay raw, so
// that the journal's bytes are the performer's.
type Wire struct {
	At     time.Time       `json:"at,omitzero"`      // when it happened; zero: when it is applied
	Effect string          `json:"effect,omitempty"` // the id of the effect that it answers, "" if it answers none
	Event  string          `json:"event"`
	Fields json.RawMessage `json:"fields,omitempty"` // the event's own members: one JSON object, or nil
	// LoopID and RunID are the envelope of a loop_start; every other event has those of the state.
	LoopID string `json:"loop_id,omitempty"`
	RunID  string `json:"run_id,omitempty"`
}

// WireOf encodes a fact that happened at a time.
func WireOf(f Fact, at time.Time) (Wire, error) {
	fields, err := Encode(f)
	if err != nil {
		return Wire{}, fmt.Errorf("encoding the event %s: %w", f.Event(), err)
	}
	w := Wire{At: at, Event: f.Event(), Fields: fields}
	if a, ok := f.(Answer); ok {
		w.Effect = a.Effect()
	}
	return w, nil
}

// Apply puts a wire through the machine: it decodes the fact, gives it a time that is not before the last one, and
// returns the next state with the lines for the journal, the fact's first. A plain line comes back as it is. The bool
// says whether it was taken: a fact that answers another effect than the pending one, or does not fit the state,
// changes nothing. An error means that the fact cannot be read.
func Apply(s State, w Wire, now time.Time) (State, []Line, bool, error) {
	fact, err := DecodeFact(w.Event, w.Fields)
	if err != nil {
		return s, nil, false, err
	}
	at := now
	if !w.At.IsZero() {
		at = w.At
	}
	at = at.UTC().Truncate(time.Millisecond)
	if at.Before(s.UpdatedAt) {
		at = s.UpdatedAt
	}
	in := Input{At: at, LoopID: s.LoopID, RunID: s.RunID, Fact: fact}
	if _, ok := fact.(Started); ok {
		in.LoopID, in.RunID = w.LoopID, w.RunID
	}
	line := Line{Timestamp: at, Event: w.Event, LoopID: in.LoopID, RunID: in.RunID, Iteration: s.Iteration, Fields: w.Fields}
	if fact == nil {
		return s, []Line{line}, true, nil
	}
	if w.Effect != "" && (s.Pending == nil || s.Pending.ID != w.Effect) {
		return s, nil, false, nil
	}
	next, effects, ok := step(s, in)
	if !ok {
		return s, nil, false, nil
	}
	return next, append([]Line{line}, records(line, effects)...), true, nil
}

// records are the lines that effects of the kind Record are, in the envelope of the fact that implied them.
func records(of Line, effects []Effect) []Line {
	var out []Line
	for _, e := range effects {
		if e.Kind == Record {
			out = append(out, Line{Timestamp: of.Timestamp, Event: e.Event, LoopID: of.LoopID, RunID: of.RunID, Iteration: e.Iteration, Fields: e.Fields})
		}
	}
	return out
}

// Synced reports whether what was applied must be on the disk before the engine goes on: what cost money, what a human
// said, every end, and every change of status but back to running. What a harmless effect finds out again need not be.
func SyncedStep(before, after State, w Wire) bool {
	f, err := DecodeFact(w.Event, w.Fields)
	return err == nil && f != nil && Synced(f) || after.Status.Ended() || after.Status != Running && after.Status != before.Status
}

// Line is one line of events.jsonl. The journal adds the sequence number and the hashes.
type Line struct {
	Seq       int64           `json:"seq,omitempty"` // the journal gives it
	Timestamp time.Time       `json:"timestamp"`
	Event     string          `json:"event"`
	LoopID    string          `json:"loop_id"`
	RunID     string          `json:"run_id"`
	Iteration int             `json:"iteration"`
	Fields    json.RawMessage `json:"-"`
}

// ParseLine reads a line as it stands in events.jsonl: the envelope and the event's own members are one object. It does
// not check hashes; the journal does.
func ParseLine(raw []byte) (Line, error) {
	var l Line
	if err := json.Unmarshal(raw, &l); err != nil {
		return l, fmt.Errorf("reading a line of the journal: %w", err)
	}
	if l.Event == "" || l.Timestamp.IsZero() {
		return l, fmt.Errorf("reading a line of the journal: it has no event or no timestamp: %.80q", raw)
	}
	l.Fields = raw // no own member has a name of the envelope
	return l, nil
}

// Encode writes v as JSON that people can search: a command with && stays one with &&, which json.Marshal would write
// for web pages.
func Encode(v any) ([]byte, error) { return EncodeIndent(v, "") }

// EncodeIndent is Encode over several lines.
func EncodeIndent(v any, indent string) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", indent)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}

// Replay folds a journal's events into the state that they lead to.
//
// The events that an input implies (its Record effects) follow it in the same write. A crash can cut that write short:
// Owed are the records of the last input that are missing; the engine appends them before anything else.
type Replay struct {
	State   State
	Events  int64
	Owed    []Line          // the missing records of the last input, with the time of that input
	Intents map[string]bool // the ids of the control intents that the journal has taken in
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
		if len(r.Owed) > 0 && r.Owed[0].Event == ev.Event {
			r.Owed = r.Owed[1:]
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
	r.State, r.Owed = next, records(ev, effects)
	return nil
}
