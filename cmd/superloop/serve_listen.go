package main

import (
	"errors"
	"fmt"
	"net"
	"syscall"

	"github.com/urfave/cli/v2"

	"github.com/superloop/superloop/loop/layout"
	"github.com/superloop/superloop/server"
	"github.com/superloop/superloop/server/api"
)

// checkListen refuses an address of --listen that the daemon may not or cannot listen at. Where another daemon still has
// the address, nothing is known yet.
func (a *app) checkListen(c *cli.Context, state string) error {
	if !c.IsSet("listen") {
		return nil
	}
	if _, err := api.ParseAddress(c.String("listen")); err != nil {
		return failf(exitUsage, fmt.Sprintf("superloop serve --listen localhost:%d", layout.DaemonPort), "--listen: %w", err)
	}
	if _, alive := server.Daemon(state); alive || c.Bool("stop") || c.Bool("dry-run") {
		return nil
	}
	all, err := a.open(c)
	for _, l := range all {
		err = errors.Join(err, l.Close())
	}
	return err
}

// open listens at the address of --listen.
func (a *app) open(c *cli.Context) ([]net.Listener, error) {
	at, err := api.ParseAddress(c.String("listen"))
	if err != nil {
		return nil, err
	}
	all, err := api.ListenTCP(c.Context, at)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, failf(exitFailed, fmt.Sprintf("superloop serve --listen localhost:%d   (or end the other process)", at[0].Port()+1), "%w", err)
	}
	return all, err
}

// listen opens what --listen asks for, and says in a file at which port. Without the flag it opens nothing.
func (a *app) listen(c *cli.Context, state string) ([]net.Listener, error) {
	if !c.IsSet("listen") {
		return nil, nil
	}
	all, err := a.open(c)
	if err == nil {
		err = api.KeepPort(a.disk, state, all[0])
	}
	if err != nil {
		for _, l := range all {
			_ = l.Close()
		}
		return nil, err
	}
	return all, nil
}
