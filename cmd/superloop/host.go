package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
	"go.uber.org/zap"

	"github.com/superloop/superloop/escalation"
	"github.com/superloop/superloop/loop/carry"
	"github.com/superloop/superloop/loop/control"
	"github.com/superloop/superloop/loop/host"
	"github.com/superloop/superloop/loop/host/desk"
	"github.com/superloop/superloop/loop/layout"
	"github.com/superloop/superloop/loop/local"
	"github.com/superloop/superloop/server/api"
	"github.com/superloop/superloop/server/registry"
	"github.com/superloop/superloop/server/signed"
)

// host carries out loops for an engine beyond this machine, which asks over stdin.
func (a *app) host(c *cli.Context) error {
	log := a.daemonLog(c.Bool("verbose"))
	store, err := a.registry()
	if err != nil {
		return err
	}
	desks := &desks{app: a, log: log, of: map[string]*sharedDesk{}}
	wishes := make(chan host.Wish)
	if c.IsSet("machine") {
		ctx, stop := context.WithCancel(c.Context)
		answered, err := a.answerGateway(ctx, c, store, wishes, log)
		defer func() {
			stop()
			<-answered
		}()
		if err != nil {
			return err
		}
	}
	return desk.Serve(c.Context, a.stdin, a.stdout, desk.Options{Log: log, Wishes: wishes,
		Carry: carry.Options{StateHome: a.env("XDG_STATE_HOME"), Environ: os.Environ(), Disk: a.disk, Log: log, Now: time.Now},
		Gone: func(p host.Place) {
			if err := store.Drop(registry.Entry{Repo: p.Repo, Loop: p.Loop}); err != nil {
				log.Warn("a loop that another machine has is listed on this one, too", zap.String("loop", p.Loop), zap.Error(err))
			}
		},
		Prepare: func(p host.Place, by string) (local.Options, func(), error) {
			o, release, err := a.prepare(c, registry.Entry{Repo: p.Repo, Loop: p.Loop, By: by}, desks)
			if err == nil {
				if err = ofFleet(store, p, by); err != nil {
					release()
				}
			}
			return o, release, err
		},
		Verb: func(ctx context.Context, v host.Verb) ([]byte, error) {
			out, err := a.verb(ctx, api.VerbCall{Args: v.Args, By: escalation.By{Channel: escalation.CLI, User: v.By.User, Method: v.By.Method}, Intent: v.ID})
			if err != nil && v.Again && done(v, a.env("XDG_STATE_HOME"), err) {
				return nil, nil
			}
			if refused, ok := errors.AsType[*api.Refused](err); ok {
				err = &host.Error{Text: fmt.Sprint(refused.Err), Next: refused.Next, Final: true}
			}
			return out, err
		}})
}

// done reports whether a try before has carried out a verb that was refused now.
func done(v host.Verb, stateHome string, refused error) bool {
	if decided, ok := errors.AsType[*escalation.DecidedError](refused); ok {
		by := decided.First.By
		return by.User == v.By.User && by.Method == v.By.Method && strings.HasPrefix(v.Args[0], string(decided.First.Method)+"-")
	}
	p, err := layout.NewPaths(v.Of.Repo, v.Of.Loop, stateHome)
	if err != nil {
		return false
	}
	left, _ := control.Submitted(p) // the supervisor reports a file that cannot be read
	if slices.ContainsFunc(left, func(in control.Intent) bool { return in.ID == v.ID }) {
		return true
	}
	fold, err := local.Fold(p.Events())
	return err == nil && fold.Intents[v.ID]
}

// ofFleet puts a loop that the fleet runs into the registry: it is listed, and the daemon leaves it alone.
func ofFleet(store registry.Store, p host.Place, by string) error {
	e, err := store.Get(p.Repo, p.Loop)
	if err == nil && e.Wanted == registry.Fleet {
		return nil
	}
	return store.Put(registry.Entry{Repo: p.Repo, Loop: p.Loop, Wanted: registry.Fleet, By: by, Since: time.Now().UTC(), Labels: e.Labels, Priority: e.Priority})
}

// lacking are the routes that a machine of a fleet does not have: its loops are begun and queued by the engine.
var lacking = []string{"stop-loop", "get-queue"}

// answerGateway answers what the gateway of the fleet asks about the loops of this machine, over a socket of its own, until ctx
// ends. The channel is closed when nobody is answered any more.
func (a *app) answerGateway(ctx context.Context, c *cli.Context, store registry.Store, wishes chan<- host.Wish, log *zap.Logger) (<-chan struct{}, error) {
	done := make(chan struct{})
	fail := func(err error) (<-chan struct{}, error) {
		close(done)
		return done, err
	}
	var keys [][]byte
	for _, s := range c.StringSlice("gateway") {
		key, err := base64.StdEncoding.DecodeString(s)
		if err != nil {
			return fail(failf(exitUsage, "superloop-fleet worker", "--gateway: %w", err))
		}
		keys = append(keys, key)
	}
	at := layout.HostState(store.State)
	o := a.apiOptions(store.State, api.Keep{}, log)
	o.Access, o.Machine, o.Trust, o.Lacks = at, c.String("machine"), signed.NewVerifier(c.String("machine"), keys), lacking
	o.Start = func(ctx context.Context, e registry.Entry) error {
		if _, err := a.loopOf(e.Repo, e.Loop); err != nil {
			return err
		}
		wish := host.Wish{Place: host.Place{Repo: e.Repo, Loop: e.Loop}, By: e.By, Fresh: e.FreshOf != ""}
		e.FreshOf = ""
		if err := store.Put(e); err != nil || e.Wanted != registry.Fleet { // else the daemon takes it up
			return err
		}
		select {
		case wishes <- wish:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	h, err := api.New(o)
	if err != nil {
		return fail(err)
	}
	l, err := api.Listen(a.disk, api.SocketFile(at))
	if err != nil {
		return fail(err)
	}
	go func() {
		defer close(done)
		if err := api.Serve(ctx, l, h); err != nil {
			log.Error("the gateway is not answered any more", zap.Error(err))
		}
	}()
	return done, nil
}
