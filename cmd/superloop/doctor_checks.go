package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/superloop/superloop/cmd/superloop/internal/doctor"
	"github.com/superloop/superloop/cmd/superloop/internal/render"
	"github.com/superloop/superloop/loop/config"
	effectfailures "github.com/superloop/superloop/loop/effects/failures"
	"github.com/superloop/superloop/loop/layout"
	"github.com/superloop/superloop/recovery/failures"
	"github.com/superloop/superloop/recovery/preflight"
	"github.com/superloop/superloop/roles/agent/cooldown"
)

// checks runs the environment checks that precede an iteration. With --add or --retire it changes the list of them
// instead.
func (a *app) checks(c *cli.Context) error {
	if err := checkChange(c); err != nil {
		return err
	}
	paths, cfg, loops, err := a.configuredLoops(c)
	if err != nil {
		return err
	}
	if c.IsSet("add") || c.IsSet("retire") {
		if err := a.operator(); err != nil {
			return err
		}
		if c.IsSet("add") {
			return a.addCheck(c, learnedChecks(a, paths))
		}
		return a.retireCheck(c, learnedChecks(a, paths), loops)
	}
	report := checksReport{Off: []string{}}
	if report.Checks, report.Retired, err = a.checkRows(c.Context, paths, cfg, loops); err != nil {
		return err
	}
	for _, l := range loops {
		if !l.Respond.Preflight.Enabled {
			report.Off = append(report.Off, l.ID)
		}
	}
	if c.Bool("json") {
		err = render.JSON(a.stdout, report)
	} else {
		err = printChecks(a.stdout, report)
	}
	return failedUnless(!slices.ContainsFunc(report.Checks, func(r checkRow) bool { return !notBroken(r) }), err)
}

// checksReport is the output of doctor --checks --json.
type checksReport struct {
	Checks  []checkRow            `json:"checks"`
	Retired []failures.Prevention `json:"retired"`
	Off     []string              `json:"switched_off_for"` // loops that run no checks before their iterations
}

// learnedChecks returns the store of the checks that superloop has learned or that an operator has added.
func learnedChecks(a *app, paths layout.Paths) preflight.Store[failures.Preventions] {
	return preflight.Store[failures.Preventions]{Disk: a.disk, Path: paths.Preventions()}
}

func notBroken(r checkRow) bool { return r.State != failures.CheckBroken }

// checkRow is a check and its result in one directory.
type checkRow struct {
	failures.Prevention
	Dir     string    `json:"dir"`
	State   string    `json:"state"`
	Why     string    `json:"why,omitempty"`
	Command string    `json:"command,omitempty"` // would repair what is broken
	Until   time.Time `json:"until,omitzero"`
	TookUS  int64     `json:"took_us"`
}

// checkedDir is a directory in which loops work, with the built-in checks and those of the loops' configuration.
type checkedDir struct {
	dir    string
	checks []failures.Prevention
}

// checkedDirs returns the directories in which the loops work: the top of the repository's work tree, or a loop's own
// work tree, if it is configured and exists already.
func (a *app) checkedDirs(paths layout.Paths, loops []config.Loop) (out []checkedDir) {
	top := doctor.WorkDir(paths.Repo)
	for _, l := range loops {
		dir, own := top, filepath.Join(paths.Super, "worktrees", l.ID)
		if info, err := os.Stat(own); l.Git.Worktree && err == nil && info.IsDir() {
			dir = own
		}
		i := slices.IndexFunc(out, func(d checkedDir) bool { return d.dir == dir })
		if i < 0 {
			i = len(out)
			out = append(out, checkedDir{dir: dir, checks: failures.Builtin()})
		}
		out[i].checks = append(out[i].checks, effectfailures.ConfiguredChecks(l.Respond)...)
	}
	return out
}

