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

// These bounds limit the undo sets of commands that ran, and the messages about them.
const (
	undoSets = 20
	undoAge  = 14 * 24 * time.Hour
	named    = 3 // how many of the files without a copy a message names
)

// Kept says what superloop has kept of an action for undo.
type Kept struct {
	ID      string       // names the undo set; "" without one
	NotKept []undo.Named // what superloop could not keep, and why
	Err     error        // why there is no undo set
}

// Missing names the files that are not kept, or returns "" if all are.
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

// Note says what superloop undo could not restore, or "" if it could restore everything.
func (k Kept) Note() string {
	switch {
	case k.Err != nil:
		return "nothing could be kept: " + k.Err.Error()
	case len(k.NotKept) > 0:
		return "not kept: " + k.Missing()
	}
	return ""
}

// keep copies what the command is about to delete or overwrite into an undo set. An error is noted and does not stop
// the command: the environment is broken anyway, perhaps by a full disk.
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

// drop removes the undo set of a command that was not begun.
func (x *Executor) drop(ctx context.Context, k Kept) {
	if k.ID == "" {
		return
	}
	if err := x.Undo.Drop(context.WithoutCancel(ctx), k.ID); err != nil {
		x.Warn("what was kept for a command that did not run stays", err)
	}
}

// seal records in the undo set how the command has left the files, and removes old sets.
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

// learnTime bounds the wait for another process that records an outcome at the same moment.
const learnTime = 2 * time.Second

// Learn records the result of an action, with the current time. Of a result that package learn does not know, such as
// "unknown", it records only that an operator has chosen the action. An error stops nothing, because learned results
// only adapt and order options. If the command was the last one and did not help, Learn takes back the files
// that the command made: see takeBack.
func (x *Executor) Learn(ctx context.Context, o learn.Outcome) {
	switch o.Result {
	case learn.Verified, learn.Ineffective, learn.Harmful, learn.Failed, learn.Refused:
	default:
		if !o.ByPerson {
			return
		}
		o.Result = learn.Unknown
	}
	if o.Command == "" {
		return
	}
	if o.Result != learn.Verified && o.Result != learn.Refused && o.Result != learn.Unknown {
		x.takeBack(ctx, o.Command)
	}
	o.At = x.Now()
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), learnTime)
	defer stop()
	if err := x.Learned.Record(ctx, o); err != nil {
		x.Warn("what came of a recovery is not remembered", err)
	}
}

// Past returns a function that says how options did here before against a failure. Past returns nil if the learned
// results are unreadable.
func (x *Executor) Past(signature string) func(option string) learn.Past {
	m, err := x.Learned.Load()
	if err != nil {
		x.Warn("what helped before cannot be read", err)
		return nil
	}
	return func(option string) learn.Past { return m.Past(signature, option) }
}
