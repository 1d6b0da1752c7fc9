package desk

import (
	"context"

	"github.com/superloop/superloop/loop/host"
)

// watch tells the engine when a loop that waits has something to do.
func (d *desk) watch(s *seat) {
	life, leave := context.WithCancel(d.life)
	stir := make(chan struct{}, 1)
	for _, dir := range s.waits.Places(s.options) {
		d.watches.Call(life, dir, func(string) bool { return true }, func() {
			select {
			case stir <- struct{}{}:
			default:
			}
		})
	}
	s.leave = leave
	waits, o := *s.waits, s.options
	go func() {
		for {
			if waits.Stirs(o) {
				d.say(host.Answer{Stirred: &s.place})
				return
			}
			select {
			case <-stir:
			case <-life.Done():
				return
			}
		}
	}()
}

func (d *desk) unwatch(s *seat) {
	if s.leave != nil {
		s.leave()
	}
	s.leave, s.waits = nil, nil
}
