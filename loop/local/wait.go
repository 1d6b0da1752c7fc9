package local

import (
	"context"
	"time"

	"github.com/superloop/superloop/loop/control"

	"go.uber.org/zap"
)

// takeIntents reads the control directory: a cancellation is kept in d.cancel,
// what the journal already holds is removed, and an answer to a question that
// is no longer open is recorded as such.
func (d *driver) takeIntents() error {
	ins, files, err := control.Submitted(d.paths)
	if err != nil {
		d.log.Warn("a control file cannot be read", zap.Error(err))
	}
	for i, in := range ins {
		switch {
		case d.intents[in.ID]:
			if err := d.o.Disk.Remove("control", files[i]); err != nil {
				return err
			}
		case d.cancels(in):
			d.cancel = &in
		case d.kicks(in):
		default:
			d.intents[in.ID] = true
			if err := d.record("intent_ignored", map[string]any{"kind": in.Kind, "by": in.By,
				"intent_id": in.ID, "reason": "nothing was waiting for it"}); err != nil {
				return err
			}
			// The file is only removed when its record is on the disk.
			if _, err := d.journal.Append(true); err != nil {
				return d.host.Full(err)
			}
			if err := d.o.Disk.Remove("control", files[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// underKill runs f under a context that ends when the supervisor has to leave
// or a person cancels the loop; f's processes are ended then. hurry is closed
// when their grace is over: leaveGrace after that, or at the second Ctrl-C.
func (d *driver) underKill(shutdown context.Context, f func(kill context.Context, hurry <-chan struct{})) error {
	kill, stop := context.WithCancel(shutdown)
	hurry := make(chan struct{})
	done := make(chan struct{})
	watched := make(chan error, 1)
	go func() { watched <- d.watchKill(kill, stop, hurry, done) }()
	f(kill, hurry)
	close(done)
	err := <-watched
	stop()
	return err
}

// watchKill waits for a reason to end what runs, and then for the end of its
// patience, until done.
func (d *driver) watchKill(kill context.Context, stop func(), hurry chan<- struct{}, done <-chan struct{}) error {
	for kill.Err() == nil {
		select {
		case <-done:
			return nil
		case <-d.o.Hurry:
			stop()
		case <-kill.Done():
		case <-d.newConfig:
			d.news(kill, false)
		case <-d.outbox.News():
			if err := d.outbox.TellDeliveries(); err != nil {
				d.log.Warn("a delivery could not be recorded", zap.Error(err))
			}
		case <-d.proposals:
			d.news(kill, true)
		case <-d.look:
			ins, _, err := control.Submitted(d.paths)
			if err != nil {
				d.log.Warn("a control file cannot be read", zap.Error(err))
			}
			d.mu.Lock()
			for _, in := range ins {
				if d.cancels(in) {
					stop()
				}
			}
			d.mu.Unlock()
		}
	}
	patience := time.NewTimer(leaveGrace)
	defer patience.Stop()
	select {
	case <-done:
		return nil
	case <-d.o.Hurry:
	case <-patience.C:
	}
	close(hurry)
	<-done
	return nil
}

// cancels reports whether in cancels this run.
func (d *driver) cancels(in control.Intent) bool {
	return in.Kind == control.IntentCancel && in.RunID == d.state.RunID && !d.intents[in.ID]
}
