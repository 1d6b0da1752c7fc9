// Package stats adds up what happened to a loop, from its journal: what the runs of
// its roles took (how many, how long, how many tokens of which kind, how much money),
// what became of the proposals to repair something, how often and for how long
// people were asked, and what followed when a role failed.
//
// What a runner did not tell is unknown. It is counted as that beside each sum
// and never taken for 0, so a sum with unknown runs is the least that it can be.
package stats

import (
	"time"

	"github.com/superloop/superloop/recovery/failures"
)

// Report is what a journal tells, over all runs of the loop and for each of them.
type Report struct {
	LoopID string `json:"loop_id"`
	// All has no iterations: those of two runs have nothing in common.
	All Section `json:"all"`
	// Runs are in the order in which they began.
	Runs []Section `json:"runs"`
}

// Section is one run of the loop, or all.
type Section struct {
	RunID string `json:"run_id,omitempty"`
	// From and To are the times of the first and the last event.
	From  time.Time `json:"from,omitzero"`
	To    time.Time `json:"to,omitzero"`
	Total Figures   `json:"total"`
	// Roles, models and runners are in the order in which they first ran,
	// iterations in that of their numbers.
	ByRole      []Group  `json:"by_role"`
	ByModel     []Group  `json:"by_model"`
	ByRunner    []Group  `json:"by_runner"`
	ByIteration []Group  `json:"by_iteration,omitempty"`
	Recovery    Recovery `json:"recovery"`
	// Failures is what failed and what followed; its own times are those of the
	// events that it counts.
	Failures failures.Figures `json:"failures"`
	// Open is the attempt at the journal's end that has begun and not ended. It
	// is in no figure.
	Open *Open `json:"open,omitempty"`
}

// Group is the part of a section that has a role, a model, a runner or an
// iteration in common.
type Group struct {
	// Name is "" for a model that was not told; an iteration's is its number.
	Name string `json:"name"`
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
	// Runs counts the attempts; Failures those of them that did not end well, with
	// those whose end nobody saw because the supervisor was killed; Interrupted
	// those that the supervisor itself ended to leave, which are no failures.
	Runs        int `json:"runs"`
	Failures    int `json:"failures"`
	Interrupted int `json:"interrupted"`
	// DurationMS is wall time; an attempt whose end nobody saw adds none.
	DurationMS int64  `json:"duration_ms"`
	Tokens     Tokens `json:"tokens"`
	// Cost is in US dollars, summed in whole nanodollars.
	Cost Sum[float64] `json:"cost_usd"`
	// CostComputed counts the runs whose cost was computed from a table of
	// prices; the runner told the others'.
	CostComputed int `json:"cost_computed_runs"`
}

// Tokens by kind: the first four are disjoint, Reasoning is a part of Output.
// Total is the sum of the four, of the runs that told input or output.
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
	// Known is nil when no run told.
	Known *T `json:"known"`
	// Unknown counts the runs that did not tell.
	Unknown int `json:"unknown_runs"`
}
