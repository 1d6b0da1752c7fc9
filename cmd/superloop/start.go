package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/superloop/superloop/cmd/superloop/internal/render"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/loop/journal"
	"github.com/superloop/superloop/loop/layout"
	"github.com/superloop/superloop/loop/local"
	"github.com/superloop/superloop/server"
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
	return a.startLoops(c, repo, loops, c.Bool("fresh"))
}

// resume tells the daemon to go on with a loop that was paused or stopped.
func (a *app) resume(c *cli.Context) error {
	p, err := a.theLoop(c)
	if err != nil {
		return err
	}
	if _, err := viewOf(p); err != nil {
		return err
	}
	return a.startLoops(c, p.Repo, []place{p}, false)
}

func (a *app) startLoops(c *cli.Context, repo string, loops []place, fresh bool) error {
	store, err := a.registry()
	if err != nil {
		return err
	}
	by, served := server.Daemon(store.State)
	var started []registry.Entry
	for _, p := range loops {
		cfg, err := a.config(repo, p.id)
		if err != nil {
			return err
		}
		if l, ok := cfg.Loop(p.id); ok {
			if err := a.runnable(cfg, repo, []config.Loop{l}, false); err != nil {
				return err
			}
		}
		e := registry.Entry{Repo: p.Repo, Loop: p.id, Wanted: registry.Running, By: a.who(c), Since: time.Now().UTC(), Priority: c.Int("priority"), Labels: c.StringSlice("label")}
		view, err := local.ReadView(p.Paths)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return failf(exitFailed, "superloop events --verify --loop "+p.id, "reading %s: %w", p.File("state.json"), err)
		case view.Status == loop.Completed && !fresh && len(loops) > 1:
			continue
		case view.Status == loop.Completed && !fresh:
			return failf(exitNothing, "superloop start --fresh --loop "+p.id, "loop %s is completed", p.id)
		case fresh:
			e.FreshOf = view.RunID
		default:
			e.After = view.Seq
		}
		if h, alive := a.supervisor(p.Paths); alive {
			if h.PID != by.PID {
				return &local.HeldError{LoopID: p.id, Holder: *h}
			}
			if old, err := store.Get(p.Repo, p.id); err == nil && old.Wanted == registry.Running {
				return failf(exitNothing, "superloop attach --loop "+p.id, "the daemon runs loop %s already (superloop pause and cancel steer it)", p.id)
			}
		}
		if err := store.Put(e); err != nil {
			return err
		}
		started = append(started, e)
	}
	if len(started) == 0 {
		return failf(exitNothing, "superloop start --fresh", "all loops are completed")
	}
	said := ""
	for _, e := range started {
		said += fmt.Sprintf("%s: the daemon runs it\n", e.Loop)
	}
	next := "superloop attach --loop " + started[0].Loop + "   (Ctrl-C leaves, and the loop goes on)"
	if !served {
		said = fmt.Sprintf("%d loops wait for a daemon\n", len(started))
		next = "superloop serve --detach"
	}
	return a.told(c, map[string]any{"loops": started, "daemon": served}, "%snext: %s\n", said, a.here(next))
}

// stop ends what the daemon runs of a loop, and keeps it from going on.
func (a *app) stop(c *cli.Context) error {
	p, err := a.theLoop(c)
	if err != nil {
		return err
	}
	store, err := a.registry()
	if err != nil {
		return err
	}
	e, err := store.Get(p.Repo, p.id)
	if errors.Is(err, fs.ErrNotExist) || err == nil && e.Wanted != registry.Running {
		return failf(exitNothing, "superloop status --loop "+p.id, "the daemon does not run loop %s", p.id)
	}
	if err != nil {
		return err
	}
	e.Wanted, e.By, e.Since = registry.Stopped, a.who(c), time.Now().UTC()
	if err := store.Put(e); err != nil {
		return err
	}
	ctx, leave := context.WithTimeout(c.Context, cancelPatience)
	defer leave()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if _, alive := a.supervisor(p.Paths); !alive {
			break
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return failf(exitFailed, "superloop status --loop "+p.id, "the daemon did not let go of loop %s within %s; the wish is kept", p.id, cancelPatience)
		}
	}
	return a.told(c, e, "%s: stopped, the state is kept\nnext: %s\n", p.id, a.here("superloop resume --loop "+p.id))
}

