package main

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/superloop/superloop/cmd/superloop/internal/render"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/control"
)

func (a *app) kick(c *cli.Context) error {
	if err := a.person(); err != nil {
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
