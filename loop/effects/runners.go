package effects

import (
	"context"
	"io/fs"
	"os"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/recovery/failures"
	"github.com/superloop/superloop/recovery/preflight"
	"github.com/superloop/superloop/roles/agent"
	"github.com/superloop/superloop/roles/agent/cooldown"
)

// storeTime bounds how long a file that all loops share is waited for.
const storeTime = 2 * time.Second

// CLIOf is a runner as roles/agent knows it.
func CLIOf(r config.Runner) agent.CLI {
	return agent.CLI{Command: r.Command, Args: r.Args, FastArgs: r.FastArgs, PromptMode: r.PromptMode, Env: r.Env, Adapter: r.Adapter, PassEnv: r.PassEnv}
}

// AgentOf is who a choice of a configuration is, and whose quota it draws on, in the
// environment that its supervisor has.
func AgentOf(cfg *config.Config, c config.Choice, environ []string) (failures.Agent, agent.Account) {
	account := agent.AccountOf(agent.Request{CLI: CLIOf(cfg.Runners[c.Runner]), Model: c.Model}, environ)
	return failures.Agent{Runner: c.Runner, Provider: account.Provider, Model: c.Model}, account
}

// Task is what a role of this loop has to do.
func (h *Host) Task(role string) failures.Task { return failures.Task{Loop: h.LoopID, Role: role} }

// RoleOf is a role of a loop; one that the loop does not have has only its name.
func RoleOf(l config.Loop, name string) config.Role {
	for _, r := range l.Roles {
		if r.Name == name {
			return r
		}
	}
	return config.Role{Name: name}
}

// Runners is what all loops know of those who do the roles: their health and how their last runs ended (files of the
// repository), and the limits of their accounts (files of the machine). Losing any of it is no trouble for a loop; what
// cannot be read or kept is logged.
type Runners struct {
	*Host
	Cooldowns *cooldown.Store

	mu      sync.Mutex
	held    []ended // successes that are not in the files yet, oldest first
	written time.Time
	timer   *time.Timer // writes them
	limits  failures.BreakerLimits
	alarm   failures.Thresholds
	health  lastRead[failures.Health]
	watched lastRead[failures.Watch]
}

// HealthStore is where the health of the runners is kept.
func (r *Runners) HealthStore() preflight.Store[failures.Health] {
	return preflight.Store[failures.Health]{Disk: r.Disk, Path: r.Paths.Health()}
}

// WatchStore is where the ends of the role runs of all loops are kept.
func (r *Runners) WatchStore() preflight.Store[failures.Watch] {
	return preflight.Store[failures.Watch]{Disk: r.Disk, Path: r.Paths.Watched()}
}

// Health is what is known of the runners now, with what is not in the file yet.
func (r *Runners) Health() (failures.Health, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	h, err := r.health.load(r.HealthStore())
	h = h.Clone()
	for _, e := range r.held {
		h.Ended(e.result, e.sample.At)
	}
	return h, err
}

// Candidates are all who may do a role, and how fit each is now.
func (r *Runners) Candidates(s loop.State, role string) []failures.Candidate {
	health, err := r.Health()
	if err != nil {
		r.Log.Warn("what is known of the runners cannot be read; all count as fit", zap.Error(err))
	}
	set, now := r.Settings(), r.Now(s)
	choices := RoleOf(set.Loop, role).Runners
	var out []failures.Candidate
	for _, c := range choices {
		who, account := AgentOf(set.Config, c, r.Env())
		limit := time.Time{}
		if known, limited, err := r.Cooldowns.Get(account); err == nil && limited {
			limit = r.later(s, known.Until)
		}
		cand := health.Look(who, c.Tier, limit, now)
		if len(choices) == 1 && !limit.After(now) {
			cand.Fit, cand.Probe, cand.Until = true, false, time.Time{} // there is nobody else to wait with
		}
		out = append(out, cand)
	}
	return out
}

// choose gives the role to the one whom the machine names, or else to the first of its list who is fit. It reports
// until when nobody is, for a time that is known.
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
	return with(role, role.Runners[max(best, 0)]), unfit
}

// with is the role as one of its runners does it.
func with(role config.Role, c config.Choice) config.Role {
	role.Runner, role.Model, role.Permissions = c.Runner, c.Model, c.Permissions
	return role
}

// began notes that somebody who was unfit is tried again.
func (r *Runners) began(s loop.State, who failures.Agent) {
	if h, err := r.Health(); err != nil || h.Of(who).Circuit == failures.Closed {
		return
	}
	r.updateHealth(func(h *failures.Health) bool { h.Started(who, r.Now(s)); return true })
}

// Believed forgets what speaks against the runners of a role: a human has mended them, or says so.
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

// updateHealth changes what is known of the runners.
func (r *Runners) updateHealth(change func(*failures.Health) bool) {
	ctx, stop := context.WithTimeout(context.Background(), storeTime)
	defer stop()
	if _, err := r.HealthStore().Update(ctx, change); err != nil {
		r.Log.Warn("what is known of the runners could not be kept", zap.Error(err))
	}
}

// lastRead is what a store held when it was read last. It stands in for the file for
// as long as that is the same one: a store replaces its file with each change.
type lastRead[T any] struct {
	value T
	info  fs.FileInfo
}

// load reads the store if it has changed. What it gives must not be changed.
func (l *lastRead[T]) load(store preflight.Store[T]) (T, error) {
	// Asked first: a file that is replaced in between is read again the next time.
	info, err := os.Stat(store.Path)
	if err == nil && l.info != nil && os.SameFile(info, l.info) && info.ModTime().Equal(l.info.ModTime()) && info.Size() == l.info.Size() {
		return l.value, nil
	}
	l.info = nil
	v, lerr := store.Load()
	if err == nil && lerr == nil {
		l.value, l.info = v, info
	}
	return v, lerr
}
