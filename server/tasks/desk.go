// Package tasks has the daemon work off the items of a tracker: it takes an item, makes a loop of it, delivers the work as
// a branch and a draft pull request, tells the tracker, and gives the loop what comes back: failed checks and reviews.
//
// Which daemon has an item is decided by package claim, on the git remote. What an item is, and how a tracker is told,
// package tracker knows. A turn looks at both and does what is due. Each step of it may be tried again: after a kill, and
// when a service was away, the next turn goes on where the last one ended. A turn of which a part fails is no error of the
// daemon; the time to the next look at a tracker grows up to a quarter of an hour, and Status says why.
package tasks

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/superloop/superloop/server/backlog"
	"github.com/superloop/superloop/server/claim"
	"github.com/superloop/superloop/server/forge"
	"github.com/superloop/superloop/server/tracker"
)

const (
	// Every is the time between two looks at a tracker that answers.
	Every = time.Minute
	// Lease is how long a claim counts that nobody renews.
	Lease = 15 * time.Minute
	// MaxRounds is how often a loop begins for one item: once for the item, then for what came back.
	MaxRounds = 5

	firstPause   = 30 * time.Second
	longestPause = 15 * time.Minute
	pulse        = 2 * time.Second // between two looks at what is local
)

// Work is what the loop of an item has done.
type Work struct {
	Branch, Tip string // all of it is committed there
	Title, Body string // of a pull request; Body mentions nobody and closes nothing
}

// Pulls opens pull requests, and says what came back.
type Pulls interface {
	Open(ctx context.Context, r forge.Request) (p forge.Pull, made bool, err error)
	Feedback(ctx context.Context, branch string) (forge.Feedback, error)
}

// Place is where the items of a watch come from, and where the work goes.
type Place struct {
	Tracker tracker.Tracker
	Pulls   Pulls // nil: the remote is no forge, and the branch is all that is delivered
	Claims  *claim.Store
}

// Desk works off trackers. Every field is required.
type Desk struct {
	Store Store
	// Open opens what a watch names. It is called once for each watch.
	Open func(ctx context.Context, w Watch) (Place, error)
	// Plan checks that a loop can be made of an item, and returns the function that writes its files. The error wraps
	// backlog.ErrTaken if another loop has the id; every other error is about the whole repository.
	Plan func(ctx context.Context, w Watch, it backlog.Item) (write func() error, err error)
	// Settle commits what the loop has left, and says what it has done. Its error is for the people who read the tracker.
	Settle func(ctx context.Context, w Watch, loop string) (Work, error)
	// Vacant says how many loops more could work at once.
	Vacant func() int
	Log    *zap.Logger
	Now    func() time.Time
}

// Run works off the trackers that operators have named, until ctx ends. Each has a goroutine of its own, so that one that
// does not answer holds no other up.
func (d *Desk) Run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	lives := map[string]context.CancelFunc{} // by all that a watch says
	tick := time.NewTicker(pulse)
	defer tick.Stop()
	said := ""
	for {
		watched, errs := d.Store.All()
		if err := errors.Join(errs...); err != nil && err.Error() != said {
			said = err.Error()
			d.Log.Warn("a tracker is not worked off", zap.Error(err))
		}
		now := map[string]bool{}
		for _, w := range watched {
			said := fmt.Sprintf("%+v", w)
			now[said] = true
			if lives[said] == nil {
				life, stop := context.WithCancel(ctx)
				lives[said] = stop
				running.Go(func() { d.attend(life, w) })
			}
		}
		for said, stop := range lives {
			if !now[said] {
				stop()
				delete(lives, said)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// attend makes turns of one watch until ctx ends: one a minute, and one at once when a loop of it has ended.
func (d *Desk) attend(ctx context.Context, w Watch) {
	st, _ := d.Store.Status(w) // without one nothing is known yet
	st.Next = time.Time{}
	var place *Place
	tick := time.NewTicker(pulse)
	defer tick.Stop()
	for due := d.Now(); ; {
		if now := d.Now(); !now.Before(due) || d.ended(w) {
			was := st.Error
			if st = d.turn(ctx, w, &place, st); ctx.Err() != nil {
				return
			}
			if st.Error != was {
				d.Log.Info("a tracker", zap.String("repo", w.Repo), zap.String("source", w.Source), zap.String("error", st.Error))
			}
			if err := d.Store.tell(st); err != nil {
				d.Log.Warn("what is known of a tracker is not kept", zap.Error(err))
			}
			due = now.Add(Every)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// ended reports whether a loop has ended of whose end the remote has not been told.
func (d *Desk) ended(w Watch) bool {
	all, _ := d.Store.Tasks(w.Repo)
	for _, t := range all {
		if at, err := d.standing(t); err == nil && t.Lost == "" && at.ended && !t.Waits && t.Run != at.view.RunID {
			return true
		}
	}
	return false
}

// turn does what is due for a watch. It returns what is known then.
func (d *Desk) turn(ctx context.Context, w Watch, place **Place, st Status) Status {
	st.Watch = w
	if *place == nil {
		p, err := d.Open(ctx, w)
		if err != nil {
			return d.failed(st, err)
		}
		*place = &p
	}
	l := &look{d: d, w: w, Place: **place, ctx: ctx}
	if err := l.claims(); err != nil {
		return d.failed(st, fmt.Errorf("the claims at %s: %w", w.Remote, err))
	}
	if !d.Now().Before(st.Next) {
		if err := l.mirror(); err != nil {
			st = d.failed(st, err)
		} else {
			st.At, st.Error, st.Tries, st.Next = d.Now(), "", 0, time.Time{}
			st.Items = l.rows
		}
	}
	return st
}

// failed notes why a look has failed, and when the next one is due.
func (d *Desk) failed(st Status, err error) Status {
	st.Error = err.Error()
	pause := min(firstPause<<min(st.Tries, 10), longestPause)
	st.Tries++
	st.Next = d.Now().Add(pause)
	if away, ok := errors.AsType[*tracker.Unavailable](err); ok && away.Until.After(st.Next) {
		st.Next = away.Until
	}
	return st
}
