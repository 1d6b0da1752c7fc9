package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/control"
	"github.com/superloop/superloop/loop/journal"
	"github.com/superloop/superloop/loop/local"
	"github.com/superloop/superloop/server"
)

// cancelPatience bounds how long cancel waits until a supervisor has ended the running role, which gets some seconds.
const cancelPatience = 30 * time.Second

func (a *app) cancel(c *cli.Context) error {
	p, err := a.theLoop(c)
	if err != nil {
		return err
	}
	in, said, err := a.cancelLoop(c, p)
	if err != nil {
		return err
	}
	return a.told(c, map[string]any{"loop_id": p.id, "status": loop.Cancelled, "by": in.By}, "%s", said)
}

// cancelLoop ends a loop and returns what that means.
func (a *app) cancelLoop(c *cli.Context, p place) (in control.Intent, said string, err error) {
	view, err := viewOf(p)
	if err != nil {
		return in, "", err
	}
	if view.Status.Ended() {
		return in, "", failf(exitNothing, "superloop run --loop "+p.id, "loop %s has ended already: %s", p.id, view.Status)
	}
	if in, err = a.wish(c, p, control.IntentCancel, c.String("note"), view); err != nil {
		return in, "", err
	}
	_, runs := local.Supervisor(p.Paths)
	if !runs { // this process supervises the loop until it is cancelled
		cfg, err := a.config(p.Repo, p.id)
		if err == nil {
			err = local.Cancel(c.Context, a.options(c, p.Repo, cfg, p.id))
		}
		if _, runs = errors.AsType[*local.HeldError](err); err != nil && !runs { // a supervisor that has begun in this moment knows the wish
			return in, "", err
		}
	}
	if runs {
		err = a.awaitCancel(c.Context, p, in.ID)
	}
	return in, fmt.Sprintf("%[1]s: cancelled by %[2]s\nnext: superloop run --loop %[1]s   (goes on where it stood; --fresh starts anew)\n", p.id, in.By), err
}

// awaitCancel follows the journal until the supervisor has carried out the intent, and waits until it has let the loop go,
// for cancelPatience at most.
func (a *app) awaitCancel(ctx context.Context, p place, intent string) error {
	ctx, stop := context.WithTimeout(ctx, cancelPatience)
	defer stop()
	fold := loop.NewReplay()
	err := journal.Follow(ctx, p.Events(), 0, func(ev journal.Event) error {
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
	if err == nil { // it is cancelled in any case
		_ = every(ctx, func() (bool, error) {
			_, alive := local.Supervisor(p.Paths)
			return !alive, nil
		})
	}
	return err
}

func (a *app) kick(c *cli.Context) error {
	p, err := a.theLoop(c)
	if err != nil {
		return err
	}
	in, said, err := a.kickLoop(c, p)
	if err != nil {
		return err
	}
	return a.told(c, in, "%s", said)
}

// kickLoop makes a waiting loop try again and returns what that means.
func (a *app) kickLoop(c *cli.Context, p place) (in control.Intent, said string, err error) {
	view, err := viewOf(p)
	if err != nil {
		return in, "", err
	}
	state := loop.State{Status: view.Status, RunID: view.RunID, Pending: view.Pending, Human: view.Human}
	if err := loop.Check(state, loop.Decision{Kind: loop.DecideRetryNow, RunID: view.RunID}); err != nil {
		return in, "", failf(exitNothing, "superloop status --loop "+p.id, "loop %s does not wait, it is %s", p.id, view.Status)
	}
	if in, err = a.wish(c, p, control.IntentKick, c.String("note"), view); err != nil {
		return in, "", err
	}
	return in, fmt.Sprintf("%s: kicked by %s, %s is tried again\n%s", p.id, in.By, view.Pending.Role, a.takenUp(p, "it")), nil
}

// wish writes a control intent for the supervisor of a loop, the present one or the next.
func (a *app) wish(c *cli.Context, p place, kind, note string, view loop.View) (control.Intent, error) {
	in := control.New(kind, a.who(c), note, view.RunID)
	in.ID = cmp.Or(a.intent, in.ID)
	return in, control.Submit(a.disk, p.Paths, in)
}

// viewOf returns the state.json of a loop. It fails if the loop has not run yet.
func viewOf(p place) (loop.View, error) {
	view, err := local.ReadView(p.Paths)
	if errors.Is(err, fs.ErrNotExist) {
		err = hasNotRun(p.id)
	}
	return view, err
}

// pause lets the supervisor of a loop leave when what runs now has ended.
func (a *app) pause(c *cli.Context) error {
	p, err := a.theLoop(c)
	if err != nil {
		return err
	}
	view, err := viewOf(p)
	if err != nil {
		return err
	}
	by, alive := local.Supervisor(p.Paths)
	if !alive {
		return failf(exitNothing, "superloop status --loop "+p.id, "no supervisor runs loop %s, it is %s", p.id, view.Status)
	}
	in, err := a.wish(c, p, control.IntentPause, c.String("note"), view)
	if err != nil {
		return err
	}
	when := "when what runs now has ended"
	switch {
	case view.Human != nil:
		when = "now, and its question stays open"
	case view.Status == loop.RateLimited:
		when = "now, and its limit goes on"
	case view.Role != "":
		when = "when the " + view.Role + " has ended"
	}
	verb := "run"
	if served, ok := server.Daemon(p.State); ok && served.PID == by.PID {
		verb = "resume"
	}
	return a.told(c, in, "%s: pauses %s\nnext: %s\n", p.id, when, a.here("superloop "+verb+" --loop "+p.id+"   (goes on; superloop cancel --loop "+p.id+" ends it at once)"))
}

// maxNote bounds a note, in bytes.
const maxNote = 4 << 10

// note tells the roles of a loop something.
func (a *app) note(c *cli.Context) error {
	p, err := a.theLoop(c)
	if err != nil {
		return err
	}
	said := strings.Join(c.Args().Slice(), " ")
	if said == "-" {
		data, err := io.ReadAll(io.LimitReader(a.stdin, maxNote+1))
		if err != nil {
			return failf(exitFailed, "superloop note --loop "+p.id+" TEXT", "reading the note: %w", err)
		}
		said = string(data)
	}
	said = strings.TrimSpace(text.Plain(said))
	switch {
	case said == "":
		return failf(exitUsage, "superloop note --loop "+p.id+" \"use the v2 API\"", "what is to be told to the roles?")
	case len(said) > maxNote:
		return failf(exitUsage, "superloop note --loop "+p.id+" \"read docs/plan.md\"", "a note has at most %d bytes; put more into a file of the repository and name it", maxNote)
	}
	view, err := viewOf(p)
	if err != nil {
		return err
	}
	if view.Status == loop.Completed {
		return failf(exitNothing, "superloop run --fresh --loop "+p.id, "loop %s is completed: no role reads a note any more", p.id)
	}
	in, err := a.wish(c, p, control.IntentNote, said, view)
	if err != nil {
		return err
	}
	return a.told(c, in, "%s: each role reads it that starts from now on, until the next iteration has ended\n%s", p.id, a.takenUp(p, "it"))
}
