package failures

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// Circuit is the state of a breaker.
type Circuit string

// The circuits, and the bounds of a Health.
const (
	Closed   Circuit = "closed"    // fit
	OpenCut  Circuit = "open"      // not to be used before Until
	HalfOpen Circuit = "half_open" // one run may show whether it is fit again

	maxRecent = 50
	maxAgents = 100
	probeTime = time.Hour // after which another probe is allowed, so that one that was lost blocks nothing
)

// BreakerLimits say when an agent is unfit. A zero field is its default.
type BreakerLimits struct {
	// Trip is how many failures in a row that speak against the agent, over at least two tasks, make it unfit: 3.
	Trip int `json:"trip,omitempty"`
	// FirstMS is how long it is unfit then, doubled each time a probe fails, at most MostMS: 1 minute and 30 minutes.
	FirstMS int64 `json:"first_ms,omitempty"`
	MostMS  int64 `json:"most_ms,omitempty"`
}

// WithDefaults is l with its zero fields set.
func (l BreakerLimits) WithDefaults() BreakerLimits {
	set(&l.Trip, 3)
	set(&l.FirstMS, time.Minute.Milliseconds())
	set(&l.MostMS, (30 * time.Minute).Milliseconds())
	return l
}

// Breaker is what is known of one agent.
type Breaker struct {
	Agent   Agent   `json:"agent"`
	Circuit Circuit `json:"circuit"`
	// InRow are the failures that speak against it since its last success, Tasks the first two tasks of these.
	InRow int      `json:"in_row,omitempty"`
	Tasks []string `json:"tasks,omitempty"`
	// Trips counts how often it became unfit since its last success. Until is when it may be probed; zero while it is
	// open: when an operator has mended it (Reset).
	Trips    int       `json:"trips,omitempty"`
	OpenedAt time.Time `json:"opened_at,omitzero"`
	Until    time.Time `json:"until,omitzero"`
	ProbeAt  time.Time `json:"probe_at,omitzero"` // when the probe began that has no outcome yet
	Kind     Kind      `json:"kind,omitempty"`    // it became unfit of
	Why      string    `json:"why,omitempty"`
	// Figures of all runs. Recent are the last outcomes, oldest first, "+" and "-", at most maxRecent. Unpriced counts
	// the runs that did not tell their cost.
	Runs        int       `json:"runs"`
	Successes   int       `json:"successes"`
	Recent      string    `json:"recent,omitempty"`
	CostUSD     float64   `json:"cost_usd"`
	Unpriced    int       `json:"unpriced,omitempty"`
	LastSuccess time.Time `json:"last_success,omitzero"`
	LastFailure time.Time `json:"last_failure,omitzero"`
}

// SuccessRate is that of the recent runs; ok is false without any.
func (b Breaker) SuccessRate() (rate float64, ok bool) {
	if b.Recent == "" {
		return 0, false
	}
	return float64(strings.Count(b.Recent, "+")) / float64(len(b.Recent)), true
}

// CostPerSuccess is what one success has cost, failures included; ok is false without a success or a known cost.
func (b Breaker) CostPerSuccess() (usd float64, ok bool) {
	if b.Successes == 0 || b.Unpriced >= b.Runs {
		return 0, false
	}
	return b.CostUSD / float64(b.Successes), true
}

// Health is what is known of all agents, in the order in which they were first seen. An agent that is not in it is fit.
type Health struct {
	Limits   BreakerLimits `json:"limits,omitzero"`
	Breakers []Breaker     `json:"breakers,omitempty"`
}

func (h Health) index(a Agent) int {
	return slices.IndexFunc(h.Breakers, func(b Breaker) bool { return b.Agent == a })
}

// Of is what is known of an agent.
func (h Health) Of(a Agent) Breaker {
	if i := h.index(a); i >= 0 {
		return h.Breakers[i]
	}
	return Breaker{Agent: a, Circuit: Closed}
}

// at is the breaker of an agent, made if need be; the one that was used longest ago is dropped when there are too many.
func (h *Health) at(a Agent) *Breaker {
	if i := h.index(a); i >= 0 {
		return &h.Breakers[i]
	}
	if len(h.Breakers) >= maxAgents {
		old := slices.MinFunc(h.Breakers, func(x, y Breaker) int { return x.lastSeen().Compare(y.lastSeen()) })
		h.Breakers = slices.DeleteFunc(h.Breakers, func(b Breaker) bool { return b.Agent == old.Agent })
	}
	h.Breakers = append(h.Breakers, Breaker{Agent: a, Circuit: Closed})
	return &h.Breakers[len(h.Breakers)-1]
}

