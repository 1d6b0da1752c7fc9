package main

import (
	"context"
	"sync"
	"time"

	"go.temporal.io/sdk/worker"

	"github.com/superloop/superloop/loop/host"
	table "github.com/superloop/superloop/server/slots"
)

// lendAfter is how long a role waits for a slot of its account before its loop lends its place to another one.
const lendAfter = time.Second

// places are the --slots of a worker: so many loops work at the same time. A loop whose role waits for a slot of its account
// lends its place to another one, which may use another account. places is also what tells the worker how many effects the
// server may give it: one more for each place that is lent.
type places struct {
	*table.Table

	mu    sync.Mutex
	most  int           // how many effects the worker may have
	given int           // how many it has, or asks for
	moved chan struct{} // closed when one of them changes
}

func newPlaces(n int) *places {
	return &places{Table: table.New(table.Limits{Loops: n}, nil), most: n, moved: make(chan struct{})}
}

func nameOf(at host.Place) string { return at.Repo + "\n" + at.Loop }

// work waits until a loop has a place, and returns what gives it back.
func (p *places) work(ctx context.Context, at host.Place) (rest func(), err error) {
	if err := p.Work(ctx, nameOf(at), 0); err != nil {
		return nil, err
	}
	return func() { p.Rest(nameOf(at)) }, nil
}

// lend gives the place of a loop to another one.
func (p *places) lend(at host.Place) {
	p.Rest(nameOf(at))
	p.change(func() { p.most++ })
}

// restore ends what lend has begun, when the role has left. The place that the role had after that is of its own.
func (p *places) restore(role string) {
	p.Rest(role)
	p.change(func() { p.most-- })
}

func (p *places) change(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
	close(p.moved)
	p.moved = make(chan struct{})
}

// tuner returns what bounds a worker by the places.
func (p *places) tuner() (worker.WorkerTuner, error) {
	usual, err := worker.NewFixedSizeTuner(worker.FixedSizeTunerOptions{})
	return tuner{usual, p}, err
}

type tuner struct {
	worker.WorkerTuner
	places *places
}

// GetActivityTaskSlotSupplier is a method of worker.WorkerTuner.
func (t tuner) GetActivityTaskSlotSupplier() worker.SlotSupplier { return t.places }

// ReserveSlot waits until the worker may be given one effect more. It is a method of worker.SlotSupplier, as those below are.
func (p *places) ReserveSlot(ctx context.Context, _ worker.SlotReservationInfo) (*worker.SlotPermit, error) {
	for {
		permit, moved := p.reserve()
		if permit != nil {
			return permit, nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// TryReserveSlot returns nil if it would have to wait.
func (p *places) TryReserveSlot(worker.SlotReservationInfo) *worker.SlotPermit {
	permit, _ := p.reserve()
	return permit
}

func (p *places) reserve() (*worker.SlotPermit, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.given >= p.most {
		return nil, p.moved
	}
	p.given++
	return &worker.SlotPermit{}, nil
}

// MarkSlotUsed does nothing: what the worker asks for counts as given.
func (p *places) MarkSlotUsed(worker.SlotMarkUsedInfo) {}

// ReleaseSlot says that an effect has ended, or that none came.
func (p *places) ReleaseSlot(worker.SlotReleaseInfo) { p.change(func() { p.given-- }) }

// MaxSlots returns 0: the number changes.
func (p *places) MaxSlots() int { return 0 }
