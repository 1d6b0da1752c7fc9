package main

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"github.com/superloop/superloop/cmd/superloop/internal/demo"
	"github.com/superloop/superloop/cmd/superloop/internal/render"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/journal"
	"github.com/superloop/superloop/roles/agent/script"
)

func (a *app) demoCommand() *cli.Command {
	return &cli.Command{
		Name:  "demo",
		Usage: "see a loop run: a scratch repository, a scripted agent, a real failure",
		Description: `Needs no account and no network. The agent is this program again, as a child
process that plays a scenario file; the check that fails, and git, are real.`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "dir", Usage: "make the repository in `DIR`, which must not exist (default: a new folder for temporary files)"},
			jsonFlag("print the events as JSON lines on stdout"),
		},
		Action: a.demo,
	}
}

func (a *app) demo(c *cli.Context) error {
	dir := c.String("dir")
	if dir == "" {
		var b [4]byte
		_, _ = rand.Read(b[:]) // does not fail on any system that Go runs on
		dir = filepath.Join(os.TempDir(), "superloop-demo-"+hex.EncodeToString(b[:]))
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	if _, err := os.Lstat(dir); err == nil {
		return failf(exitUsage, "superloop demo --dir "+quote(dir+"-2"), "%s exists already", dir)
	}
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	fmt.Fprintf(a.stderr, "A scratch repository: %s\n", dir)
	fmt.Fprintf(a.stderr, "Its spec asks for a greeting; a scripted agent plays planner, implementer, tester and reviewer.\n\n")
	if err := demo.Make(c.Context, a.disk, dir, exe); err != nil {
		return err
	}
	cfg, err := a.config(dir)
	if err != nil {
		return err
	}
	progress := a.progress(c.Bool("json"))
	s, err := loop.Run(c.Context, loop.Options{Repo: dir, Config: cfg, LoopID: demo.LoopID, Version: version(),
		StateHome: a.env("XDG_STATE_HOME"), Disk: a.disk, Hurry: a.hurry, Observer: progress, Log: a.logger(false)})
	progress.Close()
	if err != nil {
		return err
	}
	if s.Status != loop.Completed {
		return a.verdict(c.Context, s, cfg, dir, c.Bool("json"))
	}
	if c.Bool("json") {
		return nil
	}
	return a.tellDemo(dir, s)
}

// tellDemo says what happened, from the journal, where to look, and what to
// type next.
func (a *app) tellDemo(dir string, s loop.State) error {
	var red, roles int
	err := journal.Read(loopFile(dir, demo.LoopID, "events.jsonl"), 0, func(ev journal.Event) error {
		fact, err := loop.DecodeFact(ev.Event, ev.Fields)
		if err != nil {
			return err
		}
		switch f := fact.(type) {
		case loop.RoleEnded:
			roles++
		case loop.TestsEnded:
			if f.Status == "failed" {
				red++
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	w := a.stdout
	fmt.Fprintf(w, "\nThe loop completed in %s: %d role runs, the check was red %d time(s), %s of work.\n",
		count(s.Iteration, "iteration"), roles, red, render.Duration(msec(s.ActiveMS)))
	fmt.Fprintf(w, `What happened:
  1. The planner wrote a plan, the implementer a program with a mistake in it.
  2. superloop ran the check itself. git showed the difference, so the reviewer's word could not have completed the loop.
  3. Iteration 2 mended it. The check was green, the promise was given, the evidence was there: completed, and committed.

Where to look:
  %s/.superloop/loops/%s/
    events.jsonl       everything that happened, one JSON object a line
    test-output.txt    what the check printed
    logs/iter-1/       what each role was asked and what it said
    run-summary.json   each iteration and its gates

What to type next:
  superloop events --repo %s
  git -C %s log --stat
  superloop init        in your own repository, with your own agents
`, dir, demo.LoopID, quote(dir), quote(dir))
	return nil
}

// agentCommand is the scripted agent: `superloop __agent SCENARIO` plays a
// scenario file as the child process of a role. See docs/scenarios.md.
func (a *app) agentCommand() *cli.Command {
	return &cli.Command{
		Name: "__agent", Hidden: true, SkipFlagParsing: true, ArgsUsage: "SCENARIO",
		Action: func(c *cli.Context) error {
			if code := script.Main(c.Args().Slice(), a.stdin, a.stdout, a.stderr, a.env); code != 0 {
				return silent(code)
			}
			return nil
		},
	}
}
