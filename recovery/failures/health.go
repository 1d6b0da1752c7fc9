package failures

import (
	"slices"
	"strings"
	"time"
)

// Circuit is the state of a breaker.
type Circuit string

// These are the states of a breaker, and the bounds of a Health.
const (
	Closed   Circuit = "closed"    // the agent is fit
	OpenCut  Circuit = "open"      // no task may use the agent before Until
	HalfOpen Circuit = "half_open" // one run may show whether the agent is fit again

	maxRecent  = 50
	roleRecent = 20
	maxRoles   = 30
	maxAgents  = 100
	probeTime  = time.Hour // the time after which another probe is allowed, so that a lost probe blocks nothing
)

// BreakerLimits say when an agent becomes unfit. A zero field stands for its default.
type BreakerLimits struct {
	// Trip is the number of consecutive failures, over at least two tasks, that make an agent unfit. Only failures that
	// the runner is to blame for count. The default is 3.
	Trip int `json:"trip,omitempty"`
	// FirstMS is the time for which the agent is unfit at first. Each failed probe doubles the time, up to MostMS. The
	// defaults are 1 minute and 30 minutes.
	FirstMS int64 `json:"first_ms,omitempty"`
	MostMS  int64 `json:"most_ms,omitempty"`
}

// WithDefaults returns l with the default in each zero field.
func (l BreakerLimits) WithDefaults() BreakerLimits {
	set(&l.Trip, 3)
	set(&l.FirstMS, time.Minute.Milliseconds())
	set(&l.MostMS, (30 * time.Minute).Milliseconds())
	return l
}

// Breaker records the health of one agent.
type Breaker struct {
	Agent   Agent   `json:"agent"`
	Circuit Circuit `json:"circuit"`
	// InRow counts the failures since the last success that the runner is to blame for. Tasks are the first two tasks
	// of these failures.
	InRow int      `json:"in_row,omitempty"`
	Tasks []string `json:"tasks,omitempty"`
	// Trips counts how often the agent became unfit since its last success. Until is the time of the next probe. If
	// Until is zero and the breaker is open, the agent stays unfit until an operator has it reset (see Reset).
	Trips    int       `json:"trips,omitempty"`
	OpenedAt time.Time `json:"opened_at,omitzero"`
	Until    time.Time `json:"until,omitzero"`
	ProbeAt  time.Time `json:"probe_at,omitzero"` // the start of a probe without an outcome
	Kind     Kind      `json:"kind,omitempty"`    // the kind of the failure that made the agent unfit
	Why      string    `json:"why,omitempty"`
	// The figures cover all runs. Recent holds the last outcomes, oldest first, as "+" and "-", at most maxRecent.
	// Unpriced counts the runs without a known cost.
	Runs        int       `json:"runs"`
	Successes   int       `json:"successes"`
	Recent      string    `json:"recent,omitempty"`
	CostUSD     float64   `json:"cost_usd"`
	Unpriced    int       `json:"unpriced,omitempty"`
	LastSuccess time.Time `json:"last_success,omitzero"`
	LastFailure time.Time `json:"last_failure,omitzero"`
	// Roles are the figures of the runs in each role, the role of the last run last, at most maxRoles.
	Roles []RoleRecord `json:"roles,omitempty"`
}

// RoleRecord says how an agent does in one role.
type RoleRecord struct {
	Role      string `json:"role"`
	Runs      int    `json:"runs"`
	Successes int    `json:"successes"`
	Recent    string `json:"recent,omitempty"` // as in Breaker, at most roleRecent outcomes
}

// InRole returns the figures of the agent's runs in a role; zero without a run.
func (b Breaker) InRole(role string) RoleRecord {
	if i := slices.IndexFunc(b.Roles, func(r RoleRecord) bool { return r.Role == role }); i >= 0 {
		return b.Roles[i]
	}
	return RoleRecord{Role: role}
}

