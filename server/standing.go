package server

import (
	"context"
	"errors"
	"os"

	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/local"
	"github.com/superloop/superloop/server/registry"
)

// standing is what the journal of a loop says when the daemon takes the loop up.
type standing struct {
	// settled is what has become of the loop since it was wanted running, "" if it is to run. The registry may not know it
	// yet, because a daemon can be killed before it notes it.
	settled registry.Wanted
	fresh   bool // the loop is to begin from the start
	woken   bool // it has run since it was wanted running, so that to run it again is no word of an operator
}

func (d *daemon) standing(e registry.Entry) (was standing, err error) {
	p, err := Paths(d.store, e)
	if err != nil {
		return was, err
	}
	view, err := local.ReadView(p)
	if errors.Is(err, os.ErrNotExist) {
		return was, nil
	}
	was.fresh = e.FreshOf != "" && view.RunID == e.FreshOf
	was.woken = !was.fresh && (e.FreshOf != "" || view.Seq > e.After)
	switch {
	case !was.woken:
	case view.Status.Ended():
		was.settled = registry.Ended
	case pausedByOperator(view.Status, view.Reason):
		was.settled = registry.Paused
	}
	return was, err
}

func pausedByOperator(s loop.Status, reason string) bool {
	return s == loop.Paused && reason == loop.ReasonPaused
}

// conclude does what a daemon that was killed owes a loop that had ended or paused: the last reports, the message, the
// entry in the registry.
func (d *daemon) conclude(ctx context.Context, s *supervised, held *local.Held, now registry.Wanted) error {
	e := d.entryOf(s)
	o, release, err := d.o.Prepare(e)
	if err != nil {
		return err
	}
	defer release()
	o.Held = held
	if err := local.Conclude(ctx, o); err != nil {
		return err
	}
	return d.settle(s, e, now)
}

// settle notes in the registry what became of a loop that was run because of the entry was, unless an operator has wanted
// something else meanwhile.
func (d *daemon) settle(s *supervised, was registry.Entry, now registry.Wanted) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	e, err := d.store.Get(s.entry.Repo, s.entry.Loop)
	if errors.Is(err, os.ErrNotExist) || err == nil && !e.Since.Equal(was.Since) {
		return nil
	}
	if err == nil {
		e.Wanted = now
		err = d.store.Put(e)
	}
	if err == nil {
		s.entry = e
	}
	return err
}