// attach shows what a loop does that another process supervises, as run shows it.
func (a *app) attach(c *cli.Context) error {
	p, err := a.theLoop(c)
	if err != nil {
		return err
	}
	if _, alive := a.supervisor(p.Paths); !alive {
		return failf(exitNothing, "superloop start --loop "+p.id, "nothing runs loop %s", p.id)
	}
	progress, err := a.progress(c)
	if err != nil {
		return err
	}
	defer progress.Close()
	fold := loop.NewReplay()
	now, err := local.ReadView(p.Paths)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	err = journal.Follow(c.Context, p.Events(), 0, func(ev journal.Event) error {
		if err := fold.Add(local.LineOf(ev)); err != nil {
			return err
		}
		if ev.Seq > now.Seq {
			progress.Event(ev, fold.State)
		}
		if ev.Seq >= now.Seq && (fold.State.Status.Ended() || fold.State.Status == loop.Paused) {
			return journal.ErrStop
		}
		return nil
	})
	progress.Close()
	if err != nil {
		return orInterrupted(c.Context, err)
	}
	return a.verdict(c, fold.State, p.Repo)
}

// queue shows the loops of the daemon that wait for a place, and why.
func (a *app) queue(c *cli.Context) error {
	rows, view, err := a.fleet()
	if err != nil {
		return err
	}
	var waiting []fleetRow
	for _, r := range rows {
		if r.Phase == "queued" {
			waiting = append(waiting, r)
		}
	}
	if c.Bool("json") {
		return render.JSON(a.stdout, map[string]any{"limits": view.Limits, "queue": waiting})
	}
	if len(waiting) == 0 {
		_, err := fmt.Fprintln(a.stdout, "no loop waits for a place")
		return err
	}
	return table(a.stdout, "AHEAD\tLOOP\tREPOSITORY\tPRIORITY\tSINCE\tTAKEN", waiting, func(r fleetRow) string {
		return fmt.Sprintf("%d\t%s\t%s\t%d\t%s\t%s", r.Ahead, r.Loop, r.Repo, r.Priority, r.Since.Local().Format(time.TimeOnly), r.Why)
	})
}

// fleetRow is a loop of the registry: what is wanted, what the daemon does, and where the loop stands.
type fleetRow struct {
	Repo      string          `json:"repo"`
	Loop      string          `json:"loop"`
	Wanted    registry.Wanted `json:"wanted"`
	Phase     string          `json:"phase,omitempty"` // queued, working, waiting, failing or foreign; "": the daemon does not supervise it
	Status    loop.Status     `json:"status"`
	Iteration int             `json:"iteration,omitempty"`
	Priority  int             `json:"priority,omitempty"`
	Labels    []string        `json:"labels,omitempty"`
	Ahead     int             `json:"ahead,omitempty"`
	Why       string          `json:"why,omitempty"`
	Since     time.Time       `json:"since,omitzero"`
	Until     time.Time       `json:"until,omitzero"`
	UpdatedAt time.Time       `json:"updated_at,omitzero"`
}

// fleet returns the loops of the registry, with what the daemon does with each.
func (a *app) fleet() (rows []fleetRow, view server.View, err error) {
	store, err := a.registry()
	if err != nil {
		return nil, view, err
	}
	all, errs := store.All()
	for _, err := range errs {
		fmt.Fprintf(a.stderr, "warning: %v\n", err)
	}
	if _, alive := server.Daemon(store.State); alive {
		if view, err = server.ReadView(store.State); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, view, err
		}
	}
	for _, e := range all {
		r := fleetRow{Repo: e.Repo, Loop: e.Loop, Wanted: e.Wanted, Priority: e.Priority, Labels: e.Labels, Status: loop.Pending}
		if now, ok := view.Phase(e.Repo, e.Loop); ok {
			r.Phase, r.Ahead, r.Why, r.Since, r.Until = now.Phase, now.Ahead, now.Why, now.Since, now.Until
		}
		if p, err := a.paths(e.Repo, e.Loop); err != nil {
			r.Why = "the repository is gone"
		} else if v, err := local.ReadView(p); err == nil {
			r.Status, r.Iteration, r.UpdatedAt = v.Status, v.Iteration, v.UpdatedAt
		}
		rows = append(rows, r)
	}
	return rows, view, nil
}

// listAll prints the loops of all repositories that the registry knows.
func (a *app) listAll(c *cli.Context) error {
	rows, _, err := a.fleet()
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return render.JSON(a.stdout, map[string]any{"loops": rows})
	}
	if len(rows) == 0 {
		_, err := fmt.Fprintln(a.stdout, "the daemon knows no loop\nnext: superloop start --loop ID   (in a repository)")
		return err
	}
	return table(a.stdout, "LOOP\tREPOSITORY\tSTATUS\tITERATION\tWANTED\tDAEMON\tWHY", rows, func(r fleetRow) string {
		iteration := "-"
		if r.Iteration > 0 {
			iteration = fmt.Sprint(r.Iteration)
		}
		phase := r.Phase
		if phase == "" {
			phase = "-"
		}
		why := r.Why
		if why == "" && !r.Until.IsZero() {
			why = "until " + r.Until.Local().Format(time.DateTime)
		}
		return fmt.Sprintf("%s\t%s\t%s\t%s\t%s\t%s\t%s", r.Loop, r.Repo, r.Status, iteration, r.Wanted, phase, why)
	})
}
