// Package stats computes figures of a loop from its journal. They cover the runs of its roles (how many, how long, how
// many tokens of which kind, how much money), the results of the proposals to repair the environment, how often and for
// how long humans were asked, and what followed when a role failed.
//
// A value that a runner did not report is unknown. Each sum counts unknown values separately and never takes them for
// 0. So a sum with unknown runs is a lower bound.
package stats

import (
	"time"

	"github.com/superloop/superloop/recovery/failures"
)

// Report holds the figures of a journal, for all runs of the loop together and for each of them.
type Report struct {
	LoopID string    `json:"loop_id"`
	All    Section   `json:"all"`  // has no iterations: iteration 1 of two runs is not the same one
	Runs   []Section `json:"runs"` // in the order in which they began
}

// Section holds the figures of one run of the loop, or of all runs.
type Section struct {
	RunID string    `json:"run_id,omitempty"`
	From  time.Time `json:"from,omitzero"` // the time of the first event
	To    time.Time `json:"to,omitzero"`   // the time of the last event
	Total Figures   `json:"total"`
	// Roles, models and runners are in the order in which they first ran. Iterations are in the order of their numbers.
	ByRole      []Group  `json:"by_role"`
	ByModel     []Group  `json:"by_model"`
	ByRunner    []Group  `json:"by_runner"`
	ByIteration []Group  `json:"by_iteration,omitempty"`
	Recovery    Recovery `json:"recovery"`
	// Failures says what failed and what followed. Its times are those of the events that it counts.
	Failures failures.Figures `json:"failures"`
	// Open is an attempt that has begun and has no end in the journal. No figure counts it.
	Open *Open `json:"open,omitempty"`
}

// Group holds the figures of one role, model, runner or iteration.
type Group struct {
	Name string `json:"name"` // "" for a model that was not reported; the number of an iteration
	Figures
}

// Open is an attempt that has begun and has no end in the journal.
type Open struct {
	Role      string    `json:"role"`
	Runner    string    `json:"runner"`
	Iteration int       `json:"iteration"`
	Since     time.Time `json:"since"`
}

// Figures are sums over attempts of roles.
type Figures struct {
	// Runs counts the attempts. Failures counts the attempts that failed, including those whose end nobody recorded
	// because the supervisor was killed. Interrupted counts the attempts that the supervisor ended because it had to
	// leave. Those are no failures.
	Runs        int          `json:"runs"`
	Failures    int          `json:"failures"`
	Interrupted int          `json:"interrupted"`
	DurationMS  int64        `json:"duration_ms"` // wall time; an attempt without a recorded end adds none
	Tokens      Tokens       `json:"tokens"`
	Cost        Sum[float64] `json:"cost_usd"` // US dollars, summed in whole nanodollars
	// CostComputed counts the runs whose cost superloop computed from a table of prices. The runner reported the other
	// known costs.
	CostComputed int `json:"cost_computed_runs"`
}

// Tokens are the tokens by kind. Input, CacheRead, CacheWrite and Output are disjoint. Reasoning is a part of Output.
// Total is the sum of the four disjoint kinds, over the runs that reported input or output.
type Tokens struct {
	Input      Sum[int64] `json:"input"`
	CacheRead  Sum[int64] `json:"cache_read"`
	CacheWrite Sum[int64] `json:"cache_write"`
	Output     Sum[int64] `json:"output"`
	Reasoning  Sum[int64] `json:"reasoning"`
	Total      Sum[int64] `json:"total"`
}

// Sum is the sum of the values that runs reported.
type Sum[T int64 | float64] struct {
	Known   *T  `json:"known"`        // nil if no run reported a value
	Unknown int `json:"unknown_runs"` // the runs that reported none
}

// Recovery holds the figures of the proposals to repair the environment and of the questions to humans. If a field is
// missing in an event, or has another type than expected, its value is "".
type Recovery struct {
	Proposals
	// BySource and ByCategory group the proposals by who proposed and by the category of the failure. The most frequent
	// group comes first. Groups of equal size stay in the order in which they came.
	BySource   []ProposalGroup `json:"by_source"`
	ByCategory []ProposalGroup `json:"by_category"`
	// Auto are the commands that ran because a rule approved them. Approved are the commands that a human approved.
	Auto        Executions  `json:"auto"`
	Approved    Executions  `json:"approved"`
	Escalations Escalations `json:"escalations"`
	Remediation Remediation `json:"first_aid"`
}

// Proposals counts proposals by their last verdict. Proposed is the sum of the five counters after it.
type Proposals struct {
	Proposed int `json:"proposed"`
	ToRun    int `json:"verdict_auto"`
	ToHuman  int `json:"verdict_human"`
	Denied   int `json:"verdict_deny"`
	// Invalid counts files that hold no valid proposal, and proposals whose command is no valid command. Stale counts
	// proposals that superloop set aside without judging them.
	Invalid int `json:"verdict_invalid"`
	Stale   int `json:"stale"`
	// Fallbacks counts the proposals among Proposed that were the fallback of another one. superloop judges a fallback
	// when the first command did not help.
	Fallbacks int `json:"fallbacks"`
	// Executed counts the executions that began. Verified counts the executions after which the tests showed that the
	// failure was gone. A human may have one command run more than once.
	Executed int `json:"executed"`
	Verified int `json:"verified"`
}

