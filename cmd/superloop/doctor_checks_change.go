package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/superloop/superloop/cmd/superloop/internal/render"
	"github.com/superloop/superloop/loop/config"
	effectfailures "github.com/superloop/superloop/loop/effects/failures"
	"github.com/superloop/superloop/recovery/failures"
	"github.com/superloop/superloop/recovery/preflight"
)

// changeFlags are the flags that change which checks there are.
func changeFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "add", Usage: "add a check of a `KIND`"},
		&cli.StringFlag{Name: "path", Usage: "with --add: a `PATH`, absolute or in the repository"},
		&cli.StringFlag{Name: "want", Usage: "with --add: what `STATE` it is to be in"},
		&cli.StringFlag{Name: "manager", Usage: "with --add: the package manager (`NAME`; default: whichever has a lock file)"},
		&cli.Int64Flag{Name: "free-mb", Usage: "with --add: how many `MB` are to be free"},
		&cli.IntFlag{Name: "port", Usage: "with --add: a port of this machine (`N`)"},
		&cli.StringFlag{Name: "name", Usage: "with --add: the `NAME` of a tool, a runner or a provider"},
		&cli.StringFlag{Name: "address", Usage: "with --add: where a service answers (`HOST:PORT` of this machine, or a socket's path)"},
		&cli.StringFlag{Name: "reason", Usage: "with --add: why (`TEXT`)"},
		&cli.StringFlag{Name: "retire", Usage: "give a check up (`ID`)"},
		&cli.StringFlag{Name: "why", Usage: "with --retire: why (`TEXT`)"},
	}
}

// specFlags are the flags of --add that say what a check of a kind looks at.
func specFlags(kind failures.CheckKind) []string {
	switch kind {
	case failures.CheckPath, failures.CheckPermission:
		return []string{"path", "want"}
	case failures.CheckDeps:
		return []string{"path", "manager"}
	case failures.CheckDisk:
		return []string{"path", "free-mb"}
	case failures.CheckPort:
		return []string{"port", "want"}
	case failures.CheckTool, failures.CheckAuth, failures.CheckLimit:
		return []string{"name"}
	case failures.CheckService:
		return []string{"address"}
	}
	return nil
}

// checkChange refuses flags of changeFlags that do not belong together.
func checkChange(c *cli.Context) error {
	help := typed(c) + " --help"
	if c.IsSet("add") && c.IsSet("retire") {
		return failf(exitUsage, help, "--add and --retire are two things; give one of them")
	}
	if c.IsSet("why") && !c.IsSet("retire") {
		return failf(exitUsage, help, "--why belongs to --retire")
	}
	kind := failures.CheckKind(c.String("add"))
	if c.IsSet("add") && !slices.Contains(failures.CheckKinds(), kind) {
		return failf(exitUsage, help, "--add %q: there is no such kind; use one of %s", kind, kindList())
	}
	for _, name := range []string{"path", "want", "manager", "free-mb", "port", "name", "address", "reason"} {
		if !c.IsSet(name) {
			continue
		}
		if !c.IsSet("add") {
			return failf(exitUsage, help, "--%s belongs to --add", name)
		}
		if of := specFlags(kind); name != "reason" && !slices.Contains(of, name) {
			return failf(exitUsage, help, "a check of kind %s takes --%s, and no --%s", kind, strings.Join(of, " and --"), name)
		}
	}
	if (c.IsSet("add") || c.IsSet("retire")) && c.IsSet("loop") {
		return failf(exitUsage, help, "what is added or retired here is so for all loops of the repository; it takes no --loop")
	}
	return nil
}

func kindList() string {
	var out []string
	for _, k := range failures.CheckKinds() {
		out = append(out, string(k))
	}
	return strings.Join(out, ", ")
}

// addCheck takes a person's check in.
func (a *app) addCheck(c *cli.Context, store preflight.Store[failures.Preventions]) error {
	if err := a.person(); err != nil {
		return err
	}
	p := failures.NewCheck(failures.CheckKind(c.String("add")), failures.CheckSpec{Path: c.String("path"), Want: c.String("want"), Manager: c.String("manager"),
		FreeMB: c.Int64("free-mb"), Port: c.Int("port"), Name: c.String("name"), Address: c.String("address")},
		cmp.Or(c.String("reason"), "a person asked for it"), a.who(c))
	if err := p.Valid(); err != nil {
		return failf(exitUsage, typed(c)+" --help", "a check of kind %s: %w", p.Kind, err)
	}
	fresh := false
	var wrong error
	if err := shared(c.Context, a, store, func(ps *failures.Preventions) bool {
		p, fresh, wrong = ps.Add(p, time.Now())
		return fresh
	}); err != nil {
		return err
	}
	if wrong != nil {
		return wrong
	}
	if c.Bool("json") {
		return render.JSON(a.stdout, struct {
			failures.Prevention
			Added bool `json:"added"`
		}{p, fresh})
	}
	if !fresh {
		fmt.Fprintf(a.stdout, "%s is looked at already, because: %s\n", p.ID, render.Clean(p.Reason))
		return nil
	}
	fmt.Fprintf(a.stdout, "%s is looked at before each iteration: %s %s\n", p.ID, p.Kind, render.Clean(what(p.Spec)))
	return nil
}

// retireCheck gives a check up that was learned or added.
func (a *app) retireCheck(c *cli.Context, store preflight.Store[failures.Preventions], loops []config.Loop) error {
	if err := a.person(); err != nil {
		return err
	}
	id, why := c.String("retire"), cmp.Or(c.String("why"), "a person said so")
	learned, err := store.Load()
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(learned.Checks, func(p failures.Prevention) bool { return p.ID == id }) {
		return notRetired(c, id, loops)
	}
	done := false
	if err := shared(c.Context, a, store, func(ps *failures.Preventions) bool {
		done = ps.Retire(id, why+" ("+a.who(c)+")", time.Now())
		learned = *ps
		return done
	}); err != nil {
		return err
	}
	if !done {
		return failf(exitNothing, part(c, "--checks")+" --json", "%s was retired before", id)
	}
	if c.Bool("json") {
		i := slices.IndexFunc(learned.Checks, func(p failures.Prevention) bool { return p.ID == id })
		return render.JSON(a.stdout, learned.Checks[i])
	}
	fmt.Fprintf(a.stdout, "%s is not looked at any more\n", id)
	return nil
}

// notRetired says why a check that is not among the learned ones is not retired.
func notRetired(c *cli.Context, id string, loops []config.Loop) error {
	is := func(p failures.Prevention) bool { return p.ID == id }
	if slices.ContainsFunc(failures.Builtin(), is) {
		return failf(exitNothing, "", "%s is always looked at; it cannot be retired", id)
	}
	for _, l := range loops {
		if slices.ContainsFunc(effectfailures.ConfiguredChecks(l.Respond), is) {
			return failf(exitNothing, "superloop config show", "%s stands in the configuration of loop %s; take it away there", id, l.ID)
		}
	}
	return failf(exitNotFound, part(c, "--checks"), "no check has the id %q", id)
}

// what a check looks at, in words.
func what(s failures.CheckSpec) string {
	var out []string
	if s.Port > 0 {
		out = append(out, fmt.Sprint(s.Port))
	}
	for _, text := range []string{s.Path, s.Name, s.Address, s.Manager, s.Want} {
		if text != "" {
			out = append(out, text)
		}
	}
	if s.FreeMB > 0 {
		out = append(out, fmt.Sprintf("%d MB free", s.FreeMB))
	}
	return strings.Join(out, " ")
}
