package effects

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/recovery/failures"
	"github.com/superloop/superloop/recovery/preflight"
	"github.com/superloop/superloop/roles/agent"
	"github.com/superloop/superloop/roles/agent/class"
	"github.com/superloop/superloop/roles/agent/cooldown"
)

const storeTime = 2 * time.Second // bounds the wait for the lock of a file that all loops share

// CLIOf converts a runner of the configuration to the type of roles/agent.
func CLIOf(r config.Runner) agent.CLI {
	return agent.CLI{Command: r.Command, Args: r.Args, FastArgs: r.FastArgs, PromptMode: r.PromptMode, Env: r.Env, Adapter: r.Adapter, PassEnv: r.PassEnv}
}

// AgentOf returns the agent that a choice of the configuration means, and the account whose quota this agent uses.
// environ is the environment of the supervisor.
func AgentOf(cfg *config.Config, c config.Choice, environ []string) (failures.Agent, agent.Account) {
	account := agent.AccountOf(agent.Request{CLI: CLIOf(cfg.Runners[c.Runner]), Model: c.Model}, environ)
	return failures.Agent{Runner: c.Runner, Provider: account.Provider, Model: c.Model}, account
}

// Task names the task of a role of this loop.
func (h *Host) Task(role string) failures.Task { return failures.Task{Loop: h.LoopID, Role: role} }

// RoleOf returns the role of a loop by its name. If the loop has no such role, the result holds only the name.
func RoleOf(l config.Loop, name string) config.Role {
	for _, r := range l.Roles {
		if r.Name == name {
			return r
		}
	}
	return config.Role{Name: name}
}

// Runners holds what all loops know of the runners: their health and the outcomes of their last runs (files of the
// repository), and the limits of their accounts (files of the machine). A loop works without these files. Runners logs
// a file that it cannot read or write.
type Runners struct {
	*Host
	Cooldowns *cooldown.Store
	// Stopped returns, for a role, the id of a learned check that fails now and would keep a runner from starting, or "".
	// nil means that there is no such check.
	Stopped func(s loop.State, role string) func(runner string) string
}

// HealthStore returns the store of the health of the runners.
func (h *Host) HealthStore() preflight.Store[failures.Health] {
	return preflight.Store[failures.Health]{Disk: h.Disk, Path: h.Paths.Health()}
}

// WatchStore returns the store of the outcomes of the role runs of all loops.
func (h *Host) WatchStore() preflight.Store[failures.Watch] {
	return preflight.Store[failures.Watch]{Disk: h.Disk, Path: h.Paths.Watched()}
}

// Candidates returns all agents that may do a role, and how fit each of them is now.
func (r *Runners) Candidates(s loop.State, role string) []failures.Candidate {
	health, err := r.HealthStore().Load()
	r.Warn("what is known of the runners cannot be read; all count as fit", err)
	set, now := r.Settings(), r.Now(s)
	choices := RoleOf(set.Loop, role).Runners
	stopped := func(string) string { return "" }
	if r.Stopped != nil {
		stopped = r.Stopped(s, role)
	}
	var out []failures.Candidate
	for _, c := range choices {
		who, account := AgentOf(set.Config, c, r.Env())
		limit := time.Time{}
		if known, limited, err := r.Cooldowns.Get(account); err == nil && limited {
			limit = r.later(s, known.Until)
		}
		cand := health.Look(who, role, c.Tier, limit, now)
		cand.Check = stopped(c.Runner)
		if len(choices) == 1 && !limit.After(now) {
			cand.Fit, cand.Probe, cand.Until = true, false, time.Time{} // it is the only runner of the role
		}
		out = append(out, cand)
	}
	return out
}

