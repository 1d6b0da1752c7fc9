package server

import (
	"context"

	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/local"
	"github.com/superloop/superloop/roles/agent"
	"github.com/superloop/superloop/server/registry"
)

// result is what became of one run of a loop.
type result struct {
	state   loop.State
	waits   *local.Waiting // nil if the run has ended for another reason
	release func()         // releases what the options of the run hold
	err     error
}

// apart calls f in a goroutine of its own and waits for it. A loop that waits keeps its goroutine, and a goroutine keeps
// the largest stack that it ever needed through several garbage collections.
func apart(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	<-done
}

// work runs a loop that has a place, until it ends or waits, and gives the place back. It reads the configuration as late
// as here: of a thousand loops that wait for a place or for an answer none keeps one.
func (d *daemon) work(ctx context.Context, e registry.Entry, held *local.Held, was standing) (r result) {
	apart(func() {
		defer d.slots.Rest(e.Name())
		o, release, err := d.o.Prepare(e)
		if err != nil {
			r = result{release: func() {}, err: err}
			return
		}
		r.release = release
		o.Fresh, o.Woken = was.fresh, was.woken
		o.Held, o.Watches, o.Hurry, o.Drain = held, d.watches, d.o.Hurry, d.o.Drain
		o.Park = func(w local.Waiting) bool { r.waits = &w; return true }
		o.Admit = func(ctx context.Context, a agent.Account) (leave func(), err error) {
			err = d.admitted(ctx, func(ctx context.Context) error {
				leave, err = d.slots.Role(ctx, e.Name(), e.Priority, a.Provider+"/"+a.ID)
				return err
			})
			if err != nil && ctx.Err() == nil {
				return nil, nil // nothing begins any more: the next daemon starts the role
			}
			return leave, err
		}
		r.state, r.err = local.Run(ctx, o)
	})
	return r
}
