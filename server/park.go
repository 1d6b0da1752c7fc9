package server

import (
	"context"
	"time"

	"github.com/superloop/superloop/loop/local"
)

// places returns a channel that receives a value when something happens in the files by which a loop is stirred.
func (d *daemon) places(ctx context.Context, o local.Options) <-chan struct{} {
	any := make(chan struct{}, 1)
	for _, dir := range (local.Waiting{}).Places(o) {
		look := d.watches.Dir(ctx, dir, func(string) bool { return true })
		go func() {
			for {
				select {
				case <-ctx.Done():
					return
				case <-look:
				}
				select {
				case any <- struct{}{}:
				default:
				}
			}
		}()
	}
	return any
}

// await waits until the loop has something to do. It returns false if it is no longer wanted.
func (d *daemon) await(ctx context.Context, o local.Options, w local.Waiting, stirred <-chan struct{}) bool {
	timer := time.NewTimer(time.Until(w.Until))
	defer timer.Stop()
	for !w.Stirs(o) {
		select {
		case <-stirred:
		case <-timer.C:
		case <-d.o.Drain:
			return false
		case <-ctx.Done():
			return false
		}
	}
	return true
}
