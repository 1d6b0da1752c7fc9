package main

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/superloop/superloop/loop/host"
	"github.com/superloop/superloop/loop/temporal"
	"github.com/superloop/superloop/roles/agent"
)

// slots lets the roles of this machine begin when the fleet has a slot of their account free.
type slots struct {
	most     int           // how many roles of the fleet may use an account
	beat     time.Duration // how long this machine may be silent and keep its slots
	machine  string
	workflow func(host.Place) string
	log      *zap.Logger
	places   *places

	mu      sync.Mutex
	roles   map[string]*role
	leaving sync.WaitGroup  // what is still said of roles that wait no more
	life    context.Context // of the worker; this and what follows is set before the first role
	grant   func(id string) error
	ask     func(ctx context.Context, a agent.Account, w temporal.Want) error
}

// role is a role that waits for a slot, or has one.
type role struct {
	host.Slot
	begun bool // it was granted
	lent  bool // its loop has lent its place
	had   int  // how many activities say so; none: the fleet does not know, or no more
	left  chan struct{}
}

// hears returns what a client is to be told roles by: nothing, if there is no bound. Each role then begins at once.
func (s *slots) hears() func(host.Slot) {
	if s.most <= 0 {
		return nil
	}
	return s.hear
}

// serve says by what roles are granted their slots and the fleet is asked.
func (s *slots) serve(life context.Context, grant func(id string) error, ask func(context.Context, agent.Account, temporal.Want) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.life, s.grant, s.ask = life, grant, ask
}

// hear takes up what is told of a role.
func (s *slots) hear(n host.Slot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.roles[n.ID]
	switch {
	case n.Left && r != nil:
		delete(s.roles, n.ID)
		close(r.left)
		if r.lent {
			s.places.restore(r.ID)
		}
		if !r.begun { // else its activity ends
			s.leaving.Go(func() { s.leave(r) })
		}
	case !n.Left && r == nil:
		r = &role{Slot: n, left: make(chan struct{})}
		s.roles[n.ID] = r
		go s.want(r)
	}
}

// want asks for a slot until the role has left: again and again, because what was said before may be lost, as a slot is when its
// machine was silent for too long.
func (s *slots) want(r *role) {
	tick := time.NewTicker(2 * s.beat)
	defer tick.Stop()
	defer time.AfterFunc(lendAfter, func() { s.lend(r) }).Stop()
	log := s.log.With(zap.String("repo", r.Place.Repo), zap.String("loop", r.Place.Loop), zap.String("account", r.Account.Provider+"/"+r.Account.ID))
	said, failed := false, false
	for again := false; ; again = true {
		s.mu.Lock()
		w := temporal.Want{ID: r.ID, Machine: s.machine, Workflow: s.workflow(r.Place), Most: s.most, Beat: s.beat, Begun: r.begun}
		lacks := r.had == 0
		s.mu.Unlock()
		if lacks {
			err := s.ask(s.life, r.Account, w)
			if err != nil && !failed && s.life.Err() == nil {
				failed = true
				log.Warn("the fleet cannot be asked for a slot of an account; it is asked again, and a role that has none does not begin", zap.Error(err))
			}
			if again && !said && !w.Begun && err == nil {
				said = true
				log.Info("a role waits for a slot of its account (type: superloop-fleet accounts)")
			}
		}
		select {
		case <-r.left:
			return
		case <-s.life.Done():
			return
		case <-tick.C:
		}
	}
}

// lend lends the place of a loop whose role has no slot yet.
func (s *slots) lend(r *role) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.roles[r.ID] == r && !r.begun {
		r.lent = true
		s.places.lend(r.Place)
	}
}

// begin notes that a role begins. If its loop has lent its place, the role waits for one first, before all loops that have none.
// It returns false if the role has left meanwhile.
func (s *slots) begin(ctx context.Context, r *role) (bool, error) {
	waits, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		select {
		case <-r.left:
			stop()
		case <-waits.Done():
		}
	}()
	for placed := false; ; placed = true {
		s.mu.Lock()
		here := s.roles[r.ID] == r
		r.begun = r.begun || here && (placed || !r.lent)
		begun := r.begun
		s.mu.Unlock()
		switch {
		case !here:
			s.places.Rest(r.ID)
			return false, nil
		case begun:
			return true, nil
		}
		if err := s.places.Work(waits, r.ID, 1); err != nil && ctx.Err() != nil {
			return false, err
		}
	}
}

// leave says that a role waits no more. If that is lost, the fleet gives it a slot some time, which nobody takes.
func (s *slots) leave(r *role) {
	ctx, stop := context.WithTimeout(context.WithoutCancel(s.life), slotTime)
	defer stop()
	if err := s.ask(ctx, r.Account, temporal.Want{ID: r.ID, Machine: s.machine, Left: true}); err != nil {
		s.log.Warn("the fleet still has a role of this machine among those that wait for a slot", zap.Error(err))
	}
}

// has begins a role that has got a slot, and returns when the role has left. A role that this process does not know has no use
// for it.
func (s *slots) has(ctx context.Context, w temporal.Want) error {
	s.mu.Lock()
	r := s.roles[w.ID]
	if r == nil {
		s.mu.Unlock()
		return nil
	}
	r.had++
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		r.had--
	}()
	if here, err := s.begin(ctx, r); err != nil || !here {
		return err
	}
	if err := s.grant(w.ID); err != nil {
		return err
	}
	select {
	case <-r.left:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