// checkRows runs every environment check of the loops. retired lists the checks that were retired.
func (a *app) checkRows(ctx context.Context, paths layout.Paths, cfg *config.Config, loops []config.Loop) (rows []checkRow, retired []failures.Prevention, err error) {
	learned, err := learnedChecks(a, paths).Load()
	if err != nil {
		return nil, nil, err
	}
	health, err := preflight.Store[failures.Health]{Disk: a.disk, Path: paths.Health()}.Load()
	if err != nil {
		return nil, nil, err
	}
	look := effectfailures.LookOf(cfg, loops, health, cooldown.New(a.disk, paths.Cooldowns()), without(cfg.SecretNames()), time.Now())
	look.Path = a.env("PATH")
	learned.Checks = slices.DeleteFunc(learned.Checks, func(p failures.Prevention) bool { // learned by another loop
		return p.Learned() && !slices.ContainsFunc(loops, func(l config.Loop) bool { return l.ID == p.Scope.Loop })
	})
	retired = slices.DeleteFunc(slices.Clone(orEmpty(learned.Checks)), failures.Prevention.Active)
	return lookAt(ctx, a.checkedDirs(paths, loops), learned, look), retired, nil
}

// lookAt runs the checks of every directory. It runs each check once per directory, even if several loops ask for it.
func lookAt(ctx context.Context, dirs []checkedDir, learned failures.Preventions, look preflight.Look) []checkRow {
	rows := []checkRow{}
	for _, d := range dirs {
		var all failures.Preventions
		for _, p := range append(d.checks, learned.Checks...) {
			at := slices.IndexFunc(all.Checks, func(q failures.Prevention) bool { return q.ID == p.ID })
			switch {
			case at < 0 && p.Active():
				all.Checks = append(all.Checks, p)
			case at >= 0: // a learned check, which comes last, brings the statistics of a configured one
				q := &all.Checks[at]
				q.Runs, q.Hits, q.Prevented, q.Overruled, q.LastHit = p.Runs, p.Hits, p.Prevented, p.Overruled, p.LastHit
			}
		}
		for i, f := range preflight.Check(ctx, all.Checks, d.dir, look) {
			p := all.Checks[i]
			if err := p.Valid(); err != nil {
				f.State, f.Why = failures.CheckUnknown, err.Error()
			}
			rows = append(rows, checkRow{p, d.dir, f.State, f.Why, f.Command, f.Until, f.TookUS})
		}
	}
	return rows
}

func printChecks(w io.Writer, r checksReport) error {
	text := func(s string, n int) string { return cmp.Or(render.Cut(render.Clean(s), n), "-") }
	for rest := r.Checks; len(rest) > 0; {
		dir, n := rest[0].Dir, slices.IndexFunc(rest, func(c checkRow) bool { return c.Dir != rest[0].Dir })
		if n < 0 {
			n = len(rest)
		}
		if n < len(r.Checks) {
			fmt.Fprintf(w, "in %s:\n", render.Clean(dir))
		}
		if err := table(w, "KIND\tWHAT\tSTATE\tWHY\tSTOPS\tTOOK\tHITS\tPREVENTED\tREASON\tADDED BY\tID", rest[:n], func(c checkRow) string {
			return fmt.Sprintf("%s\t%s\t%s\t%s\t%s\t%dus\t%d\t%d\t%s\t%s\t%s", text(string(c.Kind), 20), text(what(c.Spec), 60), c.State, text(c.Why, 100), text(stops(c.Scope), 60), c.TookUS,
				c.Hits, c.Prevented, text(c.Reason, 60), text(c.AddedBy, 30), c.ID)
		}); err != nil {
			return err
		}
		rest = rest[n:]
	}
	broken := slices.DeleteFunc(slices.Clone(r.Checks), notBroken)
	for _, c := range broken {
		if c.Command != "" {
			fmt.Fprintf(w, "%s: would be fixed by: %s\n", c.ID, render.Clean(c.Command))
		}
	}
	fmt.Fprintf(w, "%s, %d broken", render.Number(len(r.Checks), "check"), len(broken))
	if len(r.Retired) > 0 {
		fmt.Fprintf(w, "; %d retired (--json lists them)", len(r.Retired))
	}
	fmt.Fprintln(w)
	for _, id := range r.Off {
		fmt.Fprintf(w, "the configuration of loop %s switches them off: none is made before its iterations\n", id)
	}
	return nil
}

