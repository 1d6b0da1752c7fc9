package server

import (
	"context"
	"path/filepath"
	"runtime/debug"
	"time"

	"go.uber.org/zap"

	"github.com/superloop/superloop/loop/local"
	"github.com/superloop/superloop/roles/agent"
	"github.com/superloop/superloop/server/registry"
)

// holding is a loop that the daemon holds, so that no other process runs it.
type holding struct {
	d     *daemon
	s     *supervised
	entry registry.Entry // as it was when the next run was asked for
	held  *local.Held
	was   standing
	// release releases what the last run holds. That is kept while the loop waits, so that a click is an answer.
	release func()
	waits   *local.Waiting // what the loop waits for
	ran     bool           // it could be run at least once
	err     error
}

// hold takes the loop and runs it to its end, or until it is no longer wanted. ran reports whether the loop could be run
// at least once.
//
// A loop that waits costs one goroutine, its watches and a holding. The stack of this goroutine is a large part of that, so
// all that needs more than a few hundred bytes of it is called apart.
func (d *daemon) hold(ctx context.Context, s *supervised) (ran bool, err error) {
	h := &holding{d: d, s: s, release: func() {}}
	goesOn := false
	apart(func() { goesOn = h.take(ctx) })
	for goesOn && h.place(ctx) {
		apart(func() { goesOn = h.work(ctx) })
		if d.slots.Idle() {
			apart(debug.FreeOSMemory) // a run needs many MiB, and the daemon may wait for hours now
		}
		goesOn = goesOn && h.await(ctx)
	}
	apart(h.letGo)
	return h.ran, h.err
}

// apart calls f in a goroutine of its own and waits for it. A goroutine keeps the largest stack that it ever needed through
// several garbage collections.
func apart(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	<-done
}

// options returns those of the loop that need no configuration.
func (h *holding) options() local.Options {
	return local.Options{Repo: h.entry.Repo, LoopID: h.entry.Loop, StateHome: filepath.Dir(h.d.o.State), Disk: h.d.o.Disk}
}

// take takes the loop. It returns false if the loop is not to run.
func (h *holding) take(ctx context.Context) (runs bool) {
	h.entry = h.d.entryOf(h.s)
	if h.held, h.err = local.Hold(h.options()); h.err != nil {
		return false
	}
	if h.was, h.err = h.d.standing(h.entry); h.err != nil {
		return false
	}
	if h.was.settled != "" {
		h.rest()
		h.err = h.d.conclude(ctx, h.s, h.held, h.was.settled)
		return false
	}
	h.d.set(h.s, queued, time.Time{}, nil)
	return true
}

// letGo lets the loop go, and what was asked for it.
func (h *holding) letGo() {
	h.rest()
	h.release()
	if h.held != nil {
		h.held.Release()
	}
}

// rest lets others have the place that was asked for.
func (h *holding) rest() {
	if ask := h.s.asked; ask != nil {
		h.s.asked = nil
		over, stop := context.WithCancel(context.Background())
		stop()
		_ = ask(over)
	}
}

// place waits until the loop has a place. It returns false if it gets none any more.
func (h *holding) place(ctx context.Context) bool {
	ask := h.s.asked
	if h.s.asked = nil; ask == nil {
		ask = func(ctx context.Context) error { return h.d.slots.Work(ctx, h.entry.Name(), h.entry.Priority) }
	}
	return h.d.admitted(ctx, ask) == nil
}

// work runs a loop that has a place, until it ends or waits, and gives the place back. It returns true if the loop waits.
func (h *holding) work(ctx context.Context) (waits bool) {
	d, s, log := h.d, h.s, h.d.log(h.entry)
	d.set(s, working, time.Time{}, nil)
	log.Info("the loop works")
	began := h.entry
	ended, err := h.run(ctx)
	if err != nil {
		h.err = err
		return false
	}
	h.ran, h.entry = true, d.entryOf(s)
	switch {
	case h.waits != nil:
		log.Info("the loop waits", zap.Time("until", h.waits.Until), zap.String("question", h.waits.Question))
		d.set(s, waiting, h.waits.Until, nil)
		return true
	case ended != "":
		log.Info("the loop has ended", zap.String("status", ended))
		h.err = d.settle(s, began, registry.Ended)
	case ctx.Err() == nil && !closed(d.o.Drain): // not because the daemon, or an operator, ends it
		log.Info("the loop is paused") // also one that waits for an answer, and keeps its status
		h.err = d.settle(s, began, registry.Paused)
	}
	return false
}

// run runs the loop. It reads the configuration as late as here: of a thousand loops that wait for a place or for an answer
// none keeps one. ended is the status with which the loop has ended, "" if it has not.
func (h *holding) run(ctx context.Context) (ended string, err error) {
	d, e := h.d, h.entry
	defer d.slots.Rest(e.Name())
	h.waits = nil
	o, release, err := d.o.Prepare(e)
	if err != nil {
		return "", err
	}
	h.release()
	h.release = release
	o.Fresh, o.Woken = h.was.fresh, h.was.woken
	o.Held, o.Watches, o.Hurry, o.Drain = h.held, d.watches, d.o.Hurry, d.o.Drain
	o.Park = func(w local.Waiting) bool { h.waits = &w; return true }
	o.Admit = func(ctx context.Context, a agent.Account) (leave func(), err error) {
		err = d.admitted(ctx, func(ctx context.Context) error {
			leave, err = d.slots.Role(ctx, e.Name(), e.Priority, a.Provider+"/"+a.ID)
			return err
		})
		if err != nil && ctx.Err() == nil {
			return nil, nil // nothing begins any more: the next daemon starts the role
		}
		return leave, err
	}
	state, err := local.Run(ctx, o)
	h.was = standing{woken: true}
	if state.Status.Ended() {
		ended = string(state.Status)
	}
	return ended, err
}

// await waits until the loop has something to do. It returns false if it is no longer wanted.
func (h *holding) await(ctx context.Context) bool {
	life, leave := context.WithCancel(ctx)
	defer leave()
	var look [local.MaxPlaces]<-chan struct{} // the channels that are left nil never fire
	stirs := false
	apart(func() {
		for i, dir := range h.waits.Places(h.options()) {
			look[i] = h.d.watches.Dir(life, dir, func(string) bool { return true })
		}
		stirs = h.waits.Stirs(h.options())
	})
	timer := time.NewTimer(time.Until(h.waits.Until))
	defer timer.Stop()
	for !stirs {
		select {
		case <-look[0]:
		case <-look[1]:
		case <-look[2]:
		case <-timer.C:
		case <-h.d.o.Drain:
			return false
		case <-ctx.Done():
			return false
		}
		apart(func() { stirs = h.waits.Stirs(h.options()) })
	}
	apart(func() { h.d.set(h.s, queued, time.Time{}, nil) })
	return true
}
