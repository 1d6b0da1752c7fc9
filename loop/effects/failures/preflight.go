package failures

import (
	"context"
	"path/filepath"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/loop/effects"
	"github.com/superloop/superloop/recovery"
	"github.com/superloop/superloop/recovery/action"
	"github.com/superloop/superloop/recovery/failures"
	"github.com/superloop/superloop/recovery/preflight"
	"github.com/superloop/superloop/roles/agent/cooldown"
)

// CheckEnvironment makes the environment checks where they are due: before the first role of an iteration, before a
// role after a check has failed in this iteration, and before a role whose failure was analysed. It returns the fact
// that answers e, or nil if no check fails or none is due.
func (f *Performer) CheckEnvironment(ctx context.Context, e loop.Effect, s loop.State) loop.Fact {
	p, r := s.Plan, s.Response
	if p.Respond == nil || !p.Respond.Preflight || r.Overruled == s.Iteration {
		return nil
	}
	first := len(p.Roles) > 0 && e.Role == p.Roles[0] && e.Attempt == 1
	kept := r.Environment != nil && r.Environment.Iteration == s.Iteration
	known := r.Policy != nil && r.Policy.Analyses > 0 // the cause may be in the environment
	if !first && !kept && !known {
		return nil
	}
	began := f.Clock()
	broken := failures.Problems(f.look(ctx, s, true))
	if len(broken) == 0 {
		return nil
	}
	c := loop.EnvironmentBroken{Of: loop.To(e), Role: e.Role, Category: broken[0].Category}
	c.Findings, c.Action = broken, loop.EnvironmentOperator
	c.Why = strings.Join(loop.Whys(broken), "; ")
	for _, b := range broken {
		if b.Command == "" {
			continue
		}
		a := action.Draft{Command: b.Command, WorkingDir: f.placeOf(b), TimeoutMS: recovery.DefaultTimeout.Milliseconds(), Confidence: "high", Expected: "not so any more: " + b.Why}.Action()
		c.Command, c.Category, c.Action = &a, b.Category, loop.EnvironmentRecover
		break
	}
	if c.Command == nil && loop.OverAt(broken).After(f.Now(s)) {
		c.Action = loop.EnvironmentPause
	}
	c.TookUS = f.Clock().Sub(began).Microseconds()
	return c
}

// EnvironmentWhole reports whether no check fails now. It does not count the result, because superloop calls it while
// it waits for an operator and not before a role.
func (f *Performer) EnvironmentWhole(ctx context.Context, s loop.State) bool {
	return len(failures.Problems(f.look(ctx, s, false))) == 0
}

// placeOf returns the directory in which the command of a finding runs: the directory that the check looked at.
func (f *Performer) placeOf(found failures.Finding) string {
	for _, p := range f.checks() {
		if p.ID == found.ID && p.Spec.Path != "" && filepath.IsLocal(p.Spec.Path) {
			return filepath.ToSlash(filepath.Clean(p.Spec.Path))
		}
	}
	return "."
}

// checks returns all environment checks: the built-in ones, those of the configuration, and the learned ones.
func (f *Performer) checks() []failures.Prevention {
	out := append(failures.Builtin(), ConfiguredChecks(f.Settings().Loop.Respond)...)
	learned, err := f.preventions().Load()
	f.Warn("the checks that were learned cannot be read", err)
	seen := map[string]bool{}
	for _, p := range out {
		seen[p.ID] = true
	}
	for _, p := range learned.Checks {
		if !seen[p.ID] {
			out = append(out, p)
		}
	}
	return out
}

// brokenNow reports whether a check of the environment confirms a suspicion.
func (f *Performer) brokenNow(ctx context.Context, s loop.State, p failures.Prevention) bool {
	return len(failures.Problems(preflight.Check(ctx, []failures.Prevention{p}, f.Repo.Top, f.knowledge(s)))) > 0
}

