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

// holding is a loop that the daemon supervises, and holds while it can, so that no other process runs it.
//
// A loop that waits has no goroutine, only this and its watches: supervise returns, and wake of supervised calls it again.
type holding struct {
	d     *daemon
	s     *supervised
	ctx   context.Context // ends when the loop is no longer wanted
	over  func()          // called once, at the end of the supervision
	pause time.Duration   // before the next try, if this one fails
	entry registry.Entry  // as it was when the next run was asked for
	held  *local.Held     // nil: the loop is not held
	was   standing
	// release releases what the last run holds. That is kept while the loop waits, so that a click is an answer.
	release func()
	waits   *local.Waiting // what the loop waits for
	leave   func()         // ends what wakes the loop while it waits
	err     error
}

// supervise runs the loop, again and again, until it waits, ends or is no longer wanted.
func (h *holding) supervise() {
	for !h.hold() {
		h.letGo()
		if h.err == nil || h.leaves() {
			h.over()
			return
		}
		h.d.failed(h.s, h.err, h.pause)
		h.err = nil
		select {
		case <-time.After(h.pause):
			h.pause = min(2*h.pause, longestPause)
		case <-h.s.retry:
			h.pause = firstPause
		case <-h.d.o.Drain:
		case <-h.ctx.Done():
		}
	}
}

// leaves reports whether the daemon lets the loop go, whatever it does.
func (h *holding) leaves() bool { return h.ctx.Err() != nil || closed(h.d.o.Drain) }

// hold takes the loop, unless it has waited, and runs it. It returns true when the loop waits, and false if there is nothing
// more to do for it, or if h.err says why that could not be done.
func (h *holding) hold() (waits bool) {
	if h.held != nil {
		if h.rests() {
			return true
		}
	} else {
		goesOn := false
		// In a goroutine of its own: of a thousand loops that wait for a place, none keeps the stack that it needed.
		done := make(chan struct{})
		go func() { goesOn = h.take(); close(done) }()
		if <-done; !goesOn {
			return false
		}
	}
	for !h.leaves() && h.place() && h.work() {
		if h.d.slots.Idle() {
			debug.FreeOSMemory() // a run needs many MiB, and the daemon may wait for hours now
		}
		if h.await(); h.rests() {
			return true
		}
	}
	return false
}

// options returns those of the loop that need no configuration.
func (h *holding) options() local.Options {
	return local.Options{Repo: h.entry.Repo, LoopID: h.entry.Loop, StateHome: filepath.Dir(h.d.o.State), Disk: h.d.o.Disk}
}

// take takes the loop. It returns false if the loop is not to run.
func (h *holding) take() (runs bool) {
	h.entry = h.d.entryOf(h.s)
	if h.held, h.err = local.Hold(h.options()); h.err != nil {
		return false
	}
	if h.was, h.err = h.d.standing(h.entry); h.err != nil {
		return false
	}
	if h.was.settled != "" {
		h.forgo()
		h.err = h.d.conclude(h.ctx, h.s, h.held, h.was.settled)
		return false
	}
	h.d.set(h.s, queued, time.Time{}, nil)
	return true
}

// letGo lets the loop go, and what was asked for it.
func (h *holding) letGo() {
	h.forgo()
	h.release()
	h.release = func() {}
	if h.held != nil {
		h.held.Release()
		h.held = nil
	}
}

// forgo lets others have the place that was asked for.
func (h *holding) forgo() {
	if ask := h.s.asked; ask != nil {
		h.s.asked = nil
		over, stop := context.WithCancel(context.Background())
		stop()
		_ = ask(over)
	}
}

// place waits until the loop has a place. It returns false if it gets none any more.
func (h *holding) place() bool {
	ask := h.s.asked
	if h.s.asked = nil; ask == nil {
		ask = func(ctx context.Context) error { return h.d.slots.Work(ctx, h.entry.Name(), h.entry.Priority) }
	}
	return h.d.admitted(h.ctx, ask) == nil
}

// work runs a loop that has a place, until it ends or waits, and gives the place back. It returns true if the loop waits.
func (h *holding) work() (waits bool) {
	d, s, ctx, log := h.d, h.s, h.ctx, h.d.log(h.entry)
	d.set(s, working, time.Time{}, nil)
	log.Info("the loop works")
	began := h.entry
	ended, err := h.run()
	if err != nil {
		h.err = err
		return false
	}
	h.pause, h.entry = firstPause, d.entryOf(s)
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
func (h *holding) run() (ended string, err error) {
	d, ctx, e := h.d, h.ctx, h.entry
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

// await has the loop woken when it may have something to do.
func (h *holding) await() {
	life, leave := context.WithCancel(h.ctx)
	wake := func() {
		h.d.mu.Lock()
		defer h.d.mu.Unlock()
		h.s.wake()
	}
	for _, dir := range h.waits.Places(h.options()) {
		h.d.watches.Call(life, dir, func(string) bool { return true }, wake)
	}
	timer := time.AfterFunc(time.Until(h.waits.Until), wake)
	h.leave = func() { timer.Stop(); leave() }
}

// rests leaves a loop that waits without a goroutine. It returns false if the loop has something to do, or is no longer
// wanted.
func (h *holding) rests() bool {
	for {
		h.d.mu.Lock()
		wakes := h.s.wakes
		h.d.mu.Unlock()
		leaves := h.leaves()
		if leaves || h.waits.Stirs(h.options()) {
			h.leave()
			if !leaves {
				h.d.set(h.s, queued, time.Time{}, nil)
			}
			return false
		}
		h.d.mu.Lock()
		if h.s.wakes == wakes { // whatever has happened since the look at the files wakes the loop again
			h.s.rests = h
			h.d.mu.Unlock()
			return true
		}
		h.d.mu.Unlock()
	}
}
