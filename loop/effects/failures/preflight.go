package failures

import (
	"context"
	"path/filepath"
	"slices"
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

// CheckEnvironment makes the environment checks that may keep a runner from a role. All of them are due before the first
// role of an iteration, before a role after a check has failed in this iteration, and before a role whose failure was
// analysed. A check that was learned from failures of a role is due before each start of that role. CheckEnvironment
// returns the fact that answers e, or nil if no check fails or none is due.
func (f *Performer) CheckEnvironment(ctx context.Context, e loop.Effect, s loop.State, runner string) loop.Fact {
	p, r := s.Plan, s.Response
	if p.Respond == nil || !p.Respond.Preflight || r.Overruled == s.Iteration {
		return nil
	}
	first := len(p.Roles) > 0 && e.Role == p.Roles[0] && e.Attempt == 1
	kept := r.Environment != nil && r.Environment.Iteration == s.Iteration
	known := r.Policy != nil && r.Policy.Analyses > 0 // the cause may be in the environment
	all := first || kept || known
	began := f.Clock()
	broken := f.look(ctx, s, func(p failures.Prevention) bool {
		return p.Stops(f.LoopID, e.Role, runner) && (all || p.Scope.Role == e.Role)
	}, true)
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

// Stopped returns a function that names the learned check of a role that fails now and keeps a runner from starting, or
// "". It makes the checks once, and only those that concern single runners: any other check stops the role whoever does
// it.
func (f *Performer) Stopped(s loop.State, role string) func(runner string) string {
	p := s.Plan.Respond
	if p == nil || !p.Preflight || s.Response.Overruled == s.Iteration {
		return func(string) string { return "" }
	}
	learned, found := f.ofRunners(context.Background(), s, role)
	if g := s.Response.Environment; g == nil || len(g.Tried) == 0 {
		learned = slices.DeleteFunc(learned, func(p failures.Prevention) bool { // to repair it is better than to do without
			return slices.ContainsFunc(found, func(b failures.Finding) bool { return b.ID == p.ID && b.Command != "" })
		})
	}
	return func(runner string) string {
		for _, p := range learned {
			if p.Stops(f.LoopID, role, runner) {
				return p.ID
			}
		}
		return ""
	}
}

// ofRunners returns the learned checks that concern single runners in a role, and fail now, with what they find.
func (f *Performer) ofRunners(ctx context.Context, s loop.State, role string) ([]failures.Prevention, []failures.Finding) {
	learned, err := f.preventions().Load()
	if err != nil {
		return nil, nil // checks reports it
	}
	due := slices.DeleteFunc(learned.Checks, func(p failures.Prevention) bool {
		return !p.Active() || !p.OfRunner() || p.Scope.Loop != f.LoopID || p.Scope.Role != role
	})
	if len(due) == 0 {
		return nil, nil
	}
	broken := failures.Problems(preflight.Check(ctx, due, f.Repo.Top, f.knowledge(s)))
	return slices.DeleteFunc(due, func(p failures.Prevention) bool {
		return !slices.ContainsFunc(broken, func(b failures.Finding) bool { return b.ID == p.ID })
	}), broken
}

// EnvironmentWhole reports whether none of the checks that keep the iteration from beginning fails now. It does not count
// the result, because superloop calls it while it waits for an operator and not before a role.
func (f *Performer) EnvironmentWhole(ctx context.Context, s loop.State) bool {
	var kept []failures.Finding
	if g := s.Response.Environment; g != nil {
		kept = g.Findings
	}
	return len(f.look(ctx, s, func(p failures.Prevention) bool {
		return !p.Learned() || slices.ContainsFunc(kept, func(k failures.Finding) bool { return k.ID == p.ID })
	}, false)) == 0
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

// look makes the checks that are due, and returns those that fail. With note, it also counts their results, and the
// failures that a check has prevented.
func (f *Performer) look(ctx context.Context, s loop.State, due func(failures.Prevention) bool, note bool) []failures.Finding {
	all := slices.DeleteFunc(f.checks(), func(p failures.Prevention) bool { return !due(p) })
	if len(all) == 0 {
		return nil
	}
	found := preflight.Check(ctx, all, f.Repo.Top, f.knowledge(s))
	kept := false
	for i := range found {
		p := all[slices.IndexFunc(all, func(p failures.Prevention) bool { return p.ID == found[i].ID })]
		found[i].Learned = p.Learned()
		kept = kept || !slices.Contains([]string{failures.AddedBySuperloop, failures.AddedByConfig}, p.AddedBy)
	}
	if note && kept {
		f.noteFindings(s, found)
	}
	return failures.Problems(found)
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

// Overrule notes a false alarm: a role succeeded although a check had failed and an operator let it begin, or although a
// learned check of its runner fails. It retires a learned check, and records that.
func (f *Performer) Overrule(ctx context.Context, s loop.State, ended loop.RoleEnded) {
	if ended.Outcome != loop.OutcomeOK || s.Plan.Respond == nil {
		return
	}
	var wrong []string
	if r := s.Response; r.Environment != nil && r.Overruled == s.Iteration && r.Environment.Role == ended.Role {
		for _, g := range r.Environment.Findings {
			wrong = append(wrong, g.ID)
		}
	}
	learned, _ := f.ofRunners(ctx, s, ended.Role)
	for _, p := range learned {
		if p.Stops(f.LoopID, ended.Role, ended.Runner) && !slices.Contains(wrong, p.ID) {
			wrong = append(wrong, p.ID)
		}
	}
	if len(wrong) == 0 {
		return
	}
	var retired []string
	f.Warn("a false alarm could not be noted", effects.Update(f.preventions(), func(ps *failures.Preventions) bool {
		for _, id := range wrong {
			if ps.Overrule(id, f.Now(s)) {
				retired = append(retired, id)
			}
		}
		return true
	}))
	for _, id := range retired {
		f.Warn("that a check was retired is not recorded", f.Journal.Record(failures.EventRetired,
			failures.RetiredFields{ID: id, Reason: "the role succeeded without what it demands", Role: ended.Role, Runner: ended.Runner}))
	}
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