func (b Breaker) lastSeen() time.Time { return later(b.LastSuccess, b.LastFailure) }

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// Look is an agent as a candidate: fit, on probation, or unfit until a time. limit is when a limit that all loops share
// ends, zero for none. It changes nothing.
func (h Health) Look(a Agent, tier int, limit, now time.Time) Candidate {
	b := h.Of(a)
	c := Candidate{Agent: a, Tier: tier, LastSuccess: b.LastSuccess}
	switch {
	case limit.After(now):
		c.Until, c.Why = limit, "its provider's limit is not over"
		if b.Circuit != Closed && b.Until.After(limit) {
			c.Until = b.Until
		}
		if b.Circuit == OpenCut && b.Until.IsZero() {
			c.Until, c.Why = time.Time{}, b.Why
		}
	case b.Circuit == OpenCut && b.Until.IsZero():
		c.Why = b.Why
	case b.Circuit == OpenCut && b.Until.After(now):
		c.Until, c.Why = b.Until, b.Why
	case b.Circuit == Closed:
		c.Fit = true
	case !b.ProbeAt.IsZero() && now.Before(b.ProbeAt.Add(probeTime)):
		c.Until, c.Why = b.ProbeAt.Add(probeTime), "another task shows whether it is fit again"
	default:
		c.Probe = true
	}
	return c
}

// Started notes that an agent was given a task. Of one that was unfit it is the probe.
func (h *Health) Started(a Agent, now time.Time) {
	b := h.at(a)
	if b.Circuit == OpenCut && !b.Until.IsZero() && !b.Until.After(now) {
		b.Circuit = HalfOpen
	}
	if b.Circuit == HalfOpen {
		b.ProbeAt = now
	}
}

// Result is how a run ended: a success, or a failure as Detect gives it.
type Result struct {
	Agent   Agent
	Failure *Event   // nil: it succeeded
	CostUSD *float64 // nil: nobody knows
}

// Ended notes how a run ended. It reports whether the agent became unfit by it, or stays so because it was a probe. A
// success that is told after a later failure only counts. A run that superloop broke off is Broken off.
func (h *Health) Ended(r Result, now time.Time) (tripped bool) {
	b := h.at(r.Agent)
	probe := b.Circuit == HalfOpen
	late := r.Failure == nil && b.LastFailure.After(now)
	if !late {
		b.ProbeAt = time.Time{}
	}
	b.Runs++
	if r.CostUSD != nil && *r.CostUSD >= 0 {
		b.CostUSD += *r.CostUSD
	} else {
		b.Unpriced++
	}
	if r.Failure == nil {
		b.Successes++
		b.Recent = recent(b.Recent + "+")
		b.LastSuccess = later(b.LastSuccess, now)
		if late {
			return false
		}
		b.forgive()
		return false
	}
	e := *r.Failure
	b.LastFailure = now
	b.Recent = recent(b.Recent + "-")
	switch e.Blame {
	case BlameAccount, BlameSettings:
		h.open(b, e, time.Time{}, now)
		b.Until = time.Time{}
		return true
	case BlameProvider:
		h.open(b, e, e.Until, now)
		return true
	case BlameRunner:
	default:
		return false // the task, the environment and chance do not speak against it
	}
	b.InRow++
	if key := e.Task.Key(); len(b.Tasks) < 2 && !slices.Contains(b.Tasks, key) {
		b.Tasks = append(b.Tasks, key)
	}
	if !probe && (b.InRow < h.Limits.WithDefaults().Trip || len(b.Tasks) < 2) {
		return false
	}
	h.open(b, e, time.Time{}, now)
	return true
}

// Broken notes that a run was broken off by superloop: it says nothing of the agent.
func (h *Health) Broken(a Agent) {
	if i := h.index(a); i >= 0 {
		h.Breakers[i].ProbeAt = time.Time{}
	}
}

// Reset forgets what speaks against an agent: an operator has mended it. The figures stay.
func (h *Health) Reset(a Agent) { h.at(a).forgive() }

func (b *Breaker) forgive() {
	b.Circuit, b.InRow, b.Tasks, b.Trips, b.Kind, b.Why = Closed, 0, nil, 0, "", ""
	b.OpenedAt, b.Until, b.ProbeAt = time.Time{}, time.Time{}, time.Time{}
}

// open makes an agent unfit until a time that was told, or for the backoff.
func (h *Health) open(b *Breaker, e Event, until, now time.Time) {
	l := h.Limits.WithDefaults()
	wait := l.FirstMS
	for n := 0; n < b.Trips && wait < l.MostMS; n++ {
		wait *= 2
	}
	b.Trips++
	b.Circuit, b.OpenedAt, b.Kind, b.Why = OpenCut, now, e.Kind, clip(e.Why)
	b.Until = now.Add(ms(min(wait, l.MostMS)))
	if until.After(now) {
		b.Until = until
	}
}

func recent(s string) string { return s[max(0, len(s)-maxRecent):] }

func ms(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// Candidate is an agent that might take a task, as the config, Health and the shared limits see it now.
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

// soonest is when the first of the list but failed may be usable again; zero when none comes back by itself.
func soonest(list []Candidate, failed []Agent) time.Time {
	var at time.Time
	for _, c := range list {
		if !c.Until.IsZero() && !slices.Contains(failed, c.Agent) && (at.IsZero() || c.Until.Before(at)) {
			at = c.Until
		}
	}
	return at
}
