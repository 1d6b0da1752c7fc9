package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/superloop/superloop/cmd/superloop/internal/render"
	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/loop/local"
	"github.com/superloop/superloop/recovery/plan"
	"github.com/superloop/superloop/recovery/plan/walk"
)

// listedChain is a line of chain list.
type listedChain struct {
	render.ChainLine
	chain plan.Chain
}

func listed(c plan.Chain, loopID string) listedChain {
	return listedChain{render.ChainLine{ID: c.ID, Loop: loopID, Status: string(c.Status), Held: c.Running != nil, Command: c.Goal.Command,
		Depth: c.Depth(), Attempts: c.Attempts, Why: c.Why, Updated: c.UpdatedAt}, c}
}

// chains are those of fix, or of a loop, the newest last.
func (a *app) chains(c *cli.Context) ([]listedChain, error) {
	out := []listedChain{}
	add := func(store walk.Store, loopID string) error {
		entries, err := store.List()
		for _, e := range entries {
			l := listed(e.Chain, loopID)
			if e.Err != nil {
				l.Error = e.Err.Error()
			}
			out = append(out, l)
		}
		return err
	}
	if !c.IsSet("loop") {
		_, paths, err := a.private(c)
		if err != nil {
			return nil, err
		}
		return out, add(a.fixStore(paths), "")
	}
	id, paths, err := a.theLoop(c)
	if err != nil {
		return nil, err
	}
	if err := add(walk.Store{Disk: a.disk, Dir: paths.File("chains")}, id); err != nil {
		return nil, err
	}
	view, err := local.ReadView(paths)
	if errors.Is(err, fs.ErrNotExist) {
		return out, nil
	}
	if err != nil {
		return nil, err
	}
	if r := view.Recovery; r != nil && r.Plan != nil { // what is being walked is newer than any file of it
		out = slices.DeleteFunc(out, func(l listedChain) bool { return l.ID == r.Plan.ID })
		out = append(out, listed(*r.Plan, id))
	}
	return out, nil
}

func (a *app) chainList(c *cli.Context) error {
	all, err := a.chains(c)
	if err != nil {
		return err
	}
	lines := make([]render.ChainLine, len(all))
	for i, l := range all {
		lines[i] = l.ChainLine
	}
	if c.Bool("json") {
		err = render.JSON(a.stdout, map[string]any{"chains": lines})
	} else {
		err = render.Chains(a.stdout, lines)
	}
	return failedUnless(!slices.ContainsFunc(lines, func(l render.ChainLine) bool { return l.Error != "" }), err)
}

// oneChain is the chain of that id, or the newest.
func (a *app) oneChain(c *cli.Context, id string) (listedChain, error) {
	all, err := a.chains(c)
	if err != nil {
		return listedChain{}, err
	}
	what := "superloop fix has opened no chain here"
	if c.IsSet("loop") {
		what = "loop " + c.String("loop") + " has no chain now"
	}
	if len(all) == 0 && id == "" {
		return listedChain{}, failf(exitNothing, "superloop fix -- npm test", "%s", what)
	}
	i := len(all) - 1
	if id != "" {
		i = slices.IndexFunc(all, func(l listedChain) bool { return l.ID == id })
	}
	if i < 0 {
		return listedChain{}, failf(exitNotFound, "superloop chain list", "there is no chain %q", id)
	}
	if all[i].Error != "" {
		return listedChain{}, failf(exitFailed, "superloop chain list", "%s", all[i].Error)
	}
	return all[i], nil
}

func (a *app) chainShow(c *cli.Context) error {
	args, err := atMost(c, 1)
	if err != nil {
		return err
	}
	l, err := a.oneChain(c, args[0])
	var none *fault
	if errors.As(err, &none) && none.code == exitNothing && c.IsSet("loop") {
		return a.showQuestion(c, none)
	}
	if err != nil {
		return err
	}
	return a.tellChain(c, l.chain)
}

