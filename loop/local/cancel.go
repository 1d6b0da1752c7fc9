package local

import (
	"context"
	"os"

	"github.com/superloop/superloop/loop/control"
)

// Cancel ends a loop that no supervisor runs.
func Cancel(ctx context.Context, o Options) error {
	d, err := open(ctx, o)
	if err != nil {
		return err
	}
	defer d.close()
	if err := d.fold(); err != nil {
		return err
	}
	if err := d.takeIntents(); err != nil {
		return err
	}
	if d.state.Status.Ended() {
		return d.settle() // a supervisor was faster
	}
	if d.cancel == nil {
		return nil
	}
	if err := d.stopCancelled(); err != nil {
		return err
	}
	if err := d.settle(); err != nil {
		return err
	}
	return d.flushViews()
}

// settle removes the intents that the journal holds, or that came too late, and
// ends the question of a loop that has ended.
func (d *driver) settle() error {
	if err := d.approvals.Withdraw("the loop is " + string(d.state.Status)); err != nil {
		return err
	}
	_, files, err := control.Submitted(d.paths)
	if err != nil {
		return err
	}
	for _, f := range files {
		if err := d.o.Disk.Remove("control", f); err != nil && !os.IsNotExist(err) {
			return d.host.Full(err)
		}
	}
	return nil
}