// choose gives the role to the agent that the machine names. If the machine names none, choose takes the first agent in
// the role's list that is fit, or else the first that may be probed. It takes an agent that a learned check stops only if
// no other agent will ever do: the environment checks then stop it. If there is none, unfit is the agent that becomes fit
// first at a known time.
func (r *Runners) choose(e loop.Effect, s loop.State, role config.Role) (_ config.Role, unfit failures.Candidate) {
	for _, c := range role.Runners {
		if e.Runner == c.Runner && e.Model == c.Model {
			return with(role, c), unfit
		}
	}
	if len(role.Runners) < 2 || s.Plan.Respond == nil {
		return role, unfit
	}
	list := r.Candidates(s, role.Name)
	best := -1
	for i, c := range list {
		if c.Check != "" {
			continue
		}
		if c.Fit || c.Probe && best < 0 {
			best = i
		}
		if c.Fit {
			break
		}
	}
	if best < 0 {
		best = slices.IndexFunc(list, func(c failures.Candidate) bool { return c.Check != "" && (c.Fit || c.Probe) })
		for i, c := range list {
			if !c.Until.IsZero() && (unfit.Until.IsZero() || c.Until.Before(unfit.Until)) {
				unfit, best = list[i], i
			}
		}
	}
	return with(role, role.Runners[max(best, 0)]), unfit
}

func with(role config.Role, c config.Choice) config.Role {
	role.Runner, role.Model, role.Permissions = c.Runner, c.Model, c.Permissions
	return role
}

// began notes that an agent that was unfit gets a task again.
func (r *Runners) began(s loop.State, who failures.Agent) {
	if h, err := r.HealthStore().Load(); err != nil || h.Of(who).Circuit == failures.Closed {
		return
	}
	r.updateHealth(func(h *failures.Health) bool { h.Started(who, r.Now(s)); return true })
}

// Believed resets the health of the runners of a role after the operator has repaired them, or has said so.
func (r *Runners) Believed(s loop.State, role string) {
	if s.Plan.Respond == nil {
		return
	}
	set := r.Settings()
	r.updateHealth(func(h *failures.Health) (changed bool) {
		for _, c := range RoleOf(set.Loop, role).Runners {
			who, _ := AgentOf(set.Config, c, r.Env())
			if h.Of(who).Circuit != failures.Closed {
				h.Reset(who)
				changed = true
			}
		}
		return changed
	})
}

func (r *Runners) updateHealth(change func(*failures.Health) bool) {
	r.Warn("what is known of the runners could not be kept", Update(r.HealthStore(), change))
}

// Update changes a file that all loops share. It waits at most storeTime for the file's lock.
func Update[T any](store preflight.Store[T], change func(*T) bool) error {
	ctx, stop := context.WithTimeout(context.Background(), storeTime)
	defer stop()
	_, err := store.Update(ctx, change)
	return err
}

// end notes how a run has ended. tripped is set if this run made the runner unfit. alerts tell of failures that affect
// more than one role. A run that superloop has interrupted counts neither as a failure nor as a probe.
func (r *Runners) end(s loop.State, who failures.Agent, f *loop.RoleEnded) (tripped *failures.TrippedFields, alerts []failures.Alert) {
	if f.Outcome == loop.OutcomeInterrupted {
		if h, err := r.HealthStore().Load(); err != nil || !h.Of(who).ProbeAt.IsZero() {
			r.updateHealth(func(h *failures.Health) bool { h.Broken(who); return true })
		}
		return nil, nil
	}
	set, at := r.Settings().Loop.Respond, r.Now(s)
	result := failures.Result{Agent: who, Role: f.Role, CostUSD: f.CostUSD}
	sample := failures.Sample{At: at, Task: r.Task(f.Role).Key(), Loop: r.LoopID, Agent: who}
	if f.Failure != nil {
		result.Failure, sample.Failed, sample.Category = &f.Failure.Event, true, f.Failure.Category
		if f.Failure.Weak {
			sample.Category = failures.CategoryUnknown // a guess is no reason for an alert of its own
		}
	}
	r.updateHealth(func(h *failures.Health) bool {
		h.Limits = breakerLimits(set.Breaker)
		if h.Ended(result, at) {
			fields := h.Of(who).Tripped()
			tripped = &fields
		}
		return true
	})
	r.Warn("the ends of role runs could not be kept", Update(r.WatchStore(), func(w *failures.Watch) bool {
		w.Thresholds = thresholds(set.Systemic)
		w.Note(sample)
		if sample.Failed {
			alerts = w.Look(at)
		}
		return true
	}))
	return tripped, alerts
}

func breakerLimits(b config.Breaker) failures.BreakerLimits {
	return failures.BreakerLimits{Trip: b.Failures, FirstMS: b.First.Milliseconds(), MostMS: b.Most.Milliseconds()}
}

