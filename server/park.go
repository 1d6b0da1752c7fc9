package server

import (
	"context"
	"time"

	"github.com/superloop/superloop/loop/local"
)

// await waits until the loop has something to do. It returns false if it is no longer wanted. A loop that waits costs
// one goroutine and its watches.
func (d *daemon) await(ctx context.Context, o local.Options, w *local.Waiting) bool {
	life, leave := context.WithCancel(ctx)
	defer leave()
	var look [local.MaxPlaces]<-chan struct{} // the channels that are left nil never fire
	for i, dir := range w.Places(o) {
		look[i] = d.watches.Dir(life, dir, func(string) bool { return true })
	}
	timer := time.NewTimer(time.Until(w.Until))
	defer timer.Stop()
	for {
		stirs := false
		apart(func() { stirs = w.Stirs(o) })
		if stirs {
			return true
		}
		select {
		case <-look[0]:
		case <-look[1]:
		case <-look[2]:
		case <-timer.C:
		case <-d.o.Drain:
			return false
		case <-ctx.Done():
			return false
		}
	}
}
