package main

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/superloop/superloop/internal/dirwatch"
	"github.com/superloop/superloop/loop/layout"
	"github.com/superloop/superloop/loop/temporal"
	"github.com/superloop/superloop/roles/agent"
	"github.com/superloop/superloop/roles/agent/cooldown"
)

// limits tells the fleet which accounts this machine has found to be limited, and this machine what the others have found.
// An account that only this machine can tell apart is not talked about.
type limits struct {
	store *cooldown.Store
	look  <-chan struct{}
	send  func(ctx context.Context, signal string, arg any) error
	id    string // of this machine
	log   *zap.Logger

	mu    sync.Mutex
	known map[agent.Account]cooldown.Cooldown // what the fleet knows from this machine, or this machine from the fleet
}

func (a *app) limits(ctx context.Context, to *server, f fleet, log *zap.Logger) (*limits, error) {
	state, err := layout.StateRoot(a.env("XDG_STATE_HOME"))
	if err != nil {
		return nil, err
	}
	dir := layout.Cooldowns(state)
	if err := a.disk.MkdirAll("fleet", dir, 0o700); err != nil {
		return nil, err
	}
	about := func(path string) bool { return filepath.Ext(path) == ".json" }
	return &limits{store: cooldown.New(a.disk, dir), look: dirwatch.NewWatches(ctx).Dir(ctx, dir, about), id: f.Machine, log: log, known: map[agent.Account]cooldown.Cooldown{},
		send: func(ctx context.Context, signal string, arg any) error {
			return temporal.TellAccounts(ctx, to.Client, f.Fleet, signal, arg)
		}}, nil
}

// hello is the time between two greetings. The fleet forgets a machine that does not answer for an hour.
const hello = 30 * time.Minute

// tell tells the fleet what changes here, until ctx ends.
func (l *limits) tell(ctx context.Context) {
	greet := time.NewTicker(hello)
	defer greet.Stop()
	l.warn(l.send(ctx, temporal.HelloSignal, l.id))
	for {
		l.warn(l.compare(ctx))
		select {
		case <-ctx.Done():
			return
		case <-l.look:
		case <-greet.C:
			l.warn(l.send(ctx, temporal.HelloSignal, l.id))
		}
	}
}

func (l *limits) warn(err error) {
	if err != nil {
		l.log.Warn("the limits of accounts are not told to the whole fleet", zap.Error(err))
	}
}

// compare tells the fleet the differences between what is known here and what it knows. What could not be told is told with
// the next change.
func (l *limits) compare(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	all, err := l.store.All() // the files that can be read
	here := map[agent.Account]bool{}
	for _, c := range all {
		if !c.Everywhere() {
			continue
		}
		here[c.Account] = true
		if !l.known[c.Account].Until.Equal(c.Until) {
			if sent := l.send(ctx, temporal.LimitSignal, temporal.Limit{Cooldown: c, Machine: l.id}); sent != nil {
				return errors.Join(err, sent)
			}
			l.known[c.Account] = c
		}
	}
	for account, c := range l.known {
		if here[account] {
			continue
		}
		if c.Until.After(time.Now()) { // it has not ended: an operator or a success has lifted it
			if sent := l.send(ctx, temporal.LimitSignal, temporal.Limit{Cooldown: c, Lifted: true, Machine: l.id}); sent != nil {
				return errors.Join(err, sent)
			}
		}
		delete(l.known, account)
	}
	return err
}

// take remembers what other machines have found out.
func (l *limits) take(_ context.Context, list []temporal.Limit) (err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, v := range list {
		if c, _, _ := l.store.Get(v.Account); v.Lifted && c.Until.After(v.Until) {
			continue // this machine knows of a later limit, and tells it
		}
		if v.Lifted {
			delete(l.known, v.Account)
			err = errors.Join(err, l.store.Clear(v.Account))
			continue
		}
		if set := l.store.Set(v.Cooldown); set != nil {
			err = errors.Join(err, set)
			continue
		}
		if c, limited, _ := l.store.Get(v.Account); limited && c.Until.Equal(v.Until) { // else compare tells what is known here
			l.known[v.Account] = c
		}
	}
	return err
}
