package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/superloop/superloop/loop/host"
	"github.com/superloop/superloop/loop/temporal"
	"github.com/superloop/superloop/roles/agent"
)

// askedFor is a machine of which is kept what it asks the fleet for and whom it lets begin.
type askedFor struct {
	*slots
	logged *observer.ObservedLogs

	mu      sync.Mutex
	wants   []temporal.Want
	granted []string
	down    error
}

func newAsked(t *testing.T) *askedFor {
	core, logged := observer.New(zap.InfoLevel)
	m := &askedFor{logged: logged}
	m.slots = &slots{most: 2, beat: 5 * time.Second, machine: "m1", workflow: func(p host.Place) string { return "w/" + p.Loop }, log: zap.New(core), places: newPlaces(1), roles: map[string]*role{}}
	m.serve(t.Context(), func(id string) error {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.granted = append(m.granted, id)
		return nil
	}, func(_ context.Context, a agent.Account, w temporal.Want) error {
		m.mu.Lock()
		defer m.mu.Unlock()
		if a != account {
			t.Errorf("asked for %+v", a)
		}
		m.wants = append(m.wants, w)
		return m.down
	})
	return m
}

var account = agent.Account{Provider: "anthropic", ID: "a"}

func (m *askedFor) tell(left bool) {
	m.hears()(host.Slot{ID: "r1", Place: host.Place{Repo: "/r", Loop: "shop"}, Account: account, Left: left})
}

// after lets time pass and returns what was asked for meanwhile.
func (m *askedFor) after(d time.Duration) []temporal.Want {
	time.Sleep(d)
	synctest.Wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	out := m.wants
	m.wants = nil
	return out
}

// TestRoleAsksForASlot: a role asks at once, and again as long as it has no slot; not while it has one; and when the fleet has
// taken the slot back from a machine that was silent, it says that it has begun. Its slot ends with it.
func TestRoleAsksForASlot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newAsked(t)
		asks := temporal.Want{ID: "r1", Machine: "m1", Workflow: "w/shop", Most: 2, Beat: 5 * time.Second}
		m.tell(false)
		m.tell(false)
		if got := m.after(0); !slices.Equal(got, []temporal.Want{asks}) {
			t.Errorf("%+v", got)
		}
		if got := m.after(25 * time.Second); !slices.Equal(got, []temporal.Want{asks, asks}) || m.logged.FilterMessageSnippet("superloop-fleet accounts").Len() != 1 {
			t.Errorf("%+v, %+v", got, m.logged.All())
		}
		if len(m.granted) > 0 {
			t.Errorf("%q", m.granted)
		}
		ended := make(chan error, 2)
		has := func() func() {
			ctx, stop := context.WithCancel(t.Context())
			go func() { ended <- m.has(ctx, asks) }()
			return stop
		}
		first := has()
		second := has() // as after the workflow has gone on as a new run
		if got := m.after(time.Minute); len(got) > 0 || !slices.Equal(m.granted, []string{"r1", "r1"}) {
			t.Errorf("%+v, %q", got, m.granted)
		}
		if first(); !errors.Is(<-ended, context.Canceled) {
			t.Error("an activity that has lost its right goes on")
		}
		if got := m.after(time.Minute); len(got) > 0 {
			t.Errorf("%+v", got)
		}
		if second(); !errors.Is(<-ended, context.Canceled) {
			t.Error("an activity that has lost its right goes on")
		}
		asks.Begun = true
		if got := m.after(10 * time.Second); !slices.Equal(got, []temporal.Want{asks}) {
			t.Errorf("%+v", got)
		}
		defer has()()
		synctest.Wait()
		m.tell(true)
		m.tell(true)
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if got := m.after(time.Minute); len(got) > 0 || len(m.roles) > 0 {
			t.Errorf("%+v", got)
		}
		if err := m.has(t.Context(), asks); err != nil || len(m.granted) != 3 { // the fleet gives a slot to a role that has left
			t.Error(err, m.granted)
		}
	})
}

// TestRoleWaitsForTheFleet: while the fleet cannot be asked no role begins, the log says so once, and the role asks again, until it waits no more.
func TestRoleWaitsForTheFleet(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newAsked(t)
		m.down = errors.New("no server")
		m.tell(false)
		if got := m.after(35 * time.Second); len(got) != 4 || len(m.granted) > 0 {
			t.Errorf("%+v %q", got, m.granted)
		}
		if all := m.logged.All(); len(all) != 1 || !strings.Contains(all[0].Message, "does not begin") {
			t.Errorf("%+v", all)
		}
		m.tell(true)
		if got := m.after(time.Minute); !slices.Equal(got, []temporal.Want{{ID: "r1", Machine: "m1", Left: true}}) {
			t.Errorf("%+v", got)
		}
	})
}

