package agent

import (
	"sync"
	"time"
)

// progressGap is the least time between two calls of Options.Progress.
const progressGap = 100 * time.Millisecond

// progress passes the latest line on, at most once in progressGap, from a
// goroutine of its own, so that a slow watcher does not hold up the process
// whose output it watches.
type progress struct {
	show func(line string)

	mu     sync.Mutex
	latest string

	// wake holds one token: only the latest line matters, not how many came.
	wake chan struct{}
	stop chan struct{}
	done chan struct{}
}

// startProgress returns nil, which is ready for use, for a nil show.
func startProgress(show func(line string)) *progress {
	if show == nil {
		return nil
	}
	p := &progress{show: show, wake: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{})}
	go p.run()
	return p
}

func (p *progress) say(line string) {
	if p == nil || line == "" {
		return
	}
	p.mu.Lock()
	p.latest = line
	p.mu.Unlock()
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// end shows the last line if it was not shown yet, and waits for the goroutine.
func (p *progress) end() {
	if p == nil {
		return
	}
	close(p.stop)
	<-p.done
}

func (p *progress) run() {
	defer close(p.done)
	shown := ""
	pass := func() {
		p.mu.Lock()
		line := p.latest
		p.mu.Unlock()
		if line != shown {
			p.show(line)
			shown = line
		}
	}
	for {
		select {
		case <-p.stop:
			pass()
			return
		case <-p.wake:
			pass()
		}
		select {
		case <-p.stop:
			pass()
			return
		case <-time.After(progressGap):
		}
	}
}
