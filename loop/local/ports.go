package local

import (
	"context"

	"go.uber.org/zap"

	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/effects"
	"github.com/superloop/superloop/recovery/execute"
	"github.com/superloop/superloop/recovery/learn"
	"github.com/superloop/superloop/recovery/respond"
	"github.com/superloop/superloop/recovery/undo"
)

// equip makes the performers that need no process.
func (d *driver) equip() {
	d.policies = &effects.Policies{Host: d.host}
	d.outbox = &effects.Outbox{Host: d.host, Journal: d, Channels: d.o.Channels}
	d.executor = &execute.Executor{Repo: d.repo.Top, StateDir: d.paths.State, Baseline: d.paths.Guard(), Disk: d.o.Disk,
		Undo: undo.Store{Disk: d.o.Disk, Dir: d.paths.Undo(), Repo: d.repo.Top}, Learned: learn.Store{Disk: d.o.Disk, Path: d.paths.Learned()},
		Environ: d.host.Env(), Policies: d.policies.InForce, AcceptLoose: d.o.AcceptLoose, Now: d.o.Now,
		Warn: func(what string, err error) { d.log.Warn(what, zap.Error(err)) }}
	d.approvals = &effects.Approvals{Host: d.host, Journal: d, Executor: d.executor, Outbox: d.outbox, Tree: d, Runners: d, Whole: d.environmentWhole, Views: d.flushViews}
	d.recoveries = &effects.Recoveries{Host: d.host, Journal: d, Policies: d.policies, Executor: d.executor, Approvals: d.approvals}
}

// Look is the signature of the work tree.
func (d *driver) Look(ctx context.Context, _ loop.State) (string, error) { return d.lookAtTree(ctx) }

// Candidates are who could do a role now.
func (d *driver) Candidates(_ loop.State, role string) []respond.Candidate {
	return d.candidates(d.roleConfig(role))
}

// Believe forgets what speaks against the runners of a role.
func (d *driver) Believe(_ loop.State, role string) { d.believed(role) }

// environmentWhole reports whether all environment checks pass.
func (d *driver) environmentWhole(ctx context.Context, _ loop.State) bool {
	return len(respond.Problems(d.lookAtGround(ctx, false))) == 0
}
