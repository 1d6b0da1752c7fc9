package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
	"go.uber.org/zap"

	"github.com/superloop/superloop/cmd/superloop/internal/render"
	"github.com/superloop/superloop/cmd/superloop/internal/take"
	"github.com/superloop/superloop/internal/gitcmd"
	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/internal/redact"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/loop/layout"
	"github.com/superloop/superloop/loop/worktree"
	"github.com/superloop/superloop/server"
	"github.com/superloop/superloop/server/backlog"
	"github.com/superloop/superloop/server/claim"
	"github.com/superloop/superloop/server/forge"
	"github.com/superloop/superloop/server/registry"
	"github.com/superloop/superloop/server/tasks"
	"github.com/superloop/superloop/server/tracker"
)

// taskDesk works off trackers for the daemon.
func (a *app) taskDesk(state string, log *zap.Logger, vacant func() int) *tasks.Desk {
	store := tasks.Store{Loops: registry.Store{Disk: a.disk, State: state}}
	return &tasks.Desk{Store: store, Vacant: vacant, Log: log, Now: time.Now,
		Open: func(ctx context.Context, w tasks.Watch) (tasks.Place, error) { return a.taskPlace(ctx, store, w) },
		Plan: func(ctx context.Context, w tasks.Watch, it backlog.Item) (func() error, error) {
			return a.planQueued(ctx, it, w.By, true)
		},
		Settle: func(ctx context.Context, w tasks.Watch, loop string) (tasks.Work, error) {
			p, err := a.places(w.Repo, loop)
			if err != nil {
				return tasks.Work{}, err
			}
			work, err := a.work(ctx, p[0])
			if err != nil {
				return tasks.Work{}, err
			}
			work.Say = io.Discard
			r, tip, err := work.Offer(ctx)
			return tasks.Work{Branch: r.Branch, Tip: tip, Title: r.Title, Body: r.Body}, err
		}}
}

// taskPlace opens the tracker, the forge and the claims of a watch.
func (a *app) taskPlace(ctx context.Context, store tasks.Store, w tasks.Watch) (p tasks.Place, err error) {
	dir := filepath.Join(store.Loops.State, "daemon", "tasks") // no clone
	if err := a.disk.MkdirAll("tasks", dir, 0o700); err != nil {
		return p, err
	}
	at, known := forge.Of(w.Remote, a.env)
	client := forge.New(at, os.Environ(), dir)
	if p.Tracker, err = a.tracker(store, w, client); err != nil {
		return p, err
	}
	if _, err := lookPath(a.env)(at.Program); known && err == nil {
		p.Pulls = client
	} else if known {
		return p, failf(exitFailed, at.Install(), "%s is not on the PATH; it opens pull requests at %s", at.Program, at.Host)
	}
	paths, err := a.paths(w.Repo, "any")
	if err != nil {
		return p, err
	}
	git, err := gitcmd.Open(ctx, w.Repo, paths.Git(), os.Environ())
	if err != nil {
		return p, err
	}
	holder, err := store.Holder()
	if err != nil {
		return p, err
	}
	host, err := os.Hostname()
	p.Claims = &claim.Store{Git: git, Remote: w.Remote, Holder: holder + "-" + filepath.Base(paths.Common()), Name: w.By + "@" + host, TTL: tasks.Lease, Now: time.Now}
	return p, err
}

// tracker returns what reads the items of a watch, and tells what became of them.
func (a *app) tracker(store tasks.Store, w tasks.Watch, client forge.Client) (tracker.Tracker, error) {
	switch w.Source {
	case tasks.GitHub:
		return tracker.GitHub{Client: client, Label: w.Label}, nil
	case tasks.GitLab:
		return tracker.GitLab{Client: client, Label: w.Label}, nil
	case tasks.Linear:
		key := a.env("LINEAR_API_KEY")
		if key == "" {
			return nil, failf(exitConfig, "export LINEAR_API_KEY=...   (for the daemon as a service: in ~/.config/environment.d/superloop.conf)", "LINEAR_API_KEY is not set")
		}
		return tracker.Linear{Key: redact.Secret(key), Team: w.Team, Label: w.Label}, nil
	}
	bd := func(ctx context.Context, args ...string) ([]byte, error) {
		spawner, err := proc.Start(proc.Options{})
		if err != nil {
			return nil, err
		}
		defer func() { _ = spawner.Close() }() // what bd said counts
		return tracker.Confined(tracker.Confinement{Spawner: spawner, Repo: w.Repo, Env: os.Environ(), Tmp: os.TempDir(), Hidden: []string{store.Loops.State},
			Ports: layout.DaemonPorts(store.Loops.State)})(ctx, args...)
	}
	return tracker.Beads{BD: bd, Label: w.Label}, nil
}

