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
	"github.com/superloop/superloop/internal/testkit/mockapi"
)

func cliFlag(when string) cli.Flag {
	return &cli.StringSliceFlag{Name: "cli", Usage: when + "test `NAME` (" + strings.Join(mockapi.CLIs(), ", ") + "); may be given again (default: all that are installed)"}
}

// installed are the programs of the CLIs to test, by name, in the order in
// which they are tested.
func (a *app) installed(c *cli.Context) ([]selftest.Options, error) {
	names, one := c.StringSlice("cli"), part(c, "--live")+" --cli claude"
	all := len(names) == 0
	if all {
		names = mockapi.CLIs()
	}
	var list []selftest.Options
	for _, name := range names {
		if !slices.Contains(mockapi.CLIs(), name) {
			return nil, failf(exitUsage, one, "--cli %s: %s knows %s", name, c.Command.Name, strings.Join(mockapi.CLIs(), ", "))
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
		return nil, failf(exitNotFound, one, "none of %s is on PATH", strings.Join(names, ", "))
	}
	return list, nil
}

// selftest drives CLIs against the mock.
func (a *app) selftest(c *cli.Context) error {
	list, err := a.installed(c)
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
		return &fault{code: sig.code(), err: err, hint: part(c, "--live") + " --cli claude   (tests one CLI alone)"}
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
