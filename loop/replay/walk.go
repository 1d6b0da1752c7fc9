package replay

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/journal"
)

// ErrEnd says that a journal ends before the event that a Walk was asked for, or begins behind it.
var ErrEnd = errors.New("the journal has no such event")

// Step is one event and the state of the machine after it.
type Step struct {
	Event   journal.Event
	State   loop.State
	Changes []loop.Change // what the event has changed of the state; the paths are JSON pointers
}

// block is how many events a Walk keeps at a time, and how far its marks are apart.
const block = 512

// Walk goes through a journal. It keeps the events and the states of one block, and the state before each block that it
// has passed. So a step back reads one block at most.
type Walk struct {
	read  func(from int64, fn func(journal.Event) error) error
	marks []loop.Replay // before event i*block+1
	at    int           // the block that is kept; -1: none
	steps []Step
	last  loop.State // before the first of steps
}

// NewWalk returns a Walk through the events that read reads: it calls fn for each event from a number on, in order, and
// ends without an error if fn returns journal.ErrStop.
func NewWalk(read func(from int64, fn func(journal.Event) error) error) *Walk {
	return &Walk{read: read, marks: []loop.Replay{*loop.NewReplay()}, at: -1}
}

// At returns the step of an event. The error is ErrEnd if the journal does not hold it.
func (w *Walk) At(seq int64) (Step, error) {
	if seq < 1 {
		return Step{}, ErrEnd
	}
	want := int((seq - 1) / block)
	for len(w.marks) <= want {
		if err := w.load(len(w.marks) - 1); err != nil {
			return Step{}, err
		}
		if len(w.steps) < block {
			return Step{}, ErrEnd
		}
	}
	i := int((seq - 1) % block)
	if w.at != want || i >= len(w.steps) { // the journal may have grown
		if err := w.load(want); err != nil {
			return Step{}, err
		}
	}
	if i >= len(w.steps) {
		return Step{}, ErrEnd
	}
	s := w.steps[i]
	before := w.last
	if i > 0 {
		before = w.steps[i-1].State
	}
	var err error
	s.Changes, err = changes(before, s.State)
	return s, err
}

// End returns the number of the last event, 0 of an empty journal.
func (w *Walk) End() (int64, error) {
	for {
		n := len(w.marks) - 1
		if err := w.load(n); err != nil {
			return 0, err
		}
		if len(w.steps) < block {
			return int64(n*block + len(w.steps)), nil
		}
	}
}

// load reads a block whose mark is known, and sets the mark behind it.
func (w *Walk) load(n int) error {
	fold := w.marks[n]
	fold.Intents, fold.Owed = map[string]bool{}, slices.Clone(fold.Owed)
	w.at, w.steps, w.last = -1, nil, fold.State
	err := w.read(int64(n*block+1), func(ev journal.Event) error {
		if want := int64(n*block + len(w.steps) + 1); ev.Seq != want {
			return fmt.Errorf("event %d follows where event %d should stand", ev.Seq, want)
		}
		if err := fold.Add(loop.Line{Seq: ev.Seq, Timestamp: ev.Timestamp, Event: ev.Event, LoopID: ev.LoopID, RunID: ev.RunID, Iteration: ev.Iteration, Fields: ev.Fields}); err != nil {
			return err
		}
		if w.steps = append(w.steps, Step{Event: ev, State: fold.State}); len(w.steps) == block {
			return journal.ErrStop
		}
		return nil
	})
	if err != nil {
		return err
	}
	w.at = n
	if len(w.steps) == block && len(w.marks) == n+1 {
		w.marks = append(w.marks, fold)
	}
	return nil
}

// changes returns the values in which two states differ, in the order of their paths.
func changes(before, after loop.State) ([]loop.Change, error) {
	var a, b any
	for to, s := range map[*any]loop.State{&a: before, &b: after} {
		data, err := loop.Encode(s)
		if err == nil {
			err = text.Decode(data, to)
		}
		if err != nil {
			return nil, fmt.Errorf("comparing two states: %w", err)
		}
	}
	return compare(nil, "", a, b), nil
}

// compare appends the values in which a and b differ. nil stands for a value that is not there.
func compare(out []loop.Change, path string, a, b any) []loop.Change {
	if reflect.DeepEqual(a, b) {
		return out
	}
	x, y := members(a), members(b)
	if x == nil && a != nil || y == nil && b != nil || x == nil && y == nil {
		return append(out, loop.Change{Path: path, From: a, To: b})
	}
	keys := slices.Collect(maps.Keys(x))
	for k := range y {
		if _, ok := x[k]; !ok {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, func(a, b string) int {
		m, merr := strconv.Atoi(a)
		n, nerr := strconv.Atoi(b)
		if merr == nil && nerr == nil {
			return m - n
		}
		return strings.Compare(a, b)
	})
	for _, k := range keys {
		out = compare(out, path+"/"+strings.NewReplacer("~", "~0", "/", "~1").Replace(k), x[k], y[k])
	}
	return out
}

// members returns the members of an object, or the elements of a list by their index. It returns nil for any other value,
// and for an empty one.
func members(v any) map[string]any {
	switch v := v.(type) {
	case map[string]any:
		if len(v) > 0 {
			return v
		}
	case []any:
		out := map[string]any{}
		for i, e := range v {
			out[strconv.Itoa(i)] = e
		}
		if len(out) > 0 {
			return out
		}
	}
	return nil
}

// Value returns a value of a Change as JSON on one line. It is foreign text.
func Value(v any) string {
	out, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(out)
}
