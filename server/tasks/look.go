package tasks

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/layout"
	"github.com/superloop/superloop/loop/local"
	"github.com/superloop/superloop/server/backlog"
	"github.com/superloop/superloop/server/claim"
	"github.com/superloop/superloop/server/registry"
)

// look is one turn.
type look struct {
	d *Desk
	w Watch
	Place
	ctx   context.Context
	there map[string]claim.Claim // by key
	tasks []*Task
	rows  []Row
}

// Key names an item in the claims of all daemons.
func (w Watch) Key(id string) string { return w.Source + "-" + slug(id) }

// LoopOf names the loop of an item.
func LoopOf(id string) string {
	if strings.Trim(id, "0123456789") == "" {
		return "issue-" + id
	}
	return slug(id)
}

// slug is an id in lower case. Where that leaves something out, a digest tells it from others.
func slug(id string) string {
	s := text.Slug(id, backlog.MaxID-9)
	if s != strings.ToLower(id) {
		sum := sha256.Sum256([]byte(id))
		s += "-" + hex.EncodeToString(sum[:4])
	}
	return s
}

// standing is where the loop of a task stands.
type standing struct {
	paths layout.Paths
	entry registry.Entry
	known bool // the registry has it
	view  loop.View
	ended bool // its run has ended, and no other one is wanted
}

func (d *Desk) standing(t Task) (s standing, err error) {
	loops := d.Store.Loops
	if s.paths, err = layout.NewPaths(t.Repo, t.Loop, filepath.Dir(loops.State)); err != nil {
		return s, err
	}
	if s.entry, err = loops.Get(t.Repo, t.Loop); err == nil {
		s.known = true
	} else if !errors.Is(err, fs.ErrNotExist) {
		return s, err
	}
	if s.view, err = local.ReadView(s.paths); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return s, err
	}
	s.ended = s.known && s.entry.Wanted == registry.Ended && s.view.Status.Ended()
	return s, nil
}

// claims looks at the claims, keeps those of this daemon, and says on the remote what became of its loops. It asks no
// tracker.
func (l *look) claims() (err error) {
	if l.there, err = l.Claims.All(l.ctx); err != nil {
		return err
	}
	tasks, errs := l.d.Store.Tasks(l.w.Repo)
	for _, err := range errs {
		l.d.Log.Warn("a task is not read; its claim tells it again", zap.Error(err))
	}
	for _, t := range tasks {
		l.tasks = append(l.tasks, &t)
	}
	for _, c := range l.there { // taken, and killed before it was noted
		mine := c.Holder == l.Claims.Holder && c.State == claim.Working && l.w.Key(c.ID) == c.Item
		if mine && !slices.ContainsFunc(l.tasks, func(t *Task) bool { return t.Claim.Item == c.Item }) {
			l.tasks = append(l.tasks, &Task{Repo: l.w.Repo, ID: c.ID, Loop: c.Loop, Claim: c, Round: 1, Waits: true})
		}
	}
	for _, t := range l.tasks {
		if err := l.keep(t); err != nil {
			return err
		}
	}
	return nil
}

// keep keeps the claim on the item of a task, and says on the remote what became of its loop.
func (l *look) keep(t *Task) error {
	if t.Lost != "" {
		return nil
	}
	now, ok := l.there[t.Claim.Item]
	if !ok || now.Holder != l.Claims.Holder {
		return l.lose(t, now)
	}
	t.Claim = now // also one whose answer was lost
	at, err := l.d.standing(*t)
	if err != nil {
		return err
	}
	var push []string
	next, why := t.Claim.State, ""
	switch {
	case t.Waits: // it is to begin
		next = claim.Working
	case !at.known:
		why = "its loop was forgotten by an operator"
		next = claim.Failed
	case !at.ended:
		next = claim.Working
	case at.view.RunID == t.Run: // told
	case at.view.Status != loop.Completed:
		next, why = claim.Failed, "its loop has ended: "+cmp.Or(at.view.Reason, string(at.view.Status))
	default:
		work, err := l.d.Settle(l.ctx, l.w, t.Loop)
		if err != nil {
			next, why = claim.Failed, "its work is not delivered: "+err.Error()
		} else {
			next, push = claim.Delivered, []string{work.Tip + ":refs/heads/" + work.Branch}
		}
	}
	told := !at.ended || at.view.RunID == t.Run || t.Waits
	if next == t.Claim.State && told && (next != claim.Working || l.d.Now().Sub(t.Renewed) < l.Claims.TTL/3) {
		return l.note(t)
	}
	c, err := l.Claims.End(l.ctx, t.Claim, next, why, push...)
	switch {
	case errors.Is(err, claim.ErrLost):
		return l.lose(t, claim.Claim{})
	case err != nil && push != nil && refused(err):
		c, err = l.Claims.End(l.ctx, t.Claim, claim.Failed, "somebody has pushed to its branch: take that into the branch here, then type superloop start --loop "+t.Loop)
	}
	if err != nil {
		return err
	}
	t.Claim = c
	if !told {
		t.Run = at.view.RunID
	}
	return l.note(t)
}

// refused reports whether a push has failed because the branch has commits that it does not have here.
func refused(err error) bool {
	said := err.Error()
	return strings.Contains(said, "non-fast-forward") || strings.Contains(said, "fetch first")
}

// note keeps a task whose claim has changed.
func (l *look) note(t *Task) error {
	if t.Claim.At == t.At {
		return nil
	}
	t.Renewed = l.d.Now()
	return l.d.Store.put(t)
}

// lose stops the loop of a task whose item another daemon has now. Its files are kept.
func (l *look) lose(t *Task, now claim.Claim) error {
	t.Lost = cmp.Or(now.Name, "nobody") + " has the item now"
	l.d.Log.Warn("an item is lost", zap.String("repo", t.Repo), zap.String("item", t.ID), zap.String("loop", t.Loop), zap.String("why", t.Lost))
	if err := l.stop(t, "superloop: "+t.Lost); err != nil {
		return err
	}
	return l.d.Store.put(t)
}

// stop ends what the daemon runs of the loop of a task.
func (l *look) stop(t *Task, by string) error {
	at, err := l.d.standing(*t)
	if err != nil || !at.known || at.entry.Wanted != registry.Running && at.entry.Wanted != registry.Paused {
		return err
	}
	at.entry.Wanted, at.entry.By, at.entry.Since = registry.Stopped, by, l.d.Now().UTC()
	return l.d.Store.Loops.Put(at.entry)
}
