package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/superloop/superloop/cmd/superloop/internal/render"
	"github.com/superloop/superloop/escalation"
	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/loop/local"
	"github.com/superloop/superloop/recovery/plan"
	"github.com/superloop/superloop/recovery/plan/walk"
)

// chains lists the chains (remediation plans) of superloop fix, the newest last. With --loop it lists the chains of
// that loop instead, and returns the loop's id.
func (a *app) chains(c *cli.Context) (all []walk.Entry, loopID string, err error) {
	var store walk.Store
	var current *plan.Chain
	if c.IsSet("loop") {
		p, err := a.theLoop(c)
		if err != nil {
			return nil, "", err
		}
		view, err := local.ReadView(p.Paths)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, "", err
		}
		if loopID, store = p.id, (walk.Store{Disk: a.disk, Dir: p.File("chains")}); view.Recovery != nil {
			current = view.Recovery.Plan
		}
	} else {
		_, paths, err := a.private(c)
		if err != nil {
			return nil, "", err
		}
		store = a.fixStore(paths)
	}
	all, err = store.List()
	if current != nil { // the chain in the loop's state is newer than its file
		all = slices.DeleteFunc(all, func(e walk.Entry) bool { return e.Chain.ID == current.ID })
		all = append(all, walk.Entry{Chain: *current})
	}
	return all, loopID, err
}

func (a *app) chainList(c *cli.Context) error {
	all, loopID, err := a.chains(c)
	if err != nil {
		return err
	}
	whole, lines := true, make([]render.ChainLine, len(all))
	for i, e := range all {
		ch := e.Chain
		lines[i] = render.ChainLine{ID: ch.ID, Loop: loopID, Status: string(ch.Status), Held: ch.Running != nil, Command: ch.Goal.Command,
			Depth: ch.Depth(), Attempts: ch.Attempts, Why: ch.Why, Updated: ch.UpdatedAt}
		if e.Err != nil {
			whole, lines[i].Error = false, e.Err.Error()
		}
	}
	if c.Bool("json") {
		err = render.JSON(a.stdout, map[string]any{"chains": lines})
	} else {
		err = render.Chains(a.stdout, lines)
	}
	return failedUnless(whole, err)
}

// oneChain returns the chain with this id, or the newest chain if id is "".
func (a *app) oneChain(c *cli.Context, id string) (plan.Chain, error) {
	all, _, err := a.chains(c)
	if err != nil {
		return plan.Chain{}, err
	}
	what := "superloop fix has opened no chain here"
	if c.IsSet("loop") {
		what = "loop " + c.String("loop") + " has no chain now"
	}
	if len(all) == 0 && id == "" {
		return plan.Chain{}, failf(exitNothing, "superloop fix -- npm test", "%s", what)
	}
	i := len(all) - 1
	if id != "" {
		i = slices.IndexFunc(all, func(e walk.Entry) bool { return e.Chain.ID == id })
	}
	if i < 0 {
		return plan.Chain{}, failf(exitNotFound, "superloop chain list", "there is no chain %q", id)
	}
	if err := all[i].Err; err != nil {
		return plan.Chain{}, failf(exitFailed, "superloop chain list", "%w", err)
	}
	return all[i].Chain, nil
}

func (a *app) chainShow(c *cli.Context) error {
	args, err := atMost(c, 1)
	if err != nil {
		return err
	}
	l, err := a.oneChain(c, args[0])
	if none, ok := errors.AsType[*fault](err); ok && none.code == exitNothing && c.IsSet("loop") {
		return a.showQuestion(c, none)
	}
	if err != nil {
		return err
	}
	return a.tellChain(c, l, "Chain %s\n%s", l.ID, a.chainText(l))
}

// tellChain prints a chain as JSON with --json, otherwise the formatted text.
func (a *app) tellChain(c *cli.Context, ch plan.Chain, text string, args ...any) error {
	body, err := plan.Response(ch)
	if err != nil {
		return err
	}
	return a.told(c, json.RawMessage(body), text, args...)
}

// atMost returns the arguments of a verb, filled up with "" to n. More than n arguments are a usage error.
func atMost(c *cli.Context, n int) ([]string, error) {
	args, err := words(c)
	if err == nil && len(args) > n {
		err = failf(exitUsage, typed(c)+" --help", "%s takes %s at most, but got %q too", typed(c), render.Number(n, "argument"), args[n])
	}
	for len(args) < n {
		args = append(args, "")
	}
	return args, err
}

func (a *app) chainChoose(c *cli.Context) error {
	args, err := atMost(c, 2)
	switch {
	case err != nil:
		return err
	case args[0] == "":
		return failf(exitUsage, "superloop chain show", "which option? superloop chain show lists them")
	}
	id, option := args[0], args[1]
	if option == "" {
		id, option = "", args[0]
	}
	if c.IsSet("loop") {
		return a.chooseInLoop(c, id, option)
	}
	return a.goOn(c, id, func(ch *plan.Chain, now time.Time) error {
		if ch.Running != nil {
			ch.Lost("superloop was ended while it ran, and an operator chose another one", now)
		}
		if err := ch.Pick(c.Int("depth"), option, now); err != nil {
			return failf(exitUsage, "superloop chain show "+ch.ID, "choosing %s: %w", render.Clean(option), err)
		}
		return nil
	})
}

