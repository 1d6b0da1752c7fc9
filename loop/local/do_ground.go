package local

import (
	"context"
	"path/filepath"
	"strings"
	"time"

	"github.com/superloop/superloop/loop"

	"go.uber.org/zap"

	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/recovery"
	"github.com/superloop/superloop/recovery/action"
	"github.com/superloop/superloop/recovery/preflight"
	"github.com/superloop/superloop/recovery/respond"
)

// groundEvery is how often broken ground is looked at again while a person is
// asked about it: it may have been mended without a word.
const groundEvery = 5 * time.Second

// checkGround looks at the ground before the first role of an iteration, and
// before a role that was kept from it. The fact is nil when nothing is broken.
func (d *driver) checkGround(ctx context.Context, e loop.Effect) loop.Fact {
	p, r := d.state.Plan, d.state.Response
	if p.Respond == nil || !p.Respond.Preflight || r.Overruled == d.state.Iteration {
		return nil
	}
	first := len(p.Roles) > 0 && e.Role == p.Roles[0] && e.Attempt == 1
	kept := r.Ground != nil && r.Ground.Iteration == d.state.Iteration
	known := r.Ladder != nil && r.Ladder.Analyses > 0 // the cause may be in the ground
	if !first && !kept && !known {
		return nil
	}
	began := time.Now()
	broken := respond.Problems(d.lookAtGround(ctx, true))
	if len(broken) == 0 {
		return nil
	}
	f := loop.EnvironmentBroken{Of: loop.To(e), Role: e.Role, Category: broken[0].Category, Why: broken[0].Why}
	f.Findings, f.Action = broken, loop.GroundPerson
	var whys []string
	for _, b := range broken {
		whys = append(whys, b.Why)
	}
	f.Why = strings.Join(whys, "; ")
	for _, b := range broken {
		if b.Command == "" {
			continue
		}
		a := action.Draft{Command: b.Command, WorkingDir: d.placeOf(b), TimeoutMS: recovery.DefaultTimeout.Milliseconds(), Confidence: "high", Expected: "not so any more: " + b.Why}.Action()
		f.Command, f.Category, f.Action = &a, b.Category, loop.GroundRecover
		break
	}
	if f.Command == nil && loop.OverAt(broken).After(d.host.Now(d.state)) {
		f.Action = loop.GroundPause
	}
	f.TookUS = time.Since(began).Microseconds()
	return f
}

// placeOf is where the command of a finding runs: in the directory that was looked
// at.
func (d *driver) placeOf(f respond.Finding) string {
	for _, p := range d.checks() {
		if p.ID == f.ID && p.Spec.Path != "" && filepath.IsLocal(p.Spec.Path) {
			return filepath.ToSlash(filepath.Clean(p.Spec.Path))
		}
	}
	return "."
}

// checks are all that are made: those that always are, those of the configuration,
// and those that were learned.
func (d *driver) checks() []respond.Prevention {
	out := append(respond.Builtin(), ConfiguredChecks(d.loop.Respond)...)
	learned, err := d.preventions().Load()
	if err != nil {
		d.log.Warn("the checks that were learned cannot be read", zap.Error(err))
	}
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

// brokenNow reports whether a look at the system agrees with a suspicion.
func (d *driver) brokenNow(ctx context.Context, p respond.Prevention) bool {
	return len(respond.Problems(preflight.Check(ctx, []respond.Prevention{p}, d.repo.Top, d.knowledge()))) > 0
}

// lookAtGround makes the checks; note counts them, and what a broken one has saved.
func (d *driver) lookAtGround(ctx context.Context, note bool) []respond.Finding {
	all := d.checks()
	found := preflight.Check(ctx, all, d.repo.Top, d.knowledge())
	learned := len(all) > len(respond.Builtin())+len(ConfiguredChecks(d.loop.Respond))
	if note && learned {
		d.noteGround(ctx, found)
	}
	return found
}

// knowledge is what the checks need to know besides the ground.
func (d *driver) knowledge() preflight.Look {
	health, err := d.runners.Health()
	if err != nil {
		d.log.Warn("what is known of the runners cannot be read", zap.Error(err))
	}
	look := LookOf(d.o.Config, []config.Loop{d.loop}, health, d.runners.Cooldowns, d.host.Env(), d.host.Now(d.state))
	look.Memo = &d.groundMemo
	return look
}

// noteGround counts what the learned checks have found.
func (d *driver) noteGround(ctx context.Context, found []respond.Finding) {
	bounded, stop := context.WithTimeout(context.WithoutCancel(ctx), storeTime)
	defer stop()
	var retired []respond.Prevention
	if _, err := d.preventions().Update(bounded, func(ps *respond.Preventions) bool {
		retired = ps.Note(found, d.host.Now(d.state))
		for _, f := range respond.Problems(found) {
			ps.Saved(f.ID)
		}
		return true
	}); err != nil {
		d.log.Warn("what the checks have found could not be kept", zap.Error(err))
	}
	for _, p := range retired {
		d.log.Info("a check is given up", zap.String("check", p.ID), zap.String("because", p.RetiredOf))
	}
}

// overrule notes that a role has done its work although a check said that it
// could not.
func (d *driver) overrule(ctx context.Context, f loop.RoleEnded) {
	r := d.state.Response
	if f.Outcome != loop.OutcomeOK || r.Ground == nil || r.Overruled != d.state.Iteration || r.Ground.Role != f.Role {
		return
	}
	bounded, stop := context.WithTimeout(context.WithoutCancel(ctx), storeTime)
	defer stop()
	if _, err := d.preventions().Update(bounded, func(ps *respond.Preventions) bool {
		for _, g := range r.Ground.Findings {
			ps.Overrule(g.ID, d.host.Now(d.state))
		}
		return true
	}); err != nil {
		d.log.Warn("a false alarm could not be noted", zap.Error(err))
	}
}