// look makes the checks. With note, it also counts their results, and the failures that a check has prevented.
func (f *Performer) look(ctx context.Context, s loop.State, note bool) []failures.Finding {
	all := f.checks()
	found := preflight.Check(ctx, all, f.Repo.Top, f.knowledge(s))
	learned := len(all) > len(failures.Builtin())+len(ConfiguredChecks(f.Settings().Loop.Respond))
	if note && learned {
		f.noteFindings(s, found)
	}
	return found
}

// knowledge returns what the checks need to know besides the environment.
func (f *Performer) knowledge(s loop.State) preflight.Look {
	health, err := f.HealthStore().Load()
	f.Warn("what is known of the runners cannot be read", err)
	now := f.Settings()
	return LookOf(now.Config, []config.Loop{now.Loop}, health, f.Cooldowns, f.Env(), f.Now(s))
}

func (f *Performer) noteFindings(s loop.State, found []failures.Finding) {
	var retired []failures.Prevention
	f.Warn("what the checks have found could not be kept", effects.Update(f.preventions(), func(ps *failures.Preventions) bool {
		retired = ps.Note(found, f.Now(s))
		for _, p := range failures.Problems(found) {
			ps.Saved(p.ID)
		}
		return true
	}))
	for _, p := range retired {
		f.Log.Info("a check is given up", zap.String("check", p.ID), zap.String("because", p.RetiredOf))
	}
}

// Overrule notes a false alarm: a role succeeded although a check had failed.
func (f *Performer) Overrule(ctx context.Context, s loop.State, ended loop.RoleEnded) {
	r := s.Response
	if ended.Outcome != loop.OutcomeOK || r.Environment == nil || r.Overruled != s.Iteration || r.Environment.Role != ended.Role {
		return
	}
	f.Warn("a false alarm could not be noted", effects.Update(f.preventions(), func(ps *failures.Preventions) bool {
		for _, g := range r.Environment.Findings {
			ps.Overrule(g.ID, f.Now(s))
		}
		return true
	}))
}

func (f *Performer) preventions() preflight.Store[failures.Preventions] {
	return preflight.Store[failures.Preventions]{Disk: f.Disk, Path: f.Paths.Preventions()}
}

// ConfiguredChecks returns the checks of the configuration in its order, each once. It includes checks of an unknown
// kind, and returns the checks even if they are switched off (Respond.Preflight.Enabled).
func ConfiguredChecks(r config.Respond) []failures.Prevention {
	var out []failures.Prevention
	seen := map[string]bool{}
	for _, c := range r.Preflight.Checks {
		p := failures.NewCheck(failures.CheckKind(c.Kind),
			failures.CheckSpec{Path: c.Path, Want: c.Want, Manager: c.Manager, FreeMB: c.FreeMB, Port: c.Port, Name: c.Name, Address: c.Address},
			"the configuration asks for it", failures.AddedByConfig)
		if !seen[p.ID] {
			seen[p.ID] = true
			out = append(out, p)
		}
	}
	return out
}

// LookOf collects what the checks need to know besides the environment: where programs are found, which providers are
// limited, and which runners have no login. A limit that LookOf cannot read counts as none; then the run of the runner
// reveals it.
func LookOf(cfg *config.Config, loops []config.Loop, health failures.Health, cooldowns *cooldown.Store, environ []string, now time.Time) preflight.Look {
	look := preflight.Look{Path: variable(environ, "PATH"), Limits: map[string]time.Time{}, NoLogin: map[string]string{}, Now: now}
	for _, l := range loops {
		for _, role := range l.Roles {
			for _, c := range role.Runners {
				who, account := effects.AgentOf(cfg, c, environ)
				if known, limited, err := cooldowns.Get(account); err == nil && limited {
					look.Limits[who.Provider] = known.Until
				}
				if b := health.Of(who); b.Circuit == failures.OpenCut && b.Until.IsZero() && b.Kind == failures.KindAuth {
					look.NoLogin[c.Runner] = b.Why
				}
			}
		}
	}
	return look
}

func variable(env []string, name string) string {
	for i := len(env) - 1; i >= 0; i-- {
		if k, v, ok := strings.Cut(env[i], "="); ok && k == name {
			return v
		}
	}
	return ""
}