func (a *app) chainRetry(c *cli.Context) error {
	args, err := atMost(c, 1)
	switch {
	case err != nil:
		return err
	case c.IsSet("loop"):
		return failf(exitUsage, "superloop approve-recovery --loop "+text.Paste(c.String("loop")), "a loop tries again by itself; one that waits for an operator goes on with approve-recovery, chain choose or kick")
	}
	return a.goOn(c, args[0], func(ch *plan.Chain, now time.Time) error {
		var err error
		switch {
		case ch.Running != nil:
			err = ch.Again(now)
		case ch.Status == plan.Open && !c.IsSet("depth"): // the last walk ended between two moves: walking on is enough
		default:
			err = ch.Retry(c.Int("depth"), now)
		}
		if err != nil {
			return failf(exitNothing, "superloop chain show "+ch.ID, "trying again: %w", err)
		}
		return nil
	})
}

// chainSkip leaves an option out of a chain and walks on. An argument that names no chain is the option.
func (a *app) chainSkip(c *cli.Context) error {
	args, err := atMost(c, 2)
	switch {
	case err != nil:
		return err
	case c.IsSet("loop"):
		return failf(exitUsage, "superloop reject-recovery --loop "+text.Paste(c.String("loop")), "a loop that waits for an operator goes on without its command by reject-recovery")
	}
	id, option := args[0], args[1]
	if option == "" && id != "" {
		all, _, err := a.chains(c)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(all, func(e walk.Entry) bool { return e.Chain.ID == id }) {
			id, option = "", args[0]
		}
	}
	return a.goOn(c, id, func(ch *plan.Chain, now time.Time) error {
		if ch.Running != nil {
			ch.Lost("superloop was ended while it ran, and an operator left it out", now)
		}
		if err := ch.Skip(c.Int("depth"), option, now); err != nil {
			return failf(exitNothing, "superloop chain show "+ch.ID, "leaving an option out: %w", err)
		}
		return nil
	})
}

// goOn applies an operator's change to a chain of superloop fix and then walks the chain.
func (a *app) goOn(c *cli.Context, id string, change func(*plan.Chain, time.Time) error) error {
	if c.Duration("timeout") <= 0 {
		return failf(exitUsage, typed(c)+" --timeout 30m", "--timeout %s: a time above 0 is needed", c.Duration("timeout"))
	}
	l, err := a.oneChain(c, id)
	if err != nil {
		return err
	}
	w, err := a.newWalker(c)
	if err != nil {
		return err
	}
	err = w.goOn(l.ID, change)
	return errors.Join(err, w.close())
}

func (w *walker) goOn(id string, change func(*plan.Chain, time.Time) error) error {
	ch, err := w.store.Change(id, func(ch *plan.Chain) error { return change(ch, time.Now()) })
	if err != nil {
		return heldElsewhere(err)
	}
	w.ch, w.command = &ch, ch.Goal.Command
	dir := filepath.Join(w.paths.Repo, filepath.FromSlash(ch.Goal.Dir))
	if err := w.at(dir); err != nil {
		return failf(exitNotFound, "superloop chain cancel "+id, "the folder in which %s failed is gone: %w", render.Clean(ch.Goal.Command), err)
	}
	return w.reportChain(fixed{Status: "failed"}, w.walk())
}

func heldElsewhere(err error) error {
	if _, held := errors.AsType[*durable.LockedError](err); held {
		return failf(exitHeld, "superloop chain list", "%w", err)
	}
	return err
}

// pending returns the open question of a loop. Without an open question it fails with the reason.
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

// showQuestion prints the options of the question that a loop waits for. It returns none if the loop does not wait.
func (a *app) showQuestion(c *cli.Context, none error) error {
	q, err := a.pending(c)
	if err != nil {
		if f, ok := errors.AsType[*fault](err); ok && f.code == exitNothing {
			return none
		}
		return err
	}
	rec := q.rec
	facts := map[string]any{"loop_id": rec.Question.Loop, "question": rec.Question.ID, "reason": rec.Question.Reason, "options": remedies(rec)}
	return a.write(c, facts, func(w io.Writer) {
		fmt.Fprintf(w, "%s waits for an operator: %s\n", render.Clean(rec.Question.Loop), render.Clean(rec.Question.Reason))
		for _, o := range remedies(rec) {
			fmt.Fprintf(w, "  %s: %s\n      %s\n", render.Clean(o.ID), render.Clean(o.Label), text.Display(o.Command))
		}
		fmt.Fprint(w, a.here(fmt.Sprintf("next: superloop chain choose --loop %s OPTION\n", text.Paste(rec.Question.Loop))))
	})
}

// chainText returns the description of a chain. The commands at its end work where the operator has typed this one.
func (a *app) chainText(ch plan.Chain) string {
	text := plan.Describe(ch, a.width())
	if i := strings.LastIndex(text, "\nNext:\n"); i >= 0 {
		return text[:i] + a.here(text[i:])
	}
	return text
}

// remedies returns those options of a question that have a command.
func remedies(rec escalation.Record) []escalation.Option {
	without := func(o escalation.Option) bool { return o.Command == "" }
	return slices.DeleteFunc(orEmpty(slices.Clone(rec.Question.Options)), without)
}

// chooseInLoop approves the command of one option of a loop's question, as approve-recovery --edit does.
func (a *app) chooseInLoop(c *cli.Context, question, option string) error {
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
	req.ID = cmp.Or(question, rec.Question.ID) // the answer is for the question whose options were read
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
	return a.tellChain(c, ch, "chain %s is cancelled\n", ch.ID)
}
