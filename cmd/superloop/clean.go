package main

import (
	"fmt"
	"io"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/superloop/superloop/cmd/superloop/internal/render"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/loop/space"
)

// keepLimits returns the limits of --keep-days and --keep-gib.
func keepLimits(c *cli.Context) (space.Limits, error) {
	days, gib := c.Int("keep-days"), c.Int("keep-gib")
	if min(days, gib) < 0 || max(days, gib) > 1e6 {
		return space.Limits{}, failf(exitUsage, typed(c)+" --help", "--keep-days and --keep-gib are between 0, which is no bound, and a million")
	}
	// A million days are more than a Duration holds.
	return space.Limits{Age: time.Duration(min(days, 100_000)) * 24 * time.Hour, Bytes: int64(gib) << 30}, nil
}

// clean removes what no longer has to be kept of the loops of a repository.
func (a *app) clean(c *cli.Context) error {
	limits, err := keepLimits(c)
	if err != nil {
		return err
	}
	_, p, err := a.private(c)
	if err != nil {
		return err
	}
	use, err := space.Look(c.Context, p, 0)
	if err != nil {
		return err
	}
	due := use.Due(limits, time.Now())
	var freed, would int64
	for _, u := range due {
		would += u.Bytes
	}
	if !c.Bool("dry-run") {
		freed, err = space.Remove(c.Context, a.disk, p, due)
	}
	if err != nil {
		return failf(exitFailed, "superloop clean", "%s are freed, and not all is removed: %w", render.Bytes(freed), err)
	}
	return a.write(c, map[string]any{"removed": !c.Bool("dry-run"), "bytes": would, "units": orEmpty(due), "use": use}, func(w io.Writer) {
		for _, u := range due {
			fmt.Fprintf(w, "%-9s %s  %s\n", render.Bytes(u.Bytes), u.At.Local().Format(time.DateOnly), text.Display(u.Path))
		}
		verb := "removed"
		if c.Bool("dry-run") {
			verb = "would be removed"
		}
		fmt.Fprintf(w, "%s %s; logs and archives of this repository took %s\n", render.Bytes(would), verb, render.Bytes(use.Logs+use.Archives))
	})
}
