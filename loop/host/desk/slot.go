package desk

import (
	"context"
	"crypto/rand"

	"github.com/superloop/superloop/loop/host"
	"github.com/superloop/superloop/roles/agent"
)

// admit waits until the engine grants a role of a loop a slot of its account. A role whose engine grants nothing waits until ctx
// ends.
func (d *desk) admit(ctx context.Context, p host.Place, a agent.Account) (leave func(), err error) {
	s := host.Slot{ID: rand.Text(), Place: p, Account: a}
	granted := make(chan struct{})
	d.wants.Store(s.ID, granted)
	d.say(host.Answer{Slot: &s})
	leave = func() { d.say(host.Answer{Slot: &host.Slot{ID: s.ID, Place: p, Account: a, Left: true}}) }
	select {
	case <-granted:
		return leave, nil
	case <-ctx.Done():
		d.wants.Delete(s.ID)
		leave()
		return nil, ctx.Err()
	}
}

// grant lets a role begin. The engine may grant a slot twice, or one that was left meanwhile.
func (d *desk) grant(id string) {
	if granted, waits := d.wants.LoadAndDelete(id); waits {
		close(granted.(chan struct{}))
	}
}
