package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/superloop/superloop/cmd/superloop/internal/doctor"
	"github.com/superloop/superloop/cmd/superloop/internal/render"
	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/loop/local"
)

func (a *app) doctorCommand() *cli.Command {
	return &cli.Command{
		Name:  "doctor",
		Usage: "look at everything a night depends on, and say how to mend it",
		Description: `Without a flag, doctor looks at everything and prints a line for each thing that it
looked at. It changes nothing and spends nothing. Programs on PATH are asked for
their version.

--runner NAME tells all about one runner: the program, its version, every flag of
the command lines that its roles will get, the login, known traps. A program that
superloop does not know is asked for --version, --help or -h, to see whether it
works; a script that has no answer to such a question is not started. With --live
the runner also answers one short prompt, in a scratch repository. That is a real
request: it costs tokens, or counts against your subscription.

--live alone drives the installed agent CLIs against a mock of their model APIs on
this machine: success, tool use, a refused key, a limit, overload, a provider that
hangs, a kill during a command, and whether the key shows anywhere. It spends no
token and uses no network. Each CLI runs in a home of its own that is removed, with
a key that opens nothing. claude and codex take half a minute each, gemini one or
two minutes, opencode some five.

--checks tells all about the checks that precede each iteration: those that
superloop always makes (space, and the right to write in the repository), those of
the configuration, and those that were learned from failures or added by a person.
This look is not counted. --add adds a check for every loop of the repository,
--retire gives up one that was learned or added.

The kinds of --add, and what each needs: path --path [--want file|dir]; permission
--path --want read|write|execute; dependency_sync [--path] [--manager]; disk
--free-mb [--path]; port --port --want free|open; tool --name; service --address;
auth --name (a runner); limit --name (a provider).

EXIT STATUS: 0 nothing fails (there may be warnings), or the check is added or
retired, 1 something fails, 3 config invalid (--runner, --checks), 4 the check cannot
be retired, or was before, 6 no such runner, CLI, loop or check, 130 interrupted.`,
		Flags: slices.Concat([]cli.Flag{
			repoFlag(), runnerFlag("tell all about the runner `NAME` (may be repeated; all: about every runner)"),
			&cli.BoolFlag{Name: "live", Usage: "with --runner: also send one short prompt, which costs tokens; alone: drive the installed agent CLIs against a mock"},
			cliFlag("with --live alone: "),
			&cli.BoolFlag{Name: "checks", Usage: "tell all about the checks that precede an iteration"},
			loopFlag("with --checks: those of one loop (default: of all)"),
		}, changeFlags(), []cli.Flag{jsonFlag("print the results as JSON")}),
		Action: a.doctor,
	}
}

// doctorAliases are the verbs that doctor has taken in, under their old names.
func (a *app) doctorAliases() []*cli.Command {
	return []*cli.Command{
		{Name: "preflight", Hidden: true, Usage: "the same as doctor --checks", Action: a.checks,
			Flags: slices.Concat([]cli.Flag{repoFlag(), loopFlag("the checks of one loop (default: of all)")}, changeFlags(), []cli.Flag{jsonFlag("print one object")})},
		{Name: "runner-smoke", Hidden: true, Usage: "the same as doctor --runner all", Action: a.smokeRunners,
			Flags: []cli.Flag{repoFlag(), runnerFlag("examine only the runner `NAME` (may be repeated; default: all)"),
				&cli.BoolFlag{Name: "live", Usage: "also send one short prompt to each runner, which costs tokens"}, jsonFlag("print the reports as JSON")}},
		{Name: "selftest", Hidden: true, Usage: "the same as doctor --live", Action: a.selftest,
			Flags: []cli.Flag{cliFlag(""), jsonFlag("print one JSON object per CLI, on a line each")}},
	}
}

// part is the invocation of a part of doctor: doctor with the flag that chooses it, or
// the old verb, which needs none.
func part(c *cli.Context, flag string) string {
	if c.Command.Name == "doctor" {
		return typed(c) + " " + flag
	}
	return typed(c)
}

