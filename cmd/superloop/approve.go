package main

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/superloop/superloop/loop/control"
	"github.com/superloop/superloop/loop/layout"
	"github.com/superloop/superloop/loop/local"

	"github.com/urfave/cli/v2"

	"github.com/superloop/superloop/cmd/superloop/internal/render"
	"github.com/superloop/superloop/loop"
)

func (a *app) approveCommand() *cli.Command {
	return &cli.Command{
		Name:  "approve",
		Usage: "approve, or reject, the completion of a loop that asks for it",
		Description: `The answer is kept when no supervisor is alive; the next run takes it up. Only
the first answer counts.

EXIT STATUS: 0 recorded, 4 nothing waits or it was decided already, 6 no such loop.`,
		Flags: []cli.Flag{
			repoFlag(), loopFlag("the loop that waits"),
			&cli.StringFlag{Name: "by", Usage: "who decides (`NAME`; default: the user)"},
			&cli.StringFlag{Name: "note", Usage: "why; a rejection's note is shown to the next planner (`TEXT`)"},
			&cli.BoolFlag{Name: "reject", Usage: "the loop is not done: go on with another iteration"},
			jsonFlag("print the decision as JSON"),
		},
		Action: a.approve,
	}
}

func (a *app) approve(c *cli.Context) error {
	if err := a.person(); err != nil {
		return err
	}
	id, paths, view, err := a.waitingLoop(c)
	if err != nil {
		return err
	}
	if view.Status != loop.AwaitingApproval || view.Approval == nil {
		return failf(exitNothing, "superloop status --loop "+id, "loop %s does not wait for an approval, it is %s", id, view.Status)
	}
	in := a.intent(c, control.IntentApprove, view)
	if c.Bool("reject") {
		in.Kind = control.IntentReject
	}
	if err := control.Submit(c.Context, a.disk, paths, in); err != nil {
		return err
	}
	if c.Bool("json") {
		return render.JSON(a.stdout, in)
	}
	verb := "approved"
	if in.Kind == control.IntentReject {
		verb = "rejected"
	}
	fmt.Fprintf(a.stdout, "%s: iteration %d %s by %s\n", id, in.Iteration, verb, in.By)
	if _, alive := a.supervisor(paths); !alive {
		fmt.Fprintf(a.stdout, "next: superloop run --loop %s   (no supervisor is running; the next run takes the answer up)\n", id)
	}
	return nil
}

func (a *app) intent(c *cli.Context, kind string, view loop.View) control.Intent {
	var b [8]byte
	_, _ = rand.Read(b[:]) // does not fail on any system that Go runs on
	return control.Intent{ID: hex.EncodeToString(b[:]), Kind: kind, By: a.who(c), Note: c.String("note"),
		At: time.Now().UTC(), RunID: view.RunID, Iteration: view.Iteration}
}

// waitingLoop is the loop that a decision is about: --loop, or the only one,
// with what state.json says of it.
func (a *app) waitingLoop(c *cli.Context) (string, layout.Paths, loop.View, error) {
	id, paths, err := a.theLoop(c)
	if err != nil {
		return "", paths, loop.View{}, err
	}
	view, err := local.ReadView(paths)
	if errors.Is(err, fs.ErrNotExist) {
		return "", paths, view, failf(exitNothing, "superloop run --loop "+id, "loop %s has not run yet", id)
	}
	return id, paths, view, err
}

// theLoop is --loop, or the only loop, and its places.
func (a *app) theLoop(c *cli.Context) (string, layout.Paths, error) {
	repo, err := a.repo(c)
	if err != nil {
		return "", layout.Paths{}, err
	}
	ids, err := a.loopIDs(repo)
	if err != nil {
		return "", layout.Paths{}, err
	}
	id, err := pick(c, ids)
	if err != nil {
		return "", layout.Paths{}, err
	}
	paths, err := a.paths(repo, id)
	return id, paths, err
}
