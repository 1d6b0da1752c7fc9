// Package execute is the one way from an action to a process and its outcome.
//
//	Judge ---> (a question, a wait, a crash) ---> Execute
//	verdict                                      keep for undo
//	and what it                                  judge again: is all as it was approved?
//	stands on                                    intent, on the disk
//	                                             run in the sandbox
//	                                             seal the undo set, learn
//
// Three rules hold it together:
//
//   - The strictest of the policies in force decides, and the tightest of their
//     bounds holds: tightening a policy counts at once.
//   - An approval is for what was judged. Execute judges again right before the start and begins nothing if the working
//     directory, the policy or what the command reads is another one.
//   - Nothing is begun before Order.Intend has put the intent on the disk, so
//     after a crash the caller knows what may have run.
//
// The package decides nothing about what follows: the caller turns an Outcome into an event, a question or the next
// option.
package execute

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/recovery"
	"github.com/superloop/superloop/recovery/action"
	"github.com/superloop/superloop/recovery/inputs"
	"github.com/superloop/superloop/recovery/learn"
	"github.com/superloop/superloop/recovery/sandbox"
	"github.com/superloop/superloop/recovery/undo"
)

// Order is an action that was approved.
type Order struct {
	Action action.Action
	Budget recovery.Budget
	Basis  Basis // Basis is what the policy's approval stands on. It is not looked at where Confirm is set.
	// Confirm is set where a human has approved the action, and nil where the policy has. It says whether what they
	// were shown is what would run now; why, unless it is "", is what is not, and then nothing is begun. It may take
	// the approval, which counts once: after it come only the intent and the command.
	Confirm func(ctx context.Context, now Judgement) (why string, err error)
	Intend  func(Intent) error // Intend puts the intent on the disk. Nothing is begun unless it returns nil.

	Limit  time.Duration   // bounds the command besides its own timeout and the policy; 0 does not
	Hurry  <-chan struct{} // Hurry, when closed, ends the command's grace.
	Output io.Writer       // gets what the command prints, without secrets; nil is nothing

	Label undo.Label // names the undo set; its command is filled in
	// Signature is the failure that the action is against, Option the key of the option that it is; "" where unknown.
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
	// Changed says why nothing was begun: what is not as it was approved. Then Now is the verdict, the rest is zero.
	Changed string
	Now     Judgement

	End      End
	Code     int    // -1 without an exit code
	Signal   string // that ended it, "" for none
	Error    string // what went wrong, for an operator; "" if the command just failed
	Duration time.Duration
	// Output is what it printed, secrets masked. An event has its ends, Head and Tail; Head is "" where Tail is all.
	Output     proc.Capture
	Head, Tail string
	OutputErr  error // says that Order.Output did not get all of it
	Undo       Kept
	Sandbox    sandbox.Sandbox // what really held the command
	// LeftBehind counts processes that had to be ended after it; Appeared are protected places that it has made.
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

// Sandbox runs commands confined; Spawned is the real one.
type Sandbox interface {
	// Measure finds out what would confine a command here.
	Measure(ctx context.Context) (sandbox.Sandbox, error)
	// Run is sandbox.Run: when ctx ends, so does the command.
	Run(ctx context.Context, spec sandbox.Spec) (sandbox.Result, error)
}

// Spawned runs commands through a Spawner.
type Spawned struct{ Spawner sandbox.Spawner }

// Measure is sandbox.Measure.
func (s Spawned) Measure(ctx context.Context) (sandbox.Sandbox, error) {
	return sandbox.Measure(ctx, s.Spawner)
}

// Run is sandbox.Run.
func (s Spawned) Run(ctx context.Context, spec sandbox.Spec) (sandbox.Result, error) {
	return sandbox.Run(ctx, s.Spawner, spec)
}

// Executor judges and executes the actions of one work tree. It is for one goroutine at a time.
type Executor struct {
	Repo     string // root of the work tree, absolute, without links
	StateDir string // superloop's private state, which commands do not see
	Baseline string // file of the pinned inputs, in the private state
	Tmp      string // where directories for temporary files are made; "" is the system's

	Disk    durable.Disk
	Undo    undo.Store
	Learned learn.Store
	Sandbox Sandbox
	Environ []string // the operator's environment, of which commands get a part
	Marker  string   // in the environment of every command; see proc.Spec
	// Policies are those in force now, at least one. The strictest verdict counts, and of equal ones the first.
	Policies func() []*recovery.Policy
	// AcceptLoose: the operator has accepted that on_unknown "allow" runs commands where nothing confines them.
	AcceptLoose bool

	Now  func() time.Time
	Warn func(what string, err error) // told what went wrong beside the action and does not stop it

	base   *inputs.Baseline
	pinErr error            // why there is no base
	box    *sandbox.Sandbox // what was measured
	caches []string         // places of package managers; nil: not looked for yet
}

// Pin takes the baseline of what listed commands read: what changes later is seen against it. The first time that is
// the work tree as it is, since the operator who starts the first run has it so. From then on only what is committed is
// trusted, because agents may have worked in the tree meanwhile. A damaged baseline is made anew from the commit. After
// an error every judgement says that inputs cannot be read, until a Pin succeeds.
func (x *Executor) Pin(ctx context.Context, first bool) error {
	req := inputs.Request{Repo: x.Repo, File: x.Baseline, From: inputs.Head, Time: x.Now()}
	for _, p := range x.Policies() {
		for _, entry := range p.Settings.AutoApprove {
			req.Queries = append(req.Queries, x.query(p, recovery.Analyse(entry), ""))
		}
	}
	old, err := inputs.Load(x.Baseline)
	switch {
	case err == nil:
		req.Previous = old
	case !errors.Is(err, fs.ErrNotExist):
		x.Warn("the baseline of what listed commands read is damaged; it is made anew", err)
	case first:
		req.From = inputs.Now
	}
	base, err := inputs.Take(ctx, x.Disk, req)
	if errors.Is(err, inputs.ErrNoHead) {
		req.From = inputs.Now
		base, err = inputs.Take(ctx, x.Disk, req)
	}
	if err != nil {
		x.base, x.pinErr = nil, err
		return fmt.Errorf("pinning what listed commands read: %w", err)
	}
	x.base, x.pinErr = base, nil
	return nil
}

// baseline is the one that was pinned, by this process or one before it.
func (x *Executor) baseline() (*inputs.Baseline, error) {
	if x.base == nil && x.pinErr == nil {
		base, err := inputs.Load(x.Baseline)
		if err != nil {
			return nil, err
		}
		x.base = base
	}
	return x.base, x.pinErr
}

// query is the command whose inputs are wanted.
func (x *Executor) query(p *recovery.Policy, a *recovery.Analysis, dir string) inputs.Query {
	q := inputs.Query{WorkingDir: dir, Mode: inputs.Mode(p.Settings.Guard), Repo: x.Repo}
	for _, part := range a.Parts {
		q.Commands = append(q.Commands, part.Words)
	}
	return q
}

// measured is what confines commands here; it is found out once.
func (x *Executor) measured(ctx context.Context) (sandbox.Sandbox, error) {
	if x.box == nil {
		box, err := x.Sandbox.Measure(ctx)
		if err != nil {
			return box, fmt.Errorf("finding out how commands can be confined: %w", err)
		}
		x.box = &box
	}
	return *x.box, nil
}
