package main

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/superloop/superloop/cmd/superloop/internal/checkup"
	"github.com/superloop/superloop/cmd/superloop/internal/render"
)

func (a *app) doctorCommand() *cli.Command {
	return &cli.Command{
		Name:        "doctor",
		Usage:       "look at everything a night depends on, and say how to mend it",
		Description: `EXIT STATUS: 0 nothing fails (there may be warnings), 1 something does.`,
		Flags:       []cli.Flag{repoFlag(), jsonFlag("print the results as JSON")},
		Action:      a.doctor,
	}
}

func (a *app) doctor(c *cli.Context) error {
	repo, err := a.repo(c)
	if err != nil {
		return err
	}
	var all []checkup.Result
	failed := 0
	p := &checkup.Patient{Repo: repo, StateHome: a.env("XDG_STATE_HOME"), LookPath: lookPath(a.env)}
	checkup.Run(c.Context, p, func(r checkup.Result) {
		all = append(all, r)
		if r.Status == checkup.Fail {
			failed++
		}
		if c.Bool("json") {
			return
		}
		fmt.Fprintf(a.stdout, "%-4s %-16s %s\n", r.Status, r.Name, r.Detail)
		if r.Fix != "" {
			fmt.Fprintf(a.stdout, "       fix: %s\n", r.Fix)
		}
	})
	if c.Bool("json") {
		if err := render.JSON(a.stdout, map[string]any{"ok": failed == 0, "checks": orEmpty(all)}); err != nil {
			return err
		}
	}
	if failed > 0 {
		return silent(exitFailed)
	}
	return nil
}
