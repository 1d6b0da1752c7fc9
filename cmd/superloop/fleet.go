package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/superloop/superloop/cmd/superloop/internal/render"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/local"
	"github.com/superloop/superloop/server"
	"github.com/superloop/superloop/server/registry"
)

// queue shows the loops of the daemon that wait for a place, and why.
func (a *app) queue(c *cli.Context) error {
	rows, view, err := a.fleet()
	if err != nil {
		return err
	}
	var waiting []fleetRow
	for _, r := range rows {
		if r.Phase == "queued" {
			waiting = append(waiting, r)
		}
	}
	if c.Bool("json") {
		return render.JSON(a.stdout, map[string]any{"limits": view.Limits, "queue": waiting})
	}
	if len(waiting) == 0 {
		_, err := fmt.Fprintln(a.stdout, "no loop waits for a place")
		return err
	}
	return table(a.stdout, "AHEAD\tLOOP\tREPOSITORY\tPRIORITY\tSINCE\tTAKEN", waiting, func(r fleetRow) string {
		return fmt.Sprintf("%d\t%s\t%s\t%d\t%s\t%s", r.Ahead, r.Loop, r.Repo, r.Priority, r.Since.Local().Format(time.TimeOnly), r.Why)
	})
}

// fleetRow is a loop of the registry: what is wanted, what the daemon does, and where the loop stands.
type fleetRow struct {
	Repo      string          `json:"repo"`
	Loop      string          `json:"loop"`
	Wanted    registry.Wanted `json:"wanted"`
	Phase     string          `json:"phase,omitempty"` // queued, working, waiting, failing or foreign; "": the daemon does not supervise it
	Status    loop.Status     `json:"status"`
	Iteration int             `json:"iteration,omitempty"`
	Priority  int             `json:"priority,omitempty"`
	Labels    []string        `json:"labels,omitempty"`
	Ahead     int             `json:"ahead,omitempty"`
	Why       string          `json:"why,omitempty"`
	Since     time.Time       `json:"since,omitzero"`
	Until     time.Time       `json:"until,omitzero"`
	UpdatedAt time.Time       `json:"updated_at,omitzero"`
}

// fleet returns the loops of the registry, with what the daemon does with each.
func (a *app) fleet() (rows []fleetRow, view server.View, err error) {
	store, err := a.registry()
	if err != nil {
		return nil, view, err
	}
	all, errs := store.All()
	for _, err := range errs {
		fmt.Fprintf(a.stderr, "warning: %v\n", err)
	}
	if _, alive := server.Daemon(store.State); alive {
		if view, err = server.ReadView(store.State); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, view, err
		}
	}
	for _, e := range all {
		r := fleetRow{Repo: e.Repo, Loop: e.Loop, Wanted: e.Wanted, Priority: e.Priority, Labels: e.Labels, Status: loop.Pending}
		if now, ok := view.Phase(e.Repo, e.Loop); ok {
			r.Phase, r.Ahead, r.Why, r.Since, r.Until = now.Phase, now.Ahead, now.Why, now.Since, now.Until
		}
		p, gone := a.paths(e.Repo, e.Loop)
		if gone != nil {
			r.Why = "the repository is gone"
		} else if v, err := local.ReadView(p); err == nil {
			r.Status, r.Iteration, r.UpdatedAt = v.Status, v.Iteration, v.UpdatedAt
		}
		if _, alive := a.supervisor(p); r.Phase != "failing" && gone == nil && !alive { // what the daemon has told is a moment old
			r.Phase, r.Ahead, r.Why, r.Since, r.Until = "", 0, "", time.Time{}, time.Time{}
		}
		rows = append(rows, r)
	}
	return rows, view, nil
}

// listAll prints the loops of all repositories that the registry knows.
func (a *app) listAll(c *cli.Context) error {
	rows, _, err := a.fleet()
	if err != nil {
		return err
	}
	store, err := a.registry()
	if err != nil {
		return err
	}
	_, served := server.Daemon(store.State)
	if c.Bool("json") {
		return render.JSON(a.stdout, map[string]any{"loops": rows, "daemon": served})
	}
	if len(rows) == 0 {
		_, err := fmt.Fprintln(a.stdout, "the daemon knows no loop\nnext: superloop start --loop ID   (in a repository)")
		return err
	}
	if err := table(a.stdout, "LOOP\tREPOSITORY\tSTATUS\tITERATION\tWANTED\tDAEMON\tWHY", rows, func(r fleetRow) string {
		iteration := "-"
		if r.Iteration > 0 {
			iteration = fmt.Sprint(r.Iteration)
		}
		return fmt.Sprintf("%s\t%s\t%s\t%s\t%s\t%s\t%s", r.Loop, r.Repo, r.Status, iteration, r.Wanted, cmp.Or(r.Phase, "-"), r.why())
	}); err != nil {
		return err
	}
	if !served && slices.ContainsFunc(rows, func(r fleetRow) bool { return r.Wanted == registry.Running }) {
		_, err = fmt.Fprintln(a.stdout, "no daemon runs\nnext: superloop serve --detach")
	}
	return err
}

// why says in words what a loop waits for.
func (r fleetRow) why() string {
	switch {
	case r.Why != "":
		return r.Why
	case r.Status == loop.AwaitingHuman || r.Status == loop.AwaitingApproval:
		return "an operator (superloop inbox)"
	case !r.Until.IsZero():
		return "until " + r.Until.Local().Format(time.DateTime)
	}
	return ""
}
