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
	"github.com/superloop/superloop/server"
	"github.com/superloop/superloop/server/registry"
)

// fleet returns the loops of the registry, with what the daemon does with each.
func (a *app) fleet() (rows []server.Row, view server.View, served bool, err error) {
	store, err := a.registry()
	if err != nil {
		return nil, view, false, err
	}
	all, errs := store.All()
	for _, err := range errs {
		fmt.Fprintf(a.stderr, "warning: %v\n", err)
	}
	if _, served = server.Daemon(store.State); served {
		if view, err = server.ReadView(store.State); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, view, served, err
		}
	}
	for _, e := range all {
		rows = append(rows, server.RowOf(store, e, view))
	}
	return rows, view, served, nil
}

// listAll prints the loops of all repositories that the registry knows.
func (a *app) listAll(c *cli.Context) error {
	rows, _, served, err := a.fleet()
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return render.JSON(a.stdout, map[string]any{"loops": rows, "daemon": served})
	}
	if len(rows) == 0 {
		_, err := fmt.Fprintln(a.stdout, "the daemon knows no loop\nnext: superloop start --loop ID   (in a repository)")
		return err
	}
	if err := table(a.stdout, "LOOP\tREPOSITORY\tSTATUS\tITERATION\tWANTED\tDAEMON\tWHY", rows, func(r server.Row) string {
		iteration := "-"
		if r.Iteration > 0 {
			iteration = fmt.Sprint(r.Iteration)
		}
		return fmt.Sprintf("%s\t%s\t%s\t%s\t%s\t%s\t%s", r.Loop, r.Repo, whole(r.Status, r.SubStatus), iteration, r.Wanted, cmp.Or(r.Phase, "-"), why(r))
	}); err != nil {
		return err
	}
	if !served && slices.ContainsFunc(rows, func(r server.Row) bool { return r.Wanted == registry.Running }) {
		_, err = fmt.Fprintln(a.stdout, "no daemon runs\nnext: superloop serve --detach")
	}
	return err
}

// whole returns a status with the sub-status, if there is one.
func whole(s loop.Status, sub string) string {
	if sub != "" {
		return string(s) + "/" + sub
	}
	return string(s)
}

// why says in words what a loop waits for.
func why(r server.Row) string {
	switch {
	case r.Why != "":
		return r.Why
	case r.Hold != nil || r.Status == loop.AwaitingHuman || r.Status == loop.AwaitingApproval:
		return "an operator (superloop inbox)"
	case r.Until != nil:
		return "until " + r.Until.Local().Format(time.DateTime)
	}
	return ""
}
