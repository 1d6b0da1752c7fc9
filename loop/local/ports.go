package local

import (
	"context"

	"go.uber.org/zap"

	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/effects"
	"github.com/superloop/superloop/recovery/execute"
	"github.com/superloop/superloop/recovery/learn"
	"github.com/superloop/superloop/recovery/undo"
	"github.com/superloop/superloop/roles/agent/cooldown"
)

// equip makes the performers that need no process.
func (d *driver) equip() {
	d.policies = &effects.Policies{Host: d.host}
	d.runners = &effects.Runners{Host: d.host, Cooldowns: cooldown.New(d.o.Disk, d.paths.Cooldowns())}
	d.outbox = &effects.Outbox{Host: d.host, Journal: d, Channels: d.o.Channels}
	d.executor = &execute.Executor{Repo: d.repo.Top, StateDir: d.paths.State, Baseline: d.paths.Guard(), Disk: d.o.Disk,
		Undo: undo.Store{Disk: d.o.Disk, Dir: d.paths.Undo(), Repo: d.repo.Top}, Learned: learn.Store{Disk: d.o.Disk, Path: d.paths.Learned()},
		Environ: d.host.Env(), Policies: d.policies.InForce, AcceptLoose: d.o.AcceptLoose, Now: d.o.Now,
		Warn: func(what string, err error) { d.log.Warn(what, zap.Error(err)) }}
	d.approvals = &effects.Approvals{Host: d.host, Journal: d, Executor: d.executor, Outbox: d.outbox, Tree: d, Runners: d.runners, Views: d.flushViews}
	d.recoveries = &effects.Recoveries{Host: d.host, Journal: d, Policies: d.policies, Executor: d.executor, Approvals: d.approvals}
}

// Look is the signature of the work tree.
func (d *driver) Look(ctx context.Context, _ loop.State) (string, error) { return d.lookAtTree(ctx) }
