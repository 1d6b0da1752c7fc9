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
	x.made = madeBy{o.Action.Command, kept.ID}
	if out.OK() {
		x.adopt(ctx, kept)
	}
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
	Repo     string        // root of the work tree, absolute, without links
	StateDir string        // superloop's private directory, which commands do not see
	Ledger   inputs.Ledger // the baselines of the files that listed commands read
	Tmp      string        // where Execute makes directories for temporary files; "" is the system's directory

	Disk    durable.Disk
	Undo    undo.Store
	Learned learn.Store
	Sandbox Sandbox
	Environ []string // the operator's environment; commands get a part of it
	Marker  string   // a variable in the environment of every command; see proc.Spec
	// Ports returns the TCP ports that commands must not reach; see sandbox.Spec. nil: none.
	Ports func() []uint16
	// Policies returns the policies in force now, at least one. The strictest verdict counts; of equal verdicts the
	// first counts.
	Policies func() []*recovery.Policy
	// AcceptLoose says that the operator accepts on_unknown "allow" where no sandbox confines commands.
	AcceptLoose bool

	Now  func() time.Time
	Warn func(what string, err error) // receives errors that do not stop the action
	Note func(text string)            // receives what the executor did besides, one sentence; nil discards it

	made   madeBy           // the last command that ran
	run    inputs.Run       // the run that Pin has begun
	pinErr error            // why there is no baseline
	box    *sandbox.Sandbox // the result of Sandbox.Measure
	caches []string         // directories of package managers; nil before the first search
}

// Pin begins a run, with the baseline of the files that listed commands read. Judge compares later states with the
// baseline. The run holds the lock file at the path lock, which lies in the ledger's directory; first says that no run
// of this loop was here before. What follows for the baseline is in inputs.Ledger. After an error every judgement says
// that inputs are unreadable, until a call of Pin succeeds.
func (x *Executor) Pin(ctx context.Context, lock string, first bool) error {
	run := inputs.Run{Lock: lock, Tree: x.Repo, Queries: x.listed(), Outside: Outside(x.Environ, x.Repo), First: first, Time: x.Now()}
	if x.pinErr = x.Ledger.Begin(ctx, run); x.pinErr != nil {
		return fmt.Errorf("pinning what listed commands read: %w", x.pinErr)
	}
	x.run = run
	return nil
}

// Unpin ends the run that Pin has begun, if it has begun one. Nothing that the run has started may be alive.
func (x *Executor) Unpin(ctx context.Context) error {
	if x.run.Lock == "" {
		return nil
	}
	run := x.run
	run.Queries, run.Time, x.run = x.listed(), x.Now(), inputs.Run{}
	return x.Ledger.End(ctx, run)
}

// Trust makes what the command reads a part of the baseline: an operator has approved the command after a look at the
// whole difference, which is j.Diff. It does nothing if j.Diff does not show all of it.
func (x *Executor) Trust(ctx context.Context, j Judgement) error {
	if len(j.changes) == 0 || !inputs.Shown(j.changes) {
		return nil
	}
	return x.Ledger.Trust(ctx, x.Repo, j.changes)
}

// baseline returns the baseline of the work tree.
func (x *Executor) baseline() (*inputs.Baseline, error) {
	if x.pinErr != nil {
		return nil, x.pinErr
	}
	return x.Ledger.Base(x.Repo)
}

// listed returns the queries for the listed commands of all policies in force.
func (x *Executor) listed() (out []inputs.Query) {
	for _, p := range x.Policies() {
		out = append(out, Listed(p, x.Repo, x.Environ)...)
	}
	return out
}

// Listed returns the queries for the commands that the policy lists, in the work tree repo. environ is the operator's
// environment.
func Listed(p *recovery.Policy, repo string, environ []string) (out []inputs.Query) {
	for _, entry := range p.Settings.AutoApprove {
		out = append(out, query(p, recovery.Analyse(entry), "", repo, environ))
	}
	return out
}

// Outside returns where commands find programs and their settings outside of the work tree repo.
func Outside(environ []string, repo string) inputs.Outside {
	env := sandbox.Environment(environ, nil, repo, "")
	return inputs.Outside{Home: variable(env, "HOME"), Path: variable(env, "PATH")}
}

// query describes the command for package inputs, which finds the files that the command reads.
func query(p *recovery.Policy, a *recovery.Analysis, dir, repo string, environ []string) inputs.Query {
	q := inputs.Query{WorkingDir: dir, Mode: inputs.Mode(p.Settings.Guard), Repo: repo, Outside: Outside(environ, repo)}
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
