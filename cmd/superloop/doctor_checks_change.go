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
	"github.com/superloop/superloop/loop/effects/failures"
	"github.com/superloop/superloop/recovery/preflight"
	"github.com/superloop/superloop/recovery/respond"
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
func specFlags(kind respond.CheckKind) []string {
	return map[respond.CheckKind][]string{
		respond.CheckPath: {"path", "want"}, respond.CheckPermission: {"path", "want"}, respond.CheckDeps: {"path", "manager"},
		respond.CheckDisk: {"path", "free-mb"}, respond.CheckPort: {"port", "want"}, respond.CheckService: {"address"},
		respond.CheckTool: {"name"}, respond.CheckAuth: {"name"}, respond.CheckLimit: {"name"},
	}[kind]
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
	kind := respond.CheckKind(c.String("add"))
	if c.IsSet("add") && !slices.Contains(respond.CheckKinds(), kind) {
		var kinds []string
		for _, k := range respond.CheckKinds() {
			kinds = append(kinds, string(k))
		}
		return failf(exitUsage, help, "--add %q: there is no such kind; use one of %s", kind, strings.Join(kinds, ", "))
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

// addCheck takes a person's check in.
func (a *app) addCheck(c *cli.Context, store preflight.Store[respond.Preventions]) error {
	if err := a.person(); err != nil {
		return err
	}
	p := respond.NewCheck(respond.CheckKind(c.String("add")), respond.CheckSpec{Path: c.String("path"), Want: c.String("want"), Manager: c.String("manager"),
		FreeMB: c.Int64("free-mb"), Port: c.Int("port"), Name: c.String("name"), Address: c.String("address")},
		cmp.Or(c.String("reason"), "a person asked for it"), a.who(c))
	if err := p.Valid(); err != nil {
		return failf(exitUsage, typed(c)+" --help", "a check of kind %s: %w", p.Kind, err)
	}
	fresh := false
	var wrong error
	err := shared(c.Context, a, store, func(ps *respond.Preventions) bool {
		p, fresh, wrong = ps.Add(p, time.Now())
		return fresh
	})
	if err = cmp.Or(err, wrong); err != nil {
		return err
	}
	if c.Bool("json") {
		return render.JSON(a.stdout, struct {
			respond.Prevention
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
func (a *app) retireCheck(c *cli.Context, store preflight.Store[respond.Preventions], loops []config.Loop) error {
	if err := a.person(); err != nil {
		return err
	}
	id, why := c.String("retire"), cmp.Or(c.String("why"), "a person said so")
	learned, err := store.Load()
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(learned.Checks, func(p respond.Prevention) bool { return p.ID == id }) {
		return notRetired(c, id, loops)
	}
	done := false
	if err := shared(c.Context, a, store, func(ps *respond.Preventions) bool {
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
		i := slices.IndexFunc(learned.Checks, func(p respond.Prevention) bool { return p.ID == id })
		return render.JSON(a.stdout, learned.Checks[i])
	}
	fmt.Fprintf(a.stdout, "%s is not looked at any more\n", id)
	return nil
}

// notRetired says why a check that is not among the learned ones is not retired.
func notRetired(c *cli.Context, id string, loops []config.Loop) error {
	is := func(p respond.Prevention) bool { return p.ID == id }
	if slices.ContainsFunc(respond.Builtin(), is) {
		return failf(exitNothing, "", "%s is always looked at; it cannot be retired", id)
	}
	for _, l := range loops {
		if slices.ContainsFunc(failures.ConfiguredChecks(l.Respond), is) {
			return failf(exitNothing, "superloop config show", "%s stands in the configuration of loop %s; take it away there", id, l.ID)
		}
	}
	return failf(exitNotFound, part(c, "--checks"), "no check has the id %q", id)
}

// what a check looks at, in words.
func what(s respond.CheckSpec) string {
	out := []string{"", s.Path, s.Name, s.Address, s.Manager, s.Want, ""}
	if s.Port > 0 {
		out[0] = fmt.Sprint(s.Port)
	}
	if s.FreeMB > 0 {
		out[len(out)-1] = fmt.Sprintf("%d MB free", s.FreeMB)
	}
	return strings.Join(slices.DeleteFunc(out, func(s string) bool { return s == "" }), " ")
}
