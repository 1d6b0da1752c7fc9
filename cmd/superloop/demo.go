package main

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"github.com/superloop/superloop/cmd/superloop/internal/demo"
	"github.com/superloop/superloop/cmd/superloop/internal/script"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/local"
)

func (a *app) demoCommand() *cli.Command {
	return &cli.Command{
		Name:  "demo",
		Usage: "see a loop run: a scratch repository, a scripted agent, a real failure and its remedy",
		Description: `Needs git and bash, no account and no network. The agent is this program again,
as a child process that plays a scenario file; the build that cannot start, the
command that fixes it, the sandbox around it, the check and git are real.

With --escalate the policy does not list that command: superloop asks you, prints
what to type in a second terminal, and waits. With --auto-answer the demo shows
you the question and then approves it by itself.

EXIT STATUS: that of run; 5 a person is asked (with --exit-on-escalation).`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "dir", Usage: "make the repository in `DIR`, which must not exist (default: a new folder for temporary files)"},
			&cli.BoolFlag{Name: "escalate", Usage: "leave the remedy out of the policy, so that a person is asked"},
			&cli.BoolFlag{Name: "auto-answer", Usage: "with --escalate: show the question, and approve it as \"demo\" instead of waiting for you"},
			&cli.BoolFlag{Name: "exit-on-escalation", Usage: "with --escalate: leave with exit code 5 instead of waiting"},
			jsonFlag("print the events as JSON lines on stdout"),
		},
		Action: a.demo,
	}
}

func (a *app) demo(c *cli.Context) error {
	for _, flag := range []string{"exit-on-escalation", "auto-answer"} {
		if c.Bool(flag) && !c.Bool("escalate") {
			return failf(exitUsage, "superloop demo --escalate --"+flag, "--%s needs --escalate: nothing else asks a person", flag)
		}
	}
	if c.Bool("exit-on-escalation") && c.Bool("auto-answer") {
		return failf(exitUsage, "superloop demo --escalate --auto-answer", "--exit-on-escalation and --auto-answer exclude each other: leave, or answer?")
	}
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
		return failf(exitUsage, "superloop demo --dir "+text.Paste(dir+"-2"), "%s exists already", dir)
	}
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	fmt.Fprintf(a.stderr, "A scratch repository: %s\n", dir)
	fmt.Fprintf(a.stderr, "Its spec asks for a greeting; a scripted agent plays planner, implementer, tester and reviewer.\n")
	fmt.Fprintf(a.stderr, "Its build is broken by what is installed. No agent is allowed to mend that.\n\n")
	if err := demo.Make(c.Context, a.disk, demo.Options{Dir: dir, Exe: exe, Escalate: c.Bool("escalate")}); err != nil {
		return err
	}
	cfg, err := a.config(dir)
	if err != nil {
		return err
	}
	progress := a.progress(c.Bool("json"))
	o := local.Options{Repo: dir, Config: cfg, LoopID: demo.LoopID, Version: version(),
		StateHome: a.env("XDG_STATE_HOME"), Disk: a.disk, Hurry: a.hurry, Observer: progress, Log: a.logger(false),
		By: a.who(c), LookPath: lookPath(a.env), ExitOnEscalation: c.Bool("exit-on-escalation")}
	if !o.ExitOnEscalation {
		talk := progress.Talk
		if c.Bool("json") {
			talk = func(text string) { fmt.Fprint(a.stderr, text) }
		}
		desk := &demoDesk{app: a, ctx: c.Context, Progress: progress, talk: talk, dir: dir, exe: exe, auto: c.Bool("auto-answer")}
		defer desk.wait()
		o.Observer = desk
	}
	s, err := local.Run(c.Context, o)
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
	return a.tellDemo(dir, s, c.Bool("auto-answer"))
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
