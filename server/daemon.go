// Package server is the daemon: it supervises the loops that the registry wants, any number of them, in one process.
//
// It decides nothing about a loop. The registry says what is wanted, loop/local runs the loop, and the journal holds what
// became of it. After a kill the next daemon reads both and goes on.
package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/superloop/superloop/internal/dirwatch"
	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/loop/journal"
	"github.com/superloop/superloop/loop/local"
	"github.com/superloop/superloop/loop/space"
	"github.com/superloop/superloop/server/backlog"
	"github.com/superloop/superloop/server/registry"
	"github.com/superloop/superloop/server/slots"
)

// Options are the options of Run. Every field without another remark is required.
type Options struct {
	State  string // the private state of all repositories, see layout.StateRoot
	Disk   durable.Disk
	Limits slots.Limits
	Keep   space.Limits // which logs and archives are kept
	// Prepare makes the options with which a loop is run, and a function that releases what they hold. It reads the
	// configuration anew.
	Prepare func(e registry.Entry) (o local.Options, release func(), err error)
	// Plan checks that a loop can be made of a spec of a backlog, and returns the function that writes the loop's files. The
	// loop begins with the work of those on which the item depends. The error wraps backlog.ErrTaken if the id is taken, or
	// is a *backlog.WaitError; every other error is about the whole repository. nil: no backlog is read.
	Plan func(ctx context.Context, w backlog.Watch, it backlog.Item) (write func() error, err error)
	// Tasks, unless it is nil, runs in a goroutine until its ctx ends: when nothing may begin any more. It makes loops as an
	// operator does, by the registry. vacant says how many more could work at once.
	Tasks func(ctx context.Context, vacant func() int)
	// Drain, when it is closed, lets what runs end, for DrainTime at most, and then ends Run.
	Drain     <-chan struct{}
	DrainTime time.Duration
	Hurry     <-chan struct{} // closed: running processes end at once, without their grace
	Log       *zap.Logger
	// Begin, unless it is nil, is called when the daemon holds its lock and no loop has begun. An error ends Run.
	Begin func() error
	// Ready is called when the daemon holds its lock and has read the registry.
	Ready func()
	// Answer, unless it is nil, runs from then on, in a goroutine, until its ctx ends: when nothing is supervised any more.
	// The lock is held until it has returned, so that the next daemon finds free what it listens at.
	Answer func(ctx context.Context)
}

// HeldError says that another daemon of this user runs on this state.
type HeldError struct{ Holder local.Holder }

func (e *HeldError) Error() string { return fmt.Sprintf("a daemon is running (%s)", e.Holder) }

// LockFile is the lock of the daemon on the private state of all repositories.
func LockFile(state string) string { return filepath.Join(state, "daemon", "lock") }

// Daemon returns who holds the daemon's lock.
func Daemon(state string) (local.Holder, bool) {
	return local.HolderOf(LockFile(state))
}

// Between two tries of a loop that cannot be supervised lie firstPause at least and longestPause at most.
const (
	firstPause   = time.Second
	longestPause = time.Minute
)

// The causes that end the supervision of a loop.
var (
	errStop  = errors.New("stopped by an operator")
	errGone  = errors.New("the loop is no longer in the registry")
	errLeave = errors.New("the daemon ends")
)

type daemon struct {
	o       Options
	store   registry.Store
	slots   *slots.Table
	watches *dirwatch.Watches
	view    *journal.Projection
	begins  context.Context // ends when nothing may begin any more: with Drain, or with the daemon

	mu    sync.Mutex
	loops map[string]*supervised
	// worked has -1 for each loop that had a place when the last daemon ended, until the first look.
	worked map[string]int
	left   []string // the loops that had a place and have left because the daemon ends
}

