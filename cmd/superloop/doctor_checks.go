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
	"github.com/superloop/superloop/loop/effects/failures"
	"github.com/superloop/superloop/loop/layout"
	"github.com/superloop/superloop/recovery/preflight"
	"github.com/superloop/superloop/recovery/respond"
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
	if err == nil && slices.ContainsFunc(report.Checks, func(r checkRow) bool { return r.State == respond.GroundBroken }) {
		return silent(exitFailed)
	}
	return err
}

// checksReport is what --checks --json prints.
type checksReport struct {
	Checks  []checkRow           `json:"checks"`
	Retired []respond.Prevention `json:"retired"`
	// Off are the loops that make no checks before their iterations.
	Off []string `json:"switched_off_for"`
}

// learnedChecks is the file of the checks that were learned or added.
func learnedChecks(a *app, paths layout.Paths) preflight.Store[respond.Preventions] {
	return preflight.Store[respond.Preventions]{Disk: a.disk, Path: paths.Preventions()}
}

func notBroken(r checkRow) bool { return r.State != respond.GroundBroken }

// checkRow is a check, and what was found in a directory.
type checkRow struct {
	respond.Prevention
	Dir     string    `json:"dir"`
	State   string    `json:"state"`
	Why     string    `json:"why,omitempty"`
	Command string    `json:"command,omitempty"` // would cure it
	Until   time.Time `json:"until,omitzero"`
	TookUS  int64     `json:"took_us"`
}

// checkedDir is a directory in which loops work, and what their configuration asks for.
type checkedDir struct {
	dir    string
	checks []respond.Prevention
}

// checkedDirs are where the loops work: the top of the work tree, and the own work trees
// of loops that have one already.
func (a *app) checkedDirs(ctx context.Context, paths layout.Paths, loops []config.Loop) (out []checkedDir) {
	top := doctor.WorkDir(ctx, paths.Repo)
	for _, l := range loops {
		dir, own := top, filepath.Join(paths.Super, "worktrees", l.ID)
		if info, err := os.Stat(own); l.Git.Worktree && err == nil && info.IsDir() {
			dir = own
		}
		i := slices.IndexFunc(out, func(d checkedDir) bool { return d.dir == dir })
		if i < 0 {
			i = len(out)
			out = append(out, checkedDir{dir: dir, checks: respond.Builtin()})
		}
		out[i].checks = append(out[i].checks, failures.ConfiguredChecks(l.Respond)...)
	}
	return out
}

// checkRows makes every check of the loops; retired are those that were given up.
func (a *app) checkRows(ctx context.Context, paths layout.Paths, cfg *config.Config, loops []config.Loop) (rows []checkRow, retired []respond.Prevention, err error) {
	learned, err := learnedChecks(a, paths).Load()
	if err != nil {
		return nil, nil, err
	}
	health, err := preflight.Store[respond.Health]{Disk: a.disk, Path: paths.Health()}.Load()
	if err != nil {
		return nil, nil, err
	}
	look := failures.LookOf(cfg, loops, health, cooldown.New(a.disk, paths.Cooldowns()), without(cfg.SecretNames()), time.Now())
	look.Path, look.Memo = a.env("PATH"), &preflight.Memo{}
	retired = slices.DeleteFunc(slices.Clone(orEmpty(learned.Checks)), respond.Prevention.Active)
	return lookAt(ctx, a.checkedDirs(ctx, paths, loops), learned, look), retired, nil
}

// lookAt makes every check of every directory, each once.
func lookAt(ctx context.Context, dirs []checkedDir, learned respond.Preventions, look preflight.Look) []checkRow {
	rows := []checkRow{}
	for _, d := range dirs {
		var all respond.Preventions
		for _, p := range append(d.checks, learned.Checks...) {
			at := slices.IndexFunc(all.Checks, func(q respond.Prevention) bool { return q.ID == p.ID })
			switch {
			case at < 0 && p.Active():
				all.Checks = append(all.Checks, p)
			case at >= 0: // who asks for it is one thing, what it has found before another
				q := &all.Checks[at]
				q.Runs, q.Hits, q.Prevented, q.Overruled, q.LastHit = p.Runs, p.Hits, p.Prevented, p.Overruled, p.LastHit
			}
		}
		for i, f := range preflight.Check(ctx, all.Checks, d.dir, look) {
			p := all.Checks[i]
			if err := p.Valid(); err != nil {
				f.State, f.Why = respond.GroundUnknown, err.Error()
			}
			rows = append(rows, checkRow{p, d.dir, f.State, f.Why, f.Command, f.Until, f.TookUS})
		}
	}
	return rows
}

func printChecks(w io.Writer, r checksReport) error {
	text := func(s string, n int) string { return cmp.Or(render.Cut(render.Clean(s), n), "-") }
	for at := 0; at < len(r.Checks); {
		dir := r.Checks[at].Dir
		if at > 0 || r.Checks[len(r.Checks)-1].Dir != dir {
			fmt.Fprintf(w, "in %s:\n", render.Clean(dir))
		}
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintln(t, "KIND\tWHAT\tSTATE\tWHY\tTOOK\tHITS\tPREVENTED\tREASON\tADDED BY\tID")
		for ; at < len(r.Checks) && r.Checks[at].Dir == dir; at++ {
			c := r.Checks[at]
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%dus\t%d\t%d\t%s\t%s\t%s\n", text(string(c.Kind), 20), text(what(c.Spec), 60), c.State, text(c.Why, 100), c.TookUS,
				c.Hits, c.Prevented, text(c.Reason, 60), text(c.AddedBy, 30), c.ID)
		}
		if err := t.Flush(); err != nil {
			return err
		}
	}
	broken := slices.DeleteFunc(slices.Clone(r.Checks), notBroken)
	for _, c := range broken {
		if c.Command != "" {
			fmt.Fprintf(w, "%s: would be cured by: %s\n", c.ID, render.Clean(c.Command))
		}
	}
	fmt.Fprintf(w, "%s, %d broken", count(len(r.Checks), "check"), len(broken))
	if len(r.Retired) > 0 {
		fmt.Fprintf(w, "; %d retired (--json lists them)", len(r.Retired))
	}
	fmt.Fprintln(w)
	for _, id := range r.Off {
		fmt.Fprintf(w, "the configuration of loop %s switches them off: none is made before its iterations\n", id)
	}
	return nil
}
