package agent

import (
	"sync"
	"time"
)

// progressGap is the least time between two calls of Options.Progress.
const progressGap = 100 * time.Millisecond

// progress passes the latest line on, at most once in progressGap, from a goroutine of its own, so that a slow watcher
// does not hold up the process whose output it watches. say and end are never called at the same time.
type progress struct {
	latest     chan string // the latest line, until it is shown
	stop, done chan struct{}
}

// startProgress returns nil, which is ready for use, for a nil show.
func startProgress(show func(line string)) *progress {
	if show == nil {
		return nil
	}
	p := &progress{latest: make(chan string, 1), stop: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(p.done)
		shown := ""
		for line := range p.latest {
			if line != shown {
				show(line)
				shown = line
			}
			select {
			case <-p.stop:
			case <-time.After(progressGap):
			}
		}
	}()
	return p
}

func (p *progress) say(line string) {
	if p != nil && line != "" {
		replace(p.latest, line)
	}
}

// end shows the last line if it was not shown yet, and waits for the goroutine.
func (p *progress) end() {
	if p != nil {
		close(p.latest)
		close(p.stop)
		<-p.done
	}
}

// replace puts v into a channel with room for one, in place of what nobody took. Only one goroutine may send.
func replace[T any](to chan T, v T) {
	select {
	case <-to:
	default:
	}
	to <- v
}

// Follow shows what any command says last, as Run does for an agent: feed takes its output, from any goroutine, and end
// shows the last line and stops. show may be nil.
func Follow(show func(line string)) (feed func(p []byte), end func()) {
	var mu sync.Mutex
	var tail lineTail
	p := startProgress(show)
	feed = func(chunk []byte) {
		mu.Lock()
		defer mu.Unlock()
		p.say(tail.feed(chunk))
	}
	end = func() {
		mu.Lock()
		defer mu.Unlock()
		p.say(tail.rest())
		p.end()
	}
	return feed, end
}
