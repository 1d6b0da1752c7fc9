package local

import (
	"context"
	"time"

	"github.com/superloop/superloop/loop"

	"go.uber.org/zap"

	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/recovery/preflight"
	"github.com/superloop/superloop/recovery/respond"
	"github.com/superloop/superloop/roles/agent"
)

// storeTime bounds how long a file that all loops share is waited for.
const storeTime = 2 * time.Second

// cliOf is a runner as roles/agent knows it.
func cliOf(r config.Runner) agent.CLI {
	return agent.CLI{Command: r.Command, Args: r.Args, FastArgs: r.FastArgs, PromptMode: r.PromptMode, Env: r.Env, Adapter: r.Adapter, PassEnv: r.PassEnv}
}

// AgentOf is who a choice of a configuration is, and whose quota it draws on, in the
// environment that its supervisor has.
func AgentOf(cfg *config.Config, c config.Choice, environ []string) (respond.Agent, agent.Account) {
	account := agent.AccountOf(agent.Request{CLI: cliOf(cfg.Runners[c.Runner]), Model: c.Model}, environ)
	return respond.Agent{Runner: c.Runner, Provider: account.Provider, Model: c.Model}, account
}

func (d *driver) agentOf(c config.Choice) (respond.Agent, agent.Account) {
	return AgentOf(d.o.Config, c, d.host.Env())
}

func (d *driver) healthStore() preflight.Store[respond.Health] {
	return preflight.Store[respond.Health]{Disk: d.o.Disk, Path: d.paths.Health()}
}

// candidates are all who may do a role, and how fit each is now.
func (d *driver) candidates(role config.Role) []respond.Candidate {
	health, err := d.healthStore().Load()
	if err != nil {
		d.log.Warn("what is known of the runners cannot be read; all count as fit", zap.Error(err))
	}
	now := d.host.Now(d.state)
	var out []respond.Candidate
	for _, c := range role.Runners {
		who, account := d.agentOf(c)
		limit := time.Time{}
		if known, limited, err := d.cooldowns.Get(account); err == nil && limited {
			limit = d.later(known.Until)
		}
		cand := health.Look(who, c.Tier, limit, now)
		if len(role.Runners) == 1 && !limit.After(now) {
			cand.Fit, cand.Probe, cand.Until = true, false, time.Time{} // there is nobody else to wait with
		}
		out = append(out, cand)
	}
	return out
}

// choose gives the role to the one whom the machine names, or else to the first
// of its list who is fit. It reports until when nobody is, for a time that is
// known.
func (d *driver) choose(role config.Role, e loop.Effect) (_ config.Role, unfit respond.Candidate) {
	for _, c := range role.Runners {
		if e.Runner == c.Runner && e.Model == c.Model {
			return d.with(role, c), unfit
		}
	}
	if len(role.Runners) < 2 || d.state.Plan.Respond == nil {
		return role, unfit
	}
	list := d.candidates(role)
	best := -1
	for i, c := range list {
		if c.Fit || c.Probe && best < 0 {
			best = i
		}
		if c.Fit {
			break
		}
	}
	if best < 0 {
		for i, c := range list {
			if !c.Until.IsZero() && (unfit.Until.IsZero() || c.Until.Before(unfit.Until)) {
				unfit, best = list[i], i
			}
		}
	}
	return d.with(role, role.Runners[max(best, 0)]), unfit
}

// with is the role as one of its runners does it.
func (d *driver) with(role config.Role, c config.Choice) config.Role {
	role.Runner, role.Model, role.Permissions = c.Runner, c.Model, c.Permissions
	return role
}

// choiceOf is who does the role.
func choiceOf(role config.Role) config.Choice {
	return config.Choice{Runner: role.Runner, Model: role.Model}
}

// began notes that somebody who was unfit is tried again.
func (d *driver) began(who respond.Agent) {
	h, err := d.healthStore().Load()
	if err != nil || h.Of(who).Circuit == respond.Closed {
		return
	}
	d.updateHealth(func(h *respond.Health) bool { h.Started(who, d.host.Now(d.state)); return true })
}

