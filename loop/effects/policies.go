package effects

import (
	"bytes"

	"go.uber.org/zap"

	"github.com/superloop/superloop/internal/door"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/recovery"
	"github.com/superloop/superloop/recovery/failures"
)

// Policies holds the recovery policies in force: the policy with which the iteration began, and a newer one if there is
// one. The strictest verdict counts, so a tighter policy is in force at once, and a looser one waits for the next
// iteration. Several goroutines may call its methods.
type Policies struct{ *Host }

// InForce returns the policies in force, at least one. The first is the policy of the iteration.
func (p *Policies) InForce() []*recovery.Policy {
	s := p.Settings()
	out := []*recovery.Policy{p.compile(s.Config)}
	if s.Next != nil && s.Next != s.Config {
		out = append(out, p.compile(s.Next))
	}
	return out
}

// Keep keeps a policy beside the journal, under its digest: what it judged can be judged again, by it or by another one.
func (p *Policies) Keep(policy *recovery.Policy) error {
	path, data := p.Paths.Policy(policy.Digest), policy.JSON()
	if kept, err := door.Read(path, int64(len(data))+1); err == nil && bytes.Equal(kept, data) {
		return nil
	}
	if err := p.Dir("policies", p.Paths.Policies()); err != nil {
		return err
	}
	return p.Full(p.Disk.WriteFile("policies", path, data, 0o644))
}

// compile makes the recovery policy of a configuration. The loader of the configuration has already checked that this
// works. If it fails all the same, compile returns a policy that lists no command.
func (p *Policies) compile(c *config.Config) *recovery.Policy {
	policy, problems := c.Policy(p.LoopID)
	if len(problems) == 0 && policy != nil {
		return policy
	}
	if len(problems) > 0 {
		p.Log.Error("the policy cannot be read; a human is asked", zap.Any("problems", problems))
	}
	policy, _ = recovery.Compile(recovery.Settings{})
	return policy
}

// PlanOf returns the values that the machine needs of c and of the loop l in it.
func PlanOf(c *config.Config, l config.Loop) loop.Plan {
	p := loop.Plan{
		SpecFile: l.SpecFile, MaxIterations: l.MaxIterations, MaxWallMS: l.MaxWallTime.Milliseconds(),
		Roles: loop.Map(l.Roles, func(r config.Role) string { return r.Name }), Promise: l.CompletionPromise, Tests: l.Tests.Mode, Checklists: len(l.Checklists) > 0,
		Prerequisites:        l.Prerequisites.Enabled,
		RequirePrerequisites: l.Prerequisites.Enabled && l.Prerequisites.RequireOnCompletion,
		Evidence:             l.Evidence.Enabled,
		RequireEvidence:      l.Evidence.Enabled && l.Evidence.RequireOnCompletion,
		Approval:             l.Approval.Enabled && l.Approval.RequireOnCompletion,
		Final:                l.Gates.Final == config.FinalCheckout && l.Tests.Mode != config.TestsDisabled,
		Attempts:             l.Retry.Attempts, BackoffMS: l.Retry.Backoff.Milliseconds(),
		MaxCostUSD: l.MaxCostUSD, MaxTokens: l.MaxTokens,
	}
	p.Completion = &loop.Completion{Ungated: !l.Gated() && !l.Completion.AllowUngated, Change: l.Completion.RequireChange, Reports: reportersOf(p, l.Completion.RequireReports),
		Baseline: l.Completion.TestsBaseline && l.Tests.Mode != config.TestsDisabled && len(l.Tests.Commands) > 0, TestChange: l.Completion.RequireTestChange}
	// A validation without commands and without static checks is skipped. The loader of the configuration has warned of
	// it.
	if v := l.Validation; v.Enabled && (len(v.Commands) > 0 || v.Preflight != nil) {
		p.Validation, p.RequireValidation = v.Mode, v.RequireOnCompletion
	}
	if r := l.Respond; r.Enabled {
		limits := failures.Limits{Failures: l.Retry.Attempts, Same: r.SameFailure, Runs: max(r.MaxRuns, l.Retry.Attempts), WallMS: r.MaxTime.Milliseconds(),
			AnalysisMS: r.AnalysisTime.Milliseconds(), WaitMS: r.MaxWait.Milliseconds(), FallOver: r.FallOver}
		p.Respond = &loop.RespondPlan{Limits: limits.WithDefaults(), SameTests: r.SameTests, Preflight: r.Preflight.Enabled}
	}
	if p.SameRed = l.Stuck.TestsThreshold; l.Stuck.Enabled {
		p.StuckThreshold = l.Stuck.Threshold
	}
	if l.Git.CommitStrategy != "never" {
		p.Commit = l.Git.CommitStrategy
	}
	if policy, problems := c.Policy(l.ID); policy != nil && len(problems) == 0 {
		p.Recovery = policy.Settings.Enabled
		p.Remediation = p.Recovery && policy.Settings.Remediation
	}
	p.Diagnosis = !p.Recovery // with a recovery section, first_aid decides
	return p
}

// ChangesOf converts changes of the configuration to the form that events have.
func ChangesOf(in []config.Change) []loop.Change {
	return append([]loop.Change{}, loop.Map(in, func(c config.Change) loop.Change { return loop.Change(c) })...)
}
