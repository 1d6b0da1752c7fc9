package server

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/local"
	"github.com/superloop/superloop/server/registry"
)

// The reasons for which Want returns no entry, besides a *local.HeldError.
var (
	ErrRunning   = errors.New("it is run by the daemon already")
	ErrCompleted = errors.New("it is completed")
	ErrFleet     = errors.New("the fleet of this machine runs it")
)

// Want returns the entry with which the daemon begins to run e's loop, or goes on with it. e holds who wants it, and since
// when. With fresh the loop begins from the start. A reason not to is ErrRunning, ErrCompleted, ErrFleet or a *local.HeldError.
func Want(store registry.Store, e registry.Entry, fresh bool) (registry.Entry, error) {
	e, err := store.Locate(e)
	if err != nil {
		return e, err
	}
	p, err := Paths(store, e)
	if err != nil {
		return e, err
	}
	e.Wanted, e.After, e.FreshOf = registry.Running, 0, ""
	view, err := local.ReadView(p)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return e, fmt.Errorf("reading %s: %w", p.File("state.json"), err)
	}
	old, known := store.Get(e.Repo, e.Loop)
	if known == nil && old.Wanted == registry.Fleet && !view.Status.Ended() {
		return e, ErrFleet
	}
	if h, alive := local.Supervisor(p); alive {
		if by, served := Daemon(store.State); !served || h.PID != by.PID {
			return e, &local.HeldError{LoopID: e.Loop, Holder: *h}
		}
		// What the daemon holds and no longer wants it is about to let go, and looks at the registry then.
		if known == nil && old.Wanted == registry.Running {
			return e, ErrRunning
		}
	}
	switch {
	case fresh:
		e.FreshOf = view.RunID
	case view.Status == loop.Completed:
		return e, ErrCompleted
	default:
		e.After = view.Seq
	}
	return e, nil
}
