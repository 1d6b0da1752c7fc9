package server

import (
	"context"
	"errors"
	"math"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/superloop/superloop/server/backlog"
)

// backlogPause is the time between two looks at the backlogs, and backlogRest the time for which one is left alone of
// which no loop can be made now.
const (
	backlogPause = 2 * time.Second
	backlogRest  = 10 * time.Second
)

// backlogs is what the daemon remembers of the backlogs, so that it says each thing once and does not look twice at what
// has begun.
type backlogs struct {
	said  map[string]string
	begun map[string]bool
	rest  map[string]time.Time // by repository
}

func newBacklogs() *backlogs {
	return &backlogs{said: map[string]string{}, begun: map[string]bool{}, rest: map[string]time.Time{}}
}

// workOff makes loops of the items that wait in the backlogs, as long as places are free. The repositories take turns.
func (d *daemon) workOff(ctx context.Context, running *sync.WaitGroup, b *backlogs) {
	if d.o.Plan == nil || closed(d.o.Drain) {
		return
	}
	store := backlog.Store{Loops: d.store}
	watched, errs := store.All()
	for _, err := range errs {
		b.say(err.Error(), "", func() { d.o.Log.Warn("a backlog is not read", zap.Error(err)) })
	}
	for more := true; more; {
		more = false
		for _, w := range watched {
			if d.vacant() <= 0 || ctx.Err() != nil {
				return
			}
			began, err := d.beginNext(ctx, store, w, b)
			if err != nil {
				b.rest[w.Repo] = time.Now().Add(backlogRest)
				b.say(w.Repo, err.Error(), func() {
					d.o.Log.Warn("no loop is made of the backlog", zap.String("repo", w.Repo), zap.Error(err))
				})
			}
			if began {
				delete(b.said, w.Repo)
				d.look(ctx, running)
				more = true
			}
		}
	}
}

// beginNext makes a loop of the first item that waits. An error is about the whole backlog.
func (d *daemon) beginNext(ctx context.Context, store backlog.Store, w backlog.Watch, b *backlogs) (began bool, err error) {
	if time.Now().Before(b.rest[w.Repo]) {
		return false, nil
	}
	items, err := store.List(w)
	if err != nil {
		return false, err
	}
	graph := store.Graph(w.Repo, items)
	for _, it := range items {
		key := w.Repo + "\x00" + it.File
		if b.begun[key] {
			continue
		}
		if it, err = store.Look(it, false); err != nil {
			return false, err
		}
		it = graph.Settle(it)
		var write func() error
		if it.State == backlog.Waits && it.Why == "" {
			write, err = d.o.Plan(ctx, w, it)
			waits, _ := errors.AsType[*backlog.WaitError](err)
			switch {
			case waits != nil:
				it.Why = waits.Why
			case errors.Is(err, backlog.ErrTaken):
				it = it.Refuse("%v; rename the file", err)
			case err != nil:
				return false, err
			}
		}
		switch {
		case it.State == backlog.Begun:
			b.begun[key] = true
		case it.State == backlog.Waits && it.Why != "":
			b.say(key, it.Why, func() {
				d.o.Log.Info("an item of the backlog waits", zap.String("repo", w.Repo), zap.String("file", it.File), zap.String("why", it.Why))
			})
		case it.State == backlog.Refused:
			b.say(key, it.Why, func() {
				d.o.Log.Warn("no loop is made of a spec", zap.String("repo", w.Repo), zap.String("file", it.File), zap.String("why", it.Why))
			})
		case it.State == backlog.Waits:
			err := store.Begin(w, it, write)
			if waits, ok := errors.AsType[*backlog.WaitError](err); ok { // the work of the others has changed in this moment
				b.say(key, waits.Why, func() {})
				continue
			}
			if err != nil {
				return false, err
			}
			b.begun[key] = true
			d.o.Log.Info("a loop is made of the backlog", zap.String("repo", w.Repo), zap.String("file", it.File), zap.String("loop", it.Loop))
			return true, nil
		}
	}
	return false, nil
}

// say calls tell if what is to be said under a key is not what was said there last.
func (b *backlogs) say(key, text string, tell func()) {
	if was, ok := b.said[key]; !ok || was != text {
		b.said[key] = text
		tell()
	}
}

// vacant returns how many loops more could work at once. A loop that waits for an operator or a limit has no place.
func (d *daemon) vacant() int {
	if d.o.Limits.Loops == 0 {
		return math.MaxInt
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.o.Limits.Loops
	for _, s := range d.loops {
		if s.now != waiting && s.now != foreign {
			n--
		}
	}
	return n
}
