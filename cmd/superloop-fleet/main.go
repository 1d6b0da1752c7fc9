// Command superloop-fleet runs loops over many machines, on a Temporal server. Each machine runs a worker, which has superloop
// carry out the loops of its repositories. A control worker runs the workflows. superloop itself knows nothing of Temporal.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"os/user"
	"path/filepath"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/superloop/superloop/escalation"
	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/loop/layout"
	"github.com/superloop/superloop/loop/temporal"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	a := &app{stdout: os.Stdout, stderr: os.Stderr, env: os.Getenv, disk: durable.OS()}
	if err := a.cli().RunContext(ctx, os.Args); err != nil {
		fmt.Fprintf(os.Stderr, "superloop-fleet: %v\n", err)
		stop()
		os.Exit(1)
	}
}

// app is one call of the program.
type app struct {
	stdout, stderr io.Writer
	env            func(string) string
	disk           durable.Disk
}

func (a *app) cli() *cli.App {
	loops := []cli.Flag{&cli.StringFlag{Name: "repo", Value: ".", Usage: "the repository `DIR`"}, &cli.StringFlag{Name: "loop", Usage: "the loop's `ID`", Required: true}}
	remote := &cli.StringFlag{Name: "remote", Usage: "of an unbound loop: the `URL` with which it was started"}
	decides := append(loops, remote, &cli.StringFlag{Name: "machine", Usage: "the `ID` of the machine on which the repository lies (default: this one)"},
		&cli.StringFlag{Name: "id", Usage: "decide only about the question with this `ID`"},
		&cli.StringFlag{Name: "digest", Usage: "decide only about what has this `DIGEST`"},
		&cli.StringFlag{Name: "note", Usage: "why (`TEXT`)"}, &cli.StringFlag{Name: "by", Usage: "who decides (`NAME`; default: the user)"})
	c := &cli.App{Name: "superloop-fleet", Usage: "run loops over many machines, on a Temporal server", Writer: a.stdout, ErrWriter: a.stderr, HideHelpCommand: true,
		Description: "docs/fleet.md begins with one laptop. The address of the server, its certificates and its key are\nthose of TEMPORAL_ADDRESS and the other variables that Temporal's own tools read.",
		Action: func(c *cli.Context) error {
			if c.NArg() > 0 {
				return fmt.Errorf("superloop-fleet has no verb %q (type: superloop-fleet --help)", c.Args().First())
			}
			return cli.ShowAppHelp(c)
		},
		ExitErrHandler: func(*cli.Context, error) {}, // main prints the error
		Commands: []*cli.Command{
			{Name: "init", Usage: "make a fleet, or join this machine to one", Action: a.operator(a.init), Flags: []cli.Flag{
				&cli.StringFlag{Name: "fleet", Value: "home", Usage: "the fleet's `NAME`"},
				&cli.StringFlag{Name: "join", Usage: "join the fleet of an invitation, which is in `FILE` (- for standard input)"}}},
			{Name: "invite", Usage: "print the invitation with which another machine joins; keep it secret", Action: a.operator(a.invite)},
			{Name: "dev", Usage: "run a Temporal server of this machine, for a try-out", Action: a.operator(a.dev), Flags: []cli.Flag{
				&cli.IntFlag{Name: "port", Value: 7233, Usage: "listen on 127.0.0.1:`PORT`"}, &cli.StringFlag{Name: "db", Usage: "keep all in `FILE` (default: in memory)"}}},
			{Name: "control", Usage: "run the workflows of the fleet", Action: a.operator(a.control), Flags: []cli.Flag{
				&cli.StringFlag{Name: "build", Usage: "new loops begin with this build, which has the name `ID`, and stay with it; loops of other builds stay with those"}}},
			{Name: "worker", Usage: "carry out the loops of this machine", Action: a.operator(a.worker), Flags: []cli.Flag{
				&cli.IntFlag{Name: "slots", Value: 4, Usage: "effects that run at the same time, at most `N`"},
				&cli.IntFlag{Name: "max-roles-per-account", Usage: "how many roles of the whole fleet use the same account when one begins here (`N`; 0: no bound)"},
				&cli.DurationFlag{Name: "beat-timeout", Value: 30 * time.Second, Hidden: true},
				&cli.StringFlag{Name: "superloop", Value: "superloop", Usage: "the `PROGRAM` that carries out loops"},
				&cli.StringFlag{Name: "pool", Usage: "also take loops of the pools `NAME,...`, which are bound to no machine"},
				&cli.StringFlag{Name: "gateway", Usage: "let the gateway at `HOST:PORT` ask about the loops of this machine"}}},
			{Name: "gateway", Usage: "answer people and programs for all machines of the fleet", Action: a.operator(a.gateway), Flags: []cli.Flag{
				&cli.StringFlag{Name: "listen", Value: "localhost:7718", Usage: "the page and the API answer at this `ADDRESS` of this machine"},
				&cli.StringFlag{Name: "machines", Value: "127.0.0.1:7719", Usage: "workers reach it at this `ADDRESS`; :7719 for any of this machine's"}}},
			{Name: "ui", Usage: "print the address of the page of the gateway, which opens one session within a minute", Action: a.operator(a.ui)},
			{Name: "start", Usage: "start a loop of a repository on this machine", Action: a.operator(a.start), Flags: append(loops, &cli.BoolFlag{Name: "fresh", Usage: "begin the loop from the start"}, &cli.StringFlag{Name: "by", Usage: "who starts it (`NAME`; default: the user)"},
				&cli.BoolFlag{Name: "unbound", Usage: "let any machine of a pool run the loop, with what is committed here and the configuration"},
				&cli.StringFlag{Name: "remote", Usage: "of an unbound loop: the repository at `URL`, which these machines fetch from and push to"},
				&cli.StringFlag{Name: "pool", Value: "default", Usage: "of an unbound loop: the pool `NAME`"},
				&cli.DurationFlag{Name: "machine-gone-after", Value: 2 * time.Minute, Usage: "of an unbound loop: another machine takes it when its own begins nothing for `DURATION`"},
				&cli.DurationFlag{Name: "beat-timeout", Hidden: true})},
			{Name: "list", Usage: "list the loops of the fleet", Action: a.list, Flags: []cli.Flag{&cli.BoolFlag{Name: "json", Usage: "print one JSON object a line"}}},
			{Name: "show", Usage: "print what the fleet knows of a loop, as JSON", Action: a.show, Flags: append(loops, remote, &cli.StringFlag{Name: "machine", Usage: "the `ID` of its machine (default: this one)"})},
			{Name: "approve", Usage: "let happen what a loop asks for", Action: a.decides("answer", "approve"), Flags: decides},
			{Name: "reject", Usage: "refuse what a loop asks for", Action: a.decides("answer", "reject"), Flags: decides},
			{Name: "resolve", Usage: "say that you have done by hand what a loop asks for", Action: a.decides("answer", "manual"), Flags: decides},
			{Name: "kick", Usage: "let a loop wait no longer", Action: a.decides("retry_now", ""), Flags: decides},
			{Name: "pause", Usage: "pause a loop", Action: a.decides("pause", ""), Flags: decides},
			{Name: "resume", Usage: "go on with a paused loop", Action: a.decides("resume", ""), Flags: decides},
			{Name: "cancel", Usage: "end a loop", Action: a.decides("cancel", ""), Flags: decides},
			{Name: "machines", Usage: "list the machines of the fleet", Action: a.machines, Flags: []cli.Flag{&cli.BoolFlag{Name: "json", Usage: "print one JSON object a line"}}},
			{Name: "accounts", Usage: "list which roles use an account with a bound or wait for it, and which accounts are limited", Action: a.accounts, Flags: []cli.Flag{&cli.BoolFlag{Name: "json", Usage: "print one JSON object a line"}}},
			{Name: "drain", Usage: "let a machine begin nothing more; its unbound loops go to others", Action: a.orders(temporal.OrderDrain), Flags: []cli.Flag{
				&cli.StringFlag{Name: "machine", Usage: "the `ID` of the machine (default: this one)"}, &cli.StringFlag{Name: "by", Usage: "who orders it (`NAME`; default: the user)"},
				&cli.DurationFlag{Name: "deadline", Value: 10 * time.Minute, Usage: "interrupt what is under way after `DURATION`, which counts for nothing"}}},
			{Name: "undrain", Usage: "let a machine go on after drain", Action: a.orders(temporal.OrderUndrain), Flags: []cli.Flag{
				&cli.StringFlag{Name: "machine", Usage: "the `ID` of the machine (default: this one)"}, &cli.StringFlag{Name: "by", Usage: "who orders it (`NAME`; default: the user)"}}},
			{Name: "doctor", Usage: "check the fleet as this machine sees it", Action: a.doctor},
		}}
	return c
}

// operator refuses a process that descends from something that superloop runs.
func (a *app) operator(verb cli.ActionFunc) cli.ActionFunc {
	return func(c *cli.Context) error {
		_, err := escalation.CheckCaller("/proc", os.Environ())
		if agent, ok := errors.AsType[*escalation.AgentError](err); ok {
			return fmt.Errorf("an agent does not use the fleet that runs it: %w", agent)
		}
		if err != nil {
			return err
		}
		return verb(c)
	}
}

// dir returns where this machine keeps what it knows of its fleet.
func (a *app) dir() (string, error) {
	state, err := layout.StateRoot(a.env("XDG_STATE_HOME"))
	return filepath.Join(state, "fleet"), err
}

// who returns the operator.
func (a *app) who(c *cli.Context) string {
	name := "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	return cmp.Or(c.String("by"), name)
}

func (a *app) log() *zap.Logger {
	enc := zap.NewProductionEncoderConfig()
	enc.EncodeTime = zapcore.RFC3339NanoTimeEncoder
	return zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(enc), zapcore.Lock(zapcore.AddSync(a.stderr)), zap.InfoLevel))
}
