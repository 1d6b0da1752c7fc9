// Package desk answers the requests of loop/host: it carries out the loops of this machine for an engine beyond it.
package desk

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/superloop/superloop/internal/dirwatch"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/carry"
	"github.com/superloop/superloop/loop/host"
	"github.com/superloop/superloop/loop/layout"
	"github.com/superloop/superloop/loop/local"
	"github.com/superloop/superloop/roles/agent"
)

// mostLines bounds the events of one answer, in bytes of their fields. Engines carry at most some 2 MB at once.
const mostLines = 512 << 10

// longestLine bounds one event, in bytes of its fields. An engine would try to carry a longer one for ever.
const longestLine = 1 << 20

// Options are the options of Serve. Every field but Wishes is required.
type Options struct {
	// Prepare makes the options with which a loop is run, and a function that releases what they hold. It reads the
	// configuration anew.
	Prepare func(p host.Place, by string) (o local.Options, release func(), err error)
	// Verb carries out a verb in this process and returns what it prints.
	Verb func(ctx context.Context, v host.Verb) ([]byte, error)
	// Carry is for loops that are bound to no machine. Gone is called when another machine may have such a loop.
	Carry carry.Options
	Gone  func(p host.Place)
	// Wishes are loops that somebody wants to run, of which the engine is told. It may be nil.
	Wishes <-chan host.Wish
	Log    *zap.Logger
}

// Serve answers the requests of in until it ends, or until ctx ends. It then pauses every loop that is under way, and
// returns. An error is one of reading in.
func Serve(ctx context.Context, in io.Reader, out io.Writer, o Options) error {
	life, stop := context.WithCancel(ctx)
	d := &desk{o: o, life: life, watches: dirwatch.NewWatches(life), seats: map[host.Place]*seat{}, running: map[int64]context.CancelFunc{}, out: json.NewEncoder(out)}
	d.out.SetEscapeHTML(false)
	var asked sync.WaitGroup
	defer d.leave()
	defer asked.Wait()
	defer stop()
	lines, failed := make(chan []byte), make(chan error, 1)
	go func() {
		r := bufio.NewScanner(in)
		r.Buffer(nil, host.MaxLine)
		for r.Scan() {
			select {
			case lines <- append([]byte(nil), r.Bytes()...):
			case <-life.Done():
				return
			}
		}
		failed <- r.Err()
	}()
	for {
		select {
		case <-ctx.Done():
			return nil
		case w := <-o.Wishes:
			d.say(host.Answer{Wish: &w})
		case err := <-failed:
			if err != nil {
				return fmt.Errorf("reading a request: %w", err)
			}
			return nil
		case line := <-lines:
			var q host.Request
			if err := text.Decode(line, &q); err != nil {
				d.say(host.Answer{ID: q.ID, Error: &host.Error{Text: fmt.Sprintf("reading a request: %v", err), Final: true}})
				continue
			}
			d.take(q, &asked)
		}
	}
}

type desk struct {
	o       Options
	life    context.Context
	watches *dirwatch.Watches

	outMu sync.Mutex
	out   *json.Encoder

	mu      sync.Mutex
	seats   map[host.Place]*seat
	running map[int64]context.CancelFunc

	wants sync.Map // the roles that wait for a slot: by its id a channel that is closed when it is granted
}

// seat is a loop that this process has.
type seat struct {
	place   host.Place
	busy    chan struct{} // capacity 1: who carries out a turn has put something in
	options local.Options
	release func()
	held    *local.Held
	turns   *local.Turns // nil while the loop rests
	waits   *local.Waiting
	leave   func() // ends what wakes the loop while it waits

	// Of a loop that is bound to no machine:
	stop    context.CancelFunc // ends the turn that is under way, if there is one; guarded by desk.mu
	carried *carry.Loop        // nil until a turn or a claim
	once    bool               // the turn has begun what may not be begun twice
	said    map[string][]byte  // verbs that were carried out and whose push failed; guarded by desk.mu
}

