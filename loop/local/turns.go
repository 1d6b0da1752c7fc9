package local

import (
	"context"
	"errors"

	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/journal"
	"github.com/superloop/superloop/loop/layout"
)

// Turns runs one loop effect by effect, for an engine that decides elsewhere when the next one begins. The journal, the
// locks and what operators do are those of Run.
type Turns struct {
	d     *driver
	over  bool // the loop was left
	waits *Waiting
}

// OpenTurns takes the loop and starts or resumes it, as Run does. What it watches ends with life. o.Park is not used: Turn
// returns when the loop waits.
func OpenTurns(life context.Context, o Options) (*Turns, error) {
	if !startsHelpers.Load() {
		return nil, ErrNoMain
	}
	t := &Turns{}
	o.Park = func(w Waiting) bool { t.waits = &w; return true }
	d, err := open(life, o)
	if err != nil {
		return nil, err
	}
	t.d = d
	if err := d.takeUp(life); err != nil {
		d.close()
		return nil, d.cause(err)
	}
	d.first = d.state.Iteration
	return t, nil
}

// State returns the state after the last turn, and the number of events that the journal holds.
func (t *Turns) State() (loop.State, int64) { return t.d.state, t.d.journal.LastSeq() }

// Waits says what the loop waits for. It is nil unless the last turn has left the loop because it waits.
func (t *Turns) Waits() *Waiting { return t.waits }

// Turn carries out what is due, up to its outcome. It returns false if the loop has ended, waits or is paused: the caller
// then closes the Turns. When ctx ends, the processes of the effect end and the loop is paused, as Run does it.
func (t *Turns) Turn(ctx context.Context) (more bool, err error) {
	more, err = t.d.turn(ctx)
	if err == nil && more && ctx.Err() != nil {
		more, err = t.d.turn(ctx) // which pauses the loop
	}
	if !more || err != nil {
		t.over = true
		err = t.d.leave(t.d.cause(err))
	}
	return more, err
}

// Close lets the loop go. A loop that was not left before is paused first, with the reason that ctx has for its end.
func (t *Turns) Close(ctx context.Context) error {
	defer t.d.close()
	if t.over {
		return nil
	}
	t.over = true
	stopped, stop := context.WithCancel(ctx)
	stop()
	_, err := t.d.turn(stopped)
	return t.d.leave(t.d.cause(err))
}

// ErrShort says that a journal ends before an event that another engine knows.
var ErrShort = errors.New("the journal ends before what is known of it")

// Since returns the events of a journal after the one with the number seq, in order, until they have more than most bytes of
// fields, but at least one. more says that there are others.
func Since(p layout.Paths, seq int64, most int) (lines []loop.Line, more bool, err error) {
	size, last := 0, seq
	err = journal.Read(p.Events(), seq+1, func(ev journal.Event) error {
		if size > most {
			more = true
			return journal.ErrStop
		}
		lines, size, last = append(lines, LineOf(ev)), size+len(ev.Fields), ev.Seq
		return nil
	})
	if err == nil && len(lines) == 0 {
		tail, terr := journal.Tail(p.Events(), 1)
		if terr == nil && (len(tail) == 0 || tail[0].Seq < last) {
			err = ErrShort
		}
	}
	return lines, more, err
}
