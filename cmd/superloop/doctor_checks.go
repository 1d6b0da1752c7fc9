package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/superloop/superloop/cmd/superloop/internal/doctor"
	"github.com/superloop/superloop/cmd/superloop/internal/render"
	"github.com/superloop/superloop/loop/config"
	effectfailures "github.com/superloop/superloop/loop/effects/failures"
	"github.com/superloop/superloop/loop/layout"
	"github.com/superloop/superloop/recovery/failures"
	"github.com/superloop/superloop/recovery/preflight"
	"github.com/superloop/superloop/roles/agent/cooldown"
)

// checks makes the checks that precede an iteration, or changes which there are.
func (a *app) checks(c *cli.Context) error {
	if err := checkChange(c); err != nil {
		return err
	}
	repo, cfg, loops, err := a.configuredLoops(c)
	if err != nil {
		return err
	}
	paths, err := a.paths(repo, loops[0].ID)
	if err != nil {
		return err
	}
	store := learnedChecks(a, paths)
	switch {
	case c.IsSet("add"):
		return a.addCheck(c, store)
	case c.IsSet("retire"):
		return a.retireCheck(c, store, loops)
	}
	report := checksReport{Off: []string{}}
	if report.Checks, report.Retired, err = a.checkRows(c.Context, paths, cfg, loops); err != nil {
		return err
	}
	for _, l := range loops {
		if !l.Respond.Preflight.Enabled {
			report.Off = append(report.Off, l.ID)
		}
	}
	if c.Bool("json") {
		err = render.JSON(a.stdout, report)
	} else {
		err = printChecks(a.stdout, report)
	}
	if err == nil && slices.ContainsFunc(report.Checks, func(r checkRow) bool { return r.State == failures.CheckBroken }) {
		return silent(exitFailed)
	}
	return err
}

// checksReport is what --checks --json prints.
type checksReport struct {
	Checks  []checkRow            `json:"checks"`
	Retired []failures.Prevention `json:"retired"`
	// Off are the loops that make no checks before their iterations.
	Off []string `json:"switched_off_for"`
}

// learnedChecks is the file of the checks that were learned or added.
func learnedChecks(a *app, paths layout.Paths) preflight.Store[failures.Preventions] {
	return preflight.Store[failures.Preventions]{Disk: a.disk, Path: paths.Preventions()}
}

// checkRow is a check, and what was found in a directory.
type checkRow struct {
	failures.Prevention
	Dir     string    `json:"dir"`
	State   string    `json:"state"`
	Why     string    `json:"why,omitempty"`
	Command string    `json:"command,omitempty"` // would fix it
	Until   time.Time `json:"until,omitzero"`
	TookUS  int64     `json:"took_us"`
}

// environment is a directory in which loops work, and what their configuration asks for.
type environment struct {
	dir    string
	checks []failures.Prevention
}

// environments are where the loops work: the top of the work tree, and the own work trees
// of loops that have one already.
func (a *app) environments(ctx context.Context, paths layout.Paths, loops []config.Loop) []environment {
	var out []environment
	top := doctor.WorkDir(ctx, paths.Repo)
	for _, l := range loops {
		dir := top
		own := filepath.Join(paths.Super, "worktrees", l.ID)
		if info, err := os.Stat(own); l.Git.Worktree && err == nil && info.IsDir() {
			dir = own
		}
		i := slices.IndexFunc(out, func(g environment) bool { return g.dir == dir })
		if i < 0 {
			i = len(out)
			out = append(out, environment{dir: dir, checks: failures.Builtin()})
		}
		out[i].checks = append(out[i].checks, effectfailures.ConfiguredChecks(l.Respond)...)
	}
	return out
}

