package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/superloop/superloop/cmd/superloop/internal/render"
	"github.com/superloop/superloop/loop/config"
)

func (a *app) validate(c *cli.Context) error {
	repo, err := a.repo(c)
	if err != nil {
		return err
	}
	path := filepath.Join(repo, ".superloop", "config.json")
	if c.IsSet("config") {
		path = c.String("config")
	}
	cfg, err := config.Load(path)
	var problems, warned []config.Problem
	var bad *config.Error
	switch {
	case errors.As(err, &bad):
		problems = bad.Problems
	case err != nil:
		return err
	default:
		warned = warnings(cfg)
		for _, p := range cfg.Check(repo, lookPath(a.env)) {
			// A program that this machine lacks is no fault of the file, which may
			// be meant for another; run and doctor insist on it.
			if p.Code == config.CodeNotFound && strings.HasPrefix(p.Pointer, "/runners/") {
				warned = append(warned, p)
			} else {
				problems = append(problems, p)
			}
		}
	}
	if c.Bool("json") {
		if err := render.JSON(a.stdout, map[string]any{"valid": len(problems) == 0, "file": path,
			"errors": orEmpty(problems), "warnings": orEmpty(warned)}); err != nil {
			return err
		}
		if len(problems) > 0 {
			return silent(exitConfig)
		}
		return nil
	}
	for _, p := range warned {
		fmt.Fprintf(a.stderr, "warning: %s\n", p)
	}
	if len(problems) > 0 {
		if bad != nil && bad.Hint() != "superloop validate" {
			return &fault{code: exitConfig, err: bad, hint: bad.Hint()}
		}
		return &fault{code: exitConfig, err: &config.Error{Path: path, Problems: problems},
			hint: "docs/config.md explains every key; examples/config.json is complete"}
	}
	fmt.Fprintf(a.stdout, "%s is valid: %s\n", path, count(len(cfg.Loops), "loop"))
	return nil
}

// orEmpty makes an absent list [] in JSON.
func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
