package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/superloop/superloop/loop/layout"

	"github.com/superloop/superloop/cmd/superloop/internal/render"
	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/recovery/action"
	"github.com/superloop/superloop/recovery/cage"
	"github.com/superloop/superloop/recovery/chain"
	"github.com/superloop/superloop/recovery/chain/walk"
	rules "github.com/superloop/superloop/recovery/classify"
	"github.com/superloop/superloop/recovery/guard"
	"github.com/superloop/superloop/recovery/remedy"
)

// walker walks one chain: it judges each cure, carries it out, and sees whether it
// helped.
type walker struct {
	a       *app
	k       *aid
	spawner *proc.Spawner
	lock    *durable.Lock
	store   walk.Store
	private string // where fix keeps what is its own
	paths   layout.Paths
	repo    string // its root, without links
	dir     string // where the command runs
	rel     string // the same, seen from repo
	timeout time.Duration
	yes     bool
	json    bool
	// terminal is where a person can be asked, nil without one.
	terminal *os.File

	ch       *chain.Chain
	last     ran // the command, the last time
	used     int // cures that ran by themselves
	waiting  []waiting
	asks     bool     // there is one among them that --yes would run
	kept     []string // sets of undo
	baseline *guard.Baseline
	box      *cage.Sandbox
	verdict  verdict // on the cure that comes next
}

// at says where the command runs.
func (w *walker) at(dir string) error {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return err
	}
	rel, err := filepath.Rel(w.repo, dir)
	if err != nil || rel == ".." || strings.HasPrefix(rel, "../") {
		return failf(exitUsage, "cd "+quote(w.repo), "this folder is not in %s, the repository: cures run in there", w.repo)
	}
	w.dir, w.rel = dir, filepath.ToSlash(rel)
	return nil
}

func (w *walker) close() error {
	var err error
	if w.spawner != nil {
		err = w.spawner.Close()
	}
	if w.lock != nil {
		err = errors.Join(err, w.lock.Unlock())
	}
	return err
}

// say talks of progress.
func (w *walker) say(format string, args ...any) {
	fmt.Fprintf(w.a.stderr, "superloop: "+format+"\n", args...)
}

// walk goes on until the chain has ended, or something that was begun has no
// outcome.
func (w *walker) walk(ctx context.Context) error {
	err := walk.Walk(ctx, w.ch, w.store, doer{w, ctx}, time.Now)
	var lost *walk.LostError
	var changed *walk.ChangedError
	var held *durable.LockedError
	switch {
	case ctx.Err() != nil:
		return interrupted(ctx)
	case errors.As(err, &lost):
		return failf(exitHuman, "superloop chain retry "+w.ch.ID, "%w", lost)
	case errors.As(err, &changed), errors.As(err, &held):
		return failf(exitHeld, "superloop chain show "+w.ch.ID, "%w", err)
	}
	return err
}

// doer carries out the moves of a chain. Its context is that of the walk, for what
// is not given one.
type doer struct {
	*walker
	ctx context.Context
}

// Wait lets time pass, unless a signal comes.
func (w doer) Wait(ctx context.Context, d time.Duration) error {
	w.say("waiting for %s", render.Duration(d))
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return interrupted(ctx)
	}
}

// Verify runs the goal's own command.
func (w doer) Verify(ctx context.Context) (walk.Outcome, error) {
	w.say("again: %s", text.Display(w.ch.Goal.Command))
	r, err := w.a.runPlainly(ctx, w.spawner, w.ch.Goal.Command, w.dir, w.timeout)
	if err != nil {
		return walk.Outcome{}, err
	}
	w.last = r
	if r.exit().OK() {
		return walk.Outcome{OK: true}, nil
	}
	f, options, err := w.look(ctx, rules.Input{Source: rules.SourceCommand, Command: w.ch.Goal.Command, Dir: w.dir, Exit: r.exit(),
		Stdout: strings.NewReader(r.stdout), Stderr: strings.NewReader(r.stderr)})
	return walk.Outcome{Text: fmt.Sprintf("exit code %d", r.code()), Failure: f, Options: options}, err
}

