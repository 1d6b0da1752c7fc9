package loop

import "github.com/superloop/superloop/recovery/action"

// Rules of a proposal that superloop keeps and does not judge. No human is asked about one.
const (
	RuleNothingFailed = "nothing_failed" // the tests pass, and nothing else has failed
	RuleDone          = "already_done"   // superloop has run this command in this iteration, with success, and nothing failed since
)

// ProposalSkipped says that superloop took a proposal and did not judge it, because there is nothing to repair. Rule is
// RuleNothingFailed or RuleDone.
type ProposalSkipped struct {
	Role       string `json:"role,omitempty"`
	Rule       string `json:"rule"`
	Reason     string `json:"reason"`
	Command    string `json:"command"`
	Category   string `json:"category,omitempty"`
	Severity   string `json:"severity,omitempty"`
	Confidence string `json:"confidence,omitempty"`
	Digest     string `json:"digest,omitempty"`
	File       string `json:"file,omitempty"`
	Of
}

func (ProposalSkipped) Event() string { return "recovery_skipped" }

// NothingFailed reports whether there is nothing that a proposal could repair: the tests of this iteration pass, and the
// last iteration's validation did not fail.
func (s State) NothingFailed() bool {
	return s.Gates.Tests == "ok" && s.LastGates.Validation != "failed"
}

// done notes that the recovery's command was executed, and what the tests that ran afterwards showed.
func (t *turn) done(v Verification) {
	if r := t.s.Recovery; v.Result == Verified && r.Executed != "" {
		t.s.Recoveries.Done = &action.Done{N: r.N, Command: r.LastRun.Command, WorkingDir: r.Attempt.WorkingDir, At: t.now, Why: v.Why}
	}
}

// undone forgets what was done: something has failed, or another command has begun, so it may be needed again.
func (t *turn) undone() { t.s.Recoveries.Done = nil }

func (t *turn) proposalSkipped(f ProposalSkipped) {
	t.s.Recovery.Attempt.Command = f.Command
	outcome := "not needed"
	if f.Rule == RuleDone {
		outcome = "already done"
	}
	t.remember(outcome, f.Reason)
	t.leaveRecovery()
}

// counts reports whether the execution that begins uses a unit of the budget. The attempts of one proposal are one
// recovery.
func (t *turn) counts() bool {
	was := t.s.Counted
	t.s.Counted = t.s.Recovery.N
	return was != t.s.Counted
}
