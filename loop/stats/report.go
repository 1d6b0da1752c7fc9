// Package stats adds up what happened to a loop, from its journal: what the runs of its roles took (how many, how long,
// how many tokens of which kind, how much money), what became of the proposals to repair something, how often and for
// how long humans were asked, and what followed when a role failed.
//
// What a runner did not tell is unknown. It is counted as that beside each sum and never taken for 0, so a sum with
// unknown runs is the least that it can be.
package stats

import (
	"time"

	"github.com/superloop/superloop/recovery/failures"
)

// Report is what a journal tells, over all runs of the loop and for each of them.
type Report struct {
	LoopID string    `json:"loop_id"`
	All    Section   `json:"all"`  // has no iterations: those of two runs have nothing in common
	Runs   []Section `json:"runs"` // in the order in which they began
}

// Section is one run of the loop, or all.
type Section struct {
	RunID string    `json:"run_id,omitempty"`
	From  time.Time `json:"from,omitzero"` // the time of the first event
	To    time.Time `json:"to,omitzero"`   // and of the last one
	Total Figures   `json:"total"`
	// Roles, models and runners are in the order in which they first ran, iterations in that of their numbers.
	ByRole      []Group  `json:"by_role"`
	ByModel     []Group  `json:"by_model"`
	ByRunner    []Group  `json:"by_runner"`
	ByIteration []Group  `json:"by_iteration,omitempty"`
	Recovery    Recovery `json:"recovery"`
	// Failures is what failed and what followed; its own times are those of the events that it counts.
	Failures failures.Figures `json:"failures"`
	// Open is the attempt at the journal's end that has begun and not ended. It is in no figure.
	Open *Open `json:"open,omitempty"`
}

// Group is the part of a section that has a role, a model, a runner or an iteration in common.
type Group struct {
	Name string `json:"name"` // "" for a model that was not told; an iteration's is its number
	Figures
}

// Open is an attempt without an end.
type Open struct {
	Role      string    `json:"role"`
	Runner    string    `json:"runner"`
	Iteration int       `json:"iteration"`
	Since     time.Time `json:"since"`
}

// Figures are sums over attempts of roles.
type Figures struct {
	// Runs counts the attempts; Failures those of them that did not end well, with those whose end nobody saw because
	// the supervisor was killed; Interrupted those that the supervisor itself ended to leave, which are no failures.
	Runs        int          `json:"runs"`
	Failures    int          `json:"failures"`
	Interrupted int          `json:"interrupted"`
	DurationMS  int64        `json:"duration_ms"` // wall time; an attempt whose end nobody saw adds none
	Tokens      Tokens       `json:"tokens"`
	Cost        Sum[float64] `json:"cost_usd"` // US dollars, summed in whole nanodollars
	// CostComputed counts the runs whose cost was computed from a table of prices; the runner told the others'.
	CostComputed int `json:"cost_computed_runs"`
}

// Tokens by kind: the first four are disjoint, Reasoning is a part of Output. Total is the sum of the four, of the runs
// that told input or output.
type Tokens struct {
	Input      Sum[int64] `json:"input"`
	CacheRead  Sum[int64] `json:"cache_read"`
	CacheWrite Sum[int64] `json:"cache_write"`
	Output     Sum[int64] `json:"output"`
	Reasoning  Sum[int64] `json:"reasoning"`
	Total      Sum[int64] `json:"total"`
}

// Sum is what was told.
type Sum[T int64 | float64] struct {
	Known   *T  `json:"known"`        // nil when no run told
	Unknown int `json:"unknown_runs"` // the runs that did not tell
}

// Recovery is what became of the proposals to repair the environment, and of the questions to humans. A field that an
// event does not have, or has as another type than ours, is not told.
type Recovery struct {
	Proposals
	// BySource says who proposed, ByCategory what was the trouble: the most frequent first, else as they came.
	BySource   []ProposalGroup `json:"by_source"`
	ByCategory []ProposalGroup `json:"by_category"`
	// Auto are the commands that ran because a rule let them, Approved those that a human did.
	Auto        Executions  `json:"auto"`
	Approved    Executions  `json:"approved"`
	Escalations Escalations `json:"escalations"`
	Remediation Remediation `json:"first_aid"`
}