// thresholds converts the thresholds of the configuration, where 0 switches a threshold off.
func thresholds(s config.Systemic) failures.Thresholds {
	off := func(n int) int { return cmp.Or(n, -1) }
	rate := func(r float64) float64 { return cmp.Or(r, -1) }
	return failures.Thresholds{WindowMS: s.Window.Milliseconds(), MinRuns: s.MinRuns, WarnRate: rate(s.WarnRate), CriticalRate: rate(s.CriticalRate),
		SameCategory: off(s.SameCategory), SilentRuns: off(s.SilentRuns)}
}

// leastWait is the shortest wait for a limit. Without it, a reset time that has just passed, or a clock that is
// slightly wrong, would cause a storm of requests.
const leastWait = time.Second

// coolingDown returns the fact loop.Limited if the account that the role uses is known to be limited. Any loop of this
// machine may have met that limit.
func (r *Runners) coolingDown(e loop.Effect, s loop.State, role config.Role, account agent.Account) (loop.Fact, bool) {
	c, ok, err := r.Cooldowns.Get(account)
	r.Warn("what is known of limits cannot be read; the runner will tell", err)
	if !ok {
		return nil, false
	}
	until := r.later(s, c.Until)
	return loop.Limited{Of: loop.To(e), Role: role.Name, Runner: role.Runner, Class: string(c.Class), Source: loop.SourceShared, By: c.By,
		LimitFact: loop.LimitFact{Provider: account.Provider, Account: account.ID, Kind: c.Kind, Text: c.Text, Until: until, Strikes: c.Strikes, SharedUntil: c.Until.UTC().Truncate(time.Millisecond)}}, true
}

// later returns a time a little after at, by a random amount, so that loops that wait for one account do not all go on
// in the same instant.
func (r *Runners) later(s loop.State, at time.Time) time.Time {
	now := r.Now(s)
	wait := max(at.Sub(now), leastWait)
	return now.Add(cooldown.Jitter(wait, r.Random)).Truncate(time.Millisecond)
}

// meetLimit computes until when the loop waits for a limit that a run has met, and shares the limit with the other
// loops.
func (r *Runners) meetLimit(s loop.State, account agent.Account, l agent.Learned) loop.LimitFact {
	known, running, err := r.Cooldowns.Get(account)
	r.Warn("what is known of limits cannot be read", err)
	c := cooldown.Cooldown{Account: account, Class: l.Class, Text: l.ErrorText, SetAt: r.Now(s),
		Strikes: known.Strikes, By: r.LoopID + " in " + r.Paths.Repo}
	if !running || known.Class != c.Class { // else this run began before another loop met the same limit
		c.Strikes++
	}
	c.Until = c.SetAt.Add(cooldown.Backoff(c.Class, c.Strikes))
	f := loop.LimitFact{Provider: account.Provider, Account: account.ID, Strikes: c.Strikes}
	if l.Limit != nil {
		c.Kind = l.Limit.Kind
		if l.Limit.ResetsAt.After(c.SetAt) {
			f.ResetsAt = l.Limit.ResetsAt.UTC()
			c.Until, c.Told = f.ResetsAt, true
		}
	}
	f.Kind, f.Text, f.Until = c.Kind, c.Text, r.later(s, c.Until)
	if err := r.Cooldowns.Set(c); err != nil {
		r.Log.Warn("other loops could not be told of the limit", zap.Error(err))
		return f
	}
	f.SharedUntil = c.Until.UTC().Truncate(time.Millisecond)
	return f
}

// works removes the known limits of an account, because a run on it has succeeded.
func (r *Runners) works(account agent.Account) {
	r.Warn("what was known of limits could not be forgotten", r.Cooldowns.Succeeded(account))
}

// loginFix returns what the operator types or does so that the runner works again.
func loginFix(name string, runner config.Runner, failure class.Class) string {
	login := agent.For(agent.CLI{Command: runner.Command, Adapter: runner.Adapter}).Profile().Login
	if failure == class.Billing {
		return "add credit to the account of runner " + name
	}
	if login == "" {
		return fmt.Sprintf("log in with %s, or set its key", runner.Command[0])
	}
	return login
}
