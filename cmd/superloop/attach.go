package main

import (
	"context"
	"errors"
	"io/fs"

	"github.com/urfave/cli/v2"

	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/journal"
	"github.com/superloop/superloop/loop/local"
	"github.com/superloop/superloop/server"
	"github.com/superloop/superloop/server/registry"
)

// errLeft says that nothing runs a loop any more, and that nothing is about to.
var errLeft = errors.New("nothing runs the loop")

// runs reports whether a supervisor runs the loop, and has begun the run that the registry wants. Without one the error
// is errLeft, unless the daemon is about to run it.
func (a *app) runs(p place) (bool, error) {
	store, err := a.registry()
	if err != nil {
		return false, err
	}
	e, err := store.Get(p.Repo, p.id)
	_, served := server.Daemon(store.State)
	wanted := err == nil && served && e.Wanted == registry.Running
	if _, alive := local.Supervisor(p.Paths); alive {
		v, err := local.ReadView(p.Paths)
		return !wanted || e.FreshOf == "" || err == nil && v.RunID != e.FreshOf, nil
	}
	if !wanted {
		return false, errLeft
	}
	view, err := server.ReadView(store.State)
	if now, ok := view.Phase(p.Repo, p.id); err == nil && ok && now.Why != "" && view.At.After(e.Since) {
		return false, failf(exitFailed, "superloop stop --loop "+p.id+"   (the daemon tries again otherwise)", "the daemon cannot run loop %s: %s", p.id, now.Why)
	}
	return false, nil
}

// attachBefore is how many events attach shows that were there before it.
const attachBefore = 10

// attach shows what a loop does that another process supervises, as run shows it, until nothing runs it any more.
func (a *app) attach(c *cli.Context) error {
	p, err := a.theLoop(c)
	if err != nil {
		return err
	}
	left := func(err error) error {
		if sig, ok := errors.AsType[errSignal](context.Cause(c.Context)); ok {
			return failf(sig.code(), "superloop attach --loop "+p.id, "left by %s, and loop %s goes on", sig, p.id)
		}
		return err
	}
	err = every(c.Context, func() (bool, error) { return a.runs(p) })
	if errors.Is(err, errLeft) {
		hint := "superloop start --loop " + p.id
		if v, err := local.ReadView(p.Paths); err == nil && v.Status == loop.Completed {
			hint = "superloop status --loop " + p.id
		}
		return failf(exitNothing, hint, "nothing runs loop %s", p.id)
	}
	if err != nil {
		return left(err)
	}
	progress, err := a.progress(c)
	if err != nil {
		return err
	}
	defer progress.Close()
	fold, seen := loop.NewReplay(), int64(0)
	now, err := local.ReadView(p.Paths)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	show := func(ev journal.Event) error {
		seen = ev.Seq
		err := fold.Add(local.LineOf(ev))
		if err == nil && ev.Seq > now.Seq-attachBefore {
			progress.Event(ev, fold.State)
		}
		return err
	}
	life, leave := context.WithCancelCause(c.Context)
	defer leave(nil)
	go func() {
		leave(every(life, func() (bool, error) {
			_, err := a.runs(p)
			return false, err
		}))
	}()
	if err = journal.Follow(life, p.Events(), 0, show); errors.Is(context.Cause(life), errLeft) && errors.Is(err, context.Canceled) {
		err = journal.Read(p.Events(), seen+1, show) // what it wrote in its last moment
	}
	progress.Close()
	switch cause := context.Cause(life); {
	case err != nil && cause != nil && errors.Is(err, context.Canceled):
		return left(cause)
	case err != nil:
		return err
	case fold.State.Status == loop.Running:
		return failf(exitFailed, "superloop run --loop "+p.id, "the supervisor of loop %s is gone; nothing is lost, the next run goes on", p.id)
	}
	return a.verdict(c, fold.State, p.Repo)
}