// ProposalGroup counts the proposals of one source or of one category. "" means that the event did not say it.
type ProposalGroup struct {
	Name string `json:"name"`
	Proposals
}

// Executions counts executions by their outcome. Executed is the sum of the six counters from Verified on.
type Executions struct {
	Executed int `json:"executed"`
	// Succeeded counts the executions that ended with exit code 0. That does not say that the failure is gone.
	Succeeded int `json:"succeeded"`
	// Verified, Ineffective and Harmful are the results of the tests after the execution. Unknown means that the tests
	// gave no result, or none yet, or that the supervisor killed the command because it had to leave. Failed means that
	// the command failed. Open means that nobody recorded the end of the execution.
	Verified    int `json:"verified"`
	Ineffective int `json:"ineffective"`
	Harmful     int `json:"harmful"`
	Unknown     int `json:"unknown"`
	Failed      int `json:"failed"`
	Open        int `json:"open"`
	// SuccessRate is Verified divided by the sum of Verified, Ineffective, Harmful and Failed. It is nil if that sum is
	// 0.
	SuccessRate *float64 `json:"success_rate"`
	// DurationMS is the wall time of the commands.
	DurationMS int64 `json:"duration_ms"`
	// ToStart is the time from the proposal to the start of the command. ToVerified is the time from the proposal to
	// the result of the tests, whatever the result.
	ToStart    Spread `json:"proposal_to_start"`
	ToVerified Spread `json:"proposal_to_verification"`
}

// Escalations counts the questions to humans.
type Escalations struct {
	// Opened is the sum of Resolved, Open and Dropped. Dropped counts the questions that nobody had answered when their
	// run ended.
	Opened   int     `json:"opened"`
	Resolved int     `json:"resolved"`
	Open     int     `json:"open"`
	Dropped  int     `json:"dropped"`
	ByType   []Count `json:"by_type"`
	ByMethod []Count `json:"by_method"`
	// Iterations counts the iterations that began. ActiveMS is the time between events in which the loop had a
	// supervisor and waited neither for a human nor for a limit.
	Iterations int   `json:"iterations"`
	ActiveMS   int64 `json:"active_ms"`
	// PerIteration is Opened divided by Iterations. PerActiveHour is Opened divided by the active hours. They are nil
	// if the divisor is 0.
	PerIteration  *float64 `json:"per_iteration"`
	PerActiveHour *float64 `json:"per_active_hour"`
	// Resolution is the time from a question to its answer, for the Resolved ones.
	Resolution Spread `json:"resolution"`
}

// Count says how often a type or a method occurred. "" means that the event did not say it.
type Count struct {
	Name  string `json:"name"`
	Count int    `json:"count"`
}

// Spread describes Count durations in milliseconds. Each value is a duration that occurred (nearest rank). It is nil if
// there are no durations.
type Spread struct {
	Count    int    `json:"count"`
	MedianMS *int64 `json:"median_ms"`
	P90MS    *int64 `json:"p90_ms"`
	MaxMS    *int64 `json:"max_ms"`
}

// Remediation says what rules found out and remedied before a role looked at the failure.
type Remediation struct {
	// Classified is the number of failures that rules classified: Infra, Code, and Unknown, about which the rules know
	// nothing.
	Classified int `json:"classified"`
	Infra      int `json:"infra"`
	Code       int `json:"code"`
	Unknown    int `json:"unknown"`
	// Chains counts the remediation plans, and Remedied those of them after which the tests passed. Commands counts the
	// commands that the plans ran.
	Chains   int `json:"chains"`
	Remedied int `json:"cured"`
	Commands int `json:"commands"`
	// Took is the time from the opening of a plan to the passing tests.
	Took Spread `json:"took"`
	// SavedIterations is Remedied: without the plan, a role would have had to find the remedy and propose it, which
	// takes at least one iteration. SavedTokens is SavedIterations times the average tokens of an iteration of the run.
	// It is nil if no runner reports its tokens.
	SavedIterations int    `json:"saved_iterations"`
	SavedTokens     *int64 `json:"saved_tokens_estimated"`
	// RemediedRate is Remedied divided by Chains. It is nil without chains.
	RemediedRate *float64 `json:"cured_rate"`
	// VerifyRepaired counts the installed tools that work, but whose check superloop had to repair to show it.
	// VerifyFailed counts the tools that no check shows to work. VerifySavedMS is the least time that an agent would
	// have needed to repair the checks.
	VerifyRepaired int   `json:"verify_repaired"`
	VerifyFailed   int   `json:"verify_failed"`
	VerifySavedMS  int64 `json:"verify_saved_ms"`
}
