package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/superloop/superloop/cmd/superloop/internal/render"
	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/recovery/catalog"
	"github.com/superloop/superloop/recovery/verify"
)

// words returns the arguments of a verb. It also parses the flags that stand after the first argument, where the flag
// parser has stopped.
func words(c *cli.Context) ([]string, error) {
	var out []string
	rest := c.Args().Slice()
	for len(rest) > 0 {
		w := rest[0]
		rest = rest[1:]
		if w == "--" {
			return append(out, rest...), nil
		}
		if len(w) < 2 || w[0] != '-' {
			out = append(out, w)
			continue
		}
		name, value, given := strings.Cut(strings.TrimLeft(w, "-"), "=")
		at := slices.IndexFunc(c.Command.Flags, func(f cli.Flag) bool { return slices.Contains(f.Names(), name) })
		isBool := false
		if at >= 0 {
			_, isBool = c.Command.Flags[at].(*cli.BoolFlag)
		}
		switch {
		case at < 0:
			return nil, failf(exitUsage, typed(c)+" --help", "flag provided but not defined: %s", w)
		case isBool && !given:
			value = "true"
		case !given && len(rest) == 0:
			return nil, failf(exitUsage, typed(c)+" --help", "flag needs an argument: %s", w)
		case !given:
			value, rest = rest[0], rest[1:]
		}
		if err := c.Set(name, value); err != nil {
			return nil, failf(exitUsage, typed(c)+" --help", "invalid value %q for flag -%s: %w", value, name, err)
		}
	}
	return out, nil
}

// checkRun is one command of a verification, with its end and its output.
type checkRun struct {
	Command  string `json:"command"`
	ExitCode int    `json:"exit_code"`
	Signal   string `json:"signal,omitempty"`
	TimedOut bool   `json:"timed_out,omitempty"`
	Stdout   string `json:"stdout"`
	Stderr   string `json:"stderr"`
}

// toolRunner runs the commands of a verification and keeps their results.
type toolRunner struct {
	spawner *proc.Spawner
	timeout time.Duration
	hurry   <-chan struct{}
	runs    []checkRun
	shown   []render.CheckRun // the same results, for the text that an operator reads
}

// Run implements verify.Runner: it runs one command.
func (r *toolRunner) Run(ctx context.Context, argv []string) (verify.Run, error) {
	res, err := r.spawner.Run(ctx, proc.Spec{Argv: argv, Env: os.Environ(), Timeout: r.timeout, Grace: time.Second, Hurry: r.hurry, HeadTail: 128 << 10})
	if err != nil || ctx.Err() != nil {
		return verify.Run{}, cmp.Or(err, interrupted(ctx))
	}
	run, command := verify.RunOf(res), shellWords(argv)
	r.runs = append(r.runs, checkRun{command, res.Code, res.Signal, run.Exit.TimedOut, run.Stdout, run.Stderr})
	r.shown = append(r.shown, render.CheckRun{Command: command, Output: strings.TrimSpace(run.Stdout + run.Stderr),
		Exit: render.Exit{Code: res.Code, Signal: res.Signal, TimedOut: run.Exit.TimedOut, NotStarted: run.Exit.NotStarted}})
	return run, nil
}

