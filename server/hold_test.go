package server

import (
	"context"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap/zaptest"

	"github.com/superloop/superloop/internal/dirwatch"
	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/loop/local"
	"github.com/superloop/superloop/server/registry"
	"github.com/superloop/superloop/server/slots"
)

// A loop that waits has no goroutine, is woken for nothing any number of times, and leaves once when it is no longer wanted.
func TestALoopThatWaitsRests(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancelCause(t.Context())
	top := t.TempDir()
	d := &daemon{o: Options{State: filepath.Join(top, "state"), Disk: durable.OS(), Log: zaptest.NewLogger(t), Drain: make(chan struct{})}, watches: dirwatch.NewWatches(t.Context())}
	d.slots = slots.New(slots.Limits{Loops: 1}, func() {})
	s := &supervised{entry: registry.Entry{Repo: top, Loop: "l"}, stop: stop, retry: make(chan struct{}, 1)}
	over := make(chan struct{})
	h := &holding{d: d, s: s, ctx: ctx, entry: s.entry, held: &local.Held{}, release: func() {}, over: func() { close(over) }, waits: &local.Waiting{Until: time.Now().Add(time.Hour)}}
	h.await()
	if !h.rests() {
		t.Fatal("a loop without anything to do does not rest")
	}
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			for range 20 {
				d.mu.Lock()
				s.wake()
				d.mu.Unlock()
			}
		})
	}
	all.Wait()
	for rests := false; !rests; { // what was woken looks at the files and rests again
		d.mu.Lock()
		rests = s.rests == h
		d.mu.Unlock()
		runtime.Gosched()
	}
	d.mu.Lock()
	s.end(errStop)
	d.mu.Unlock()
	<-over
	if h.held != nil {
		t.Error("the loop is still held")
	}
}
