package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/superloop/superloop/cmd/superloop/internal/doctor"
	"github.com/superloop/superloop/cmd/superloop/internal/render"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/loop/effects"
	"github.com/superloop/superloop/loop/layout"
	"github.com/superloop/superloop/loop/stats"
	"github.com/superloop/superloop/recovery/failures"
	"github.com/superloop/superloop/recovery/preflight"
	"github.com/superloop/superloop/roles/agent/cooldown"
	"github.com/superloop/superloop/server/api"
)

// runnerRow is a runner as the API of the daemon shows it, too.
type runnerRow struct{ api.Runner }

// The states of a runnerRow.
const (
	runnerFit       = "fit"
	runnerProbation = "probation"
	runnerUnfit     = "unfit"
	runnerMend      = "mend"
)

func (a *app) runners(c *cli.Context) error {
	paths, cfg, loops, err := a.configuredLoops(c)
	if err != nil {
		return err
	}
	store := preflight.Store[failures.Health]{Disk: a.disk, Path: paths.Health()}
	if c.IsSet("reset") {
		return a.resetRunner(c, store, cfg)
	}
	health, err := store.Load()
	if err != nil {
		return err
	}
	rows := a.runnerRows(c.IsSet("loop"), paths, cfg, loops, health, time.Now())
	if c.Bool("json") {
		return render.JSON(a.stdout, map[string]any{"runners": rows})
	}
	return printRunners(a.stdout, rows, len(loops) > 1)
}

// configuredLoops returns the configuration, its loop of --loop or all of its loops, and the paths of the first one.
func (a *app) configuredLoops(c *cli.Context) (paths layout.Paths, cfg *config.Config, loops []config.Loop, err error) {
	repo, chosen, err := a.chosenLoops(c, false)
	if err == nil {
		cfg, err = a.config(repo, c.String("loop"))
	}
	if err != nil {
		return paths, nil, nil, err
	}
	for _, p := range chosen {
		if l, ok := cfg.Loop(p.id); ok {
			loops = append(loops, l)
		}
	}
	return chosen[0].Paths, cfg, loops, nil
}

// runnerRows returns a row for each runner with a model. The runner with the most runs comes first. If one is true,
// loops holds a single loop, and only the runners that this loop uses have a row.
func (a *app) runnerRows(one bool, paths layout.Paths, cfg *config.Config, loops []config.Loop, health failures.Health, now time.Time) []*runnerRow {
	rows, limits := []*runnerRow{}, map[failures.Agent]*api.RunnerLimit{}
	environ := without(cfg.SecretNames())
	cooldowns := cooldown.New(a.disk, paths.Cooldowns())
	row := func(of failures.Agent) *runnerRow {
		if i := slices.IndexFunc(rows, func(r *runnerRow) bool { return r.Agent == of }); i >= 0 {
			return rows[i]
		}
		r := &runnerRow{api.Runner{Agent: of, Uses: []api.RunnerUse{}}}
		rows = append(rows, r)
		return r
	}
	use := func(c config.Choice, uses ...api.RunnerUse) {
		of, account := effects.AgentOf(cfg, c, environ)
		r := row(of)
		r.Configured, r.Uses = true, append(r.Uses, uses...)
		known, limited, err := cooldowns.Get(account)
		if err != nil && limits[of] == nil {
			fmt.Fprintf(a.stderr, "warning: what is known of the limit of %s cannot be read: %v\n", of, err)
		}
		if limited {
			limits[of] = &api.RunnerLimit{Until: known.Until.UTC(), Class: known.Class, Kind: known.Kind, Text: known.Text, By: known.By}
		}
	}
	for _, l := range loops {
		for _, role := range l.Roles {
			for i, c := range role.Runners {
				use(c, api.RunnerUse{Loop: l.ID, Role: role.Name, Place: i + 1, Tier: c.Tier})
			}
		}
		if d := l.Respond.Diagnostician; d != nil {
			use(config.Choice{Runner: d.Runner, Model: d.Model}, api.RunnerUse{Loop: l.ID, Role: "diagnostician", Place: 1})
		}
	}
	if !one {
		for _, r := range doctor.Runners(cfg) {
			if !slices.ContainsFunc(rows, func(x *runnerRow) bool { return x.Agent.Runner == r.Name }) {
				use(config.Choice{Runner: r.Name})
			}
		}
		for _, b := range health.Breakers {
			row(b.Agent)
		}
	}
	for _, r := range rows {
		r.fill(health, limits[r.Agent], now)
	}
	slices.SortStableFunc(rows, func(x, y *runnerRow) int {
		return cmp.Or(cmp.Compare(y.Runs, x.Runs), cmp.Compare(len(y.Uses), len(x.Uses)))
	})
	return rows
}

