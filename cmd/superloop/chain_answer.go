package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/superloop/superloop/cmd/superloop/internal/render"
	"github.com/superloop/superloop/escalation"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/recovery/plan"
	"github.com/superloop/superloop/recovery/undo"
)

// pending is the question of a loop that waits for an operator.
func (a *app) pending(c *cli.Context) (asked, error) {
	q, err := a.question(c)
	if err == nil && q.rec.State != escalation.Pending {
		err = escalation.ErrNothingPending
	}
	if err != nil {
		err = a.notAnswered(q, err)
	}
	return q, err
}

// showQuestion shows the options of a loop that waits; none is what to say if it does not.
func (a *app) showQuestion(c *cli.Context, none error) error {
	q, err := a.pending(c)
	rec := q.rec
	var f *fault
	if errors.As(err, &f) && f.code == exitNothing {
		return none
	}
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return render.JSON(a.stdout, map[string]any{"loop_id": rec.Question.Loop, "question": rec.Question.ID, "reason": rec.Question.Reason, "options": remedies(rec)})
	}
	return a.write(func(w io.Writer) {
		fmt.Fprintf(w, "%s waits for an operator: %s\n", render.Clean(rec.Question.Loop), render.Clean(rec.Question.Reason))
		for _, o := range remedies(rec) {
			fmt.Fprintf(w, "  %s: %s\n      %s\n", render.Clean(o.ID), render.Clean(o.Label), text.Display(o.Command))
		}
		fmt.Fprintf(w, "next: superloop chain choose --loop %s OPTION\n", text.Paste(rec.Question.Loop))
	})
}

// remedies are the options of a question that have a command.
func remedies(rec escalation.Record) []escalation.Option {
	without := func(o escalation.Option) bool { return o.Command == "" }
	return slices.DeleteFunc(orEmpty(slices.Clone(rec.Question.Options)), without)
}

// chooseInLoop answers a loop's question with one of its options, as approve-recovery --edit does.
func (a *app) chooseInLoop(c *cli.Context, question, option string) error {
	if err := a.operator(); err != nil {
		return err
	}
	q, err := a.pending(c)
	if err != nil {
		return err
	}
	rec, loopID := q.rec, q.rec.Question.Loop
	options := remedies(rec)
	i := slices.IndexFunc(options, func(o escalation.Option) bool { return o.ID == option })
	if i < 0 {
		var ids []string
		for _, o := range options {
			ids = append(ids, render.Clean(o.ID))
		}
		has := "its question has no options with a command"
		if len(ids) > 0 {
			has = "its question has " + strings.Join(ids, ", ")
		}
		return failf(exitNotFound, "superloop approve-recovery --loop "+text.Paste(loopID), "loop %s has no option %q: %s", loopID, option, has)
	}
	req := a.answerOf(c, escalation.Approve)
	req.ID = cmp.Or(question, rec.Question.ID) // what was looked at is what is answered
	if cmd := rec.Question.Command; cmd == nil || string(cmd.Text) != options[i].Command {
		req.Edit = &escalation.EditedCommand{Text: []byte(options[i].Command)}
	}
	if err := a.confirm(c, rec, &req); err != nil {
		return err
	}
	return a.submit(c, q, req, nil)
}

func (a *app) chainCancel(c *cli.Context) error {
	args, err := atMost(c, 1)
	switch {
	case err != nil:
		return err
	case c.IsSet("loop") && args[0] != "":
		return failf(exitUsage, "superloop chain cancel --loop "+text.Paste(c.String("loop")), "a loop has one chain at a time: no ID is needed")
	case c.IsSet("loop"):
		return a.answer(c, escalation.Reject)
	}
	if err := a.operator(); err != nil {
		return err
	}
	l, err := a.oneChain(c, args[0])
	if err != nil {
		return err
	}
	_, paths, err := a.private(c)
	if err != nil {
		return err
	}
	ch, err := a.fixStore(paths).Change(l.ID, func(ch *plan.Chain) error {
		if ch.Status == plan.Done || ch.Status == plan.Cancelled {
			return failf(exitNothing, "superloop chain list", "chain %s is %s already", ch.ID, ch.Status)
		}
		ch.Cancel(a.who(c), time.Now())
		return nil
	})
	if err != nil {
		return heldElsewhere(err)
	}
	if c.Bool("json") {
		return a.tellChain(c, ch)
	}
	fmt.Fprintf(a.stdout, "chain %s is cancelled\n", ch.ID)
	return nil
}

// chainUndo puts back what the fixes of a chain overwrote, the last one first.
func (a *app) chainUndo(c *cli.Context) error {
	args, err := atMost(c, 1)
	if err != nil {
		return err
	}
	if err := a.operator(); err != nil {
		return err
	}
	l, err := a.oneChain(c, args[0])
	if err != nil {
		return err
	}
	repo, paths, err := a.private(c)
	if err == nil {
		err = a.nobodyAtWork(repo)
	}
	if err != nil {
		return err
	}
	store := undo.Store{Disk: a.disk, Dir: paths.Undo()}
	all, err := store.List()
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(k undo.Kept) bool { return k.Label.Loop != "" || k.Label.Run != l.ID })
	if len(all) == 0 {
		return failf(exitNothing, "superloop chain show "+l.ID, "there is nothing to undo: nothing is kept of chain %s", l.ID)
	}
	reports, whole := []undo.Report{}, true
	for _, set := range slices.Backward(all) {
		store.Repo = set.Repo
		r, err := store.Restore(c.Context, set.ID, undo.Options{Force: c.Bool("force")})
		if err != nil {
			if c.Context.Err() != nil {
				return interrupted(c.Context)
			}
			return failf(exitFailed, "superloop chain undo "+l.ID, "undoing remedy %d of chain %s: %w", set.Label.Recovery, l.ID, err)
		}
		reports, whole = append(reports, r), whole && r.Complete()
		if !c.Bool("json") {
			printUndo(a.stdout, "chain", set, r)
		}
	}
	if c.Bool("json") {
		if err := render.JSON(a.stdout, map[string]any{"chain_id": l.ID, "complete": whole, "reports": reports}); err != nil {
			return err
		}
	}
	if !whole {
		return failf(exitFailed, "superloop chain undo --force "+l.ID, "not everything is put back")
	}
	return nil
}
