package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/superloop/superloop/cmd/superloop/internal/doctor"
	"github.com/superloop/superloop/cmd/superloop/internal/render"
	"github.com/superloop/superloop/cmd/superloop/internal/selftest"
	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/internal/testkit/mockapi"
	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/loop/layout"
	"github.com/superloop/superloop/loop/local"
)

// part returns the command line of a part of doctor, for a hint: doctor with the flag that selects the part, or the
// older verb, which needs no flag.
func part(c *cli.Context, flag string) string {
	if c.Command.Name == "doctor" {
		return typed(c) + " " + flag
	}
	return typed(c)
}

// target gathers the inputs of doctor's checks, as far as the repository has them. The loops of an invalid
// configuration are among them, because their journals can still be checked.
func (a *app) target(repo string) doctor.Target {
	p := doctor.Target{Repo: repo, ConfigPath: configFile(repo), Path: a.env("PATH"), Now: time.Now}
	p.Config, p.ConfigErr = a.config(repo, "")
	ids, _ := a.loopIDs(repo) // ConfigErr says what is wrong
	ids = slices.DeleteFunc(ids, func(id string) bool { return id != filepath.Base(id) || !filepath.IsLocal(id) })
	loops, err := a.places(repo, ids...)
	p.PlacesErr = err
	for _, l := range loops {
		p.Loops = append(p.Loops, doctor.Place{ID: l.id, Private: l.Private, Events: l.Events(), Head: l.Head(),
			State: l.File("state.json"), Locks: l.Locks(), Holder: holderText})
	}
	p.Kept = a.kept(repo)
	return p
}

// kept returns the paths of this repository, and of the others that the registry knows and that have not vanished.
func (a *app) kept(repo string) []layout.Paths {
	own, err := a.paths(repo, "any")
	if err != nil {
		return nil // PlacesErr says why
	}
	all := []layout.Paths{own}
	store, err := a.registry()
	if err != nil {
		return all
	}
	entries, _ := store.All() // list --all says what is wrong with an entry
	for _, e := range entries {
		p, err := a.paths(e.Repo, e.Loop)
		if err == nil && !slices.ContainsFunc(all, func(o layout.Paths) bool { return o.Repo == p.Repo }) {
			all = append(all, p)
		}
	}
	return all
}

// holderText names the holder of a lock from the content of the lock file.
func holderText(raw []byte) string {
	var h local.Holder
	_ = json.Unmarshal(raw, &h) // an empty Holder says that the holder is unknown
	return h.String()
}

// doctor runs the part that the flags select: the environment checks, the checks of runners, the self-test of the CLIs,
// or without such a flag all checks in short.
func (a *app) doctor(c *cli.Context) error {
	help := typed(c) + " --help"
	switch {
	case c.Bool("checks") || c.IsSet("add") || c.IsSet("retire"):
		if c.IsSet("runner") || c.IsSet("cli") || c.Bool("live") || c.Bool("permissions") {
			return failf(exitUsage, help, "--checks, --add and --retire go with none of --runner, --live, --permissions and --cli; look at one after the other")
		}
		return a.checks(c)
	case c.IsSet("loop"):
		return failf(exitUsage, help, "--loop belongs to --checks")
	}
	if err := checkChange(c); err != nil { // neither --add nor --retire is given, so their flags are refused
		return err
	}
	switch {
	case c.Bool("permissions") && (c.IsSet("runner") || c.Bool("live")):
		return failf(exitUsage, help, "--permissions goes with neither --runner nor --live; look at one after the other")
	case c.IsSet("hold") && (!c.Bool("permissions") || c.Duration("hold") <= 0):
		return failf(exitUsage, help, "--hold belongs to --permissions, and is longer than 0")
	case c.Bool("permissions"):
		return a.selftest(c)
	case c.IsSet("cli") && (c.IsSet("runner") || !c.Bool("live")):
		return failf(exitUsage, help, "--cli belongs to --live without --runner, or to --permissions")
	case c.IsSet("runner"):
		return a.smokeRunners(c)
	case c.Bool("live"):
		return a.selftest(c)
	}
	return a.everything(c)
}

