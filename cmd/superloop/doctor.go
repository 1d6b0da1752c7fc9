package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/superloop/superloop/cmd/superloop/internal/doctor"
	"github.com/superloop/superloop/cmd/superloop/internal/render"
	"github.com/superloop/superloop/loop/local"
)

func (a *app) doctorCommand() *cli.Command {
	return &cli.Command{
		Name:  "doctor",
		Usage: "look at everything a night depends on, and say how to mend it",
		Description: `It looks and changes nothing. Programs on PATH are asked for their version.

EXIT STATUS: 0 nothing fails (there may be warnings), 1 something does, 130 interrupted.`,
		Flags:  []cli.Flag{repoFlag(), jsonFlag("print the results as JSON")},
		Action: a.doctor,
	}
}

// patient gathers what the checks look at, as far as the repository lets it: an
// invalid configuration still has loops whose journals can be looked at.
func (a *app) patient(repo string) doctor.Patient {
	p := doctor.Patient{Repo: repo, ConfigPath: filepath.Join(repo, ".superloop", "config.json"), Path: a.env("PATH"), Now: time.Now}
	p.Config, p.ConfigErr = a.config(repo)
	ids, err := a.loopIDs(repo)
	if err != nil {
		return p // ConfigErr says why
	}
	for _, id := range ids {
		if id != filepath.Base(id) || !filepath.IsLocal(id) {
			continue
		}
		paths, err := a.paths(repo, id)
		if err != nil {
			p.PlacesErr = err
			return p
		}
		p.Loops = append(p.Loops, doctor.Place{ID: id, Private: paths.Private, Events: paths.Events(), Head: paths.Head(),
			State: paths.File("state.json"), Locks: paths.Locks(), Holder: holderText})
	}
	return p
}

// holderText says who wrote a lock.
func holderText(raw []byte) string {
	var h local.Holder
	_ = json.Unmarshal(raw, &h) // its String says that nobody told
	return h.String()
}

func (a *app) doctor(c *cli.Context) error {
	repo, err := a.repo(c)
	if err != nil {
		return err
	}
	var all []doctor.Result
	healthy, err := doctor.Examine(c.Context, doctor.Checks(a.patient(repo)), func(r doctor.Result) {
		all = append(all, r)
		if c.Bool("json") {
			return
		}
		fmt.Fprintf(a.stdout, "%-4s %-20s %s\n", r.Status, r.Name, render.Clean(r.Detail))
		if r.Fix != "" {
			fmt.Fprintf(a.stdout, "     fix: %s\n", render.Clean(r.Fix))
		}
	})
	if err != nil {
		return err
	}
	if c.Bool("json") {
		if err := render.JSON(a.stdout, map[string]any{"ok": healthy, "checks": orEmpty(all)}); err != nil {
			return err
		}
	}
	if !healthy {
		return silent(exitFailed)
	}
	return nil
}
