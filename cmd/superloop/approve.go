package main

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io/fs"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/control"
	"github.com/superloop/superloop/loop/layout"
	"github.com/superloop/superloop/loop/local"
)

func (a *app) intent(c *cli.Context, kind string, view loop.View) control.Intent {
	var b [8]byte
	_, _ = rand.Read(b[:]) // does not fail on any system that Go runs on
	return control.Intent{ID: hex.EncodeToString(b[:]), Kind: kind, By: a.who(c), Note: c.String("note"),
		At: time.Now().UTC(), RunID: view.RunID}
}

// waitingLoop is the loop that a decision is about: --loop, or the only one, with what state.json says of it.
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
	var ids []string
	if err == nil {
		ids, err = a.loopIDs(repo)
	}
	id := ""
	if err == nil {
		id, err = pick(c, ids)
	}
	if err != nil {
		return "", layout.Paths{}, err
	}
	paths, err := a.paths(repo, id)
	return id, paths, err
}
