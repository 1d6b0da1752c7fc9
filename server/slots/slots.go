// Package slots shares the places of a machine among loops: how many loops work at once, how many roles run at once, and
// how many of them use one account. Who asked first is served first, within one priority.
package slots

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// Limits are the numbers of places. 0 stands for no bound.
type Limits struct {
	Loops      int `json:"loops"`       // loops that work at the same time; one that waits for an operator or a limit does not count
	Roles      int `json:"roles"`       // roles that run at the same time
	PerAccount int `json:"per_account"` // roles that use the same account at the same time
}

// Request is what a loop asks for.
type Request struct {
	Loop     string // who asks
	Priority int    // a higher one is served first
	Account  string // the account of a role; "": only the loop's own place
}

// Waiter is a request that waits, for people.
type Waiter struct {
	Request
	Since time.Time
	Ahead int    // the requests that are served before it
	Why   string // which places are taken, and by whom
}

// Table gives the places out. Any goroutine may call its methods.
type Table struct {
	mu     sync.Mutex
	limits Limits
	seq    int
	loops  map[string]bool            // the loops that have a place
	roles  map[string]map[string]bool // the loops with a role, by account
	queue  []*waiter                  // sorted by priority, then by seq
	moved  func()                     // is called, without the lock, after each change
}

type waiter struct {
	Request
	seq   int
	since time.Time
	ready chan struct{} // closed when the places are given
}

// New makes a table. It calls moved after each change; nil is allowed.
func New(l Limits, moved func()) *Table {
	if moved == nil {
		moved = func() {}
	}
	return &Table{limits: l, loops: map[string]bool{}, roles: map[string]map[string]bool{}, moved: moved}
}

// Work waits until the loop may work. The caller calls Rest when the loop has nothing to do. An error means that ctx
// has ended.
func (t *Table) Work(ctx context.Context, loop string, priority int) error {
	return t.take(ctx, Request{Loop: loop, Priority: priority})
}

// Ask asks for a place at once, before those who ask later, and returns the function that waits for it as Work does. It has
// to be called, if only with a context that has ended: then the loop no longer asks.
func (t *Table) Ask(loop string, priority int) (wait func(ctx context.Context) error) {
	w := t.enqueue(Request{Loop: loop, Priority: priority})
	return func(ctx context.Context) error { return t.await(ctx, w) }
}

// Rest gives the place of a loop back.
func (t *Table) Rest(loop string) {
	t.change(func() { delete(t.loops, loop) })
}

// Idle reports whether no loop has a place.
func (t *Table) Idle() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.loops) == 0
}

// Role waits until a role of the loop may use the account, and returns the function that gives the place of the role
// back. The loop has a place, and gives it to others while it waits here.
func (t *Table) Role(ctx context.Context, loop string, priority int, account string) (leave func(), err error) {
	r := Request{Loop: loop, Priority: priority, Account: account}
	t.mu.Lock()
	if t.fits(r) {
		t.give(r)
		t.mu.Unlock()
		t.moved()
	} else {
		delete(t.loops, loop)
		t.mu.Unlock()
		if err := t.take(ctx, r); err != nil {
			return nil, err
		}
	}
	return sync.OnceFunc(func() {
		t.change(func() {
			if delete(t.roles[account], loop); len(t.roles[account]) == 0 {
				delete(t.roles, account)
			}
		})
	}), nil
}

// take waits until the request is served.
func (t *Table) take(ctx context.Context, r Request) error { return t.await(ctx, t.enqueue(r)) }

func (t *Table) enqueue(r Request) *waiter {
	w := &waiter{Request: r, since: time.Now(), ready: make(chan struct{})}
	t.change(func() {
		t.seq++
		w.seq = t.seq
		at, _ := slices.BinarySearchFunc(t.queue, w, func(a, b *waiter) int {
			return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.seq, b.seq))
		})
		t.queue = slices.Insert(t.queue, at, w)
	})
	return w
}

func (t *Table) await(ctx context.Context, w *waiter) error {
	if ctx.Err() == nil {
		select {
		case <-w.ready:
			return nil
		case <-ctx.Done():
		}
	}
	t.change(func() {
		if at := slices.Index(t.queue, w); at >= 0 {
			t.queue = slices.Delete(t.queue, at, at+1)
			return
		}
		delete(t.loops, w.Loop) // it was served in the same moment
		delete(t.roles[w.Account], w.Loop)
	})
	return errors.Join(ctx.Err(), context.Cause(ctx))
}

// change changes the table, and serves who can be served then.
func (t *Table) change(f func()) {
	t.mu.Lock()
	f()
	t.queue = slices.DeleteFunc(t.queue, func(w *waiter) bool {
		if !t.fits(w.Request) {
			return false // one that needs another account may overtake it
		}
		t.give(w.Request)
		close(w.ready)
		return true
	})
	t.mu.Unlock()
	t.moved()
}

// fits reports whether the places for a request are free.
func (t *Table) fits(r Request) bool { return len(t.lacks(r)) == 0 }

func (t *Table) give(r Request) {
	t.loops[r.Loop] = true
	if r.Account != "" {
		if t.roles[r.Account] == nil {
			t.roles[r.Account] = map[string]bool{}
		}
		t.roles[r.Account][r.Loop] = true
	}
}

// lacks returns which places are missing for a request, each with the loops that have them.
func (t *Table) lacks(r Request) (lacks []lack) {
	full := func(what string, limit int, taken []string) {
		if limit > 0 && len(taken) >= limit {
			lacks = append(lacks, lack{what, limit, taken})
		}
	}
	if !t.loops[r.Loop] {
		full("loops", t.limits.Loops, keys(t.loops))
	}
	if r.Account != "" {
		var all []string
		for _, loops := range t.roles {
			all = append(all, keys(loops)...)
		}
		full("roles", t.limits.Roles, all)
		full("roles of "+r.Account, t.limits.PerAccount, keys(t.roles[r.Account]))
	}
	return lacks
}

func keys(set map[string]bool) []string {
	all := make([]string, 0, len(set))
	for k := range set {
		all = append(all, k)
	}
	slices.Sort(all)
	return all
}
