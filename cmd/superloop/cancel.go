package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/superloop/superloop/cmd/superloop/internal/render"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/control"
	"github.com/superloop/superloop/loop/journal"
	"github.com/superloop/superloop/loop/layout"
	"github.com/superloop/superloop/loop/local"
)

// cancelPatience bounds how long cancel waits for a supervisor to end what it runs: the grace of a role and some more.
const cancelPatience = 30 * time.Second

func (a *app) cancel(c *cli.Context) error {
	if err := a.operator(); err != nil {
		return err
	}
	id, paths, view, err := a.waitingLoop(c)
	if err != nil {
		return err
	}
	if view.Status.Ended() {
		return failf(exitNothing, "superloop run --loop "+id, "loop %s has ended already: %s", id, view.Status)
	}
	in := a.intent(c, control.IntentCancel, view)
	if err := control.Submit(a.disk, paths, in); err != nil {
		return err
	}
	if _, alive := a.supervisor(paths); alive {
		err = a.awaitCancel(c.Context, paths, in.ID)
	} else {
		err = a.cancelAlone(c, id)
	}
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return render.JSON(a.stdout, map[string]any{"loop_id": id, "status": loop.Cancelled, "by": in.By})
	}
	fmt.Fprintf(a.stdout, "%s: cancelled by %s\nnext: superloop run --loop %s   (goes on where it stood; --fresh starts anew)\n", id, in.By, id)
	return nil
}

// awaitCancel follows the journal until the supervisor has recorded the end.
func (a *app) awaitCancel(ctx context.Context, paths layout.Paths, intent string) error {
	ctx, stop := context.WithTimeout(ctx, cancelPatience)
	defer stop()
	fold := loop.NewReplay()
	err := journal.Follow(ctx, paths.Events(), 0, func(ev journal.Event) error {
		if err := fold.Add(local.LineOf(ev)); err != nil {
			return err
		}
		if fold.Intents[intent] {
			return journal.ErrStop
		}
		return nil
	})
	if errors.Is(err, context.DeadlineExceeded) {
		return failf(exitFailed, "superloop status", "the supervisor did not end the loop within %s; the wish is kept", cancelPatience)
	}
	return err
}

// cancelAlone ends a loop that no supervisor runs: it is one itself, for as long as that takes.
func (a *app) cancelAlone(c *cli.Context, id string) error {
	repo, err := a.repo(c)
	if err != nil {
		return err
	}
	cfg, err := a.config(repo)
	if err != nil {
		return err
	}
	return local.Cancel(c.Context, local.Options{Repo: repo, Config: cfg, LoopID: id, Version: version(),
		StateHome: a.env("XDG_STATE_HOME"), Disk: a.disk, Log: a.logger(false)})
}

func (a *app) kick(c *cli.Context) error {
	if err := a.operator(); err != nil {
		return err
	}
	id, paths, view, err := a.waitingLoop(c)
	if err != nil {
		return err
	}
	state := loop.State{Status: view.Status, RunID: view.RunID, Pending: view.Pending, Human: view.Human}
	if err := loop.Check(state, loop.Decision{Kind: loop.DecideRetryNow, RunID: view.RunID}); err != nil {
		return failf(exitNothing, "superloop status --loop "+id, "loop %s does not wait, it is %s", id, view.Status)
	}
	in := a.intent(c, control.IntentKick, view)
	if err := control.Submit(a.disk, paths, in); err != nil {
		return err
	}
	if c.Bool("json") {
		return render.JSON(a.stdout, in)
	}
	fmt.Fprintf(a.stdout, "%s: kicked by %s, %s is tried again\n", id, in.By, view.Pending.Role)
	if _, alive := a.supervisor(paths); !alive {
		fmt.Fprintf(a.stdout, "next: superloop run --loop %s   (no supervisor is running; the next run takes it up)\n", id)
	}
	return nil
}
