package failures

import (
	"cmp"
	"slices"
	"time"
)

// Candidate is an agent that might take a task, as the configuration lists it and as Health and the shared limits see
// it now.
type Candidate struct {
	Agent
	Tier int `json:"tier,omitempty"` // how strong its model is, larger is stronger; 0 where nobody said
	// Fit: nothing speaks against giving it a task. Probe: it was unfit, and its next run shows whether it is fit
	// again; it is taken when nobody is fit.
	Fit   bool `json:"fit,omitempty"`
	Probe bool `json:"probe,omitempty"`
	// Until is when an unfit one is looked at again; zero: not by itself.
	Until       time.Time `json:"until,omitzero"`
	Why         string    `json:"why,omitempty"`         // it is unfit
	LastSuccess time.Time `json:"last_success,omitzero"` // of any task
}

// usable reports whether it can be given a task now.
func (c Candidate) usable() bool { return c.Fit || c.Probe }

// Choose picks who takes over from an agent of the given tier: a fit one before one that is on probation, then of a
// provider that has not failed the task, then of a tier that is no lower (of the same provider: that is higher), then
// as listed. It never picks one of failed, or one that is not fit.
func Choose(list []Candidate, failed []Agent, tier int) (Candidate, bool) {
	ok := make([]Candidate, 0, len(list))
	for _, c := range list {
		if c.usable() && !slices.Contains(failed, c.Agent) {
			ok = append(ok, c)
		}
	}
	if len(ok) == 0 {
		return Candidate{}, false
	}
	blamed := func(c Candidate) bool {
		return slices.ContainsFunc(failed, func(a Agent) bool { return a.provider() == c.provider() })
	}
	rank := func(c Candidate) int {
		switch {
		case c.Tier < tier:
			return 2 + tier - c.Tier // the nearest first
		case c.Tier == tier && blamed(c):
			return 1
		}
		return 0
	}
	return slices.MinFunc(ok, func(a, b Candidate) int {
		return cmp.Or(last(!a.Fit, !b.Fit), last(blamed(a), blamed(b)), cmp.Compare(rank(a), rank(b)))
	}), true
}

// provider is what agents share a fate by.
func (a Agent) provider() string { return cmp.Or(a.Provider, a.Runner) }

// last orders what is false before what is true.
func last(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// soonest is the first time at which one of the list that is not in failed may be usable; zero when none comes back by
// itself.
func soonest(list []Candidate, failed []Agent) time.Time {
	var at time.Time
	for _, c := range list {
		if !c.Until.IsZero() && !slices.Contains(failed, c.Agent) && (at.IsZero() || c.Until.Before(at)) {
			at = c.Until
		}
	}
	return at
}