func (a *app) tellChain(c *cli.Context, ch plan.Chain) error {
	if c.Bool("json") {
		body, err := plan.Response(ch)
		if err != nil {
			return err
		}
		return render.JSON(a.stdout, json.RawMessage(body))
	}
	_, err := fmt.Fprintf(a.stdout, "Chain %s\n%s", ch.ID, plan.Describe(ch, a.width()))
	return err
}

// atMost are the arguments of a verb, filled up to n with "".
func atMost(c *cli.Context, n int) ([]string, error) {
	args, err := words(c)
	if err == nil && len(args) > n {
		err = failf(exitUsage, typed(c)+" --help", "%s takes %s at most, but got %q too", typed(c), count(n, "argument"), args[n])
	}
	for len(args) < n {
		args = append(args, "")
	}
	return args, err
}

func (a *app) chainChoose(c *cli.Context) error {
	args, err := atMost(c, 2)
	switch {
	case err != nil:
		return err
	case args[0] == "":
		return failf(exitUsage, "superloop chain show", "which option? superloop chain show lists them")
	}
	id, option := args[0], args[1]
	if option == "" {
		id, option = "", args[0]
	}
	if c.IsSet("loop") {
		return a.chooseInLoop(c, id, option)
	}
	return a.goOn(c, id, func(ch *plan.Chain, now time.Time) error {
		if ch.Running != nil {
			ch.Lost("superloop was ended while it ran, and an operator chose another one", now)
		}
		if err := ch.Pick(c.Int("depth"), option, now); err != nil {
			return failf(exitUsage, "superloop chain show "+ch.ID, "choosing %s: %w", render.Clean(option), err)
		}
		return nil
	})
}

func (a *app) chainRetry(c *cli.Context) error {
	args, err := atMost(c, 1)
	switch {
	case err != nil:
		return err
	case c.IsSet("loop"):
		return failf(exitUsage, "superloop approve-recovery --loop "+text.Paste(c.String("loop")), "a loop tries again by itself; one that waits for an operator goes on with approve-recovery, chain choose or kick")
	}
	return a.goOn(c, args[0], func(ch *plan.Chain, now time.Time) error {
		var err error
		switch {
		case ch.Running != nil:
			err = ch.Again(now)
		case ch.Status == plan.Open && !c.IsSet("depth"): // it was broken off between two moves
		default:
			err = ch.Retry(c.Int("depth"), now)
		}
		if err != nil {
			return failf(exitNothing, "superloop chain show "+ch.ID, "trying again: %w", err)
		}
		return nil
	})
}

// goOn has an operator's word changed into a chain of fix, and walks it.
func (a *app) goOn(c *cli.Context, id string, change func(*plan.Chain, time.Time) error) error {
	if c.Duration("timeout") <= 0 {
		return failf(exitUsage, typed(c)+" --timeout 30m", "--timeout %s: a time above 0 is needed", c.Duration("timeout"))
	}
	l, err := a.oneChain(c, id)
	if err != nil {
		return err
	}
	w, err := a.newWalker(c)
	if err != nil {
		return err
	}
	err = w.goOn(c.Context, l.ID, change)
	return errors.Join(err, w.close())
}

func (w *walker) goOn(ctx context.Context, id string, change func(*plan.Chain, time.Time) error) error {
	ch, err := w.store.Change(id, func(ch *plan.Chain) error { return change(ch, time.Now()) })
	if err != nil {
		return heldElsewhere(err)
	}
	w.ch = &ch
	dir := filepath.Join(w.repo, filepath.FromSlash(ch.Goal.Dir))
	if err := w.at(dir); err != nil {
		return failf(exitNotFound, "superloop chain cancel "+id, "the folder in which %s failed is gone: %w", render.Clean(ch.Goal.Command), err)
	}
	err = w.walk(ctx)
	return w.reportChain(fixed{Status: "failed"}, err)
}

func heldElsewhere(err error) error {
	var held *durable.LockedError
	if errors.As(err, &held) {
		return failf(exitHeld, "superloop chain list", "%w", err)
	}
	return err
}