func (r *runnerRow) fill(health failures.Health, limit *api.RunnerLimit, now time.Time) {
	until := time.Time{}
	if r.Limit = limit; limit != nil {
		until = limit.Until
	}
	b, look := health.Of(r.Agent), health.Look(r.Agent, "", 0, until, now)
	r.Until, r.Why, r.Circuit = look.Until.UTC(), look.Why, b.Circuit
	switch {
	case look.Fit:
		r.State = runnerFit
	case look.Probe:
		r.State, r.Why = runnerProbation, b.Why
	case look.Until.IsZero():
		r.State, r.Until = runnerMend, time.Time{}
	default:
		r.State = runnerUnfit
	}
	r.Runs, r.Successes, r.RecentRuns, r.CostUSD, r.UnpricedRuns = b.Runs, b.Successes, len(b.Recent), b.CostUSD, b.Unpriced
	r.InRow, r.Trips, r.LastSuccess, r.LastFailure = b.InRow, b.Trips, b.LastSuccess, b.LastFailure
	r.ByRole = []api.RunnerDid{}
	for _, x := range b.Roles {
		row := api.RunnerDid{RoleRecord: x, RecentRuns: len(x.Recent), SuccessRate: float64(strings.Count(x.Recent, "+")) / float64(max(1, len(x.Recent)))}
		row.Recent = ""
		r.ByRole = append(r.ByRole, row)
	}
	slices.SortFunc(r.ByRole, func(x, y api.RunnerDid) int { return cmp.Compare(x.Role, y.Role) })
	if rate, ok := b.SuccessRate(); ok {
		r.SuccessRate = &rate
	}
	if usd, ok := b.CostPerSuccess(); ok {
		r.CostPerSuccess = &usd
	}
}

func printRunners(w io.Writer, rows []*runnerRow, several bool) error {
	const heads = "RUNNER\tPROVIDER\tMODEL\tUSED FOR\tSTATE\tLIMIT\tRUNS\tSUCCESS\tBY ROLE\tCOST OF ONE\tLAST SUCCESS\tWHY"
	or := func(text string) string { return cmp.Or(render.Clean(text), "-") }
	return table(w, heads, rows, func(r *runnerRow) string {
		success, price, last, limit := "-", "-", "-", "-"
		if r.SuccessRate != nil {
			success = fmt.Sprintf("%s of %d", render.Percent(*r.SuccessRate), r.RecentRuns)
		}
		if r.CostPerSuccess != nil {
			price = statsCost(stats.Sum[float64]{Known: r.CostPerSuccess, Unknown: r.UnpricedRuns})
		}
		if !r.LastSuccess.IsZero() {
			last = r.LastSuccess.Local().Format(time.DateTime)
		}
		if r.Limit != nil {
			limit = fmt.Sprintf("%s until %s", r.Limit.Class, r.Limit.Until.Local().Format(time.DateTime))
		}
		return fmt.Sprintf("%s\t%s\t%s\t%s\t%s\t%s\t%d\t%s\t%s\t%s\t%s\t%s", or(r.Agent.Runner), or(r.Provider), or(r.Model), r.usedFor(several), r.stateText(), limit,
			r.Runs, success, r.rolesText(), price, last, or(render.Cut(r.Why, 80)))
	})
}

