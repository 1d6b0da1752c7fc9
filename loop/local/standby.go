package local

import (
	"context"

	"github.com/superloop/superloop/recovery/cage"
)

// standby is a cage that is set up and waits for the intent to be on the disk.
// Starting it costs more than judging, keeping and recording together, so it is
// done beside them; nothing of the command is executed before begin.
type standby struct {
	hold   chan struct{}
	hurry  chan struct{}
	cancel context.CancelFunc
	done   chan struct{}
	res    cage.Result
	err    error
}

func (d *driver) standBy(spec cage.Spec) *standby {
	ctx, cancel := context.WithCancel(context.Background())
	s := &standby{hold: make(chan struct{}), hurry: make(chan struct{}), cancel: cancel, done: make(chan struct{})}
	spec.Hold, spec.Hurry = s.hold, s.hurry
	spec.Warm, d.warm = d.warm, nil
	spawner := d.spawner
	go func() {
		defer close(s.done)
		s.res, s.err = cage.Run(ctx, spawner, spec)
	}()
	return s
}

// gone reports whether the standby has ended: it was killed, or has waited for
// longer than the command may take.
func (s *standby) gone() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
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
