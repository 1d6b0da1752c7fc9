package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/superloop/superloop/cmd/superloop/internal/add"
	"github.com/superloop/superloop/cmd/superloop/internal/bare"
	"github.com/superloop/superloop/cmd/superloop/internal/render"
	"github.com/superloop/superloop/internal/markdown"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/loop/config/trust"
	"github.com/superloop/superloop/loop/layout"
	"github.com/superloop/superloop/server"
	"github.com/superloop/superloop/server/backlog"
)

// queue shows the loops of the daemon that wait for a place, and why, and what waits in the backlogs.
func (a *app) queue(c *cli.Context) error {
	rows, view, _, err := a.fleet()
	if err != nil {
		return err
	}
	waiting := slices.DeleteFunc(rows, func(r server.Row) bool { return r.Phase != "queued" })
	items, err := a.backlogItems(c)
	if err != nil {
		return err
	}
	trackers, err := a.trackers()
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return render.JSON(a.stdout, map[string]any{"limits": view.Limits, "queue": orEmpty(waiting), "backlog": orEmpty(items), "trackers": orEmpty(trackers)})
	}
	if len(waiting) == 0 {
		fmt.Fprintln(a.stdout, "no loop waits for a place")
	} else if err := table(a.stdout, "AHEAD\tLOOP\tREPOSITORY\tPRIORITY\tSINCE\tTAKEN", waiting, func(r server.Row) string {
		return fmt.Sprintf("%d\t%s\t%s\t%d\t%s\t%s", r.Ahead, r.Loop, r.Repo, r.Priority, r.Since.Local().Format(time.TimeOnly), r.Why)
	}); err != nil {
		return err
	}
	if err := a.showTrackers(trackers); err != nil || len(items) == 0 {
		return err
	}
	fmt.Fprintln(a.stdout)
	return table(a.stdout, "BACKLOG\tREPOSITORY\tSTATE\tLOOP\tWHY", items, func(it backlog.Item) string {
		return fmt.Sprintf("%s\t%s\t%s\t%s\t%s", text.Display(it.File), text.Display(it.Repo), it.State, cmp.Or(it.Loop, "-"), render.Clean(it.Why))
	})
}

// backlogItems returns what lies in the backlogs that the daemon works off and has not begun, or has changed since.
func (a *app) backlogItems(c *cli.Context) (all []backlog.Item, err error) {
	store, err := a.backlogs()
	if err != nil {
		return nil, err
	}
	watched, errs := store.All()
	for _, err := range errs {
		fmt.Fprintf(a.stderr, "warning: %v\n", err)
	}
	for _, w := range watched {
		items, err := store.List(w)
		if err != nil {
			fmt.Fprintf(a.stderr, "warning: the backlog of %s: %v\n", w.Repo, err)
			continue
		}
		graph := store.Graph(w.Repo, items)
		for _, it := range items {
			it, err = store.Look(it, true)
			if err == nil {
				it = graph.Settle(it)
			}
			if err == nil && it.State == backlog.Waits && it.Why == "" {
				_, err = a.planQueued(c.Context, it, w.By, true)
			}
			if waits, ok := errors.AsType[*backlog.WaitError](err); ok {
				it.Why = waits.Why
			} else if err != nil {
				it = it.Refuse("%v", err)
			}
			if it.State != backlog.Begun {
				all = append(all, it)
			}
		}
	}
	return all, nil
}

func (a *app) backlogs() (backlog.Store, error) {
	loops, err := a.registry()
	return backlog.Store{Loops: loops}, err
}

// queueAdd makes a loop of a spec, and lets the daemon run it.
func (a *app) queueAdd(c *cli.Context) error {
	spec, err := a.specOf(c)
	if err != nil {
		return err
	}
	repo, err := a.repo(c)
	if err != nil {
		return err
	}
	ids, err := a.loopIDs(repo)
	if err != nil {
		return err
	}
	id, err := newID(c, spec, ids)
	if err != nil {
		return err
	}
	if config.Unwritten(spec.data) {
		return failf(exitConfig, typed(c)+" --help", "the spec says nothing yet: write into it what the loop is to build")
	}
	it, err := a.dependable(backlog.NewItem(repo, "", id, spec.data), spec)
	if err != nil {
		return err
	}
	write, err := a.planQueued(c.Context, it, a.who(c), false)
	if waits, ok := errors.AsType[*backlog.WaitError](err); ok {
		return spec.waits(waits.Why)
	}
	if err == nil {
		err = write()
	}
	if err != nil {
		return err
	}
	p, err := a.places(repo, id)
	if err != nil {
		return err
	}
	return a.startLoops(c, repo, p, false)
}