// ran records how a run in a role ended. When there are too many roles, ran drops the one that ran least recently.
func (b *Breaker) ran(role string, ok bool) {
	if role == "" {
		return
	}
	r := b.InRole(role)
	r.Runs++
	outcome := "-"
	if ok {
		r.Successes++
		outcome = "+"
	}
	r.Recent += outcome
	r.Recent = r.Recent[max(0, len(r.Recent)-roleRecent):]
	b.Roles = append(slices.DeleteFunc(slices.Clone(b.Roles), func(x RoleRecord) bool { return x.Role == role }), r)
	b.Roles = slices.Delete(b.Roles, 0, max(0, len(b.Roles)-maxRoles))
}

// SuccessRate returns the rate of success of the recent runs. ok is false without any run.
func (b Breaker) SuccessRate() (rate float64, ok bool) {
	if b.Recent == "" {
		return 0, false
	}
	return float64(strings.Count(b.Recent, "+")) / float64(len(b.Recent)), true
}

// CostPerSuccess returns the cost of all runs per success, failures included. ok is false without a success or a known
// cost.
func (b Breaker) CostPerSuccess() (usd float64, ok bool) {
	if b.Successes == 0 || b.Unpriced >= b.Runs {
		return 0, false
	}
	return b.CostUSD / float64(b.Successes), true
}

// Health records the health of all agents, in the order in which superloop first used them. An agent without a record
// is fit.
type Health struct {
	Limits   BreakerLimits `json:"limits,omitzero"`
	Breakers []Breaker     `json:"breakers,omitempty"`
}

func (h Health) index(a Agent) int {
	return slices.IndexFunc(h.Breakers, func(b Breaker) bool { return b.Agent == a })
}

// Of returns the record of an agent.
func (h Health) Of(a Agent) Breaker {
	if i := h.index(a); i >= 0 {
		return h.Breakers[i]
	}
	return Breaker{Agent: a, Circuit: Closed}
}

// at returns the record of an agent, and makes it if there is none. When there are too many records, at drops the one
// that was used least recently.
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

// Look describes an agent as a candidate for a role: fit, on probation, or unfit until a time. limit is the end of a
// limit that all loops share, zero for none. Look changes nothing.
func (h Health) Look(a Agent, role string, tier int, limit, now time.Time) Candidate {
	b := h.Of(a)
	recent := b.InRole(role).Recent
	c := Candidate{Agent: a, Tier: tier, LastSuccess: b.LastSuccess, Runs: len(recent), Failed: strings.Count(recent, "-")}
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

// Started records that an agent was given a task. If the agent was unfit, this run is the probe.
func (h *Health) Started(a Agent, now time.Time) {
	b := h.at(a)
	if b.Circuit == OpenCut && !b.Until.IsZero() && !b.Until.After(now) {
		b.Circuit = HalfOpen
	}
	if b.Circuit == HalfOpen {
		b.ProbeAt = now
	}
}

// Result says how a run in a role ended: with a success, or with a failure from Detect.
type Result struct {
	Agent   Agent
	Role    string
	Failure *Event   // nil: the run succeeded
	CostUSD *float64 // nil: the cost is unknown
}

// Ended records how a run ended. Ended reports whether the agent became unfit, or stays unfit because the run was a
// failed probe. If the success is older than the last recorded failure, it only counts in the figures. For a run that
// superloop broke off the caller calls Broken instead.
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
		b.ran(r.Role, true)
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
	if e.Blame == BlameRunner || e.Blame == BlameTask || e.Blame == BlameEnvironment {
		b.ran(r.Role, false) // a limit, a login or chance says nothing about how the agent does in this role
	}
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
		return false // failures by the task, the environment or chance do not make the agent unfit
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

// Broken records that superloop broke off a run, which says nothing about the agent.
func (h *Health) Broken(a Agent) {
	if i := h.index(a); i >= 0 {
		h.Breakers[i].ProbeAt = time.Time{}
	}
}

// Reset makes an agent fit again, because an operator has removed the reason. The figures stay.
func (h *Health) Reset(a Agent) { h.at(a).forgive() }

func (b *Breaker) forgive() {
	b.Circuit, b.InRow, b.Tasks, b.Trips, b.Kind, b.Why = Closed, 0, nil, 0, "", ""
	b.OpenedAt, b.Until, b.ProbeAt = time.Time{}, time.Time{}, time.Time{}
}

// open makes an agent unfit until the given time or, if there is none, for the backoff.
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
