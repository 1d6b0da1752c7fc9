package notify

import (
	"path/filepath"
	"runtime"
	"testing"
	"time"
)

// BenchmarkEnqueue is what the caller waits for: one durable file.
func BenchmarkEnqueue(b *testing.B) {
	o, err := Open(Options{Dir: filepath.Join(b.TempDir(), "outbox"), Channels: []Notifier{&script{name: "n"}}, Pace: time.Hour})
	if err != nil {
		b.Fatal(err)
	}
	m := opened("e")
	n := 0
	for b.Loop() {
		n++
		m.ID = time.Duration(n).String()
		if err := o.Enqueue(m); err != nil {
			b.Fatal(err)
		}
	}
	b.StopTimer()
	ctx, cancel := deadline(time.Nanosecond)
	defer cancel()
	if err := o.Close(ctx); err != nil {
		b.Error(err)
	}
}

// TestAnIdleOutboxCostsNothing: a thousand loops may wait for an operator in one process.
func TestAnIdleOutboxCostsNothing(t *testing.T) {
	const loops = 200
	var before, after runtime.MemStats
	goroutines := runtime.NumGoroutine()
	dir := t.TempDir()
	runtime.GC()
	runtime.ReadMemStats(&before)
	all := make([]*Outbox, loops)
	for i := range all {
		delivered := make(chan Event, 1)
		all[i] = open(t, Options{Dir: filepath.Join(dir, time.Duration(i).String()), Channels: []Notifier{&script{name: "n"}}, OnEvent: func(e Event) { delivered <- e }})
		enqueue(t, all[i], opened("e1"))
		<-delivered
		all[i].lanes.Wait()
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if n := runtime.NumGoroutine(); n > goroutines+5 {
		t.Errorf("%d goroutines, before there were %d", n, goroutines)
	}
	if each := int64(after.HeapAlloc-before.HeapAlloc) / loops; each > 8<<10 {
		t.Errorf("an idle outbox holds %d bytes", each)
	} else {
		t.Logf("an idle outbox holds %d bytes", each)
	}
	runtime.KeepAlive(all)
}
