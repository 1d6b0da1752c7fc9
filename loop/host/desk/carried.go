package desk

import (
	"context"
	"errors"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/carry"
	"github.com/superloop/superloop/loop/host"
	"github.com/superloop/superloop/loop/layout"
	"github.com/superloop/superloop/loop/local"
)

// lastPush bounds the push of a loop that is let go because this process ends.
const lastPush = 10 * time.Second

// claim makes this machine the one that has a loop which is bound to none.
func (d *desk) claim(ctx context.Context, q host.Claim) (p host.Place, err error) {
	if p.Repo, err = carry.PlaceOf(q.Remote, q.Loop, d.o.Carry.StateHome); err != nil {
		return p, err
	}
	p.Loop = q.Loop
	s := d.seat(p)
	d.mu.Lock()
	if s.stop != nil {
		s.stop() // nobody waits for what this turn finds out
	}
	d.mu.Unlock()
	select {
	case s.busy <- struct{}{}:
		defer func() { <-s.busy }()
	case <-ctx.Done():
		return p, ctx.Err()
	}
	d.stand(ctx, s)
	l, err := carry.Take(ctx, q, d.o.Carry)
	if err != nil {
		return p, d.carryError(s, err)
	}
	d.has(s, l)
	_, release, err := d.o.Prepare(p, q.By) // what this machine lacks for the loop, another one may have
	if err == nil {
		release()
	}
	return p, err
}

// has notes which loop a seat has.
func (d *desk) has(s *seat, l *carry.Loop) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s.carried = l
}

// gone notes that another machine may have the loop of a seat.
func (d *desk) gone(s *seat) {
	d.has(s, nil)
	d.o.Gone(s.place)
}

// loopOf returns the loop of a seat.
func (d *desk) loopOf(ctx context.Context, s *seat) (l *carry.Loop, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if s.carried == nil {
		if l, err = carry.Open(ctx, s.place.Repo, s.place.Loop, d.o.Carry); err == nil {
			s.carried = l
		}
	}
	return s.carried, err
}

// stand ends what this process does for a loop, and pauses the loop.
func (d *desk) stand(ctx context.Context, s *seat) {
	if s.turns != nil {
		if err := s.turns.Close(ctx); err != nil {
			d.o.Log.Warn("a loop could not be paused", zap.String("repo", s.place.Repo), zap.String("loop", s.place.Loop), zap.Error(err))
		}
		s.release()
		s.turns = nil
	}
	d.letGo(s)
}

// carriedTurn carries out effects of a loop that is bound to no machine: up to one that may be begun only once, and past all
// that may be begun again. What came of them is pushed before it is told.
func (d *desk) carriedTurn(ctx context.Context, s *seat, t host.Turn) (out host.Turned, err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	d.mu.Lock()
	s.stop, s.once = stop, false
	d.mu.Unlock()
	defer func() {
		d.mu.Lock()
		s.stop = nil
		d.mu.Unlock()
	}()
	l, err := d.loopOf(ctx, s)
	if err != nil {
		return out, d.carryError(s, err)
	}
	life := context.WithoutCancel(ctx)
	if l.Unsettled() { // the remote was away, or this process was killed
		if err := l.Push(life, l.Ended()); err != nil {
			return out, d.carryError(s, err)
		}
	}
	switch {
	case t.Leave:
		d.stand(life, s)
	case t.Start && l.Ended():
		return d.ended(t)
	default:
		out, err = d.chain(ctx, s, t, func(k loop.EffectKind) bool { return !k.Once() })
	}
	if err != nil {
		return out, d.carryError(s, err)
	}
	ended := out.Rest == host.Ended && !out.More
	if err := l.Push(life, ended || l.Ended()); err != nil {
		return host.Turned{}, d.carryError(s, err)
	}
	if t.Leave || ctx.Err() != nil && out.Rest != host.Ended {
		d.stand(life, s)
		d.gone(s)
		out.LetGo = true
	}
	return out, nil
}

// chain carries out an effect, and those that follow on it, as long as each is of a kind that too may belong to this turn.
func (d *desk) chain(ctx context.Context, s *seat, t host.Turn, too func(loop.EffectKind) bool) (host.Turned, error) {
	out, err := d.step(ctx, s, t)
	if err != nil || t.Start {
		return out, err
	}
	on := false
	for s.turns != nil && !s.once && out.Rest == host.GoesOn && ctx.Err() == nil {
		state, _ := s.turns.State()
		e, do := loop.Due(state)
		if do != loop.DoStart || !too(e.Kind) {
			break
		}
		on = true
		if out.Rest, out.Left, err = d.carryOut(ctx, s); err != nil {
			return out, err
		}
	}
	if on {
		err = d.since(s, t, &out)
	}
	return out, err
}

// ended tells the end of a loop that nobody has started again since.
func (d *desk) ended(t host.Turn) (out host.Turned, err error) {
	paths, err := layout.NewPaths(t.Repo, t.Loop, d.o.Carry.StateHome)
	if err != nil {
		return out, err
	}
	fold, err := local.Fold(paths.Events())
	if err != nil {
		return out, err
	}
	return host.Turned{State: &fold.State, Seq: fold.Events, Rest: host.Ended}, nil
}

// intend returns the function that pushes the intent of an effect before the effect begins.
func (d *desk) intend(s *seat) func() error {
	return func() error {
		s.once = true
		return s.carried.Push(context.WithoutCancel(d.life), false)
	}
}

// carryError lets a loop go that another machine has, and says so to the engine.
func (d *desk) carryError(s *seat, err error) error {
	if refused, ok := errors.AsType[*carry.RefusedError](err); ok {
		return &host.Error{Text: refused.Error(), Final: true}
	}
	lost, ok := errors.AsType[*carry.LostError](err)
	if !ok {
		return err
	}
	d.stand(context.WithoutCancel(d.life), s)
	d.gone(s)
	return &host.Error{Text: lost.Error(), Moved: true}
}

// pushLast pushes what a loop has written when it was paused because this process ends.
func (d *desk) pushLast(s *seat) {
	if s.carried == nil {
		return
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(d.life), lastPush)
	defer stop()
	if err := s.carried.Push(ctx, s.carried.Ended()); err != nil {
		d.o.Log.Warn("what a loop wrote last stays on this machine", zap.String("loop", s.place.Loop), zap.Error(err))
	}
}

// verb carries out a verb. What it has written of a loop that is bound to no machine is pushed before it counts.
func (d *desk) verb(ctx context.Context, v host.Verb) ([]byte, error) {
	if !carry.In(v.Of.Repo, d.o.Carry.StateHome) {
		return d.o.Verb(ctx, v)
	}
	s := d.seat(v.Of)
	l, err := d.loopOf(ctx, s)
	if err != nil {
		return nil, &host.Error{Text: err.Error(), Moved: true}
	}
	key := strings.Join(v.Args, "\x00")
	d.mu.Lock()
	said, done := s.said[key]
	d.mu.Unlock()
	if !done {
		if said, err = d.o.Verb(ctx, v); err != nil {
			return said, err
		}
	}
	err = l.Push(ctx, l.Ended())
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(s.said, key)
	if err != nil {
		if _, lost := errors.AsType[*carry.LostError](err); lost {
			return nil, &host.Error{Text: err.Error(), Moved: true}
		}
		s.said[key] = said
	}
	return said, err
}
