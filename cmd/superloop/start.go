package main

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/loop/layout"
	"github.com/superloop/superloop/loop/local"
	"github.com/superloop/superloop/server"
	"github.com/superloop/superloop/server/backlog"
	"github.com/superloop/superloop/server/registry"
)

// registry returns the registry of this user's daemon.
func (a *app) registry() (registry.Store, error) {
	state, err := layout.StateRoot(a.env("XDG_STATE_HOME"))
	return registry.Store{Disk: a.disk, State: state}, err
}

// start tells the daemon to run loops.
func (a *app) start(c *cli.Context) error {
	repo, loops, err := a.chosenLoops(c, false)
	if err != nil {
		return err
	}
	if err := a.notByAgent(repo); err != nil {
		return err
	}
	switch engine := c.String("engine"); engine {
	case "daemon":
		return a.startLoops(c, repo, loops, c.Bool("fresh"))
	case "temporal":
		return a.startInFleet(c, repo, loops)
	default:
		return failf(exitUsage, "superloop start --help", "there is no engine %q: it is daemon or temporal", engine)
	}
}

// fleetProgram is the program that links Temporal.
const fleetProgram = "superloop-fleet"

// startInFleet lets superloop-fleet start loops: the one beside this program, else that on PATH.
func (a *app) startInFleet(c *cli.Context, repo string, loops []place) error {
	for _, flag := range []string{"priority", "label", "json"} {
		if c.IsSet(flag) {
			return failf(exitUsage, "superloop start --engine temporal", "--%s goes with the daemon only", flag)
		}
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	program := filepath.Join(filepath.Dir(self), fleetProgram)
	if _, err := os.Stat(program); err != nil {
		if program, err = proc.LookPath(fleetProgram, os.Environ()); err != nil {
			return failf(exitFailed, "go install ./cmd/superloop-fleet   (in a clone of superloop)", "%s is neither beside superloop nor on PATH: %w", fleetProgram, err)
		}
	}
	for _, p := range loops {
		argv := []string{program, "start", "--repo", repo, "--loop", p.id, "--by", a.who(c)}
		if c.Bool("fresh") {
			argv = append(argv, "--fresh")
		}
		if err := a.runInFleet(c.Context, argv); err != nil {
			return failf(exitFailed, "superloop-fleet doctor", "loop %s: superloop-fleet start: %w", p.id, err)
		}
	}
	return nil
}

// runInFleet runs a command, whose output is that of this program, to its end.
func (a *app) runInFleet(ctx context.Context, argv []string) error {
	child, err := proc.Converse(argv, os.Environ(), os.Stderr)
	if err != nil {
		return err
	}
	_ = child.To.Close()
	defer context.AfterFunc(ctx, func() { _ = child.Signal(syscall.SIGTERM) })()
	_, err = io.Copy(a.stdout, child.From)
	return errors.Join(<-child.Ended, err)
}

// resume tells the daemon to go on with a loop that was paused or stopped.
func (a *app) resume(c *cli.Context) error {
	p, err := a.theLoop(c)
	if err != nil {
		return err
	}
	if _, err := local.ReadView(p.Paths); errors.Is(err, fs.ErrNotExist) {
		return failf(exitNothing, "superloop start --loop "+p.id, "loop %s has not run yet", p.id)
	}
	return a.startLoops(c, p.Repo, []place{p}, false)
}

// startLoops makes the registry want these loops. If there are several, it leaves out those that are completed or run
// already.
func (a *app) startLoops(c *cli.Context, repo string, loops []place, fresh bool) error {
	store, err := a.registry()
	if err != nil {
		return err
	}
	_, served := server.Daemon(store.State)
	var started []registry.Entry
	said := ""
	for _, p := range loops {
		e, err := a.wanted(c, store, repo, p, fresh)
		if len(loops) > 1 && err != nil && slices.Contains([]int{exitNothing, exitHeld}, classify(err).code) {
			said += p.id + ": left out, " + strings.TrimPrefix(err.Error(), "loop "+p.id+" ") + "\n"
			continue
		}
		if err == nil {
			err = store.Put(e)
		}
		if err != nil {
			return err
		}
		started = append(started, e)
		if served {
			said += e.Loop + ": the daemon runs it\n"
		} else {
			said += e.Loop + ": waits for a daemon\n"
		}
	}
	if len(started) == 0 {
		return failf(exitNothing, "superloop list", "no loop is left to start\n%s", strings.TrimSuffix(said, "\n"))
	}
	next := "superloop attach --loop " + started[0].Loop + "   (Ctrl-C leaves, and the loop goes on)"
	if !served {
		next = "superloop serve --detach   (or superloop serve --install, which survives a reboot)"
	}
	return a.told(c, map[string]any{"loops": started, "daemon": served}, "%snext: %s\n", said, a.here(next))
}

// wanted returns the entry with which the daemon begins to run a loop, or goes on with it.
func (a *app) wanted(c *cli.Context, store registry.Store, repo string, p place, fresh bool) (registry.Entry, error) {
	if _, err := a.loopOf(repo, p.id); err != nil {
		return registry.Entry{}, err
	}
	e := registry.Entry{Repo: p.Repo, Loop: p.id, By: a.who(c), Since: time.Now().UTC(), Priority: c.Int("priority"), Labels: c.StringSlice("label")}
	old, err := store.Get(p.Repo, p.id) // one that is damaged is written anew
	if err == nil && !c.IsSet("priority") {
		e.Priority = old.Priority
	}
	if err == nil && !c.IsSet("label") {
		e.Labels = old.Labels
	}
	e, err = server.Want(store, e, fresh)
	_, held := errors.AsType[*local.HeldError](err)
	switch {
	case errors.Is(err, server.ErrRunning):
		err = failf(exitNothing, "superloop attach --loop "+p.id, "loop %s is run by the daemon already", p.id)
	case errors.Is(err, server.ErrFleet):
		err = failf(exitNothing, "superloop-fleet show --loop "+p.id, "the fleet of this machine runs loop %s", p.id)
	case errors.Is(err, server.ErrCompleted):
		err = failf(exitNothing, "superloop start --fresh --loop "+p.id, "loop %s is completed", p.id)
	case err != nil && !held:
		err = failf(exitFailed, "superloop events --verify --loop "+p.id, "%w", err)
	}
	return e, err
}

// stop ends what the daemon runs of a loop, and keeps it from going on. With --forget the registry loses the loop.
func (a *app) stop(c *cli.Context) error {
	store, err := a.registry()
	if err != nil {
		return err
	}
	e, err := a.registered(c, store)
	if err != nil {
		return err
	}
	p, gone := a.paths(e.Repo, e.Loop)
	where := " --loop " + e.Loop
	forget := c.Bool("forget")
	if !forget && e.Wanted != registry.Running {
		return failf(exitNothing, "superloop status"+where, "the daemon does not run loop %s", e.Loop)
	}
	if forget {
		err = backlog.Store{Loops: store}.Forget(e)
	} else {
		e.Wanted, e.By, e.Since = registry.Stopped, a.who(c), time.Now().UTC()
		err = store.Put(e)
	}
	if err != nil {
		return err
	}
	ctx, leave := context.WithTimeout(c.Context, cancelPatience)
	defer leave()
	by, served := server.Daemon(store.State)
	if err := every(ctx, func() (bool, error) {
		h, alive := local.Supervisor(p)
		return gone != nil || !served || !alive || h.PID != by.PID, nil
	}); err != nil {
		return failf(exitFailed, "superloop status"+where, "the daemon did not let go of loop %s within %s; the wish is kept", e.Loop, cancelPatience)
	}
	if forget {
		return a.told(c, e, "%s: forgotten by the daemon; its files are kept\n", e.Loop)
	}
	next := "superloop resume" + where
	if gone != nil {
		next = "superloop stop --forget" + where + "   (the repository is gone)"
	}
	return a.told(c, e, "%s: stopped, the state is kept\nnext: %s\n", e.Loop, a.here(next))
}

// registered returns the entry of the loop that a verb is about. The repository may have vanished.
func (a *app) registered(c *cli.Context, store registry.Store) (registry.Entry, error) {
	dir, err := filepath.Abs(c.String("repo"))
	if err != nil {
		return registry.Entry{}, err
	}
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		all, _ := store.All()
		for _, e := range all {
			if e.Repo == dir && (e.Loop == c.String("loop") || !c.IsSet("loop")) {
				return e, nil
			}
		}
	}
	p, err := a.theLoop(c)
	if err != nil {
		return registry.Entry{}, err
	}
	e, err := store.Get(p.Repo, p.id)
	if errors.Is(err, fs.ErrNotExist) {
		return e, failf(exitNothing, "superloop status --loop "+p.id, "the daemon does not run loop %s", p.id)
	}
	if err != nil {
		return e, failf(exitFailed, "superloop start --loop "+p.id, "%w", err)
	}
	return e, nil
}

// every asks again and again until the answer is yes, an error, or ctx ends.
func every(ctx context.Context, ok func() (bool, error)) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if yes, err := ok(); yes || err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