func (a *app) verifyTool(c *cli.Context) error {
	names, err := words(c)
	switch {
	case err != nil:
		return err
	case c.Bool("batch") && (len(names) > 0 || c.IsSet("command")):
		return failf(exitUsage, "superloop verify --batch < FILE", "--batch judges the lines of stdin, which name their tools")
	case c.Bool("batch"):
		return orInterrupted(c.Context, verify.Batch(reading{c.Context, a.stdin}, a.stdout))
	case len(names) == 0:
		return failf(exitUsage, "superloop verify git", "which tool?")
	case len(names) > 1:
		return failf(exitUsage, "superloop verify "+text.Paste(names[0]), "one tool at a time, but got %q too", names[1])
	case c.Duration("timeout") <= 0:
		return failf(exitUsage, "superloop verify "+text.Paste(names[0])+" --timeout 20s", "--timeout %s: a time above 0 is needed", c.Duration("timeout"))
	}
	tool, label, err := a.toolOf(c, names[0])
	if err != nil {
		return err
	}
	s, err := proc.Start(proc.OnHost("")) // the tool must work for the operator
	if err != nil {
		return fmt.Errorf("verifying %s: %w", names[0], err)
	}
	r := &toolRunner{spawner: s, timeout: c.Duration("timeout"), hurry: a.hurry}
	out, err := verify.Repair(c.Context, tool, r)
	switch err := errors.Join(err, s.Close()); {
	case c.Context.Err() != nil:
		return interrupted(c.Context)
	case err != nil && len(r.runs) == 0: // the text of the command is not valid
		return failf(exitUsage, "superloop verify "+text.Paste(names[0])+" --command "+text.Paste(tool.CLI+" --version"), "%w", err)
	case err != nil:
		return err
	}
	return a.tellVerified(c, tool, label, out, r)
}

// toolOf returns the tool to verify and its label: that of the recipe with this id or program, or the program of this
// name without a label. It fails if the program is not on PATH, unless --command says how to verify the tool.
func (a *app) toolOf(c *cli.Context, name string) (verify.Tool, string, error) {
	cat, _ := catalog.Load(c.Context, catalog.Options{UserDir: catalog.UserDir()})
	t, label := verify.Tool{ID: name, CLI: name, Verify: catalog.Verify{Origin: catalog.VerifyGenerated}}, ""
	r, ok := cat.Recipe(name)
	if !ok {
		r, ok = cat.RecipeByCLI(name)
	}
	if ok {
		t.ID, t.CLI, t.Verify, label = r.ID, cmp.Or(r.CLI, r.ID), r.Verify, r.Label
	}
	t.Real = proc.RealName(t.CLI, os.Environ())
	if c.IsSet("command") {
		t.Verify = catalog.Verify{Command: c.String("command"), Origin: catalog.VerifyGenerated}
		return t, label, nil
	}
	if _, err := proc.LookPath(t.CLI, os.Environ()); errors.Is(err, fs.ErrNotExist) {
		what := "no recipe has that name either"
		if ok {
			what = "the recipe " + t.ID + " would bring it"
		}
		return t, label, failf(exitNotFound, "superloop classify -- "+text.Paste(t.CLI)+"   (says how to get it here)", "there is no %s on PATH; %s", render.Clean(t.CLI), what)
	}
	return t, label, nil
}

func (a *app) tellVerified(c *cli.Context, t verify.Tool, label string, out verify.Outcome, r *toolRunner) error {
	missing := !out.Works && len(r.shown) > 0 && r.shown[0].Exit.NotStarted
	repaired := out.Works && out.Repair != nil && out.Repair.Succeeded
	view := struct {
		Tool     string                 `json:"tool"`
		Label    string                 `json:"label,omitempty"`
		CLI      string                 `json:"cli"`
		Works    bool                   `json:"works"`
		Repaired bool                   `json:"repaired"`
		Why      string                 `json:"why"`
		Check    catalog.Verify         `json:"check"`
		Verify   catalog.Verify         `json:"verify"`
		Repair   *verify.RepairMetadata `json:"repair"`
		Analysis verify.Analysis        `json:"analysis"`
		Runs     []checkRun             `json:"runs"`
	}{t.ID, label, t.CLI, out.Works, repaired, out.Why, t.Verify, out.Verify, out.Repair, out.Analysis, r.runs}
	err := a.write(c, view, func(w io.Writer) { render.Verification(w, t.ID, label, out, r.shown) })
	switch {
	case err != nil:
		return err
	case missing:
		return silent(exitNotFound)
	case !out.Works:
		return silent(exitFailed)
	}
	return nil
}