// supervised is a loop that the daemon supervises now.
type supervised struct {
	entry registry.Entry
	asked func(ctx context.Context) error // waits for the place that look has asked for; nil: it was taken or let go; only supervise uses it
	stop  context.CancelCauseFunc
	retry chan struct{} // capacity 1; an operator wants the next try now
	now   phase
	rests *holding // has no goroutine, and wake gives it one; nil if it has
	wakes int      // how often wake was called
	err   string   // why it cannot be supervised
	until time.Time
}

// phase says what a supervised loop does.
type phase string

// The values of phase.
const (
	queued  phase = "queued"  // it waits for a place
	working phase = "working" // it has a place
	waiting phase = "waiting" // it waits for an operator or a limit, and has no place
	failing phase = "failing" // it cannot be supervised; the daemon tries again
	foreign phase = "foreign" // another supervisor runs it
)

// Run supervises loops until ctx ends, or until Drain is closed and what ran then has ended.
func Run(ctx context.Context, o Options) error {
	d := &daemon{o: o, store: registry.Store{Disk: o.Disk, State: o.State}, loops: map[string]*supervised{}}
	if err := o.Disk.MkdirAll("daemon", d.store.Dir(), 0o700); err != nil {
		return err
	}
	holder, err := json.Marshal(local.Holder{Identity: proc.Self(), Since: time.Now().UTC()})
	if err != nil {
		return err
	}
	lock, err := o.Disk.Lock(LockFile(o.State), holder)
	if held, ok := errors.AsType[*durable.LockedError](err); ok {
		var by local.Holder
		_ = json.Unmarshal(held.Holder, &by)
		return &HeldError{by}
	}
	if err != nil {
		return err
	}
	defer func() { _ = lock.Unlock() }()
	if o.Begin != nil {
		if err := o.Begin(); err != nil {
			return err
		}
	}
	var answering sync.WaitGroup
	defer answering.Wait()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(errLeave)
	begins, end := context.WithCancel(ctx)
	defer end()
	d.begins = begins
	d.watches = dirwatch.NewWatches(ctx)
	d.view = journal.NewProjection(o.Disk, "daemon-state", ViewFile(o.State), 0o600, viewPause)
	defer func() { _ = d.view.Close() }() // other processes read it with the lock, which is free then
	d.slots, d.worked = slots.New(o.Limits, d.touch), workedOf(o.State)
	changed := d.watches.Dir(ctx, d.store.Dir(), func(string) bool { return true })
	var running sync.WaitGroup
	defer running.Wait()
	d.look(ctx, &running)
	o.Ready()
	if o.Answer != nil {
		answering.Go(func() { o.Answer(ctx) })
	}
	running.Go(func() { d.housekeep(begins) })
	if o.Tasks != nil {
		running.Go(func() { o.Tasks(begins, d.vacant) })
	}
	backlogs, tick, last := newBacklogs(), time.NewTicker(backlogPause), glance{}
	defer tick.Stop()
	for {
		select {
		case <-changed:
			if last.due(d.store) {
				d.look(ctx, &running)
			}
		case <-tick.C:
			d.workOff(ctx, &running, backlogs)
		case <-o.Drain:
			end()
			d.wakeAll()
			d.drained(ctx, &running, stop) // each loop leaves by itself before its next effect
			return nil
		case <-ctx.Done():
			d.wakeAll()
			return nil
		}
	}
}

// drained waits until every loop has left.
func (d *daemon) drained(ctx context.Context, running *sync.WaitGroup, stop context.CancelCauseFunc) {
	done := make(chan struct{})
	go func() { running.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(d.o.DrainTime):
	case <-ctx.Done():
	}
	stop(errLeave)
}

