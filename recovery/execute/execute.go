package execute

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/recovery"
	"github.com/superloop/superloop/recovery/action"
	"github.com/superloop/superloop/recovery/learn"
	"github.com/superloop/superloop/recovery/sandbox"
	"github.com/superloop/superloop/recovery/undo"
)

// Order is an action that was approved.
type Order struct {
	Action action.Action
	Budget recovery.Budget
	// Basis is what the policy's approval stands on. It is not looked at where Confirm is set.
	Basis Basis
	// Confirm is set where a human has approved the action, and nil where the policy has. It says whether what they
	// were shown is what would run now; why, unless it is "", is what is not, and then nothing is begun. It may take
	// the approval, which counts once: after it come only the intent and the command.
	Confirm func(ctx context.Context, now Judgement) (why string, err error)
	// Intend puts the intent on the disk. Nothing is begun unless it returns nil.
	Intend func(Intent) error

	Limit time.Duration // bounds the command besides its own timeout and the policy; 0 does not
	// Hurry, when closed, ends the command's grace.
	Hurry  <-chan struct{}
	Output io.Writer // gets what the command prints, without secrets; nil is nothing

	Label undo.Label // names the undo set; its command is filled in
	// Signature is the failure that the action is against, Option the key of the option that it is; "" where nothing is
	// known of it.
	Signature, Option string
}

// Intent is what is about to be begun.
type Intent struct {
	Judgement Judgement
	Timeout   time.Duration
	Network   sandbox.Network
	Undo      Kept
}

// Outcome is what came of an order.
type Outcome struct {
	// Changed says why nothing was begun: what is not as it was approved. Then Now is the verdict as things are, and
	// the rest is zero.
	Changed string
	Now     Judgement

	End      End
	Code     int    // -1 without an exit code
	Signal   string // that ended it, "" for none
	Error    string // what went wrong, for an operator; "" if the command just failed
	Duration time.Duration
	// Output is what it printed, secrets masked. Head and Tail are its beginning and end as an event has them; Head is
	// "" where Tail is all of it.
	Output     proc.Capture
	Head, Tail string
	OutputErr  error // says that Order.Output did not get all of it
	Undo       Kept
	Sandbox    sandbox.Sandbox // what really held the command
	// LeftBehind counts processes that had to be ended after it; Appeared are protected places that it has made, at
	// which an operator should look.
	LeftBehind int
	Appeared   []string
}

// OK reports whether the command did what commands do that succeed.
func (o Outcome) OK() bool {
	return o.Changed == "" && o.End == Exited && o.Code == 0 && o.Signal == ""
}

// Execute carries out an approved action. An error means that nothing was begun: it could not be looked at, the intent
// could not be written down, or ctx has ended. When ctx ends later, so does the command.
func (x *Executor) Execute(ctx context.Context, o Order) (Outcome, error) {
	if o.Intend == nil {
		return Outcome{}, errors.New("executing a command: there is no place for its intent")
	}
	tmp, remove, err := sandbox.NewTmp(cmp.Or(x.Tmp, os.TempDir()))
	if err != nil {
		return Outcome{}, fmt.Errorf("making a directory for temporary files: %w", err)
	}
	defer func() {
		if err := remove(); err != nil {
			x.Warn("the command's temporary files stay", err)
		}
	}()
	kept := x.keep(ctx, o)
	now, changed, err := x.lookAgain(ctx, o)
	var spec sandbox.Spec
	if err == nil && changed == "" {
		spec = x.spec(o, now, tmp)
		err = o.Intend(Intent{Judgement: now, Timeout: spec.Timeout, Network: spec.Network, Undo: kept})
	}
	if err != nil || changed != "" {
		x.drop(ctx, kept)
		return Outcome{Changed: changed, Now: now}, err
	}
	res, runErr := x.Sandbox.Run(ctx, spec)
	out := outcomeOf(res, runErr, spec.Timeout)
	out.Now, out.Undo = now, kept
	x.seal(ctx, kept)
	if out.End == Exited && !out.OK() {
		x.Learn(ctx, learn.Outcome{Signature: o.Signature, Option: o.Option, Command: o.Action.Command, Result: learn.Failed, ByPerson: o.Confirm != nil})
	}
	return out, nil
}

// lookAgain judges an approved action as things are now. The policy's approval holds as long as it would give it again
// for the same reasons; a human's holds whatever the policy says, if what they approved is what would run.
func (x *Executor) lookAgain(ctx context.Context, o Order) (now Judgement, changed string, err error) {
	now, err = x.Judge(ctx, o.Action, o.Budget)
	switch {
	case err != nil:
		return now, "", err
	case ctx.Err() != nil:
		return now, "", fmt.Errorf("executing a command: %w", context.Cause(ctx))
	case now.Decision == action.Invalid:
		return now, now.Reason, nil
	case o.Confirm != nil:
		changed, err = o.Confirm(ctx, now)
		return now, changed, err
	case now.Decision != action.Auto:
		return now, now.Reason, nil
	case !now.NotBefore.IsZero():
		return now, "it has to wait until " + now.NotBefore.UTC().Format(time.RFC3339), nil
	}
	return now, strings.Join(o.Basis.Drift(now.Basis()), "; "), nil
}
