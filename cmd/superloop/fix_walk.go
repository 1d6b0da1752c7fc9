package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/superloop/superloop/cmd/superloop/internal/render"
	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/loop/layout"
	rules "github.com/superloop/superloop/recovery/classify"
	"github.com/superloop/superloop/recovery/execute"
	"github.com/superloop/superloop/recovery/plan"
	"github.com/superloop/superloop/recovery/plan/walk"
	"github.com/superloop/superloop/recovery/remedy"
)

// walker walks one chain: it judges each remedy, carries it out, and sees whether it helped.
type walker struct {
	a       *app
	k       *aid
	x       *execute.Executor
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

	ch       *plan.Chain
	last     ran // the command, the last time
	used     int // fixes that ran by themselves
	waiting  []waiting
	asks     bool     // there is one among them that --yes would run
	kept     []string // sets of undo
	pinned   bool
	approved execute.Judgement // by which the remedy that comes next may run
	people   map[string]bool   // by its key: a person has let the option run, not the policy
}

// at says where the command runs.
func (w *walker) at(dir string) error {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return err
	}
	rel, err := filepath.Rel(w.repo, dir)
	if err != nil || rel == ".." || strings.HasPrefix(rel, "../") {
		return failf(exitUsage, "cd "+text.Paste(w.repo), "this folder is not in %s, the repository: remedies run in there", w.repo)
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

// walk goes on until the chain has ended, or something that was begun has no outcome.
func (w *walker) walk(ctx context.Context) error {
	w.x.Marker, w.people = "SUPERLOOP_MARK="+w.ch.ID, map[string]bool{}
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

// doer carries out the moves of a chain. Its context is that of the walk, for what is not given one.
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
		w.learn(ctx, true, plan.Failure{})
		return walk.Outcome{OK: true}, nil
	}
	f, options, err := w.look(ctx, rules.Input{Source: rules.SourceCommand, Command: w.ch.Goal.Command, Dir: w.dir, Exit: r.exit(),
		Stdout: strings.NewReader(r.stdout), Stderr: strings.NewReader(r.stderr)})
	if err == nil {
		w.learn(ctx, false, f)
	}
	return walk.Outcome{Text: fmt.Sprintf("exit code %d", r.code()), Failure: f, Options: options}, err
}

// look has rules look at a failure on the way.
func (w *walker) look(ctx context.Context, in rules.Input) (plan.Failure, []plan.Choice, error) {
	found, resolved, err := w.k.explain(ctx, in)
	switch {
	case ctx.Err() != nil:
		return plan.Failure{}, nil, interrupted(ctx)
	case err != nil:
		return plan.Failure{}, nil, err
	}
	var options []plan.Choice
	if !found.Code {
		options = remedy.Choices(resolved)
	}
	return failureOf(found), options, nil
}