// look reads the registry, begins to supervise what is wanted, and ends what is not.
func (d *daemon) look(ctx context.Context, running *sync.WaitGroup) {
	d.mu.Lock()
	defer d.mu.Unlock()
	// settle changes an entry with the lock held: an entry that was read before would begin a loop again that has paused.
	all, errs := d.store.All()
	for _, err := range errs {
		d.o.Log.Warn("an entry of the registry is left out", zap.Error(err))
	}
	wanted := map[string]registry.Entry{}
	for _, e := range all {
		wanted[e.Name()] = e
	}
	for name, s := range d.loops {
		switch e, ok := wanted[name]; {
		case !ok:
			s.end(errGone)
		case e.Wanted == registry.Stopped:
			s.end(errStop)
		case e.Wanted == registry.Running && !e.Since.Equal(s.entry.Since):
			s.entry = e // other labels, or another priority, count from the next run on
			select {
			case s.retry <- struct{}{}:
			default:
			}
		}
	}
	d.order(all) // each asks for its place here
	for _, e := range all {
		name := e.Name()
		if e.Wanted != registry.Running || d.loops[name] != nil {
			continue
		}
		life, stop := context.WithCancelCause(ctx)
		s := &supervised{entry: e, asked: d.slots.Ask(name, e.Priority), stop: stop, retry: make(chan struct{}, 1), now: queued}
		d.loops[name] = s
		running.Add(1)
		h := &holding{d: d, s: s, ctx: life, pause: firstPause, release: func() {}}
		h.over = func() {
			stop(nil)
			leaves := ctx.Err() != nil || closed(d.o.Drain)
			d.mu.Lock()
			delete(d.loops, name)
			if leaves && s.now == working {
				d.left = append(d.left, name)
			}
			d.mu.Unlock()
			d.touch()
			if !leaves {
				d.again(ctx, name, running)
			}
			running.Done()
		}
		go h.supervise()
	}
	d.worked = nil
	d.touch()
}

// again looks at the registry once more, if a loop is wanted whose supervision has just ended: it was started in that
// moment.
func (d *daemon) again(ctx context.Context, name string, running *sync.WaitGroup) {
	all, _ := d.store.All()
	if i := slices.IndexFunc(all, func(e registry.Entry) bool { return e.Name() == name }); i >= 0 && all[i].Wanted == registry.Running {
		d.look(ctx, running)
	}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// entryOf returns the entry of a supervised loop as it is now.
func (d *daemon) entryOf(s *supervised) registry.Entry {
	d.mu.Lock()
	defer d.mu.Unlock()
	return s.entry
}

func (d *daemon) set(s *supervised, now phase, until time.Time, err error) {
	d.mu.Lock()
	s.now, s.until, s.err = now, until, ""
	if err != nil {
		s.err = err.Error()
	}
	d.mu.Unlock()
	d.touch()
}

// end ends the supervision of the loop. The caller holds d.mu.
func (s *supervised) end(why error) {
	s.stop(why)
	s.wake()
}

// wake has a loop that waits look whether there is something to do. The caller holds d.mu.
func (s *supervised) wake() {
	s.wakes++
	if h := s.rests; h != nil {
		s.rests = nil
		go h.supervise()
	}
}

// wakeAll wakes all loops, since the daemon ends.
func (d *daemon) wakeAll() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, s := range d.loops {
		s.wake()
	}
}

// failed says that a loop cannot be supervised, and is tried again after a pause.
func (d *daemon) failed(s *supervised, err error, pause time.Duration) {
	now := failing
	if _, held := errors.AsType[*local.HeldError](err); held {
		now = foreign
	} else {
		d.log(d.entryOf(s)).Error("the loop cannot be supervised", zap.Error(err), zap.Duration("again_in", pause))
	}
	d.set(s, now, time.Now().Add(pause), err)
}

// log returns the daemon's log, in which each line names the loop.
func (d *daemon) log(e registry.Entry) *zap.Logger {
	return d.o.Log.With(zap.String("repo", e.Repo), zap.String("loop", e.Loop))
}

// admitted calls ask with a context that ends with ctx, and also when nothing may begin any more.
func (d *daemon) admitted(ctx context.Context, ask func(context.Context) error) error {
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	defer context.AfterFunc(d.begins, leave)()
	return ask(ctx)
}