// dependable returns an item with the loops on which its spec depends. The error says which of them is not completed.
func (a *app) dependable(it backlog.Item, spec specText) (backlog.Item, error) {
	store, err := a.backlogs()
	if err != nil {
		return it, err
	}
	items, err := store.List(backlog.Watch{Repo: it.Repo})
	if err != nil {
		return it, err
	}
	it = store.Graph(it.Repo, items).Settle(it)
	switch {
	case it.State == backlog.Refused:
		return it, failf(exitConfig, "superloop list", "the spec cannot become a loop: %s", it.Why)
	case it.Why != "":
		return it, spec.waits(it.Why)
	}
	return it, nil
}

// waits says why no loop is made of a spec now, and how it becomes one later.
func (s specText) waits(why string) error {
	return failf(exitFailed, "cp "+text.Paste(cmp.Or(s.file, "SPEC.md"))+" .superloop/backlog/ && superloop queue watch   (begins it when that is so)", "no loop is made: it %s", why)
}

// planQueued checks that a loop can be made of a spec: like the first one of the repository's configuration, in a git work
// tree of its own, with a configuration and a pin of its own. It returns the function that writes the loop's files, which
// may be called again after a kill. The loop begins with the work of those on which the item depends. It has no right that no operator has trusted. With pinned it has none either
// where nothing is pinned yet.
func (a *app) planQueued(ctx context.Context, it backlog.Item, by string, pinned bool) (write func() error, err error) {
	repo, id := it.Repo, it.Loop
	path := configFile(repo)
	data, err := config.Read(path)
	if err != nil {
		return nil, err
	}
	base, err := config.LoadBytes(path, slices.Clone(data))
	if err != nil {
		return nil, err
	}
	ids, err := fileLoops(path)
	if err != nil {
		return nil, err
	}
	if add.Taken(ids)(id) {
		return nil, fmt.Errorf("%w: %s, in %s", backlog.ErrTaken, id, relTo(repo, path))
	}
	t, err := a.trustedFile(repo, base, "any")
	if err == nil && (pinned || !errors.Is(t.pinErr, trust.ErrNoPin)) {
		err = t.untrusted("the new loop")
	}
	if err != nil {
		return nil, err
	}
	p, err := a.paths(repo, id)
	if err != nil {
		return nil, err
	}
	own, err := add.Own(data, id, p.Rel(p.OwnPrompt()), checklistsOf(p, base.Loops[0], it.Spec()))
	if err != nil {
		return nil, err
	}
	cfg, err := config.LoadBytes(p.OwnConfig(), bytes.Clone(own))
	if err != nil {
		return nil, err
	}
	if err := a.runnable(cfg, repo, cfg.Loops, true); err != nil {
		return nil, err
	}
	section, err := trust.Of(cfg)
	if err != nil {
		return nil, err
	}
	begin, err := a.stacked(ctx, p, it.After)
	if err != nil {
		return nil, err
	}
	return func() error {
		if err := begin(); err != nil {
			return err
		}
		pin := trust.Pin{Section: section, At: time.Now(), How: trust.Trusted, By: by, Config: cfg.Path}
		if _, err := (trust.Store{Disk: a.disk, Path: p.Trust(cfg.Path)}).Save(pin); err != nil {
			return err
		}
		return bare.WriteOwn(a.disk, p, it.Spec(), own)
	}, nil
}

