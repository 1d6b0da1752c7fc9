package local

import (
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/recovery/respond"
)

// PlanOf is what the machine needs of a loop's configuration.
func PlanOf(l config.Loop) loop.Plan {
	p := loop.Plan{
		SpecFile: l.SpecFile, MaxIterations: l.MaxIterations, MaxWallMS: l.MaxWallTime.Milliseconds(),
		Promise: l.CompletionPromise, Tests: l.Tests.Mode, Checklists: len(l.Checklists) > 0,
		Prerequisites:        l.Prerequisites.Enabled,
		RequirePrerequisites: l.Prerequisites.Enabled && l.Prerequisites.RequireOnCompletion,
		Evidence:             l.Evidence.Enabled,
		RequireEvidence:      l.Evidence.Enabled && l.Evidence.RequireOnCompletion,
		Approval:             l.Approval.Enabled && l.Approval.RequireOnCompletion,
		Attempts:             l.Retry.Attempts, BackoffMS: l.Retry.Backoff.Milliseconds(),
		MaxCostUSD: l.MaxCostUSD, MaxTokens: l.MaxTokens,
	}
	for _, r := range l.Roles {
		p.Roles = append(p.Roles, r.Name)
	}
	// A validation that holds nothing that this build can run is skipped; its
	// warning was given when the configuration was loaded.
	if v := l.Validation; v.Enabled && (len(v.Commands) > 0 || v.Preflight != nil) {
		p.Validation, p.RequireValidation = v.Mode, v.RequireOnCompletion
	}
	if r := l.Respond; r.Enabled {
		limits := respond.Limits{Failures: l.Retry.Attempts, Same: r.SameFailure, Runs: max(r.MaxRuns, l.Retry.Attempts), WallMS: r.MaxTime.Milliseconds(),
			AnalysisMS: r.AnalysisTime.Milliseconds(), WaitMS: r.MaxWait.Milliseconds(), FallOver: r.FallOver}
		p.Respond = &loop.RespondPlan{Limits: limits.WithDefaults(), SameTests: r.SameTests, Preflight: r.Preflight.Enabled}
	}
	if l.Stuck.Enabled {
		p.StuckThreshold = l.Stuck.Threshold
	}
	if l.Git.CommitStrategy != "never" {
		p.Commit = l.Git.CommitStrategy
	}
	return p
}