// look has rules look at a failure on the way.
func (w *walker) look(ctx context.Context, in rules.Input) (chain.Failure, []chain.Choice, error) {
	found, plan, err := w.k.explain(ctx, in)
	switch {
	case ctx.Err() != nil:
		return chain.Failure{}, nil, interrupted(ctx)
	case err != nil:
		return chain.Failure{}, nil, err
	}
	var options []chain.Choice
	if !found.Code {
		options = remedy.Choices(plan)
	}
	return failureOf(found), options, nil
}

// Judge is the gate.
func (w doer) Judge(m chain.Move) (action.Decision, string) {
	j, err := w.judge(w.ctx, m)
	why := ""
	ok := err == nil
	if ok {
		ok, why, err = w.allowed(w.ctx, m, j)
	}
	switch {
	case err != nil:
		why = err.Error()
	case ok:
		w.verdict = j
		return action.Auto, ""
	}
	w.say("not run: %s (%s)", text.Display(m.Command), text.Display(why))
	if j.Decision == action.Human {
		return action.Human, why
	}
	return action.Deny, why
}

// Run carries a cure out, as it was judged.
func (w doer) Run(ctx context.Context, m chain.Move) (walk.Outcome, error) {
	kept, note := w.keep(ctx, m, w.ch.Attempts)
	if kept != "" {
		w.kept = append(w.kept, kept)
		defer w.seal(ctx, kept)
	}
	if note != "" {
		w.say("%s", text.Display(note))
	}
	w.say("level %d runs: %s", m.Depth, text.Display(m.Command))
	out, err := w.execute(ctx, m, w.verdict)
	switch {
	case ctx.Err() != nil:
		return walk.Outcome{}, interrupted(ctx)
	case errors.Is(err, proc.ErrSpawnerLost):
		return walk.Outcome{}, err // nobody knows how it ended
	case err != nil:
		w.say("failed: %s", text.Display(err.Error()))
		return walk.Outcome{Text: err.Error()}, nil
	case out.exit.OK():
		return walk.Outcome{OK: true}, nil
	}
	w.say("failed: %s", out.how())
	f, options, err := w.look(ctx, rules.Input{Source: rules.SourceRecovery, Command: m.Command, Dir: out.dir, Exit: out.exit,
		Stdout: strings.NewReader(out.output), Merged: true})
	return walk.Outcome{Text: out.how(), Failure: f, Options: options}, err
}

// allowed says whether a cure may run: by the policy, or because a person says so
// now, or has chosen it.
func (w *walker) allowed(ctx context.Context, m chain.Move, j verdict) (ok bool, why string, err error) {
	why = j.Reason
	switch {
	case j.Decision == action.Auto:
		w.used++
		return true, "", nil
	case j.Decision != action.Human:
		return false, why, nil
	case w.yes || w.chosen(m):
		return true, "", nil
	case w.terminal != nil:
		fmt.Fprintf(w.a.stderr, "\n%-9s %s\n%-9s %s\n%-9s %s\n", "run", text.Display(m.Command), "in", text.Display(j.place.Dir), "because", text.Display(j.Reason))
		if m.Expected != "" {
			fmt.Fprintf(w.a.stderr, "%-9s %s\n", "then", text.Display(m.Expected))
		}
		yes, err := w.a.ask(ctx, w.terminal, "let this run")
		if err != nil {
			return false, "", interrupted(ctx)
		}
		if yes {
			return true, "", nil
		}
		return false, "a person said no", nil
	}
	w.asks = true
	w.waiting = append(w.waiting, waiting{Option: m.ID, Command: m.Command, Why: j.Reason})
	return false, why, nil
}

// chosen reports whether a person has chosen the cure, or the one that needs it.
func (w *walker) chosen(m chain.Move) bool {
	if m.Picked {
		return true
	}
	for i := len(w.ch.Levels) - 1; i > 0; i-- {
		if l, up := w.ch.Levels[i], w.ch.Levels[i-1]; !l.Cure && up.Picked && l.For == up.Chosen {
			return true
		}
	}
	return false
}
