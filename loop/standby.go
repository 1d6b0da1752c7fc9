package loop

import (
	"context"
	"time"

	"github.com/superloop/superloop/recovery/cage"
)

// standbyTime is what a command's time bound is longer by, since the process
// that becomes it is started a little early. If the preparations take longer than
// that, it is started anew.
const standbyTime = 300 * time.Millisecond

// standby is a cage that is set up and waits for the intent to be on the disk.
// Starting it costs more than judging, keeping and recording together, so it is
// done beside them; nothing of the command is executed before begin.
type standby struct {
	since  time.Time
	hold   chan struct{}
	hurry  chan struct{}
	cancel context.CancelFunc
	done   chan struct{}
	res    cage.Result
	err    error
}

func (d *driver) standBy(spec cage.Spec) *standby {
	ctx, cancel := context.WithCancel(context.Background())
	s := &standby{since: time.Now(), hold: make(chan struct{}), hurry: make(chan struct{}), cancel: cancel, done: make(chan struct{})}
	spec.Hold, spec.Hurry = s.hold, s.hurry
	if spec.Timeout > 0 {
		spec.Timeout += standbyTime
	}
	spawner := d.spawner
	go func() {
		defer close(s.done)
		s.res, s.err = cage.Run(ctx, spawner, spec)
	}()
	return s
}

// late reports whether the standby has waited for too long, or has ended.
func (s *standby) late() bool {
	select {
	case <-s.done:
		return true
	default:
		return time.Since(s.since) > standbyTime
	}
}

// abandon ends a standby that was not begun.
func (s *standby) abandon() {
	close(s.hurry)
	s.cancel()
	<-s.done
}

// finish lets the command begin and waits for its end; kill ends it, hurry ends
// its grace.
func (s *standby) finish(kill context.Context, hurry <-chan struct{}) (cage.Result, error) {
	defer s.cancel()
	close(s.hold)
	select {
	case <-s.done:
		return s.res, s.err
	case <-kill.Done():
		s.cancel()
	}
	select {
	case <-s.done:
	case <-hurry:
		close(s.hurry)
		<-s.done
	}
	return s.res, s.err
}