// ended notes how somebody's run has ended, and tells if they became unfit by it.
func (d *driver) ended(who respond.Agent, f *loop.RoleEnded) *respond.TrippedFields {
	tripped := false
	var now respond.Breaker
	limits, at, broken, r := breakerLimits(d.loop.Respond.Breaker), d.host.Now(d.state), f.Outcome == loop.OutcomeInterrupted, respond.Result{Agent: who, CostUSD: f.CostUSD}
	if f.Failure != nil {
		r.Failure = &f.Failure.Event
	}
	note := func() {
		d.updateHealth(func(h *respond.Health) bool {
			if broken {
				h.Broken(who)
				return true
			}
			h.Limits = limits
			tripped = h.Ended(r, at)
			now = h.Of(who)
			return true
		})
	}
	if r.Failure == nil {
		note()
		return nil
	}
	note()
	if !tripped {
		return nil
	}
	fields := now.Tripped()
	return &fields
}

func breakerLimits(b config.Breaker) respond.BreakerLimits {
	return respond.BreakerLimits{Trip: b.Failures, FirstMS: b.First.Milliseconds(), MostMS: b.Most.Milliseconds()}
}

// believed forgets what speaks against the runners of a role: a person has mended
// them, or says so.
func (d *driver) believed(role string) {
	if d.state.Plan.Respond == nil {
		return
	}
	d.updateHealth(func(h *respond.Health) bool {
		for _, c := range d.roleConfig(role).Runners {
			who, _ := d.agentOf(c)
			if h.Of(who).Circuit != respond.Closed {
				h.Reset(who)
			}
		}
		return true
	})
}

// updateHealth changes what is known of the runners. Losing it is no trouble for
// the loop.
func (d *driver) updateHealth(change func(*respond.Health) bool) {
	ctx, stop := context.WithTimeout(context.Background(), storeTime)
	defer stop()
	if _, err := d.healthStore().Update(ctx, change); err != nil {
		d.log.Warn("what is known of the runners could not be kept", zap.Error(err))
	}
}

// watch adds the end of a run to those of all loops, and gives the alerts when
// failures are more than one role's.
func (d *driver) watch(who respond.Agent, f *loop.RoleEnded) []respond.Alert {
	if f.Outcome == loop.OutcomeInterrupted {
		return nil
	}
	s := respond.Sample{At: d.host.Now(d.state), Task: d.task(f.Role).Key(), Loop: d.o.LoopID, Agent: who}
	if f.Failure != nil {
		s.Failed, s.Category = true, f.Failure.Category
	}
	var alerts []respond.Alert
	limits, at := thresholds(d.loop.Respond.Systemic), s.At
	note := func() {
		ctx, stop := context.WithTimeout(context.Background(), storeTime)
		defer stop()
		if _, err := d.watchStore().Update(ctx, func(w *respond.Watch) bool {
			w.Thresholds = limits
			if !s.Failed {
				w.Note(s)
				return true
			}
			alerts = w.Add(s, at)
			return true
		}); err != nil {
			d.log.Warn("the ends of role runs could not be kept", zap.Error(err))
		}
	}
	if !s.Failed { // a success raises no alarm
		note()
		return nil
	}
	note()
	return alerts
}

func (d *driver) watchStore() preflight.Store[respond.Watch] {
	return preflight.Store[respond.Watch]{Disk: d.o.Disk, Path: d.paths.Watched()}
}

// thresholds are those of the configuration: there 0 switches off.
func thresholds(s config.Systemic) respond.Thresholds {
	off := func(n int) int {
		if n == 0 {
			return -1
		}
		return n
	}
	rate := func(r float64) float64 {
		if r == 0 {
			return -1
		}
		return r
	}
	return respond.Thresholds{WindowMS: s.Window.Milliseconds(), MinRuns: s.MinRuns, WarnRate: rate(s.WarnRate), CriticalRate: rate(s.CriticalRate),
		SameCategory: off(s.SameCategory), SilentRuns: off(s.SilentRuns)}
}

// task is what a role of this loop has to do.
func (d *driver) task(role string) respond.Task { return respond.Task{Loop: d.o.LoopID, Role: role} }
