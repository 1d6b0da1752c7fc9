package proc

import (
	"sync"
	"time"
)

// Pause stops the clocks of a run: Spec.Timeout and Spec.Inactivity do not count the time in which it is held. The zero
// value is not held. Any goroutine may use it.
type Pause struct {
	mu    sync.Mutex
	holds int           // how many hold it
	since time.Time     // when the present hold began, if holds > 0
	total time.Duration // of all holds that have ended
	last  time.Time     // when the last hold ended; zero if none has
}

// Hold stops the clocks until the returned function is called, which may be called again. If several hold at a time, the
// clocks go on when the last one has let go.
func (p *Pause) Hold() (release func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.holds++; p.holds == 1 {
		p.since = time.Now()
	}
	return sync.OnceFunc(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.holds--; p.holds == 0 {
			p.last = time.Now()
			p.total += p.last.Sub(p.since)
		}
	})
}

// Held returns how long the clocks have stood still in total. A nil Pause was never held.
func (p *Pause) Held() time.Duration {
	held, _ := p.state()
	return held
}

// state returns the total, and the time from which silence counts: now while it is held, else the end of the last hold.
func (p *Pause) state() (total time.Duration, quiet time.Time) {
	if p == nil {
		return 0, time.Time{}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.holds > 0 {
		now := time.Now()
		return p.total + now.Sub(p.since), now
	}
	return p.total, p.last
}
