package main

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/superloop/superloop/cmd/superloop/internal/render"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/recovery/failures"
	"github.com/superloop/superloop/recovery/preflight"
)

// storePatience is how long a file that supervisors share is waited for.
const storePatience = 5 * time.Second

// resetRunner forgets what speaks against a runner.
func (a *app) resetRunner(c *cli.Context, store preflight.Store[failures.Health], cfg *config.Config) error {
	if c.IsSet("loop") {
		return failf(exitUsage, "superloop runners --reset "+text.Paste(c.String("reset")), "what is known of runners is known to all loops; --reset takes no --loop")
	}
	if err := a.person(); err != nil {
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

// named reports whether NAME[:MODEL] means an agent. A runner whose own name has a colon is found by its whole name.
func named(of failures.Agent, word string, names []string) bool {
	if of.Runner == word {
		return true
	}
	name, model, ok := strings.Cut(word, ":")
	return ok && !slices.Contains(names, word) && of.Runner == name && of.Model == model
}

// shared changes a file that the repository's supervisors share.
func shared[T any](ctx context.Context, a *app, store preflight.Store[T], change func(*T) bool) error {
	if err := a.disk.MkdirAll("respond", filepath.Dir(store.Path), 0o700); err != nil {
		return err
	}
	bounded, stop := context.WithTimeout(ctx, storePatience)
	defer stop()
	_, err := store.Update(bounded, change)
	return err
}