// take begins to answer a request.
func (d *desk) take(q host.Request, asked *sync.WaitGroup) {
	if q.Grant != "" {
		d.grant(q.Grant)
		return
	}
	if q.Stop != 0 {
		d.mu.Lock()
		defer d.mu.Unlock()
		if stop := d.running[q.Stop]; stop != nil {
			stop()
		}
		return
	}
	ctx, stop := context.WithCancel(d.life)
	d.mu.Lock()
	d.running[q.ID] = stop
	d.mu.Unlock()
	asked.Go(func() {
		defer stop()
		a := host.Answer{ID: q.ID}
		var err error
		switch {
		case q.Turn != nil:
			var t host.Turned
			if t, err = d.turn(ctx, *q.Turn); err == nil {
				a.Turned = &t
			}
		case q.Verb != nil:
			a.Said, err = d.verb(ctx, *q.Verb)
		case q.Claim != nil:
			var p host.Place
			if p, err = d.claim(ctx, *q.Claim); err == nil {
				a.Claimed = &p
			}
		default:
			err = &host.Error{Text: "the request asks for nothing that this superloop knows; use a newer one", Final: true}
		}
		if err != nil {
			said, ok := errors.AsType[*host.Error](err)
			if !ok {
				said = &host.Error{Text: err.Error(), Final: errors.Is(err, local.ErrShort)}
			}
			a.Error = said
		}
		d.mu.Lock()
		delete(d.running, q.ID)
		d.mu.Unlock()
		d.say(a)
	})
}

func (d *desk) say(a host.Answer) {
	d.outMu.Lock()
	defer d.outMu.Unlock()
	if err := d.out.Encode(a); err != nil {
		d.o.Log.Warn("an answer could not be given", zap.Error(err)) // whoever asked is gone, and so is what follows
	}
}

// seat returns the seat of a loop.
func (d *desk) seat(p host.Place) *seat {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.seats[p]
	if s == nil {
		s = &seat{place: p, busy: make(chan struct{}, 1), said: map[string][]byte{}}
		d.seats[p] = s
	}
	return s
}

// turn carries out an effect of a loop.
func (d *desk) turn(ctx context.Context, t host.Turn) (out host.Turned, err error) {
	s := d.seat(t.Place)
	select {
	case s.busy <- struct{}{}: // the last turn has ended, also one that nobody waits for any more
		defer func() { <-s.busy }()
	case <-ctx.Done():
		return out, ctx.Err()
	}
	if carry.In(t.Repo, d.o.Carry.StateHome) {
		return d.carriedTurn(ctx, s, t)
	}
	return d.chain(ctx, s, t, loop.EffectKind.Cheap) // a turn costs the engine more than such an effect costs this machine
}

// step carries out what is due, or tells what the engine does not know.
func (d *desk) step(ctx context.Context, s *seat, t host.Turn) (out host.Turned, err error) {
	knows := s.turns == nil && !t.Start // the engine knows all that was written before the loop is taken up
	if knows {
		if rests, err := d.rests(ctx, s, t, &out); rests || err != nil {
			return out, err
		}
	}
	if err := d.open(s, t); err != nil {
		if t.Start { // as for superloop run: whoever starts it mends what is wrong, and starts it again
			err = &host.Error{Text: err.Error(), Final: true}
		}
		return out, err
	}
	state, seq := s.turns.State()
	e, do := loop.Due(state)
	switch {
	case t.Start:
		out.State, out.Seq = &state, seq
		if do != loop.DoNothing {
			return out, nil
		}
	case t.Since != seq && !(knows && t.Effect == e.ID): // the engine first has to learn what it does not know
		return out, d.since(s, t, &out)
	case t.Effect != e.ID:
		return out, &host.Error{Text: fmt.Sprintf("after event %d the engine wants %q, and this machine %q: they are of different versions of superloop", seq, t.Effect, e.ID), Final: true}
	}
	if out.Rest, out.Left, err = d.carryOut(ctx, s); err != nil || t.Start {
		return out, err
	}
	return out, d.since(s, t, &out)
}

