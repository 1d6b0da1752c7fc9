package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/superloop/superloop/loop"

	"go.uber.org/zap"

	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/recovery/action"
	"github.com/superloop/superloop/recovery/cage"
	"github.com/superloop/superloop/recovery/undo"
)

// preparation is what a recovery needs before it may begin and that takes its
// time: a cage that is set up, and what the command will overwrite, kept. It is
// begun when the verdict is known, beside writing that down; nothing of the
// command is executed by it, and it is undone when the command does not come to
// its execution.
type preparation struct {
	n, tries int
	attempt  action.Action
	place    cage.Place
	timeout  time.Duration
	policy   string // digest of the policy whose cage it is

	spec   cage.Spec
	ready  *standby
	log    *durable.File
	path   string
	remove func() error // the directory for temporary files

	keep       chan struct{} // closed when kept and note are there
	kept, note string
}

// keeping waits until what can be kept is kept.
func (p *preparation) keeping() { <-p.keep }

// prepare begins the preparation of an attempt that may run.
func (d *driver) prepare(r *loop.RecoveryState, j judged, timeout time.Duration) (*preparation, error) {
	p := &preparation{n: r.N, tries: r.Tries, attempt: r.Attempt, place: j.place, timeout: timeout, policy: j.policy.Digest, keep: make(chan struct{})}
	name := fmt.Sprintf("recovery-%d", r.N)
	if r.Tries > 0 {
		name += fmt.Sprintf(".try-%d", r.Tries+1)
	}
	p.path = filepath.Join(d.paths.Logs(d.state.Iteration), name+".log")
	var err error
	if p.log, err = d.ownFile("log", p.path); err != nil {
		return nil, err
	}
	var tmp string
	if tmp, p.remove, err = cage.NewTmp(os.TempDir()); err != nil {
		return nil, errors.Join(d.full(err), p.log.Close())
	}
	p.spec = d.cageSpec(r, j, tmp, p.log, timeout)
	p.ready = d.standBy(p.spec)
	store, now := d.undoStore(), d.now()
	label := undo.Label{Loop: d.o.LoopID, Run: d.state.RunID, Recovery: r.N, Command: r.Attempt.Command}
	go func() {
		defer close(p.keep)
		p.kept, p.note = keepForUndo(store, label, r.Attempt, now)
	}()
	return p, nil
}

// prepareListed begins the preparation of a command that stands in auto_approve,
// beside its judgement: most of them may run.
func (d *driver) prepareListed(a action.Action, limitMS int64) error {
	policy := d.rules()[0]
	if _, listed := policy.Listed(a.Command); !listed || !policy.Settings.Enabled {
		return nil
	}
	place, err := d.place(a.WorkingDir)
	if err != nil {
		return nil // the judgement says what is wrong with it
	}
	timeout, _ := capTimeout(ms(a.TimeoutMS), limitMS)
	r := &loop.RecoveryState{N: d.state.Recoveries.Proposed + 1, Attempt: a}
	d.preparation, err = d.prepare(r, judged{place: place, policy: policy}, timeout)
	return err
}

// prepared is the preparation of exactly this attempt: the one that was begun, or
// a new one. The fact is what has changed since the attempt was approved; what
// changes from here on intend finds.
func (d *driver) prepared(ctx context.Context, r *loop.RecoveryState, timeout time.Duration) (*preparation, loop.Fact, error) {
	if p := d.preparation; p != nil && p.n == r.N && p.tries == r.Tries && p.attempt == r.Attempt && p.timeout == timeout {
		d.preparation = nil
		return p, nil, nil
	}
	d.unprepare()
	j, changed, err := d.lookAgain(ctx, r)
	if err != nil || changed != nil {
		return nil, changed, err
	}
	p, err := d.prepare(r, j, timeout)
	return p, nil, err
}

// unprepare undoes a preparation that comes to nothing.
func (d *driver) unprepare() {
	p := d.preparation
	if p == nil {
		return
	}
	d.preparation = nil
	p.ready.abandon()
	p.keeping()
	err := errors.Join(p.log.Close(), p.remove(), d.o.Disk.Unlink("log", p.path))
	if p.kept != "" {
		err = errors.Join(err, d.undoStore().Drop(context.Background(), p.kept))
	}
	if err != nil {
		d.log.Warn("the preparation of a recovery that did not run leaves something behind", zap.Error(err))
	}
}
