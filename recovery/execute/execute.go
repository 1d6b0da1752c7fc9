// Package execute is the one way from an action to a process and its outcome.
//
//	Judge ---> (a question, a wait, a crash) ---> Execute
//	verdict                                      keep for undo
//	and its                                      judge again: is all as it was approved?
//	basis                                        intent, on the disk
//	                                             run in the sandbox
//	                                             seal the undo set, learn
//
// Three rules hold the package together:
//
//   - The strictest of the policies in force decides, and a command gets only what all of them grant. A tightened policy
//     therefore applies at once.
//   - An approval is valid for what was judged. Execute judges again right before the start. Execute begins nothing if the
//     working directory, the policy or the inputs of the command have changed.
//   - Execute begins nothing before Order.Intend has put the intent on the disk. After a crash the caller therefore knows
//     what may have run.
//
// The package does not decide what follows. The caller turns an Outcome into an event, a question or the next option.
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

// Order is an approved action, with what Execute needs to run it.
type Order struct {
	Action action.Action
	Budget recovery.Budget
	Basis  Basis // Basis holds the facts that the policy's approval depends on. Execute ignores Basis if Confirm is set.
	// Confirm is set if an operator has approved the action, and nil if the policy has. Confirm compares what the
	// operator was shown with what would run now. A why other than "" names the difference, and then Execute begins
	// nothing. Confirm may use up the approval, which is valid once: after Confirm come only the intent and the
	// command.
	Confirm func(ctx context.Context, now Judgement) (why string, err error)
	Intend  func(Intent) error // Intend puts the intent on the disk. Execute begins nothing unless Intend returns nil.

	Limit  time.Duration   // bounds the run time, besides the action's own timeout and the policy; 0 is no bound
	Hurry  <-chan struct{} // Hurry, when closed, ends the time that the command has after SIGTERM.
	Output io.Writer       // gets what the command prints, with secrets masked; nil discards it

	Label undo.Label // names the undo set; Execute fills in its command
	// Signature identifies the failure, and Option the remedy that the action carries out; "" if unknown.
	Signature, Option string
}

// Intent describes the command that Execute is about to begin.
type Intent struct {
	Judgement Judgement
	Timeout   time.Duration
	Network   sandbox.Network
	Undo      Kept
}

// Outcome is the result of an order.
type Outcome struct {
	// Changed says why Execute began nothing: it names what differs from what was approved. Then Now is the verdict,
	// and the other fields are zero.
	Changed string
	Now     Judgement

	End      End
	Code     int    // -1 without an exit code
	Signal   string // the signal that ended the command; "" for none
	Error    string // what went wrong, for an operator; "" if the command just failed
	Duration time.Duration
	// Output is what the command printed, with secrets masked. Head and Tail are the parts for an event; Head is "" if
	// Tail is the whole output.
	Output     proc.Capture
	Head, Tail string
	OutputErr  error // why Order.Output did not get the whole output
	Undo       Kept
	Sandbox    sandbox.Sandbox // how the command was really confined
	// LeftBehind counts the processes that superloop had to end after the command. Appeared are protected paths that
	// the command has created.
	LeftBehind int
	Appeared   []string
}

// OK reports whether the command succeeded: it ran and ended by itself with exit code 0.
func (o Outcome) OK() bool {
	return o.Changed == "" && o.End == Exited && o.Code == 0 && o.Signal == ""
}

// Execute carries out an approved action. An error means that nothing was begun: Execute could not judge the action or
// write the intent, or ctx has ended. When ctx ends later, the command ends, too.
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

// lookAgain judges an approved action in its present circumstances. An approval by the policy is valid as long as the
// policy would give it again for the same reasons. An approval by an operator is valid, whatever the policy says, if
// what the operator approved is what would run.
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

// Sandbox runs commands in a sandbox. Spawned is the real implementation.
type Sandbox interface {
	// Measure finds out how a command would be confined here.
	Measure(ctx context.Context) (sandbox.Sandbox, error)
	// Run is sandbox.Run: when ctx ends, the command ends, too.
	Run(ctx context.Context, spec sandbox.Spec) (sandbox.Result, error)
}

// Spawned is a Sandbox that runs commands through a Spawner.
type Spawned struct{ Spawner sandbox.Spawner }

// Measure calls sandbox.Measure.
func (s Spawned) Measure(ctx context.Context) (sandbox.Sandbox, error) {
	return sandbox.Measure(ctx, s.Spawner)
}

// Run calls sandbox.Run.
func (s Spawned) Run(ctx context.Context, spec sandbox.Spec) (sandbox.Result, error) {
	return sandbox.Run(ctx, s.Spawner, spec)
}

// Executor judges and executes the actions of one work tree. Only one goroutine at a time may use an Executor.
type Executor struct {
	Repo     string // root of the work tree, absolute, without links
	StateDir string // superloop's private directory, which commands do not see
	Baseline string // file of the pinned inputs, in the private directory
	Tmp      string // where Execute makes directories for temporary files; "" is the system's directory

	Disk    durable.Disk
	Undo    undo.Store
	Learned learn.Store
	Sandbox Sandbox
	Environ []string // the operator's environment; commands get a part of it
	Marker  string   // a variable in the environment of every command; see proc.Spec
	// Policies returns the policies in force now, at least one. The strictest verdict counts; of equal verdicts the
	// first counts.
	Policies func() []*recovery.Policy
	// AcceptLoose says that the operator accepts on_unknown "allow" where no sandbox confines commands.
	AcceptLoose bool

	Now  func() time.Time
	Warn func(what string, err error) // receives errors that do not stop the action

	base   *inputs.Baseline
	pinErr error            // why there is no baseline
	box    *sandbox.Sandbox // the result of Sandbox.Measure
	caches []string         // directories of package managers; nil before the first search
}

// Pin records the baseline of the files that listed commands read. Judge compares later states with the baseline. If
// first is set and there is no baseline yet, Pin takes the work tree as it is, because the operator starts the first
// run with this tree. Later only committed content is trusted, because agents may have worked in the tree since. Pin
// replaces a damaged baseline by one of the commit. After an error every judgement says that inputs are unreadable,
// until a call of Pin succeeds.
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

// baseline returns the baseline that this process, or a process before it, has pinned.
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

// query describes the command for package inputs, which finds the files that the command reads.
func (x *Executor) query(p *recovery.Policy, a *recovery.Analysis, dir string) inputs.Query {
	q := inputs.Query{WorkingDir: dir, Mode: inputs.Mode(p.Settings.Guard), Repo: x.Repo}
	for _, part := range a.Parts {
		q.Commands = append(q.Commands, part.Words)
	}
	return q
}

// measured returns how commands are confined here. It measures once.
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
