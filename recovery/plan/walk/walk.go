// Package walk walks a chain outside of a loop, with files as the truth: a chain is on the disk before and after each
// move, so that a killed walker finds its place. Whoever walks hands in a Doer, which judges, waits and runs.
package walk

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/recovery/action"
	"github.com/superloop/superloop/recovery/plan"
)

// Outcome is what came of a command.
type Outcome struct {
	OK      bool
	Text    string       // what went wrong: the exit, and the end of the output
	Failure plan.Failure // Failure and Options are what it failed of, and what may fix that
	Options []plan.Choice
}

// Doer carries out the moves of a Walk. An error of Run or Verify means that how the command ended is not known, or
// that it was ended from outside: the walk ends, and the chain asks. A command that could not be started is an Outcome.
type Doer interface {
	// Judge is the gate: only action.Auto lets a move run. An operator has chosen a move whose Picked is set.
	Judge(m plan.Move) (verdict action.Decision, why string)
	// Wait returns when the time is over, or with the context's error.
	Wait(ctx context.Context, d time.Duration) error
	// Run carries out m.Command. The chain is on the disk with the move in it.
	Run(ctx context.Context, m plan.Move) (Outcome, error)
	// Verify runs the goal's command once more.
	Verify(ctx context.Context) (Outcome, error)
}

// LostError is a question: this was begun, and how it ended is not known. It is never begun again by itself. Lost or
// Again, by way of Store.Change, answers it.
type LostError struct {
	ID   string
	Move plan.Move
}

func (e *LostError) Error() string {
	return fmt.Sprintf("%s was begun, and how it ended is not known: look at what it has done; superloop chain retry %s does it once more, superloop chain cancel %s gives up",
		text.Display(e.Move.Command), text.Word(e.ID), text.Word(e.ID))
}

// ChangedError says that a chain is not what its file has: somebody else has worked on it since it was loaded.
type ChangedError struct{ ID string }

func (e *ChangedError) Error() string {
	return fmt.Sprintf("chain %s has changed since it was looked at: look again with superloop chain show %s", e.ID, text.Word(e.ID))
}

// Walk does one move after the other until the chain ends, with the chain saved before and after each. Killed at any
// point it is walked on from its file: what had an outcome is not done again, and what was begun and has none ends the
// walk with a *LostError, each time until an operator says Lost or Again. It holds the store's lock the whole time. When
// it returns nil, c has ended: see its Status.
func Walk(ctx context.Context, c *plan.Chain, s Store, do Doer, now func() time.Time) (err error) {
	lock, err := s.Lock()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Unlock()) }()
	switch stored, err := s.Load(c.ID); {
	case errors.Is(err, fs.ErrNotExist):
		if err := s.prune(c.ID); err != nil {
			return err
		}
		if err := s.Save(*c); err != nil {
			return err
		}
	case err != nil:
		return err
	case !same(stored, *c):
		return &ChangedError{c.ID}
	}
	for {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("walking chain %s: %w", c.ID, err)
		}
		m, _ := c.Advance(now())
		switch m.Kind {
		case plan.Stop:
			return s.Save(*c)
		case plan.Held:
			return &LostError{c.ID, *c.Running}
		}
		if err := step(ctx, c, m, s, do, now); err != nil {
			return fmt.Errorf("walking chain %s: %w", c.ID, err)
		}
	}
}

// step does one move.
func step(ctx context.Context, c *plan.Chain, m plan.Move, s Store, do Doer, now func() time.Time) error {
	if m.Kind == plan.Run {
		if verdict, why := do.Judge(m); verdict != action.Auto {
			c.Skipped(string(verdict)+": "+why, now())
			return s.Save(*c)
		}
	}
	if m.WaitMS > 0 {
		if err := s.Save(*c); err != nil { // since when it waits
			return err
		}
		if err := do.Wait(ctx, time.Duration(m.WaitMS)*time.Millisecond); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	c.Begin(m, now())
	if err := s.Save(*c); err != nil {
		return err
	}
	var out Outcome
	var err error
	if m.Kind == plan.Run {
		out, err = do.Run(ctx, m)
	} else {
		out, err = do.Verify(ctx)
	}
	switch {
	case err != nil:
		return err
	case m.Kind != plan.Run:
		c.Verified(out.OK, out.Failure, out.Options, now())
	case out.OK:
		c.Succeeded(now())
	default:
		c.Failed(out.Text, out.Failure, out.Options, now())
	}
	return s.Save(*c)
}

// same reports whether two chains would be written down alike.
func same(a, b plan.Chain) bool {
	x, errX := plan.Record(a)
	y, errY := plan.Record(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}