// checklistsOf returns the checklists of a new loop: those of the first one, without that in its own directory, and if the
// spec has open boxes the new loop's own. nil: they are those of the first one.
func checklistsOf(p layout.Paths, first config.Loop, spec []byte) []string {
	lists := slices.DeleteFunc(append([]string{}, first.Checklists...), func(l string) bool {
		return l == filepath.ToSlash(filepath.Join(".superloop", "loops", first.ID, filepath.Base(p.Checklist())))
	})
	if open, _ := markdown.Boxes(string(spec)); open > 0 {
		return append(lists, p.Rel(p.Checklist()))
	}
	if len(lists) == len(first.Checklists) {
		return nil
	}
	return lists
}

// untrusted returns the fault of a configuration that is not pinned, or has changes that no operator has trusted. who would
// take them over.
func (t trusted) untrusted(who string) error {
	if err := t.unpinned(); err != nil {
		return err
	}
	if d := trust.Compare(t.pin.Section, t.section); len(d.Loosening) > 0 {
		return failf(exitConfig, t.trustLine(), "%s has %s that no operator has trusted, and %s would take them over", t.name(), render.Number(len(d.Loosening), "change"), who)
	}
	return nil
}

// queueWatch lets the daemon make loops of the backlog of a repository, or with --off no longer.
func (a *app) queueWatch(c *cli.Context) error {
	if c.IsSet("from") {
		return a.queueFrom(c)
	}
	for _, flag := range []string{"label", "team", "most", "remote"} {
		if c.IsSet(flag) {
			return failf(exitUsage, "superloop queue watch --from github --"+flag+" ...", "--%s goes with --from", flag)
		}
	}
	store, err := a.backlogs()
	if err != nil {
		return err
	}
	if c.Bool("off") {
		return a.queueOff(c, store, "the backlog of %s is not worked off", "no loop is made of the backlog of %s any more; those that have begun go on\n")
	}
	repo, t, err := a.trustedForQueue(c)
	if err != nil {
		return err
	}
	p, err := a.paths(repo, "any")
	if err != nil {
		return err
	}
	if err := a.disk.MkdirAll("backlog", p.Backlog(), 0o755); err != nil {
		return err
	}
	w := backlog.Watch{Repo: p.Repo, By: a.who(c), Since: time.Now().UTC()}
	if err := store.Put(w); err != nil {
		return err
	}
	next := "superloop queue"
	if _, served := server.Daemon(store.Loops.State); !served {
		next = "superloop serve --detach   (no daemon runs)"
	}
	return a.told(c, w, "the daemon makes a loop of each %s, in the order of their names, when a place is free\n"+
		"whoever can write there begins loops with the rights of %s: agents without a sandbox (level L0), and whose branches you merge\nnext: %s\n",
		relTo(repo, filepath.Join(p.Backlog(), "*.md")), t.name(), a.here(next))
}

// trustedForQueue returns the repository and what its operator has trusted, so that loops which nobody looks at take no
// other rights over.
func (a *app) trustedForQueue(c *cli.Context) (repo string, t trusted, err error) {
	repo, cfg, err := a.configured(c)
	if err == nil {
		t, err = a.trustedFile(repo, cfg, "any")
	}
	if err != nil {
		return repo, t, err
	}
	if errors.Is(t.pinErr, trust.ErrNoPin) { // else nothing would tell the operator's rights from those that an agent writes
		t.pin, _, t.pinErr = t.store.SaveFirst(trust.Pin{Section: t.section, At: time.Now(), How: trust.Trusted, By: a.who(c), Config: cfg.Path})
	}
	return repo, t, t.untrusted("its loops")
}

// repoOrGone returns the repository of --repo as stores have it, also if it has vanished.
func (a *app) repoOrGone(c *cli.Context) (string, error) {
	repo, err := filepath.Abs(c.String("repo"))
	if at, err := a.repo(c); err == nil {
		repo = at
	}
	if p, err := a.paths(repo, "any"); err == nil {
		repo = p.Repo
	}
	return repo, err
}

// queueOff ends what a store has the daemon work off for a repository. nothing and done say so of the repository.
func (a *app) queueOff(c *cli.Context, store interface{ Drop(repo string) error }, nothing, done string) error {
	repo, err := a.repoOrGone(c)
	if err == nil {
		err = store.Drop(repo)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return failf(exitNothing, "superloop queue", nothing, repo)
	}
	if err != nil {
		return err
	}
	return a.told(c, map[string]string{"repo": repo}, done, repo)
}
