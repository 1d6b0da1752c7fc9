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
		Usage: "see a loop run: a scratch repository, a scripted agent, a real failure and its cure",
		Description: `Needs git and bash, no account and no network. The agent is this program again,
as a child process that plays a scenario file; the build that cannot start, the
command that cures it, the sandbox around it, the check and git are real.

With --escalate the policy does not list that command: superloop asks you, prints
what to type, and waits.

EXIT STATUS: that of run; 5 a person is asked (with --exit-on-escalation).`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "dir", Usage: "make the repository in `DIR`, which must not exist (default: a new folder for temporary files)"},
			&cli.BoolFlag{Name: "escalate", Usage: "leave the cure out of the policy, so that a person is asked"},
			&cli.BoolFlag{Name: "exit-on-escalation", Usage: "with --escalate: leave with exit code 5 instead of waiting"},
			jsonFlag("print the events as JSON lines on stdout"),
		},
		Action: a.demo,
	}
}

func (a *app) demo(c *cli.Context) error {
	if c.Bool("exit-on-escalation") && !c.Bool("escalate") {
		return failf(exitUsage, "superloop demo --escalate --exit-on-escalation", "--exit-on-escalation needs --escalate: nothing else asks a person")
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
		return failf(exitUsage, "superloop demo --dir "+quote(dir+"-2"), "%s exists already", dir)
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
	o := loop.Options{Repo: dir, Config: cfg, LoopID: demo.LoopID, Version: version(),
		StateHome: a.env("XDG_STATE_HOME"), Disk: a.disk, Hurry: a.hurry, Observer: progress, Log: a.logger(false),
		By: a.who(c), LookPath: lookPath(a.env), ExitOnEscalation: c.Bool("exit-on-escalation")}
	if !o.ExitOnEscalation {
		text, talk := a.answerText(dir, exe), progress.Talk
		if c.Bool("json") {
			talk = func(text string) { fmt.Fprint(a.stderr, text) }
		}
		o.Observer = &asking{Progress: progress, talk: func() { talk(text) }}
	}
	s, err := loop.Run(c.Context, o)
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

// asking says, when a person is asked, what that person can type.
type asking struct {
	render.Progress
	talk func()
}

// Event implements loop.Observer.
func (q *asking) Event(ev journal.Event, s loop.State) {
	q.Progress.Event(ev, s)
	if ev.Event == "recovery_escalated" {
		q.talk()
	}
}

// answerText is how the demo's question is answered from another terminal. The
// program may have no place on PATH, and does while it waits.
func (a *app) answerText(dir, exe string) string {
	self := "superloop"
	if _, err := lookPath(a.env)(self); err != nil {
		self = quote(exe)
	}
	return fmt.Sprintf(`
The loop waits for you, and costs nothing while it does. What it asks:
  cat %s
You are the one who may mend it. In a second terminal:
  cd %s && %s
  %s kick --repo %s --loop %s --note 'installed again'
Ctrl-C leaves and keeps the state; superloop run --repo %s asks again.

`, quote(loopFile(dir, demo.LoopID, "escalation.json")), quote(dir), demo.Cure, self, quote(dir), demo.LoopID, quote(dir))
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