// Proposals counts proposals by their last verdicts: Proposed is the sum of the five below it.
type Proposals struct {
	Proposed int `json:"proposed"`
	ToRun    int `json:"verdict_auto"`
	ToHuman  int `json:"verdict_human"`
	Denied   int `json:"verdict_deny"`
	// Invalid are no proposals by their form, or no commands; Stale ones were about something else and were not judged.
	Invalid int `json:"verdict_invalid"`
	Stale   int `json:"stale"`
	// Fallbacks are those of Proposed that were the second choice of another and were judged because that did not help.
	Fallbacks int `json:"fallbacks"`
	// Executed counts the runs of their commands that began, Verified those after which the tests said that the trouble
	// is gone. A human may have a command run again.
	Executed int `json:"executed"`
	Verified int `json:"verified"`
}

// ProposalGroup is the part of the proposals that has a source or a category in common; "" is not told.
type ProposalGroup struct {
	Name string `json:"name"`
	Proposals
}

// Executions is what became of commands that began. Executed is the sum of the six from Verified on.
type Executions struct {
	Executed int `json:"executed"`
	// Succeeded counts those that ended with exit code 0, which says nothing of what they mended.
	Succeeded int `json:"succeeded"`
	// Verified, Ineffective and Harmful is what the tests said afterwards, Unknown that they said nothing, or not yet,
	// or that the supervisor ended the command to leave; Failed are commands that did not end well, Open those whose
	// end nobody has recorded.
	Verified    int `json:"verified"`
	Ineffective int `json:"ineffective"`
	Harmful     int `json:"harmful"`
	Unknown     int `json:"unknown"`
	Failed      int `json:"failed"`
	Open        int `json:"open"`
	// SuccessRate is Verified among Verified, Ineffective, Harmful and Failed; nil without any.
	SuccessRate *float64 `json:"success_rate"`
	// DurationMS is the commands' own wall time.
	DurationMS int64 `json:"duration_ms"`
	// ToStart is from the proposal to the command's beginning, ToVerified to what the tests said, whatever that was.
	ToStart    Spread `json:"proposal_to_start"`
	ToVerified Spread `json:"proposal_to_verification"`
}

// Escalations are questions to humans.
type Escalations struct {
	// Opened is the sum of Resolved, Open and Dropped: those that nobody had answered when their run ended.
	Opened   int     `json:"opened"`
	Resolved int     `json:"resolved"`
	Open     int     `json:"open"`
	Dropped  int     `json:"dropped"`
	ByType   []Count `json:"by_type"`
	ByMethod []Count `json:"by_method"`
	// Iterations are those that began. ActiveMS is the time between events in which the loop neither waited for a human
	// or a limit nor was without a supervisor.
	Iterations int   `json:"iterations"`
	ActiveMS   int64 `json:"active_ms"`
	// PerIteration and PerActiveHour are Opened by these; nil by nothing.
	PerIteration  *float64 `json:"per_iteration"`
	PerActiveHour *float64 `json:"per_active_hour"`
	// Resolution is from the question to its answer, of the Resolved.
	Resolution Spread `json:"resolution"`
}

// Count is how often something was; "" is not told.
type Count struct {
	Name  string `json:"name"`
	Count int    `json:"count"`
}

// Spread is of Count durations in milliseconds: each value is one that occurred (nearest rank); nil without any.
type Spread struct {
	Count    int    `json:"count"`
	MedianMS *int64 `json:"median_ms"`
	P90MS    *int64 `json:"p90_ms"`
	MaxMS    *int64 `json:"max_ms"`
}

// Remediation is what rules found out and remedied before a role was started for it.
type Remediation struct {
	// Classified counts the failures that rules have looked at: Infra, Code, and Unknown of which they know nothing.
	Classified int `json:"classified"`
	Infra      int `json:"infra"`
	Code       int `json:"code"`
	Unknown    int `json:"unknown"`
	// Chains are the failures for which Commands were run, Remedied those of them after which the tests passed.
	Chains   int `json:"chains"`
	Remedied int `json:"cured"`
	Commands int `json:"commands"`
	// Took is the time from the first classification to the passing tests.
	Took Spread `json:"took"`
	// SavedIterations is Remedied: without it a role at least would have had to find out, propose, and the loop to come
	// round again. SavedTokens is that many of the run's own average iterations; nil where no runner tells its tokens.
	SavedIterations int      `json:"saved_iterations"`
	SavedTokens     *int64   `json:"saved_tokens_estimated"`
	RemediedRate    *float64 `json:"cured_rate"`
	// VerifyRepaired counts installed tools that work and whose check had to be repaired to show it, VerifyFailed those
	// that nothing shows to work. VerifySavedMS is what an agent would have needed at least to find out the first.
	VerifyRepaired int   `json:"verify_repaired"`
	VerifyFailed   int   `json:"verify_failed"`
	VerifySavedMS  int64 `json:"verify_saved_ms"`
}
