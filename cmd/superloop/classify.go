package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/superloop/superloop/cmd/superloop/internal/render"
	"github.com/superloop/superloop/internal/proc"
	rules "github.com/superloop/superloop/recovery/classify"
)

// told are the flags that describe a failure, so that no command is run.
var told = [...]string{"exit", "signal", "timed-out", "stdout", "stderr"}

func (a *app) classifyFailure(c *cli.Context) error {
	text, err := a.afterDashes(c)
	if err != nil {
		return err
	}
	var modes, facts []string
	for _, m := range []string{"batch", "lint", "list"} {
		if c.Bool(m) {
			modes = append(modes, "--"+m)
		}
	}
	for _, f := range told {
		if c.IsSet(f) {
			facts = append(facts, "--"+f)
		}
	}
	switch {
	case len(modes) > 1:
		return failf(exitUsage, "superloop classify "+modes[0], "%s cannot be had at once", strings.Join(modes, " and "))
	case len(modes) == 1 && (text != "" || len(facts) > 0):
		return failf(exitUsage, "superloop classify "+modes[0], "%s takes no command, and nothing of how one ended", modes[0])
	case c.Bool("batch"):
		return a.classifyBatch(c)
	case c.Bool("lint"):
		return a.classifyLint(c)
	case c.Bool("list"):
		return a.classifyList(c)
	case text == "" && len(facts) == 0:
		return failf(exitUsage, "superloop classify -- npm ci", "which command? it stands behind --, as in the hint")
	case c.String("stdout") == "-" && c.String("stderr") == "-":
		return failf(exitUsage, "superloop classify --exit 1 --stdout - -- COMMAND", "both streams from standard input: give it to --stdout alone, that stands for both")
	}
	return a.classifyOne(c, text, len(facts) > 0)
}

func (a *app) classifyOne(c *cli.Context, text string, isTold bool) error {
	repo, err := a.repo(c)
	if err != nil {
		return err
	}
	dir, err := theDir(c)
	if err != nil {
		return err
	}
	k, err := a.loadRemediation(c.Context, repo, c.String("system"))
	if err == nil {
		err = a.remediationPolicy(c, k)
	}
	if err != nil {
		return err
	}
	a.tellProblems(k.problems)
	in := rules.Input{Source: rules.SourceCommand, Command: text, Dir: dir}
	if isTold {
		files, err := a.toldInput(c, &in)
		defer func() {
			for _, f := range files {
				_ = f.Close() // it was only read
			}
		}()
		if err != nil {
			return err
		}
	} else if err := a.madeInput(c, &in); err != nil {
		return err
	}
	found, _, err := k.explain(c.Context, in)
	switch {
	case errors.Is(err, rules.ErrNoFailure):
		return failf(exitNothing, "", "%s: nothing has failed: exit code 0", said(text))
	case err != nil:
		return err
	}
	if c.Bool("json") {
		return render.JSON(a.stdout, found)
	}
	return a.write(found.Text)
}

// said is a command in a message.
func said(text string) string {
	if text == "" {
		return "the command"
	}
	return render.Cut(render.Clean(text), 120)
}

// theDir is --dir, absolute.
func theDir(c *cli.Context) (string, error) {
	dir, err := filepath.Abs(c.String("dir"))
	if err != nil {
		return "", err
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return "", failf(exitNotFound, typed(c)+" --dir DIR", "--dir %s is not a folder", c.String("dir"))
	}
	return dir, nil
}

// toldInput reads how a command ended and what it printed from the flags.
func (a *app) toldInput(c *cli.Context, in *rules.Input) (files []*os.File, err error) {
	open := func(flag string) (io.Reader, error) {
		switch path := c.String(flag); path {
		case "":
			return nil, nil
		case "-":
			return a.stdin, nil
		default:
			f, err := os.Open(path)
			if err != nil {
				return nil, failf(exitNotFound, "", "--%s: %w", flag, err)
			}
			files = append(files, f)
			if info, err := f.Stat(); err != nil || info.IsDir() {
				return nil, failf(exitNotFound, "", "--%s: %s is a folder, not a file", flag, path)
			}
			return f, nil
		}
	}
	if in.Stdout, err = open("stdout"); err == nil {
		in.Stderr, err = open("stderr")
	}
	in.Merged = c.IsSet("stdout") && !c.IsSet("stderr")
	in.Exit = rules.Exit{Code: c.Int("exit"), Signal: c.String("signal"), TimedOut: c.Bool("timed-out")}
	if s := strings.ToUpper(in.Exit.Signal); s != "" {
		in.Exit.Signal = "SIG" + strings.TrimPrefix(s, "SIG")
	}
	if !c.IsSet("exit") && in.Exit.OK() {
		in.Exit.Code = 1 // it is told of because it failed
	}
	return files, err
}

// madeInput runs the command to see how it fails.
func (a *app) madeInput(c *cli.Context, in *rules.Input) error {
	if c.Duration("timeout") <= 0 {
		return failf(exitUsage, typed(c)+" --timeout 10m -- "+in.Command, "--timeout %s: a time above 0 is needed", c.Duration("timeout"))
	}
	s, err := proc.Start(proc.Options{})
	if err != nil {
		return fmt.Errorf("running %s: %w", said(in.Command), err)
	}
	r, err := a.runPlainly(c.Context, s, in.Command, in.Dir, c.Duration("timeout"))
	if err := errors.Join(err, s.Close()); err != nil {
		return err
	}
	in.Exit, in.Stdout, in.Stderr = r.exit(), strings.NewReader(r.stdout), strings.NewReader(r.stderr)
	if r.res.Stdout.Truncated || r.res.Stderr.Truncated {
		fmt.Fprintf(a.stderr, "superloop: of each stream the first and the last %s were looked at\n", render.Bytes(kept))
	}
	return nil
}
