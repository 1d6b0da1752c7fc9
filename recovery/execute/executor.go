package execute

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/recovery"
	"github.com/superloop/superloop/recovery/inputs"
	"github.com/superloop/superloop/recovery/learn"
	"github.com/superloop/superloop/recovery/sandbox"
	"github.com/superloop/superloop/recovery/undo"
)

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

	// Policies are those in force now; the strictest verdict counts, and of equal ones the first. There is at least
	// one.
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
