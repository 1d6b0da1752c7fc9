package execute

import (
	"context"
	"time"

	"github.com/superloop/superloop/recovery/learn"
)

// learnTime bounds the wait for another process that writes down an outcome in the same moment.
const learnTime = 2 * time.Second

// Learn writes down what came of an action, at this moment. Only what is certain is learned: a result that learn does
// not know, such as "unknown", is left out. What goes wrong stops nothing, because what was learned only orders what is
// otherwise equal.
func (x *Executor) Learn(ctx context.Context, o learn.Outcome) {
	switch o.Result {
	case learn.Verified, learn.Ineffective, learn.Harmful, learn.Failed:
	default:
		return
	}
	if o.Command == "" {
		return
	}
	o.At = x.Now()
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), learnTime)
	defer stop()
	if err := x.Learned.Record(ctx, o); err != nil {
		x.Warn("what came of a recovery is not remembered", err)
	}
}

// Score orders options that are otherwise equal against a failure, by what has
// helped here before. It is nil where that cannot be read.
func (x *Executor) Score(signature string) func(option string) float64 {
	m, err := x.Learned.Load()
	if err != nil {
		x.Warn("what helped before cannot be read", err)
		return nil
	}
	return func(option string) float64 { return m.Score(signature, option) }
}
