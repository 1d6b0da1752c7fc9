package agent

import "sync"

// Follow shows what any command says last, as Run does for an agent: feed takes
// its output, from any goroutine, and end shows the last line and stops. show
// may be nil.
func Follow(show func(line string)) (feed func(p []byte), end func()) {
	var mu sync.Mutex
	var tail lineTail
	p := startProgress(show)
	feed = func(chunk []byte) {
		mu.Lock()
		defer mu.Unlock()
		if line := tail.feed(chunk); line != "" {
			p.say(line)
		}
	}
	end = func() {
		mu.Lock()
		defer mu.Unlock()
		if line := tail.rest(); line != "" {
			p.say(line)
		}
		p.end()
	}
	return feed, end
}

// Environment is what an agent's process gets, for a command that superloop
// itself runs in the agent's place, such as the tests.
func Environment(base []string, req Request) []string { return environment(base, nil, nil, req) }
