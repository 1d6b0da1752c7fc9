package local

import (
	"go.uber.org/zap"

	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/effects"
	effectfailures "github.com/superloop/superloop/loop/effects/failures"
	"github.com/superloop/superloop/recovery/execute"
	"github.com/superloop/superloop/recovery/inputs"
	"github.com/superloop/superloop/recovery/learn"
	"github.com/superloop/superloop/recovery/sandbox"
	"github.com/superloop/superloop/recovery/undo"
	"github.com/superloop/superloop/roles/agent/cooldown"
)

// performers are the performers of all effects, with the parts that they share.
type performers struct {
	executor   *execute.Executor
	outbox     *effects.Outbox
	runners    *effects.Runners
	tree       *effects.Tree
	approvals  *effects.Approvals
	recoveries *effects.Recoveries
	failures   *effectfailures.Performer
	roles      *effects.Roles
	tests      *effects.Tests
	gates      *effects.Gates
	commits    *effects.Commits
	snapshots  *effects.Snapshots
	results    *effects.Results
}

// equip makes the performers. Some of them keep the repository and the spawner of the time of the call, so takeUp calls
// equip again after it has started the spawner and entered the work tree.
func (d *driver) equip() {
	h, p := d.host, &d.performers
	policies := &effects.Policies{Host: h}
	p.outbox = &effects.Outbox{Host: h, Journal: d, Channels: d.o.Channels}
	p.runners = &effects.Runners{Host: h, Cooldowns: cooldown.New(d.o.Disk, d.paths.Cooldowns())}
	p.tree = &effects.Tree{Host: h}
	rules := effectfailures.NewRules(d.life, h.Repo.Top, sandbox.Secrets(h.Env()))
	h.Sift = rules.Sift
	p.snapshots = &effects.Snapshots{Host: h}
	p.executor = &execute.Executor{Repo: h.Repo.Top, StateDir: d.paths.State, Disk: d.o.Disk,
		Ledger: inputs.Ledger{Disk: d.o.Disk, Dir: d.paths.Common(), Repo: d.paths.Repo},
		Undo:   undo.Store{Disk: d.o.Disk, Dir: d.paths.Undo(), Repo: h.Repo.Top}, Learned: learn.Store{Disk: d.o.Disk, Path: d.paths.Learned()},
		Sandbox: execute.Spawned{Spawner: d.spawner}, Ports: d.ports(), Environ: h.Env(), Marker: effects.Mark(d.state.RunID), Policies: policies.InForce,
		AcceptLoose: d.o.AcceptLoose, Now: d.o.Now, Warn: func(what string, err error) { d.log.Warn(what, zap.Error(err)) }}
	turns := &effects.Turns{Host: h, Runners: p.runners, Permits: &effects.Permits{Host: h, Journal: d, Outbox: p.outbox, Watches: d.watches}}
	p.failures = &effectfailures.Performer{Host: h, Journal: d, Rules: rules, Policies: policies.InForce, Past: p.executor.Past, Ask: turns.Ask,
		Candidates: p.runners.Candidates, Environment: p.snapshots.Environment, Cooldowns: p.runners.Cooldowns, Processes: effectfailures.ProcessTable{Dir: "/proc", Sweep: proc.Sweep}}
	p.runners.Stopped = p.failures.Stopped
	p.approvals = &effects.Approvals{Host: h, Journal: d, Executor: p.executor, Outbox: p.outbox, Tree: p.tree, Runners: p.runners,
		Whole: p.failures.EnvironmentWhole, Views: func() error { d.putViews(); return d.flushViews() }}
	p.recoveries = &effects.Recoveries{Host: h, Journal: d, Policies: policies, Executor: p.executor, Approvals: p.approvals}
	p.tests = &effects.Tests{Host: h, Journal: d, Tree: p.tree, Learner: p.recoveries}
	p.gates = &effects.Gates{Host: h, Tree: p.tree}
	p.commits = &effects.Commits{Host: h, Tree: p.tree}
	p.results = &effects.Results{Host: h}
	p.roles = &effects.Roles{Host: h, Journal: d, Runners: p.runners, Turns: turns, Snapshots: p.snapshots, Tree: p.tree, Proposals: p.recoveries, Failures: p.failures,
		Prompts: &effects.Prompts{Host: h, Tree: p.tree, Rules: policies.InForce}}
}

// performer returns the performer for effects of a kind. It returns nil for a kind that the engine carries out itself,
// and for an unknown kind.
func (p *performers) performer(kind loop.EffectKind) effects.Performer {
	switch kind {
	case loop.RunRole:
		return p.roles
	case loop.RunTests, loop.RunValidation, loop.RunFinal:
		return p.tests
	case loop.CheckPromise, loop.CheckChecklists, loop.CheckPrerequisites, loop.CollectEvidence, loop.CheckTree, loop.CheckStuck, loop.Report:
		return p.gates
	case loop.Commit:
		return p.commits
	case loop.TakeProposal, loop.JudgeAttempt, loop.ExecuteRecovery:
		return p.recoveries
	case loop.CheckTool, loop.Diagnose, loop.Analyse:
		return p.failures
	case loop.AskHuman:
		return p.approvals
	}
	return nil
}
