package tasks

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/loop/control"
	"github.com/superloop/superloop/server"
	"github.com/superloop/superloop/server/backlog"
	"github.com/superloop/superloop/server/claim"
	"github.com/superloop/superloop/server/forge"
	"github.com/superloop/superloop/server/registry"
	"github.com/superloop/superloop/server/tracker"
)

// mostPulls is at how many pull requests a turn looks, on average.
const mostPulls = 20

// mirror looks at the tracker: it tells what became of items, begins loops, and takes items.
func (l *look) mirror() error {
	items, err := l.Tracker.List(l.ctx)
	if err != nil {
		return err
	}
	open := map[string]tracker.Item{}
	for _, it := range items {
		open[it.ID] = it
	}
	var errs []error
	for _, t := range l.tasks { // what has begun comes before what is new
		if t.Lost != "" {
			continue
		}
		it, is := open[t.ID]
		if !is {
			if it, err = l.Tracker.Get(l.ctx, t.ID); err == nil && (it.Closed || it.Held != "") || errors.Is(err, tracker.ErrNotFound) {
				err = l.withdraw(t, it)
				errs = append(errs, err)
				continue
			}
		}
		if err == nil {
			err = l.serve(t, it)
		}
		if away, ok := errors.AsType[*tracker.Unavailable](err); ok {
			return away
		}
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return l.take(items)
}

// withdraw lets an item go that was closed, or has lost its label.
func (l *look) withdraw(t *Task, it tracker.Item) error {
	if t.Claim.State == claim.Working {
		if err := l.stop(t, "superloop: the item was closed"); err != nil {
			return err
		}
		report := tracker.Report{State: tracker.Released, Text: "superloop has stopped its loop, because the item was closed or has lost its label. What it did is kept on the machine `" + t.Claim.Name + "`."}
		if err := l.Tracker.Tell(l.ctx, t.ID, report); err != nil && !errors.Is(err, tracker.ErrNotFound) {
			return err
		}
	}
	if err := l.Claims.Release(l.ctx, t.Claim); err != nil && !errors.Is(err, claim.ErrLost) {
		return err
	}
	return l.d.Store.drop(*t)
}

// serve does for an item of this daemon what needs the tracker and the forge.
func (l *look) serve(t *Task, it tracker.Item) error {
	t.Title, t.URL = it.Title, it.URL
	if t.Pull != "" && rand.IntN(len(l.tasks)) < mostPulls { // the forge counts requests
		if err := l.listen(t); err != nil || t.Lost != "" {
			return err
		}
	}
	if t.Waits {
		if err := l.begin(t, it); err != nil {
			return err
		}
	}
	if t.Told != t.told() {
		if t.Claim.State == claim.Delivered && l.Pulls != nil {
			if err := l.open(t, it); err != nil {
				return err
			}
		}
		if err := l.Tracker.Tell(l.ctx, t.ID, l.report(t)); err != nil {
			return err
		}
		t.Told = t.told()
	}
	return l.d.Store.put(t)
}

// open opens the pull request of a task, or makes the open one say what its loop has done since.
func (l *look) open(t *Task, it tracker.Item) error {
	work, err := l.d.Settle(l.ctx, l.w, t.Loop)
	if err != nil {
		return err
	}
	body := work.Body
	if it.Closes != "" {
		body += "\n\n" + it.Closes + "\n"
	}
	p, _, err := l.Pulls.Open(l.ctx, forge.Request{Branch: work.Branch, Title: work.Title, Body: body})
	t.Pull = p.URL
	return err
}

// told is what the tracker is to be told of a task now.
func (t *Task) told() string { return fmt.Sprint(t.Claim.State, " ", t.Round, " ", t.Run) }

// report is what the tracker is told.
func (l *look) report(t *Task) tracker.Report {
	switch t.Claim.State {
	case claim.Delivered:
		said := fmt.Sprintf("superloop has done this, in loop `%s` on `%s`", t.Loop, t.Claim.Name)
		if t.Pull == "" {
			return tracker.Report{State: tracker.Delivered, Text: said + ": see the branch `superloop/" + t.Loop + "`."}
		}
		return tracker.Report{State: tracker.Delivered, Text: said + ". The pull request waits for a person:", URL: t.Pull}
	case claim.Failed:
		return tracker.Report{State: tracker.Failed, Text: fmt.Sprintf("superloop has not done this: %s. `superloop status --loop %s` on `%s` says more; `superloop start --loop %s` goes on there.",
			strings.ReplaceAll(t.Claim.Why, "`", "'"), t.Loop, t.Claim.Name, t.Loop)}
	}
	if t.Round > 1 {
		return tracker.Report{State: tracker.Taken, Text: fmt.Sprintf("superloop works on what came back, in round %d.", t.Round)}
	}
	return tracker.Report{State: tracker.Taken, Text: fmt.Sprintf("superloop works on this, in loop `%s` on `%s`.", t.Loop, t.Claim.Name)}
}

// begin begins the loop of a task, or begins it anew for what came back. It may be killed at any step.
func (l *look) begin(t *Task, it tracker.Item) error {
	at, err := l.d.standing(*t)
	if err != nil {
		return err
	}
	if begun := !t.Again && at.known || t.Again && at.view.RunID != t.Before; !begun {
		made := backlog.NewItem(l.w.Repo, t.Claim.Item, t.Loop, append(it.Spec(), t.Notes...))
		write, err := l.d.Plan(l.ctx, l.w, made)
		if err != nil {
			return err
		}
		if !t.Again {
			err = backlog.Store{Loops: l.d.Store.Loops}.Begin(backlog.Watch{Repo: l.w.Repo, By: l.w.By}, made, write)
		} else if err = write(); err == nil {
			e := registry.Entry{Repo: l.w.Repo, Loop: t.Loop, By: l.w.By, Since: l.d.Now().UTC(), Priority: at.entry.Priority, Labels: at.entry.Labels}
			if e, err = server.Want(l.d.Store.Loops, e, true); err == nil {
				err = l.d.Store.Loops.Put(e)
			}
		}
		if err != nil {
			return err
		}
		l.d.Log.Info("a loop is made of an item", zap.String("repo", l.w.Repo), zap.String("item", t.ID), zap.String("loop", t.Loop), zap.Int("round", t.Round))
	}
	t.Waits = false
	return l.d.Store.put(t)
}

// listen gives the loop of a task what came back to its pull request: as a note if it works, else as a new round.
func (l *look) listen(t *Task) error {
	back, err := l.Pulls.Feedback(l.ctx, "superloop/"+t.Loop)
	if err != nil {
		return err
	}
	fresh := slices.DeleteFunc(back.Entries, func(e forge.Entry) bool { return slices.Contains(t.Seen, e.ID) })
	checks := !slices.ContainsFunc(fresh, func(e forge.Entry) bool { return e.Kind != forge.FailedCheck })
	if back.State != forge.Open || len(fresh) == 0 || checks && back.Pending > 0 { // the others may fail, too
		return nil
	}
	at, err := l.d.standing(*t)
	if err != nil {
		return err
	}
	for _, e := range fresh {
		t.Seen = append(t.Seen, e.ID)
	}
	said := forge.Markdown(fresh)
	switch {
	case t.Claim.State == claim.Working:
		note := control.New(control.IntentNote, "the pull request", text.Head("What came back to the pull request:\n\n"+said, 4096), at.view.RunID)
		if err := control.Submit(l.d.Store.Loops.Disk, at.paths, note); err != nil {
			return err
		}
	case t.Round >= MaxRounds:
		return nil // people go on: `superloop queue` says so
	default:
		c, err := l.Claims.End(l.ctx, t.Claim, claim.Working, "")
		if errors.Is(err, claim.ErrLost) {
			return l.lose(t, claim.Claim{})
		}
		if err != nil {
			return err
		}
		t.Claim, t.Round, t.Again, t.Before, t.Waits = c, t.Round+1, true, at.view.RunID, true
		t.Notes = text.Head("\n\n## What came back\n\nThe work on this is on the branch already, and its pull request is open. This came back since:\n\n"+said+"\n", maxNotes)
	}
	return l.d.Store.put(t)
}

// take takes items as long as there are places, and lists all of them.
func (l *look) take(items []tracker.Item) error {
	mine := map[string]*Task{}
	room := l.w.Most
	for _, t := range l.tasks {
		mine[t.ID] = t
		if t.Lost == "" && t.Claim.State == claim.Working {
			room--
		}
	}
	room = min(room, l.d.Vacant())
	open := map[string]bool{}
	for _, it := range items {
		open[it.ID] = true
	}
	skip := 0
	for _, it := range items {
		row := Row{Repo: l.w.Repo, ID: it.ID, Title: it.Title, URL: it.URL, State: Waits, Loop: LoopOf(it.ID), Why: it.Held}
		now, claimed := l.there[l.w.Key(it.ID)]
		t := mine[it.ID]
		switch {
		case t != nil && t.Lost == "":
			row.State, row.Why, row.Pull = State(t.Claim.State), t.Claim.Why, t.Pull
			if t.Claim.State == claim.Delivered && t.Round >= MaxRounds {
				row.Why = fmt.Sprintf("it had %d rounds; what comes back now is for people", MaxRounds)
			}
		case it.Held != "":
			row.State = Held
		case claimed && !l.Claims.Free(now):
			row.State, row.By, row.Why = Taken, now.Name, cmp.Or(now.Why, string(now.State))
		case room <= 0:
		case skip > 0: // another daemon wants these, too
			skip--
		default:
			now.Item = l.w.Key(it.ID)
			why, err := l.try(it, now, open)
			switch {
			case errors.Is(err, claim.ErrTaken):
				row.State = Taken
				skip = rand.IntN(8)
			case err != nil:
				return err
			case why != "":
				row.State, row.Why = Held, why
			default:
				room--
				row.State = State(claim.Working)
			}
		}
		l.rows = append(l.rows, row)
	}
	return nil
}

// try takes an item and begins its loop. why says why it cannot begin now.
func (l *look) try(it tracker.Item, now claim.Claim, open map[string]bool) (why string, err error) {
	if it, err = l.Tracker.Get(l.ctx, it.ID); err != nil {
		return "", err
	}
	if it.Held != "" || it.Closed {
		return cmp.Or(it.Held, "it is closed"), nil
	}
	for _, id := range it.After {
		if before, err := l.Tracker.Get(l.ctx, id); err != nil && !errors.Is(err, tracker.ErrNotFound) {
			return "", err
		} else if err == nil && !before.Closed {
			return "it waits for " + id, nil
		}
	}
	t := &Task{Repo: l.w.Repo, ID: it.ID, Loop: LoopOf(it.ID), Round: 1, Waits: true}
	if _, err := l.d.Plan(l.ctx, l.w, backlog.NewItem(l.w.Repo, now.Item, t.Loop, it.Spec())); errors.Is(err, backlog.ErrTaken) {
		return err.Error(), nil
	} else if err != nil {
		return "", err
	}
	at, err := l.d.standing(*t)
	if err != nil {
		return "", err
	}
	if _, err := os.Lstat(at.paths.Loop); at.known || err == nil {
		if file, err := backlog.FileOf(at.paths); file != now.Item {
			return fmt.Sprintf("there is a loop %s already, which was not made of it", t.Loop), ignored(err)
		}
		t.Again, t.Before = true, at.view.RunID // it was this daemon's before
	}
	if t.Claim, err = l.Claims.Take(l.ctx, now, it.ID, t.Loop); err != nil {
		return "", err
	}
	t.Renewed = l.d.Now()
	l.tasks = append(l.tasks, t)
	if err := l.d.Store.put(t); err != nil {
		return "", err
	}
	return "", l.serve(t, it)
}

// ignored is an error that is none if there is no file.
func ignored(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
