// Package walk walks a remediation plan (a chain) outside of a loop. The files of the chain are the truth: Walk saves
// the chain before and after each move, so that after a kill the next Walk goes on at the same place. The caller passes
// a Doer, which judges, waits and runs.
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

// Outcome is the result of a command.
type Outcome struct {
	OK      bool
	Text    string       // what went wrong: the exit, and the end of the output
	Failure plan.Failure // Failure is the failure of the command; Options are the remedies for it
	Options []plan.Choice
}

// Doer carries out the moves of a Walk. An error of Run or Verify means that the end of the command is unknown, or that
// the command was ended from outside. Then Walk returns, and the next Walk returns a *LostError. A command that could
// not be started is an Outcome.
type Doer interface {
	// Judge is the policy's judgement: only action.Auto lets a move run. If Move.Picked is set, an operator has chosen
	// the move.
	Judge(m plan.Move) (verdict action.Decision, why string)
	// Wait returns after the duration d, or with the context's error.
	Wait(ctx context.Context, d time.Duration) error
	// Run carries out m.Command. Walk has saved the chain, with the move in it, before.
	Run(ctx context.Context, m plan.Move) (Outcome, error)
	// Verify runs the goal's command once more.
	Verify(ctx context.Context) (Outcome, error)
}

// LostError says that a move was begun and that its outcome is unknown. superloop never begins the move again by
// itself. An operator decides by plan.Chain.Lost or Again, through Store.Change.
type LostError struct {
	ID   string
	Move plan.Move
}

func (e *LostError) Error() string {
	return fmt.Sprintf("%s was begun, and how it ended is not known: look at what it has done; superloop chain retry %s does it once more, superloop chain cancel %s gives up",
		text.Display(e.Move.Command), text.Word(e.ID), text.Word(e.ID))
}

// ChangedError says that a chain differs from its file, because somebody else has changed the chain since it was
// loaded.
type ChangedError struct{ ID string }

func (e *ChangedError) Error() string {
	return fmt.Sprintf("chain %s has changed since it was looked at: look again with superloop chain show %s", e.ID, text.Word(e.ID))
}

// Walk carries out one move after the other until the chain ends, and saves the chain before and after each move. After
// a kill at any point, a new Walk continues with the chain from its file. It does not repeat a move that has an
// outcome. If a move was begun and has no outcome, Walk returns a *LostError, each time until an operator decides by
// Lost or Again. Walk holds the store's lock the whole time. When Walk returns nil, the chain has ended: see c.Status.
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

// step carries out one move.
func step(ctx context.Context, c *plan.Chain, m plan.Move, s Store, do Doer, now func() time.Time) error {
	if m.Kind == plan.Run {
		if verdict, why := do.Judge(m); verdict != action.Auto {
			c.Skipped(string(verdict)+": "+why, now())
			return s.Save(*c)
		}
	}
	if m.WaitMS > 0 {
		if err := s.Save(*c); err != nil { // records when the wait began
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

// same reports whether two chains have the same record.
func same(a, b plan.Chain) bool {
	x, errX := plan.Record(a)
	y, errY := plan.Record(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}