// rests reports whether nothing is to be carried out of a loop that is not taken up: the engine does not know all of its journal,
// the loop waits, or it has ended. Whoever has ended a loop, an operator or a process that was killed then, it stays ended.
func (d *desk) rests(ctx context.Context, s *seat, t host.Turn, out *host.Turned) (bool, error) {
	o, release, err := d.o.Prepare(t.Place, t.By)
	if err != nil {
		return false, err
	}
	defer release()
	s.options = o
	if err := d.since(s, t, out); err != nil || len(out.Lines) > 0 {
		return true, err
	}
	if s.waits != nil && !s.waits.Stirs(o) {
		out.Rest, out.Left = host.Waits, time.Until(s.waits.Until)
		return true, nil
	}
	paths, err := layout.NewPaths(t.Repo, t.Loop, o.StateHome)
	if err != nil {
		return false, err
	}
	view, err := local.ReadView(paths)
	if err != nil || !view.Status.Ended() {
		return false, err
	}
	out.Rest, o.Held = host.Ended, s.held
	err = local.Conclude(ctx, o)
	d.letGo(s)
	return true, err
}

// since adds the events that the engine does not know.
func (d *desk) since(s *seat, t host.Turn, out *host.Turned) error {
	paths, err := layout.NewPaths(t.Repo, t.Loop, s.options.StateHome)
	if err != nil {
		return err
	}
	lines, more, err := local.Since(paths, t.Since, mostLines)
	for _, l := range lines {
		if err == nil && len(l.Fields) > longestLine {
			err = &host.Error{Text: fmt.Sprintf("event %d (%s) has %d bytes, and an engine carries at most %d of one", l.Seq, l.Event, len(l.Fields), longestLine),
				Next: "superloop run --repo " + text.Paste(t.Repo) + " --loop " + t.Loop, Final: true}
		}
	}
	out.Lines, out.More = host.LinesOf(lines), more
	return err
}

// open takes the loop up, unless this process has it already.
func (d *desk) open(s *seat, t host.Turn) error {
	if s.turns != nil {
		return nil
	}
	o, release, err := d.o.Prepare(t.Place, t.By)
	if err != nil {
		return err
	}
	if s.held == nil {
		if s.held, err = local.Hold(o); err != nil {
			release()
			return err
		}
	}
	if s.carried != nil {
		o.Intend = d.intend(s)
	}
	o.Admit = func(ctx context.Context, a agent.Account) (leave func(), err error) { return d.admit(ctx, t.Place, a) }
	o.Held, o.Watches, o.Fresh, o.Woken = s.held, d.watches, t.Fresh && t.Start, s.waits != nil
	if s.turns, err = local.OpenTurns(d.life, o); err != nil {
		release()
		d.letGo(s)
		return err
	}
	d.unwatch(s)
	s.options, s.release = o, release
	return nil
}

// carryOut lets the loop take a turn. A loop that rests is left: then it needs little memory, and no process.
func (d *desk) carryOut(ctx context.Context, s *seat) (rest host.Rest, left time.Duration, err error) {
	more, err := s.turns.Turn(ctx)
	if more && err == nil {
		return host.GoesOn, left, nil
	}
	state, _ := s.turns.State()
	waits := s.turns.Waits()
	_ = s.turns.Close(ctx) // it was left
	s.turns = nil
	s.release()
	switch {
	case err != nil:
		d.letGo(s)
		return rest, left, err
	case waits != nil:
		s.waits = waits
		d.watch(s)
		return host.Waits, time.Until(waits.Until), nil
	}
	d.letGo(s)
	switch {
	case state.Status.Ended():
		return host.Ended, left, nil
	case ctx.Err() != nil: // the engine asks again, or another machine does
		return host.GoesOn, left, nil
	}
	return host.Paused, left, nil
}

// letGo lets other supervisors have the loop.
func (d *desk) letGo(s *seat) {
	d.unwatch(s)
	if s.held != nil {
		s.held.Release()
	}
	s.held = nil
}

// leave pauses every loop that is taken up, and lets all go.
func (d *desk) leave() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, s := range d.seats {
		if s.turns != nil {
			if err := s.turns.Close(context.WithoutCancel(d.life)); err != nil {
				d.o.Log.Warn("a loop could not be paused", zap.String("repo", s.place.Repo), zap.String("loop", s.place.Loop), zap.Error(err))
			}
			s.release()
			s.turns = nil
			d.pushLast(s)
		}
		d.letGo(s)
	}
}
