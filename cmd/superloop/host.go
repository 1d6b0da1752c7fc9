package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/superloop/superloop/escalation"
	"github.com/superloop/superloop/loop/carry"
	"github.com/superloop/superloop/loop/host"
	"github.com/superloop/superloop/loop/host/desk"
	"github.com/superloop/superloop/loop/local"
	"github.com/superloop/superloop/server/api"
	"github.com/superloop/superloop/server/registry"
)

// host carries out loops for an engine beyond this machine, which asks over stdin.
func (a *app) host(c *cli.Context) error {
	log := a.daemonLog(c.Bool("verbose"))
	desks := &desks{app: a, log: log, of: map[string]*sharedDesk{}}
	return desk.Serve(c.Context, a.stdin, a.stdout, desk.Options{Log: log,
		Carry: carry.Options{StateHome: a.env("XDG_STATE_HOME"), Environ: os.Environ(), Disk: a.disk, Log: log, Now: time.Now},
		Prepare: func(p host.Place, by string) (local.Options, func(), error) {
			return a.prepare(c, registry.Entry{Repo: p.Repo, Loop: p.Loop, By: by}, desks)
		},
		Verb: func(ctx context.Context, v host.Verb) ([]byte, error) {
			out, err := a.verb(ctx, api.VerbCall{Args: v.Args, By: escalation.By{Channel: escalation.CLI, User: v.By.User, Method: v.By.Method}})
			if refused, ok := errors.AsType[*api.Refused](err); ok {
				err = &host.Error{Text: fmt.Sprint(refused.Err), Next: refused.Next, Final: true}
			}
			return out, err
		}})
}
