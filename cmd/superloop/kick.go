package main

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/superloop/superloop/cmd/superloop/internal/render"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/control"
)

func (a *app) kickCommand() *cli.Command {
	return &cli.Command{
		Name:  "kick",
		Usage: "do not wait any longer: try again now",
		Description: `A loop that waits for a provider's limit, for the next attempt of a role, or for
a person who logs in (status awaiting_human), tries again at once. What was
known of the limit is forgotten for all loops of this machine. Without a
supervisor the wish is kept for the next run.

EXIT STATUS: 0 told, 4 the loop does not wait for anything that a kick could
end, 6 no such loop.`,
		Flags: []cli.Flag{
			repoFlag(), loopFlag("the loop that waits"),
			&cli.StringFlag{Name: "by", Usage: "who kicks (`NAME`; default: the user)"},
			&cli.StringFlag{Name: "note", Usage: "what was done (`TEXT`)"},
			jsonFlag("print the wish as JSON"),
		},
		Action: a.kick,
	}
}

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
