package execute

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/superloop/superloop/recovery"
	"github.com/superloop/superloop/recovery/learn"
	"github.com/superloop/superloop/recovery/undo"
)

// Bounds of what is kept of commands that ran.
const (
	undoSets = 20
	undoAge  = 14 * 24 * time.Hour
	named    = 3 // how many of the things that are not kept are named
)

// Kept is what is there of an action for undo.
type Kept struct {
	ID      string       // names the set, "" without one
	NotKept []undo.Named // what could not be kept, and why
	Err     error        // why there is no set
}

// Missing names what is not kept, "" if all of it is.
func (k Kept) Missing() string {
	var out []string
	for i, n := range k.NotKept {
		if i == named {
			out = append(out, fmt.Sprintf("and %d more", len(k.NotKept)-i))
			break
		}
		out = append(out, fmt.Sprintf("%s (%s)", n.Path, n.Why))
	}
	return strings.Join(out, "; ")
}

// Note says what could not be taken back, "" if all of it could.
func (k Kept) Note() string {
	switch {
	case k.Err != nil:
		return "nothing could be kept: " + k.Err.Error()
	case len(k.NotKept) > 0:
		return "not kept: " + k.Missing()
	}
	return ""
}

// keep keeps what the command is about to delete or overwrite. What goes wrong is noted and does not stop it: the
// environment is broken, and a full disk is one way in which it is.
func (x *Executor) keep(ctx context.Context, o Order) Kept {
	var words [][]string
	for _, p := range recovery.Analyse(o.Action.Command).Parts {
		words = append(words, p.Words)
	}
	targets, err := undo.Plan(x.Undo.Repo, o.Action.WorkingDir, words)
	if err != nil {
		return Kept{Err: err}
	}
	o.Label.Command = o.Action.Command
	kept, err := x.Undo.Keep(ctx, undo.Request{Targets: targets, Caps: undo.DefaultCaps(), Time: x.Now(), Label: o.Label})
	return Kept{ID: kept.ID, NotKept: kept.NotKept, Err: err}
}

// drop removes the set of a command that was not begun.
func (x *Executor) drop(ctx context.Context, k Kept) {
	if k.ID == "" {
		return
	}
	if err := x.Undo.Drop(context.WithoutCancel(ctx), k.ID); err != nil {
		x.Warn("what was kept for a command that did not run stays", err)
	}
}

// seal records what the command has left behind, and drops old sets.
func (x *Executor) seal(ctx context.Context, k Kept) {
	if k.ID == "" {
		return
	}
	ctx = context.WithoutCancel(ctx)
	if err := x.Undo.Seal(ctx, k.ID); err != nil {
		x.Warn("superloop undo will take what the command changed for somebody else's", err)
	}
	if _, err := x.Undo.Prune(ctx, undoSets, undoAge, x.Now()); err != nil {
		x.Warn("old sets of undo stay", err)
	}
}

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

// Score orders options that are otherwise equal by what has helped here before. It is nil where nobody can read that.
func (x *Executor) Score(signature string) func(option string) float64 {
	m, err := x.Learned.Load()
	if err != nil {
		x.Warn("what helped before cannot be read", err)
		return nil
	}
	return func(option string) float64 { return m.Score(signature, option) }
}
