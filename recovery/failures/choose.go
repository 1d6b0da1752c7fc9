package failures

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Candidate is an agent that may take a task, as the config, Health and the shared limits describe it now.
type Candidate struct {
	Agent
	Tier int `json:"tier,omitempty"` // the strength of its model, larger is stronger; 0 if the config sets none
	// Fit says that the agent may get a task. Probe says that the agent was unfit, and that its next run shows whether
	// it is fit again. Choose takes such an agent only if no agent is fit.
	Fit   bool `json:"fit,omitempty"`
	Probe bool `json:"probe,omitempty"`
	// Until is the time at which an unfit agent may be usable again; zero if no time is known.
	Until       time.Time `json:"until,omitzero"`
	Why         string    `json:"why,omitempty"`         // why the agent is unfit
	LastSuccess time.Time `json:"last_success,omitzero"` // in any task
	// Runs are the agent's latest runs in the role, and Failed those of them that failed.
	Runs   int `json:"runs,omitempty"`
	Failed int `json:"failed,omitempty"`
	// Check is the id of a learned check that fails now and would keep the agent from starting; "" for none.
	Check string `json:"check,omitempty"`
}

// usable reports whether the agent may be given a task now.
func (c Candidate) usable() bool { return (c.Fit || c.Probe) && c.Check == "" }

// risk estimates the share of failures among the agent's next runs in the role, from 0 to 1. Without any run it is 0.5.
func (c Candidate) risk() float64 { return float64(c.Failed+1) / float64(c.Runs+2) }

// Choose picks the agent that takes over a task from an agent of the given tier. Choose prefers, in this order: a fit
// agent to one on probation, a provider that has not failed the task, a tier that is not lower (for a provider that has
// failed: a higher one), clearly fewer failures in the role, and the order of the list. Choose never picks an agent of
// failed, or one that is not usable.
func Choose(list []Candidate, failed []Agent, tier int) (Candidate, bool) {
	ok := slices.DeleteFunc(slices.Clone(list), func(c Candidate) bool { return !c.usable() || slices.Contains(failed, c.Agent) })
	if len(ok) == 0 {
		return Candidate{}, false
	}
	blamed := func(c Candidate) bool {
		return slices.ContainsFunc(failed, func(a Agent) bool { return a.provider() == c.provider() })
	}
	rank := func(c Candidate) int {
		switch {
		case c.Tier < tier:
			return 2 + tier - c.Tier // the nearest lower tier first
		case c.Tier == tier && blamed(c):
			return 1
		}
		return 0
	}
	clearly := func(c Candidate) float64 {
		if c.Runs < knownRuns {
			return 2 // half of them
		}
		return math.Round(4 * c.risk())
	}
	return slices.MinFunc(ok, func(a, b Candidate) int {
		return cmp.Or(last(!a.Fit, !b.Fit), last(blamed(a), blamed(b)), cmp.Compare(rank(a), rank(b)), cmp.Compare(clearly(a), clearly(b)))
	}), true
}

// knownRuns is the number of runs in a role from which Choose prefers one agent to another by their failures.
const knownRuns = 3

// leastFailing picks, of agents that may all have failed the task, the fit one that fails least in the role. Of equals it
// avoids the agent that has just failed, and then follows the order of the list.
func leastFailing(list []Candidate, just Agent) (Candidate, bool) {
	ok := slices.DeleteFunc(slices.Clone(list), func(c Candidate) bool { return !c.usable() })
	if len(ok) == 0 {
		return Candidate{}, false
	}
	return slices.MinFunc(ok, func(a, b Candidate) int {
		return cmp.Or(last(!a.Fit, !b.Fit), cmp.Compare(a.risk(), b.risk()), last(a.Agent == just, b.Agent == just))
	}), true
}

// provider names the provider whose outages and limits the agent shares; without a provider, the runner.
func (a Agent) provider() string { return cmp.Or(a.Provider, a.Runner) }

// last orders false before true.
func last(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// soonest returns the earliest time at which an agent of the list that is not in failed may be usable again. It returns
// zero if no such time is known.
func soonest(list []Candidate, failed []Agent) time.Time {
	var at time.Time
	for _, c := range list {
		if !c.Until.IsZero() && !slices.Contains(failed, c.Agent) && (at.IsZero() || c.Until.Before(at)) {
			at = c.Until
		}
	}
	return at
}