// specFlags returns the flags of --add that describe what a check of this kind looks at.
func specFlags(kind failures.CheckKind) []string {
	return map[failures.CheckKind][]string{
		failures.CheckPath: {"path", "want"}, failures.CheckPermission: {"path", "want"}, failures.CheckDeps: {"path", "manager"},
		failures.CheckDisk: {"path", "free-mb"}, failures.CheckPort: {"port", "want"}, failures.CheckService: {"address"},
		failures.CheckTool: {"name"}, failures.CheckAuth: {"name"}, failures.CheckLimit: {"name"},
	}[kind]
}

// checkChange refuses combinations of flags that make no sense with --add and --retire.
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
		var kinds []string
		for _, k := range failures.CheckKinds() {
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

// addCheck adds the check that an operator describes by flags. Supervisors run it before each iteration from then on.
func (a *app) addCheck(c *cli.Context, store preflight.Store[failures.Preventions]) error {
	p := failures.NewCheck(failures.CheckKind(c.String("add")), failures.CheckSpec{Path: c.String("path"), Want: c.String("want"), Manager: c.String("manager"),
		FreeMB: c.Int64("free-mb"), Port: c.Int("port"), Name: c.String("name"), Address: c.String("address")},
		cmp.Or(c.String("reason"), "an operator asked for it"), a.who(c))
	if err := p.Valid(); err != nil {
		return failf(exitUsage, typed(c)+" --help", "a check of kind %s: %w", p.Kind, err)
	}
	fresh := false
	var wrong error
	err := shared(c.Context, a, store, func(ps *failures.Preventions) bool {
		p, fresh, wrong = ps.Add(p, time.Now())
		return fresh
	})
	if err = cmp.Or(err, wrong); err != nil {
		return err
	}
	said := fmt.Sprintf("already, because: %s", render.Clean(p.Reason))
	if fresh {
		said = fmt.Sprintf("before each iteration: %s %s", p.Kind, render.Clean(what(p.Spec)))
	}
	return a.told(c, struct {
		failures.Prevention
		Added bool `json:"added"`
	}{p, fresh}, "%s is looked at %s\n", p.ID, said)
}

// retireCheck retires a check that superloop has learned or that an operator has added. No loop runs it any more.
func (a *app) retireCheck(c *cli.Context, store preflight.Store[failures.Preventions], loops []config.Loop) error {
	id, why := c.String("retire"), cmp.Or(c.String("why"), "an operator said so")
	learned, err := store.Load()
	if err != nil {
		return err
	}
	is := func(p failures.Prevention) bool { return p.ID == id }
	if !slices.ContainsFunc(learned.Checks, is) {
		return notRetired(c, id, loops)
	}
	done, retired := false, failures.Prevention{}
	if err := shared(c.Context, a, store, func(ps *failures.Preventions) bool {
		if done = ps.Retire(id, why+" ("+a.who(c)+")", time.Now()); done {
			retired = ps.Checks[slices.IndexFunc(ps.Checks, is)]
		}
		return done
	}); err != nil {
		return err
	}
	if !done {
		return failf(exitNothing, part(c, "--checks")+" --json", "%s was retired before", id)
	}
	return a.told(c, retired, "%s is not looked at any more\n", id)
}

// notRetired says why superloop does not retire a check that is not among the learned ones.
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

// stops says in words what a check may keep from starting.
func stops(s failures.Scope) string {
	switch {
	case s.Loop == "":
		return "everything"
	case s.Role == "":
		return s.Loop
	case len(s.Runners) == 0:
		return s.Loop + "/" + s.Role
	}
	return s.Loop + "/" + s.Role + " by " + strings.Join(s.Runners, ", ")
}

// what says in words what a check looks at.
func what(s failures.CheckSpec) string {
	out := []string{"", s.Path, s.Name, s.Address, s.Manager, s.Want, ""}
	if s.Port > 0 {
		out[0] = fmt.Sprint(s.Port)
	}
	if s.FreeMB > 0 {
		out[len(out)-1] = fmt.Sprintf("%d MB free", s.FreeMB)
	}
	return strings.Join(slices.DeleteFunc(out, func(s string) bool { return s == "" }), " ")
}