func (r *runnerRow) usedFor(several bool) string {
	var out []string
	for _, u := range r.Uses {
		name := u.Role
		if several {
			name = u.Loop + "/" + u.Role
		}
		out = append(out, fmt.Sprintf("%s (%d)", name, u.Place))
	}
	switch {
	case !r.Configured:
		return "not in the configuration"
	case len(out) == 0:
		return "-"
	}
	return strings.Join(out, ", ")
}

// rolesText lists the roles with their rates of success.
func (r *runnerRow) rolesText() string {
	var out []string
	for _, x := range r.ByRole {
		out = append(out, fmt.Sprintf("%s %s of %d", render.Clean(x.Role), render.Percent(x.SuccessRate), x.RecentRuns))
	}
	return cmp.Or(strings.Join(out, ", "), "-")
}

func (r *runnerRow) stateText() string {
	switch r.State {
	case runnerProbation:
		return "on probation"
	case runnerMend:
		return "unfit until mended"
	case runnerUnfit:
		return "unfit until " + r.Until.Local().Format(time.DateTime)
	}
	return r.State
}

// storePatience bounds how long superloop waits for the lock of a file that supervisors share.
const storePatience = 5 * time.Second

// resetRunner closes the circuit breakers of a runner, so that the runner counts as fit again. Its figures stay.
func (a *app) resetRunner(c *cli.Context, store preflight.Store[failures.Health], cfg *config.Config) error {
	if c.IsSet("loop") {
		return failf(exitUsage, "superloop runners --reset "+text.Paste(c.String("reset")), "what is known of runners is known to all loops; --reset takes no --loop")
	}
	if err := a.operator(); err != nil {
		return err
	}
	word := c.String("reset")
	names := slices.Sorted(maps.Keys(cfg.Runners))
	health, err := store.Load()
	if err != nil {
		return err
	}
	name, _, _ := strings.Cut(word, ":")
	if !slices.Contains(names, word) && !slices.Contains(names, name) &&
		!slices.ContainsFunc(health.Breakers, func(b failures.Breaker) bool { return named(b.Agent, word, names) }) {
		return failf(exitNotFound, "superloop runners", "no runner %q; the configuration has %s", word, strings.Join(names, ", "))
	}
	reset := []failures.Agent{}
	if err := shared(c.Context, a, store, func(h *failures.Health) bool {
		reset = reset[:0]
		for _, b := range h.Breakers {
			if named(b.Agent, word, names) && (b.Circuit != failures.Closed || b.InRow > 0 || b.Trips > 0) {
				reset = append(reset, b.Agent)
			}
		}
		for _, of := range reset {
			h.Reset(of)
		}
		return len(reset) > 0
	}); err != nil {
		return err
	}
	if len(reset) == 0 {
		return failf(exitNothing, "superloop runners", "nothing speaks against %s", word)
	}
	if c.Bool("json") {
		return render.JSON(a.stdout, map[string]any{"reset": reset})
	}
	for _, of := range reset {
		fmt.Fprintf(a.stdout, "%s counts as fit again; its figures stay\n", render.Clean(of.String()))
	}
	return nil
}

// named reports whether word, which is NAME or NAME:MODEL, means an agent. If word is one of names, which are the
// configured runners, it means the runner of that whole name, even with a colon in it.
func named(of failures.Agent, word string, names []string) bool {
	if of.Runner == word {
		return true
	}
	name, model, ok := strings.Cut(word, ":")
	return ok && !slices.Contains(names, word) && of.Runner == name && of.Model == model
}

// shared changes a file that the repository's supervisors share. It holds the lock of the file meanwhile, and waits for
// the lock for storePatience at most. If change returns false, the file stays as it is.
func shared[T any](ctx context.Context, a *app, store preflight.Store[T], change func(*T) bool) error {
	if err := a.disk.MkdirAll("respond", filepath.Dir(store.Path), 0o700); err != nil {
		return err
	}
	bounded, stop := context.WithTimeout(ctx, storePatience)
	defer stop()
	_, err := store.Update(bounded, change)
	return err
}
