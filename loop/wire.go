package loop

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/superloop/superloop/internal/text"
)

// Wire is a fact, or a plain record, on its way from a performer to the machine. Fields stay encoded, so that the
// journal holds the same bytes that the performer has written.
type Wire struct {
	At     time.Time       `json:"at,omitzero"`      // when it happened; zero: when Apply gets it
	Effect string          `json:"effect,omitempty"` // the id of the effect that the fact answers, "" for none
	Event  string          `json:"event"`
	Fields json.RawMessage `json:"fields,omitempty"` // the event's own members: one JSON object, or nil
	// LoopID and RunID are set for a loop_start only. Every other event has the ids of the state.
	LoopID string `json:"loop_id,omitempty"`
	RunID  string `json:"run_id,omitempty"`
}

// WireOf encodes a fact that happened at the time at.
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

// Apply puts a wire through the machine. It decodes the fact and gives it a time that is not before the last one. It
// returns the next state and the lines for the journal, the line of the fact first. A wire that is only a record
// becomes one line and leaves the state as it is. The bool says whether the machine took the fact. A fact that names
// another effect than the pending one, or that does not fit the state, changes nothing. An error means that the fact
// cannot be decoded.
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

// records returns a line for each Record effect, with the time and the ids of the fact's line.
func records(of Line, effects []Effect) []Line {
	var out []Line
	for _, e := range effects {
		if e.Kind == Record {
			out = append(out, Line{Timestamp: of.Timestamp, Event: e.Event, LoopID: of.LoopID, RunID: of.RunID, Iteration: e.Iteration, Fields: e.Fields})
		}
	}
	return out
}

// SyncedStep reports whether the lines of a step must be on the disk before the engine goes on. They must be if money
// was spent, if a human decided something, at every end, and at every change of the status except back to running. They
// need not be if a harmless effect can find the same out again.
func SyncedStep(before, after State, w Wire) bool {
	f, err := DecodeFact(w.Event, w.Fields)
	return err == nil && f != nil && Synced(f) || after.Status.Ended() || after.Status != Running && after.Status != before.Status
}

// Line is one line of events.jsonl. The journal adds the sequence number and the hashes.
type Line struct {
	Seq       int64           `json:"seq,omitempty"` // set by the journal
	Timestamp time.Time       `json:"timestamp"`
	Event     string          `json:"event"`
	LoopID    string          `json:"loop_id"`
	RunID     string          `json:"run_id"`
	Iteration int             `json:"iteration"`
	Fields    json.RawMessage `json:"-"`
}

// ParseLine reads a line of events.jsonl. The envelope and the event's own members are one JSON object. ParseLine does
// not check hashes. The journal checks them.
func ParseLine(raw []byte) (Line, error) {
	var l Line
	if err := text.Decode(raw, &l); err != nil {
		return l, fmt.Errorf("reading a line of the journal: %w", err)
	}
	if l.Event == "" || l.Timestamp.IsZero() {
		return l, fmt.Errorf("reading a line of the journal: it has no event or no timestamp: %.80q", raw)
	}
	l.Fields = raw // no member of an event has a name of the envelope
	return l, nil
}

// Encode returns v as JSON that people can search: the && of a command stays &&. json.Marshal would escape it for HTML.
func Encode(v any) ([]byte, error) { return EncodeIndent(v, "") }

// EncodeIndent is Encode with line breaks and the given indent.
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

// Replay computes the state that a journal leads to.
//
// The Record effects of an input follow the input in the same write. A crash can cut that write short. Owed are the
// missing records of the last input. The engine appends them before it does anything else.
type Replay struct {
	State   State
	Events  int64
	Owed    []Line          // the missing records of the last input, with its time
	Intents map[string]bool // the ids of the control intents that the journal holds
}

// NewReplay returns a Replay without events.
func NewReplay() *Replay { return &Replay{Intents: map[string]bool{}} }

// Add takes the next event, in order. An error means that the event cannot be decoded, or that the journal was written
// under rules that this build does not know.
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
	case OperatorNote:
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

// DecisionKind says what a human wants of a loop.
type DecisionKind string

// The kinds of decisions.
const (
	DecideAnswer   DecisionKind = "answer"    // answer the open question
	DecideRetryNow DecisionKind = "retry_now" // wait no longer: the operator has repaired the cause
	DecideCancel   DecisionKind = "cancel"    // end the loop
)

// Decision is what a human has decided, before it becomes a fact.
type Decision struct {
	Kind  DecisionKind `json:"kind"`
	RunID string       `json:"run_id"` // the run that the decision is about
	// ID and Digest are those of the escalation that the decision answers. Method is the answer.
	ID     string `json:"id,omitempty"`
	Digest string `json:"digest,omitempty"`
	Method string `json:"method,omitempty"`
}

// Check returns why a loop in this state cannot take a decision, or nil if it can. Every program that accepts decisions
// calls it first. Step itself ignores an answer that does not fit.
func Check(s State, d Decision) error {
	h, p := s.Human, s.Pending
	switch {
	case s.Status.Ended():
		return fmt.Errorf("the loop is %s", s.Status)
	case d.RunID != s.RunID:
		return fmt.Errorf("it is about the run %s, the loop is in %s", d.RunID, s.RunID)
	}
	switch d.Kind {
	case DecideCancel:
		return nil
	case DecideRetryNow:
		if p == nil || p.Kind != Wait && (p.Kind != AskHuman || h == nil || h.About == AboutCompletion) {
			return fmt.Errorf("the loop is %s and waits for nothing that can be had now", s.Status)
		}
		return nil
	}
	switch {
	case p == nil || p.Kind != AskHuman || h == nil || h.Question == "":
		return fmt.Errorf("the loop is %s, nobody is asked", s.Status)
	case d.ID != h.Question:
		return fmt.Errorf("%s is not what is asked, that is %s", d.ID, h.Question)
	case d.Digest != "" && d.Digest != h.Digest:
		return fmt.Errorf("what was shown is not what is asked now")
	}
	switch d.Method {
	case MethodApprove, MethodReject, MethodManual:
		return nil
	}
	return fmt.Errorf("%q is no answer; %s, %s and %s are", d.Method, MethodApprove, MethodReject, MethodManual)
}