// everything runs all checks of doctor and prints a short result of each.
func (a *app) everything(c *cli.Context) error {
	repo, err := a.repo(c)
	if err != nil {
		return err
	}
	p := a.target(repo)
	checks := doctor.Checks(p)
	if p.Config != nil {
		checks = append(checks, doctor.Check{Name: "environment", Run: func(ctx context.Context) doctor.Result { return a.environment(ctx, p) }})
		if len(p.Config.Channels()) > 0 {
			checks = append(checks, doctor.Check{Name: "channels", Run: func(context.Context) doctor.Result { return a.reachable(p.Config) }})
		}
	}
	all, text := []doctor.Result{}, doctor.Writer(a.stdout)
	healthy, err := doctor.Examine(c.Context, checks, func(r doctor.Result) {
		r.Fix = a.here(r.Fix)
		all = append(all, r)
		if !c.Bool("json") {
			text(r)
		}
	})
	if err != nil {
		return err
	}
	if c.Bool("json") {
		err = render.JSON(a.stdout, map[string]any{"ok": healthy, "checks": all})
	}
	return failedUnless(healthy, err)
}

// reachable reports whether every channel of the configuration, and the answers by a click, have what they need here. It
// sends nothing.
func (a *app) reachable(cfg *config.Config) doctor.Result {
	const try = "superloop notify test --all"
	_, lacking := a.channels(cfg)
	if len(lacking) == 0 {
		return doctor.Result{Status: doctor.OK, Detail: render.Number(len(cfg.Channels()), "channel") + " can be tried with " + try}
	}
	res := doctor.Result{Status: doctor.Warn, Detail: lacking[0].Pointer + ": " + lacking[0].Message, Fix: "set it, then type " + try}
	if n := len(lacking) - 1; n > 0 {
		res.Detail += fmt.Sprintf(" (and %d more)", n)
	}
	return res
}

// environment runs the environment checks of the loops, and reports the first broken one and how many more there are.
func (a *app) environment(ctx context.Context, p doctor.Target) doctor.Result {
	const all = "superloop doctor --checks"
	loops := slices.DeleteFunc(slices.Clone(p.Config.Loops), func(l config.Loop) bool { return !l.Respond.Preflight.Enabled })
	if len(loops) == 0 {
		return doctor.Result{Status: doctor.OK, Detail: "no loop makes checks before an iteration"}
	}
	var rows []checkRow
	paths, err := a.paths(p.Repo, loops[0].ID)
	if err == nil {
		rows, _, err = a.checkRows(ctx, paths, p.Config, loops)
	}
	if err != nil {
		return doctor.Result{Status: doctor.Fail, Detail: err.Error(), Fix: all}
	}
	broken := slices.DeleteFunc(slices.Clone(rows), notBroken)
	if len(broken) == 0 {
		return doctor.Result{Status: doctor.OK, Detail: "none of " + render.Number(len(rows), "check") + " before an iteration fails"}
	}
	res := doctor.Result{Status: doctor.Warn, Detail: broken[0].Why, Fix: cmp.Or(broken[0].Command, all+" tells more")}
	if slices.ContainsFunc(broken, func(r checkRow) bool { return r.Until.IsZero() }) { // no time is known at which this failure ends
		res.Status = doctor.Fail
	}
	if n := len(broken) - 1; n > 0 {
		res.Detail, res.Fix = res.Detail+fmt.Sprintf(" (and %d more)", n), all+" shows all"
	}
	return res
}

// installed returns the CLIs to test, each with the path of its program, in the order of testing. Without --cli it
// returns those that are on PATH.
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
			list = append(list, selftest.Options{CLI: name, Program: program, Path: a.env("PATH"), Disk: a.disk, Hurry: a.hurry, Permissions: c.Bool("permissions"), Hold: c.Duration("hold")})
		case !all:
			return nil, failf(exitNotFound, "command -v "+name, "%s is not installed: %w", name, err)
		}
	}
	if len(list) == 0 {
		return nil, failf(exitNotFound, one, "none of %s is on PATH", strings.Join(names, ", "))
	}
	return list, nil
}

// selftest drives the agent CLIs against a mock of their model APIs.
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
	if sig, ok := errors.AsType[errSignal](err); ok {
		return &fault{code: sig.code(), err: err, hint: part(c, "--live") + " --cli claude   (tests one CLI alone)"}
	}
	return failedUnless(good, err)
}

// selftestOne tests one CLI and prints each case as soon as it has ended.
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