// environmentLook is what a loop knows, when it looks, besides the environment.
func (a *app) environmentLook(paths layout.Paths, cfg *config.Config, loops []config.Loop) (preflight.Look, error) {
	health, err := preflight.Store[failures.Health]{Disk: a.disk, Path: paths.Health()}.Load()
	if err != nil {
		return preflight.Look{}, err
	}
	look := effectfailures.LookOf(cfg, loops, health, cooldown.New(a.disk, paths.Cooldowns()), without(cfg.SecretNames()), time.Now())
	look.Path, look.Memo = a.env("PATH"), &preflight.Memo{}
	return look, nil
}

// checkRows makes every check of the loops; retired are those that were given up.
func (a *app) checkRows(ctx context.Context, paths layout.Paths, cfg *config.Config, loops []config.Loop) (rows []checkRow, retired []failures.Prevention, err error) {
	learned, err := learnedChecks(a, paths).Load()
	if err != nil {
		return nil, nil, err
	}
	look, err := a.environmentLook(paths, cfg, loops)
	if err != nil {
		return nil, nil, err
	}
	retired = slices.DeleteFunc(slices.Clone(orEmpty(learned.Checks)), failures.Prevention.Active)
	return lookAt(ctx, a.environments(ctx, paths, loops), learned, look), retired, nil
}

// lookAt makes every check of every environment, each once.
func lookAt(ctx context.Context, environments []environment, learned failures.Preventions, look preflight.Look) []checkRow {
	rows := []checkRow{}
	for _, g := range environments {
		var all failures.Preventions
		for _, p := range append(g.checks, learned.Checks...) {
			at := slices.IndexFunc(all.Checks, func(q failures.Prevention) bool { return q.ID == p.ID })
			switch {
			case at < 0 && p.Active():
				all.Checks = append(all.Checks, p)
			case at >= 0: // who asks for it is one thing, what it has found before another
				q := &all.Checks[at]
				q.Runs, q.Hits, q.Prevented, q.Overruled, q.LastHit = p.Runs, p.Hits, p.Prevented, p.Overruled, p.LastHit
			}
		}
		for i, f := range preflight.Check(ctx, all.Checks, g.dir, look) {
			p := all.Checks[i]
			if err := p.Valid(); err != nil {
				f.State, f.Why = failures.CheckUnknown, err.Error()
			}
			rows = append(rows, checkRow{p, g.dir, f.State, f.Why, f.Command, f.Until, f.TookUS})
		}
	}
	return rows
}

func printChecks(w io.Writer, r checksReport) error {
	dir := ""
	for at := 0; at < len(r.Checks); {
		if dir = r.Checks[at].Dir; at > 0 || r.Checks[len(r.Checks)-1].Dir != dir {
			fmt.Fprintf(w, "in %s:\n", render.Clean(dir))
		}
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintln(t, "KIND\tWHAT\tSTATE\tWHY\tTOOK\tHITS\tPREVENTED\tREASON\tADDED BY\tID")
		for ; at < len(r.Checks) && r.Checks[at].Dir == dir; at++ {
			c := r.Checks[at]
			text := func(s string, n int) string { return cmp.Or(render.Cut(render.Clean(s), n), "-") }
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%dus\t%d\t%d\t%s\t%s\t%s\n", text(string(c.Kind), 20), text(what(c.Spec), 60), c.State, text(c.Why, 100), c.TookUS,
				c.Hits, c.Prevented, text(c.Reason, 60), text(c.AddedBy, 30), c.ID)
		}
		if err := t.Flush(); err != nil {
			return err
		}
	}
	broken := 0
	for _, c := range r.Checks {
		if c.State != failures.CheckBroken {
			continue
		}
		if broken++; c.Command != "" {
			fmt.Fprintf(w, "%s: would be fixed by: %s\n", c.ID, render.Clean(c.Command))
		}
	}
	fmt.Fprintf(w, "%s, %d broken", count(len(r.Checks), "check"), broken)
	if len(r.Retired) > 0 {
		fmt.Fprintf(w, "; %d retired (--json lists them)", len(r.Retired))
	}
	fmt.Fprintln(w)
	for _, id := range r.Off {
		fmt.Fprintf(w, "the configuration of loop %s switches them off: none is made before its iterations\n", id)
	}
	return nil
}