// patient gathers the target of the checks, as far as the repository lets it: an
// invalid configuration still has loops whose journals can be looked at.
func (a *app) target(repo string) doctor.Target {
	p := doctor.Target{Repo: repo, ConfigPath: filepath.Join(repo, ".superloop", "config.json"), Path: a.env("PATH"), Now: time.Now}
	p.Config, p.ConfigErr = a.config(repo)
	ids, err := a.loopIDs(repo)
	if err != nil {
		return p // ConfigErr says why
	}
	for _, id := range ids {
		if id != filepath.Base(id) || !filepath.IsLocal(id) {
			continue
		}
		paths, err := a.paths(repo, id)
		if err != nil {
			p.PlacesErr = err
			return p
		}
		p.Loops = append(p.Loops, doctor.Place{ID: id, Private: paths.Private, Events: paths.Events(), Head: paths.Head(),
			State: paths.File("state.json"), Locks: paths.Locks(), Holder: holderText})
	}
	return p
}

// holderText says who wrote a lock.
func holderText(raw []byte) string {
	var h local.Holder
	_ = json.Unmarshal(raw, &h) // its String says that nobody told
	return h.String()
}

// doctor carries out the part that the flags choose.
func (a *app) doctor(c *cli.Context) error {
	help := typed(c) + " --help"
	switch {
	case c.Bool("checks") || c.IsSet("add") || c.IsSet("retire"):
		if c.IsSet("runner") || c.IsSet("cli") || c.Bool("live") {
			return failf(exitUsage, help, "--checks, --add and --retire go with none of --runner, --live and --cli; look at one after the other")
		}
		return a.checks(c)
	case c.IsSet("loop"):
		return failf(exitUsage, help, "--loop belongs to --checks")
	}
	if err := checkChange(c); err != nil { // there is no --add, so what belongs to it is refused
		return err
	}
	switch {
	case c.IsSet("cli") && (c.IsSet("runner") || !c.Bool("live")):
		return failf(exitUsage, help, "--cli belongs to --live without --runner")
	case c.IsSet("runner"):
		return a.smokeRunners(c)
	case c.Bool("live"):
		return a.selftest(c)
	}
	return a.everything(c)
}

// everything makes each check of doctor, shortly.
func (a *app) everything(c *cli.Context) error {
	repo, err := a.repo(c)
	if err != nil {
		return err
	}
	p := a.target(repo)
	checks := doctor.Checks(p)
	if p.Config != nil {
		checks = append(checks, doctor.Check{Name: "environment", Run: func(ctx context.Context) doctor.Result { return a.environment(ctx, p) }})
	}
	all, text := []doctor.Result{}, doctor.Writer(a.stdout)
	healthy, err := doctor.Examine(c.Context, checks, func(r doctor.Result) {
		all = append(all, r)
		if !c.Bool("json") {
			text(r)
		}
	})
	if err != nil {
		return err
	}
	if c.Bool("json") {
		if err := render.JSON(a.stdout, map[string]any{"ok": healthy, "checks": all}); err != nil {
			return err
		}
	}
	if !healthy {
		return silent(exitFailed)
	}
	return nil
}

// environment makes the checks that precede an iteration, and tells what is broken.
func (a *app) environment(ctx context.Context, p doctor.Target) doctor.Result {
	const all = "superloop doctor --checks"
	loops := slices.DeleteFunc(slices.Clone(p.Config.Loops), func(l config.Loop) bool { return !l.Respond.Preflight.Enabled })
	if len(loops) == 0 {
		return doctor.Result{Status: doctor.OK, Detail: "no loop makes checks before an iteration"}
	}
	paths, err := a.paths(p.Repo, loops[0].ID)
	if err != nil {
		return doctor.Result{Status: doctor.Fail, Detail: err.Error(), Fix: all}
	}
	rows, _, err := a.checkRows(ctx, paths, p.Config, loops)
	if err != nil {
		return doctor.Result{Status: doctor.Fail, Detail: err.Error(), Fix: all}
	}
	broken := slices.DeleteFunc(slices.Clone(rows), notBroken)
	if len(broken) == 0 {
		return doctor.Result{Status: doctor.OK, Detail: "none of " + count(len(rows), "check") + " before an iteration fails"}
	}
	res := doctor.Result{Status: doctor.Warn, Detail: broken[0].Why, Fix: cmp.Or(broken[0].Command, all+" tells more")}
	if slices.ContainsFunc(broken, func(r checkRow) bool { return r.Until.IsZero() }) { // time does not repair it
		res.Status = doctor.Fail
	}
	if n := len(broken) - 1; n > 0 {
		res.Detail, res.Fix = res.Detail+fmt.Sprintf(" (and %d more)", n), all+" shows all"
	}
	return res
}
