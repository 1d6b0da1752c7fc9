package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/superloop/superloop/cmd/superloop/internal/selftest"
	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/roles/agent/mockapi"
)

func (a *app) selftestCommand() *cli.Command {
	return &cli.Command{
		Name:  "selftest",
		Usage: "drive the installed agent CLIs against a mock of their model APIs on this machine",
		Description: `For each CLI: success, tool use, a refused key, a limit, overload, a provider that
hangs, a kill during a command, and whether the key shows anywhere. It spends no
token and uses no network; every CLI runs in a home of its own that is removed,
with a key that opens nothing. claude and codex take half a minute each, gemini
one or two, opencode some five.

EXIT STATUS: 0 all is as expected, 1 something is not, 6 a CLI is not installed,
130 interrupted.`,
		Flags: []cli.Flag{
			&cli.StringSliceFlag{Name: "cli", Usage: "test `NAME` (" + strings.Join(mockapi.CLIs(), ", ") + "); may be given again (default: all that are installed)"},
			jsonFlag("print one JSON object per CLI, on a line each"),
		},
		Action: a.selftest,
	}
}

// installed are the programs of the CLIs to test, by name, in the order in
// which they are tested.
func (a *app) installed(names []string) ([]selftest.Options, error) {
	all := len(names) == 0
	if all {
		names = mockapi.CLIs()
	}
	var list []selftest.Options
	for _, name := range names {
		if !slices.Contains(mockapi.CLIs(), name) {
			return nil, failf(exitUsage, "superloop selftest --cli claude", "--cli %s: selftest knows %s", name, strings.Join(mockapi.CLIs(), ", "))
		}
		program, err := proc.LookPath(name, []string{"PATH=" + a.env("PATH")})
		if err == nil {
			program, err = filepath.Abs(program)
		}
		switch {
		case err == nil:
			list = append(list, selftest.Options{CLI: name, Program: program, Path: a.env("PATH"), Disk: a.disk, Hurry: a.hurry})
		case !all:
			return nil, failf(exitNotFound, "command -v "+name, "%s is not installed: %w", name, err)
		}
	}
	if len(list) == 0 {
		return nil, failf(exitNotFound, "superloop selftest --cli claude", "none of %s is on PATH", strings.Join(names, ", "))
	}
	return list, nil
}

func (a *app) selftest(c *cli.Context) error {
	list, err := a.installed(c.StringSlice("cli"))
	if err != nil {
		return err
	}
	spawner, err := proc.Start(proc.Options{})
	if err != nil {
		return err
	}
	good := true
	for _, o := range list {
		o.Runner = spawner
		card, terr := a.selftestOne(c.Context, o, c.Bool("json"))
		if terr != nil {
			err = fmt.Errorf("testing %s: %w", o.CLI, terr)
			break
		}
		good = good && card.Status == selftest.OK
	}
	err = errors.Join(err, spawner.Close())
	var sig errSignal
	if errors.As(err, &sig) {
		return &fault{code: sig.code(), err: err, hint: "superloop selftest --cli claude   (tests one CLI alone)"}
	}
	if err == nil && !good {
		return silent(exitFailed)
	}
	return err
}

// selftestOne tests one CLI and tells what it sees as it goes.
func (a *app) selftestOne(ctx context.Context, o selftest.Options, asJSON bool) (selftest.Card, error) {
	o.Dir = selftest.Scratch()
	if asJSON {
		o.Each = func(k selftest.Case) { fmt.Fprintf(a.stderr, "%s: %s: %s\n", o.CLI, k.Name, k.Status) }
	} else {
		selftest.Head(a.stdout, o.CLI, o.Program)
		o.Each = func(k selftest.Case) { selftest.Line(a.stdout, k) }
	}
	card, err := selftest.Run(ctx, o)
	if err != nil {
		return card, err
	}
	if asJSON {
		return card, json.NewEncoder(a.stdout).Encode(card)
	}
	selftest.Tail(a.stdout, card)
	fmt.Fprintln(a.stdout)
	return card, nil
}
