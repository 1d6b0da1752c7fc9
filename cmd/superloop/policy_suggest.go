package main

import (
	"encoding/json"
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/superloop/superloop/cmd/superloop/internal/render"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/recovery/learn"
)

func (a *app) policySuggest(c *cli.Context) error {
	repo, paths, err := a.private(c)
	if err != nil {
		return err
	}
	store := learn.Store{Disk: a.disk, Path: paths.Learned()}
	if c.Bool("reset") {
		if err := a.person(); err != nil {
			return err
		}
		if err := store.Reset(); err != nil {
			return err
		}
		if c.Bool("json") {
			return render.JSON(a.stdout, map[string]any{"reset": true})
		}
		fmt.Fprintln(a.stdout, "forgotten: which remedies helped in this repository")
		return nil
	}
	m, err := store.Load()
	if err != nil {
		return err
	}
	if c.Bool("all") {
		if m.Entries == nil {
			m.Entries = []learn.Entry{}
		}
		return render.JSON(a.stdout, m)
	}
	cfg, err := a.config(repo)
	if err != nil {
		return err
	}
	policy, _ := cfg.Policy("")
	found := m.Suggest(func(command string) bool {
		if policy == nil {
			return false
		}
		_, listed := policy.Listed(command)
		return listed
	})
	if c.Bool("json") {
		if found == nil {
			found = []learn.Suggestion{}
		}
		return render.JSON(a.stdout, map[string]any{"suggestions": found})
	}
	if len(found) == 0 {
		fmt.Fprintln(a.stdout, "nothing to suggest: no command that is not listed has helped twice")
		return nil
	}
	for _, s := range found {
		entry, err := json.Marshal(s.Command)
		if err != nil {
			return fmt.Errorf("writing a command: %w", err)
		}
		fmt.Fprintf(a.stdout, "%s\n    %s\n", text.Display(string(entry)), s.Why)
	}
	fmt.Fprintln(a.stdout, "next: copy what you want into recovery.auto_approve of .superloop/config.json, then: superloop policy lint")
	return nil
}