// TestLentPlace: a loop whose role waits for a slot of its account for long lends its place to one other loop, which is there if
// the server gives it. When the role has its slot, it is the next to have a place; a role that leaves needs none.
func TestLentPlace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newAsked(t)
		tasks := m.places
		given := func() (n int) { // how many effects more the worker may be given
			for tasks.TryReserveSlot(nil) != nil {
				n++
			}
			for range n {
				tasks.ReleaseSlot(nil)
			}
			return n
		}
		works := func(loop string) (<-chan func(), func()) {
			began := make(chan func(), 1)
			ctx, stop := context.WithCancel(t.Context())
			go func() {
				if rest, err := m.places.work(ctx, host.Place{Repo: "/r", Loop: loop}); err == nil {
					began <- rest
				}
			}()
			synctest.Wait()
			return began, stop
		}
		begins := func(began <-chan func()) (rest func()) {
			t.Helper()
			synctest.Wait()
			select {
			case rest = <-began:
			default:
				t.Error("it has no place")
			}
			return rest
		}
		tasks.TryReserveSlot(nil)
		shop, _ := works("shop")
		restShop := begins(shop)
		m.tell(false)
		blog, _ := works("blog")
		if m.after(lendAfter - time.Millisecond); len(blog) > 0 || given() != 0 {
			t.Error("a place was lent at once")
		}
		m.after(time.Millisecond)
		if restBlog := begins(blog); given() != 1 {
			t.Error("the server gives no effect for the place that was lent")
		} else {
			tasks.TryReserveSlot(nil) // blog's
			late, stopLate := works("late")
			ended := make(chan error, 2)
			go func() { ended <- m.has(t.Context(), temporal.Want{ID: "r1"}) }()
			if m.after(time.Hour); len(m.granted) > 0 || len(late) > 0 {
				t.Errorf("%q begins, and there is no place", m.granted)
			}
			restBlog()
			tasks.ReleaseSlot(nil)
			if m.after(0); !slices.Equal(m.granted, []string{"r1"}) || len(late) > 0 {
				t.Errorf("%q has the place", m.granted)
			}
			m.tell(true)
			if err := <-ended; err != nil {
				t.Error(err)
			}
			begins(late)()
			stopLate()
		}
		restShop()
		tasks.ReleaseSlot(nil)
		if m.after(0); given() != 1 || !m.places.Idle() {
			t.Errorf("%d more effects, idle %t", given(), m.places.Idle())
		}
		// A role leaves while it waits for its place.
		tasks.TryReserveSlot(nil)
		restShop = begins(first(works("shop")))
		m.tell(false)
		m.after(lendAfter)
		tasks.TryReserveSlot(nil)
		restBlog := begins(first(works("blog")))
		ended := make(chan error, 1)
		go func() { ended <- m.has(t.Context(), temporal.Want{ID: "r1"}) }()
		m.after(0)
		m.tell(true)
		if err := <-ended; err != nil || len(m.granted) != 1 {
			t.Error(err, m.granted)
		}
		restShop()
		tasks.ReleaseSlot(nil)
		if m.after(0); given() != 0 {
			t.Errorf("%d more effects", given())
		}
		restBlog()
		tasks.ReleaseSlot(nil)
		if m.after(0); given() != 1 || !m.places.Idle() {
			t.Errorf("%d more effects, idle %t", given(), m.places.Idle())
		}
		// It leaves in the moment in which it gets its place.
		for range 20 {
			restShop = begins(first(works("shop")))
			m.tell(false)
			m.after(lendAfter)
			restBlog = begins(first(works("blog")))
			go func() { ended <- m.has(t.Context(), temporal.Want{ID: "r1"}) }()
			m.after(0)
			m.tell(true)
			restBlog()
			if err := <-ended; err != nil {
				t.Error(err)
			}
			if restShop(); !m.places.Idle() {
				t.Fatal("nobody gives the place back")
			}
		}
	})
}

func first(began <-chan func(), _ func()) <-chan func() { return began }

// TestWithoutABound: a worker without a bound hears of no role.
func TestWithoutABound(t *testing.T) {
	t.Parallel()
	if (&slots{}).hears() != nil {
		t.Error("it hears of roles")
	}
}
