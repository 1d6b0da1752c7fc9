package local

import (
	"context"
	"time"

	"github.com/superloop/superloop/loop"

	"go.uber.org/zap"

	"github.com/superloop/superloop/recovery/learn"
)

// learnTime bounds the wait for another supervisor of the repository that writes
// down an outcome in the same moment.
const learnTime = 2 * time.Second

// remembers is where it is kept which cures have helped.
func (d *driver) remembers() learn.Store {
	return learn.Store{Disk: d.o.Disk, Path: d.paths.Learned()}
}

// cured writes down what came of the present recovery. What goes wrong with it is
// no trouble for the loop: it only orders what is otherwise equal.
func (d *driver) cured(ctx context.Context, result string) {
	r := d.state.Recovery
	if r == nil || result == loop.Unverified || r.Attempt.Command == "" {
		return
	}
	o := learn.Outcome{Command: r.Attempt.Command, Result: result, ByPerson: r.Approved == loop.SourceHuman, At: d.host.Now(d.state)}
	if g := d.state.Diagnosis; g != nil {
		o.Signature = g.Signature
		for _, c := range g.Options {
			if c.Command == o.Command {
				o.Option = c.Key
			}
		}
	}
	if c := r.Plan; c != nil && len(c.Levels) > 0 {
		l := c.Levels[len(c.Levels)-1]
		o.Option, o.Signature = l.Chosen, l.Failure.Signature
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), learnTime)
	defer stop()
	if err := d.remembers().Record(ctx, o); err != nil {
		d.log.Warn("what came of a recovery is not remembered", zap.Error(err))
	}
}

// score orders options that are otherwise equal by what has helped here before.
func (d *driver) score(signature string) func(option string) float64 {
	m, err := d.remembers().Load()
	if err != nil {
		d.log.Warn("what helped before cannot be read", zap.Error(err))
		return nil
	}
	return func(option string) float64 { return m.Score(signature, option) }
}