// trackerTokens are the variables with which the daemon asks trackers and forges, if it works one off for a repository. Its
// agents do not get them.
func (a *app) trackerTokens(repo string) []string {
	store, err := a.taskStore()
	if err != nil {
		return nil
	}
	watched, _ := store.All() // superloop queue says what is wrong with a file
	if !slices.ContainsFunc(watched, func(w tasks.Watch) bool { return w.Repo == repo }) {
		return nil
	}
	return []string{"LINEAR_API_KEY", "GH_TOKEN", "GITHUB_TOKEN", "GH_ENTERPRISE_TOKEN", "GITHUB_ENTERPRISE_TOKEN", "GITLAB_TOKEN", "GITLAB_ACCESS_TOKEN"}
}

// queueFrom lets the daemon make loops of the items of a tracker.
func (a *app) queueFrom(c *cli.Context) error {
	store, err := a.taskStore()
	if err != nil {
		return err
	}
	source := c.String("from")
	if !slices.Contains(tasks.Sources, source) {
		return failf(exitUsage, "superloop queue watch --help", "there is no tracker %q: it is one of %s", source, strings.Join(tasks.Sources, ", "))
	}
	if c.Int("most") < 1 {
		return failf(exitUsage, "superloop queue watch --help", "--most is how many items are under way at a time: at least 1")
	}
	if c.IsSet("team") && source != tasks.Linear {
		return failf(exitUsage, "superloop queue watch --from linear --team KEY", "--team goes with linear")
	}
	if c.Bool("off") {
		return a.queueOff(c, store, "no tracker is worked off for %s", "no item of a tracker is taken for %s any more; loops that have begun go on, and are not delivered\nnext: superloop pr --loop ID\n")
	}
	repo, t, err := a.trustedForQueue(c)
	if err != nil {
		return err
	}
	p, err := a.paths(repo, "any")
	if err != nil {
		return err
	}
	main, err := worktree.OpenEnv(c.Context, repo, p.Git(), os.Environ())
	if err != nil {
		return err
	}
	name, remote, err := take.Remote(c.Context, main, c.String("remote"))
	if err != nil {
		return taken(err)
	}
	at, known := forge.Of(remote, a.env)
	if want := map[string]string{tasks.GitHub: forge.GH, tasks.GitLab: forge.Glab}[source]; want != "" && (!known || at.Program != want) {
		return failf(exitConfig, "git -C "+text.Paste(repo)+" remote -v   (for a host of your own: GH_HOST=HOST or GITLAB_HOST=HOST, also for the daemon)",
			"the remote %s (%s) is no repository of %s that %s knows", name, text.Line(remote, 200), source, want)
	}
	w := tasks.Watch{Repo: p.Repo, Source: source, Remote: remote, Team: c.String("team"), Label: c.String("label"), Most: c.Int("most"), By: a.who(c), Since: time.Now().UTC()}
	place, err := a.taskPlace(c.Context, store, w)
	if err != nil {
		return err
	}
	items, err := place.Tracker.List(c.Context) // what is wrong with a login is said now, and not at night
	if err == nil {
		_, err = place.Claims.All(c.Context)
	}
	if err != nil {
		return a.trackerSaid(c, err)
	}
	if err := store.Put(w); err != nil {
		return err
	}
	next := "superloop queue"
	if _, served := server.Daemon(store.Loops.State); !served {
		next = "superloop serve --detach   (no daemon runs)"
	}
	return a.told(c, w, "the daemon makes loops of the items of %s with the label %s (%d now), %d at a time, and delivers them to %s\n"+
		"whoever may set that label begins loops with the rights of %s\nnext: %s\n", source, w.Label, len(items), w.Most, text.Line(remote, 200), t.name(), a.here(next))
}

// trackerSaid makes a fault of what a tracker or a forge has answered.
func (a *app) trackerSaid(c *cli.Context, err error) error {
	if e, ok := errors.AsType[*forge.Error](err); ok {
		return failf(exitFailed, e.Next, "%w", e.Err)
	}
	return failf(exitFailed, typed(c)+" --help   (or the same again, when it answers)", "%w", err)
}

func (a *app) taskStore() (tasks.Store, error) {
	loops, err := a.registry()
	return tasks.Store{Loops: loops}, err
}

// trackers returns what the daemon knows of the trackers that it works off.
func (a *app) trackers() (all []tasks.Status, err error) {
	store, err := a.taskStore()
	if err != nil {
		return nil, err
	}
	watched, errs := store.All()
	for _, err := range errs {
		fmt.Fprintf(a.stderr, "warning: %v\n", err)
	}
	for _, w := range watched {
		st, err := store.Status(w)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			fmt.Fprintf(a.stderr, "warning: %v\n", err)
		}
		all = append(all, st)
	}
	return all, nil
}

