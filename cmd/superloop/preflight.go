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

func (a *app) preflightCommand() *cli.Command {
	return &cli.Command{
		Name:  "preflight",
		Usage: "make the checks that precede an iteration, now",
		Description: `Those that superloop always makes (space and the right to write in the
repository), those of the configuration, and those that were learned from failures
or added by a person. A look reads and changes nothing, and is not counted.

--add takes a check into what is looked at before each iteration of every loop of
the repository, --retire gives one up that was learned or added.

The kinds, and what each needs: path --path [--want file|dir]; permission --path
--want read|write|execute; dependency_sync [--path] [--manager]; disk --free-mb
[--path]; port --port --want free|open; tool --name; service --address; auth --name
(a runner); limit --name (a provider).

EXIT STATUS: 0 nothing is broken, or it is added or retired, 1 something is
broken, 4 it cannot be retired, or was before, 6 no such loop or check.`,
		Flags: []cli.Flag{
			repoFlag(), loopFlag("the checks of one loop (default: of all)"),
			&cli.StringFlag{Name: "add", Usage: "add a check of a `KIND`"},
			&cli.StringFlag{Name: "path", Usage: "with --add: a `PATH`, absolute or in the repository"},
			&cli.StringFlag{Name: "want", Usage: "with --add: what `STATE` it is to be in"},
			&cli.StringFlag{Name: "manager", Usage: "with --add: the package manager (`NAME`; default: whichever has a lock file)"},
			&cli.Int64Flag{Name: "free-mb", Usage: "with --add: how many `MB` are to be free"},
			&cli.IntFlag{Name: "port", Usage: "with --add: a port of this machine (`N`)"},
			&cli.StringFlag{Name: "name", Usage: "with --add: the `NAME` of a tool, a runner or a provider"},
			&cli.StringFlag{Name: "address", Usage: "with --add: where a service answers (`HOST:PORT` of this machine, or a socket's path)"},
			&cli.StringFlag{Name: "reason", Usage: "with --add: why (`TEXT`)"},
			&cli.StringFlag{Name: "retire", Usage: "give a check up (`ID`)"},
			&cli.StringFlag{Name: "why", Usage: "with --retire: why (`TEXT`)"},
			jsonFlag("print one object"),
		},
		Action: a.preflight,
	}
}

func (a *app) preflight(c *cli.Context) error {
	if err := changeFlags(c); err != nil {
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
	store := preflight.Store[respond.Preventions]{Disk: a.disk, Path: paths.Preventions()}
	switch {
	case c.IsSet("add"):
		return a.addCheck(c, store)
	case c.IsSet("retire"):
		return a.retireCheck(c, store, loops)
	}
	learned, err := store.Load()
	if err != nil {
		return err
	}
	look, err := a.groundLook(paths, cfg, loops)
	if err != nil {
		return err
	}
	report := preflightReport{Off: []string{}, Retired: []respond.Prevention{}}
	for _, l := range loops {
		if !l.Respond.Preflight.Enabled {
			report.Off = append(report.Off, l.ID)
		}
	}
	for _, p := range learned.Checks {
		if !p.Active() {
			report.Retired = append(report.Retired, p)
		}
	}
	report.Checks = lookAt(c.Context, a.grounds(c.Context, paths, loops), learned, look)
	if c.Bool("json") {
		err = render.JSON(a.stdout, report)
	} else {
		err = printPreflight(a.stdout, report)
	}
	if err == nil && slices.ContainsFunc(report.Checks, func(r checkRow) bool { return r.State == respond.GroundBroken }) {
		return silent(exitFailed)
	}
	return err
}

// preflightReport is what preflight --json prints.
type preflightReport struct {
	Checks  []checkRow           `json:"checks"`
	Retired []respond.Prevention `json:"retired"`
	// Off are the loops that make no checks before their iterations.
	Off []string `json:"switched_off_for"`
}

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

// ground is a directory in which loops work, and what their configuration asks for.
type ground struct {
	dir    string
	checks []respond.Prevention
}

// grounds are where the loops work: the top of the work tree, and the own work trees
// of loops that have one already.
func (a *app) grounds(ctx context.Context, paths layout.Paths, loops []config.Loop) []ground {
	var out []ground
	top := doctor.WorkDir(ctx, paths.Repo)
	for _, l := range loops {
		dir := top
		own := filepath.Join(paths.Super, "worktrees", l.ID)
		if info, err := os.Stat(own); l.Git.Worktree && err == nil && info.IsDir() {
			dir = own
		}
		i := slices.IndexFunc(out, func(g ground) bool { return g.dir == dir })
		if i < 0 {
			i = len(out)
			out = append(out, ground{dir: dir, checks: respond.Builtin()})
		}
		out[i].checks = append(out[i].checks, failures.ConfiguredChecks(l.Respond)...)
	}
	return out
}

// groundLook is what a loop knows, when it looks, besides the ground.
func (a *app) groundLook(paths layout.Paths, cfg *config.Config, loops []config.Loop) (preflight.Look, error) {
	health, err := preflight.Store[respond.Health]{Disk: a.disk, Path: paths.Health()}.Load()
	if err != nil {
		return preflight.Look{}, err
	}
	look := failures.LookOf(cfg, loops, health, cooldown.New(a.disk, paths.Cooldowns()), without(cfg.SecretNames()), time.Now())
	look.Path, look.Memo = a.env("PATH"), &preflight.Memo{}
	return look, nil
}

// lookAt makes every check of every ground, each once.
func lookAt(ctx context.Context, grounds []ground, learned respond.Preventions, look preflight.Look) []checkRow {
	rows := []checkRow{}
	for _, g := range grounds {
		var all respond.Preventions
		for _, p := range append(g.checks, learned.Checks...) {
			at := slices.IndexFunc(all.Checks, func(q respond.Prevention) bool { return q.ID == p.ID })
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
				f.State, f.Why = respond.GroundUnknown, err.Error()
			}
			rows = append(rows, checkRow{p, g.dir, f.State, f.Why, f.Command, f.Until, f.TookUS})
		}
	}
	return rows
}

func printPreflight(w io.Writer, r preflightReport) error {
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
		if c.State != respond.GroundBroken {
			continue
		}
		if broken++; c.Command != "" {
			fmt.Fprintf(w, "%s: would be cured by: %s\n", c.ID, render.Clean(c.Command))
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
