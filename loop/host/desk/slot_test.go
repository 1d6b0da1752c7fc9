package desk

import (
	"context"
	"testing"

	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/host"
)

// slotted is a machine whose engine hears of slots.
func slotted(t *testing.T) (*machine, chan host.Slot) {
	m, slots := newMachine(t, done, ""), make(chan host.Slot, 99)
	m.close()
	m.slot = func(s host.Slot) { slots <- s }
	m.open()
	return m, slots
}

// TestRoleBeginsWhenItIsGranted: a role begins only when its slot is granted, and leaves it at its end. Grants that come twice, or
// for nobody, change nothing.
func TestRoleBeginsWhenItIsGranted(t *testing.T) {
	t.Parallel()
	m, slots := slotted(t)
	e := m.adopt()
	grant := func(id string) {
		if err := m.Grant(id); err != nil {
			t.Error(err)
		}
	}
	had := map[string]bool{}
	over := make(chan struct{})
	go func() {
		defer close(over)
		for _, ran := range []string{"", "planner 1\n"} {
			s := <-slots
			if s.Left || had[s.ID] || s.Place != m.place || s.Account.Provider == "" || s.Account.ID == "" || m.ran() != ran {
				t.Errorf("%+v after %q", s, m.ran())
			}
			had[s.ID] = true
			grant("nobody")
			grant(s.ID)
			grant(s.ID)
			if left := <-slots; !left.Left || left.ID != s.ID || m.ran() == ran {
				t.Errorf("%+v after %+v, and %q", left, s, m.ran())
			}
		}
	}()
	e.end(host.Ended)
	<-over
	if got := m.ran(); got != "planner 1\nreviewer 1\n" || len(slots) != 0 {
		t.Errorf("%q, and %d more slots", got, len(slots))
	}
}

// TestRoleThatIsGrantedNothing: a role that waits for a slot ends its wait with its turn, and with its desk. It has not begun, so
// the next turn asks again for the same attempt.
func TestRoleThatIsGrantedNothing(t *testing.T) {
	t.Parallel()
	m, slots := slotted(t)
	e := m.adopt()
	ctx, stop := context.WithCancel(t.Context())
	first := make(chan host.Slot, 1)
	go func() {
		first <- <-slots
		stop()
	}()
	for ctx.Err() == nil {
		e.took(m.Turn(ctx, e.due()))
	}
	s := <-first
	if left := <-slots; !left.Left || left.ID != s.ID || e.fold.State.Status != loop.Paused {
		t.Errorf("%+v after %+v; the loop is %s", left, s, e.fold.State.Status)
	}
	ended := make(chan struct{})
	go func() { // the engine goes on, and grants nothing
		defer close(ended)
		for {
			got, err := m.Turn(context.Background(), e.due())
			if err != nil || e.fold.State.Status == loop.Paused && got.Rest == host.Paused {
				return
			}
			e.took(got, nil)
		}
	}()
	again := <-slots
	m.close()
	<-ended
	if left := <-slots; again.ID == s.ID || !left.Left || left.ID != again.ID || m.ran() != "" {
		t.Errorf("%+v, then %+v; %q ran", again, left, m.ran())
	}
	m.slot = nil
	m.open()
	e.end(host.Ended)
	if got := m.ran(); got != "planner 1\nreviewer 1\n" {
		t.Errorf("%q", got)
	}
}