// showTrackers prints the items of trackers.
func (a *app) showTrackers(all []tasks.Status) error {
	for _, st := range all {
		fmt.Fprintf(a.stdout, "\n%s of %s, label %s, %d at a time", st.Source, text.Line(st.Remote, 200), text.Line(st.Label, 100), st.Most)
		switch {
		case st.Error != "":
			fmt.Fprintf(a.stdout, ": %s\n%d failed in a row; the next one is at %s\n", render.Clean(st.Error), st.Tries, st.Next.Local().Format(time.TimeOnly))
		case st.At.IsZero():
			fmt.Fprintln(a.stdout, ": the daemon has not looked yet")
		default:
			fmt.Fprintf(a.stdout, ", at %s\n", st.At.Local().Format(time.TimeOnly))
		}
		if len(st.Items) == 0 {
			continue
		}
		if err := table(a.stdout, "ITEM\tSTATE\tLOOP\tTITLE\tWHY", st.Items, func(r tasks.Row) string {
			why := strings.TrimSpace(r.By + " " + r.Why + " " + r.Pull)
			return fmt.Sprintf("%s\t%s\t%s\t%s\t%s", text.Display(r.ID), r.State, cmp.Or(r.Loop, "-"), text.Line(r.Title, 50), render.Clean(why))
		}); err != nil {
			return err
		}
	}
	return nil
}

// queueRelease takes the claim on an item away, whoever has it.
func (a *app) queueRelease(c *cli.Context) error {
	if c.String("item") == "" {
		return failf(exitUsage, "superloop queue release --item ID   (superloop queue lists them)", "which item?")
	}
	store, err := a.taskStore()
	if err != nil {
		return err
	}
	repo, err := a.repo(c)
	if err != nil {
		return err
	}
	p, err := a.paths(repo, "any")
	if err != nil {
		return err
	}
	watched, errs := store.All()
	i := slices.IndexFunc(watched, func(w tasks.Watch) bool { return w.Repo == p.Repo })
	if i < 0 {
		return failf(exitNothing, "superloop queue watch --from github", "no tracker is worked off for %s: %w", p.Repo, cmp.Or(errors.Join(errs...), fs.ErrNotExist))
	}
	place, err := a.taskPlace(c.Context, store, watched[i])
	if err != nil {
		return err
	}
	all, err := place.Claims.All(c.Context)
	if err != nil {
		return failf(exitFailed, "git ls-remote "+text.Paste(watched[i].Remote), "reading the claims: %w", err)
	}
	now, ok := all[watched[i].Key(c.String("item"))]
	if !ok {
		return failf(exitNothing, "superloop queue", "nobody has item %s", text.Line(c.String("item"), 80))
	}
	if err := place.Claims.Release(c.Context, now); err != nil {
		return failf(exitFailed, "superloop queue", "releasing item %s: %w", text.Line(c.String("item"), 80), err)
	}
	return a.told(c, now, "%s: released; %s had it (%s)\nnext: superloop queue\n", text.Line(c.String("item"), 80), render.Clean(cmp.Or(now.Name, "nobody known")), cmp.Or(string(now.State), "no claim"))
}

// issue reads an issue of the forge of the repository as a spec.
func (a *app) issue(c *cli.Context) (s specText, err error) {
	if c.IsSet("spec") {
		return s, failf(exitUsage, typed(c)+" --help", "--spec and --from-issue are two specs")
	}
	repo, err := a.repo(c)
	if err != nil {
		return s, err
	}
	p, err := a.paths(repo, "any")
	if err != nil {
		return s, err
	}
	main, err := worktree.OpenEnv(c.Context, repo, p.Git(), os.Environ())
	if err != nil {
		return s, err
	}
	name, remote, err := take.Remote(c.Context, main, "")
	if err != nil {
		return s, taken(err)
	}
	at, ok := forge.Of(remote, a.env)
	if !ok {
		return s, failf(exitConfig, "git -C "+text.Paste(repo)+" remote -v   (for a host of your own: GH_HOST=HOST or GITLAB_HOST=HOST)",
			"the remote %s (%s) is no repository that gh or glab knows", name, text.Line(remote, 200))
	}
	if _, err := lookPath(a.env)(at.Program); err != nil {
		return s, failf(exitFailed, at.Install(), "%s is not on the PATH; it reads issues of %s", at.Program, at.Host)
	}
	state, err := layout.StateRoot(a.env("XDG_STATE_HOME"))
	if err == nil {
		err = a.disk.MkdirAll("tasks", state, 0o700)
	}
	if err != nil {
		return s, err
	}
	source := map[string]string{forge.GH: tasks.GitHub, forge.Glab: tasks.GitLab}[at.Program]
	from, err := a.tracker(tasks.Store{}, tasks.Watch{Source: source, Label: tracker.Mark}, forge.New(at, os.Environ(), state))
	if err != nil {
		return s, err
	}
	it, err := from.Get(c.Context, c.String("from-issue"))
	switch {
	case errors.Is(err, tracker.ErrNotFound):
		return s, failf(exitNotFound, at.Program+" issue list --repo "+text.Paste(at.Host+"/"+at.Path), "there is no issue %s at %s", text.Line(c.String("from-issue"), 80), at.Host)
	case err != nil:
		return s, a.trackerSaid(c, err)
	case it.Closed:
		return s, failf(exitNothing, typed(c)+" --spec FILE", "issue %s is closed", it.ID)
	}
	s.data, s.id = it.Spec(), tasks.LoopOf(it.ID)
	fmt.Fprintf(a.stderr, "issue %s of %s/%s: %s\n", it.ID, at.Host, at.Path, text.Line(it.Title, 200)) // an agent can have written the address
	return s, nil
}
