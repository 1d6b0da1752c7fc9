package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/superloop/superloop/cmd/superloop/internal/render"
	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/loop/layout"
	"github.com/superloop/superloop/recovery"
	"github.com/superloop/superloop/recovery/action"
	rules "github.com/superloop/superloop/recovery/classify"
	"github.com/superloop/superloop/recovery/execute"
	"github.com/superloop/superloop/recovery/inputs"
	"github.com/superloop/superloop/recovery/learn"
	"github.com/superloop/superloop/recovery/plan"
	"github.com/superloop/superloop/recovery/plan/walk"
	"github.com/superloop/superloop/recovery/remedy"
	"github.com/superloop/superloop/recovery/undo"
)

// maxLooks bounds how often Run starts one command. Run judges the command again whenever something has changed right
// before the start.
const maxLooks = 5

// executor returns the executor that judges and runs remedies in the same way as in a loop.
func (w *walker) executor() *execute.Executor {
	return &execute.Executor{
		Repo: w.paths.Repo, StateDir: w.paths.State, Ledger: inputs.Ledger{Disk: w.a.disk, Dir: w.paths.Common(), Repo: w.paths.Repo},
		Disk: w.a.disk, Undo: undo.Store{Disk: w.a.disk, Dir: w.paths.Undo(), Repo: w.paths.Repo},
		Learned: learn.Store{Disk: w.a.disk, Path: w.paths.Learned()},
		Sandbox: execute.Spawned{Spawner: w.spawner}, Environ: os.Environ(),
		Policies: w.policies(), Now: time.Now,
		Warn: func(what string, err error) { w.say("%s: %s", what, text.Display(err.Error())) },
		Note: func(s string) { w.say("%s", text.Display(s)) },
	}
}

// policies returns a function that lists the policies in force: the policy with which fix began, and the present policy
// of the configuration, which it reads again each time. If it cannot read the configuration, the default policy is the
// second one, which lists no command.
func (w *walker) policies() func() []*recovery.Policy {
	began, said := w.k.policy, ""
	return func() []*recovery.Policy {
		now := &aid{repo: w.paths.Repo}
		if err := w.a.remediationPolicy(w.c, now); err != nil {
			now.policy = defaultPolicy()
			if said != err.Error() {
				said = err.Error()
				w.say("the configuration cannot be read any more, so nothing counts as listed: %s; superloop validate says where", text.Display(said))
			}
		}
		if now.policy.Digest == began.Digest {
			return []*recovery.Policy{began}
		}
		return []*recovery.Policy{began, now.policy}
	}
}

func (w *walker) budget() recovery.Budget { return recovery.Budget{Used: w.used, Waits: true} }

// Judge implements walk.Doer. It is the gate that each move has to pass.
func (w *walker) Judge(m plan.Move) (action.Decision, string) {
	if !w.pinned {
		w.pinned = true
		_ = w.x.Pin(w.ctx, filepath.Join(fixDir(w.paths), "lock"), !w.ranBefore()) // after an error the judgement of a command that reads files says why
	}
	j, err := w.x.Judge(w.ctx, m.Action(), w.budget())
	if err != nil {
		return w.refused(m, action.Deny, err.Error())
	}
	return w.gate(m, j)
}

// ranBefore reports whether a loop has run in the repository, so that agents may have written its files.
func (w *walker) ranBefore() bool {
	_, err := os.Lstat(filepath.Join(w.paths.Common(), "loops"))
	return err == nil
}

// gate returns action.Auto for a remedy that may run: because its judgement says so, because of --yes, because the
// operator has chosen the remedy, or because the operator says yes on the terminal.
func (w *walker) gate(m plan.Move, j execute.Judgement) (action.Decision, string) {
	asked := j.Decision == action.Human && !w.c.Bool("yes") && !w.chosen(m)
	switch {
	case j.Decision != action.Auto && j.Decision != action.Human:
		return w.refused(m, j.Decision, j.Reason)
	case asked && w.terminal == nil:
		w.asks = true
		w.waiting = append(w.waiting, waiting{Option: m.ID, Command: m.Command, Why: j.Reason})
		return w.refused(m, j.Decision, j.Reason)
	case asked:
		fmt.Fprintf(w.a.stderr, "\n%-9s %s\n%-9s %s\n%-9s %s\n", "run", text.Display(m.Command), "in", text.Display(j.Place.Dir), "because", text.Display(j.Reason))
		if m.Expected != "" {
			fmt.Fprintf(w.a.stderr, "%-9s %s\n", "then", text.Display(m.Expected))
		}
		fmt.Fprint(w.a.stderr, j.Diff)
		yes, err := w.a.ask(w.ctx, w.terminal, "let this run")
		if err != nil {
			return w.refused(m, j.Decision, interrupted(w.ctx).Error())
		}
		if !yes {
			w.x.Learn(w.ctx, learn.Outcome{Signature: w.ch.Levels[len(w.ch.Levels)-1].Failure.Signature, Option: m.Option, Command: m.Command, Result: learn.Refused, ByPerson: true})
			return w.refused(m, j.Decision, "an operator said no")
		}
	}
	w.approved = j
	return action.Auto, ""
}

// refused prints that a remedy does not run, and why. It returns action.Human if an operator may decide about the
// remedy, and otherwise action.Deny.
func (w *walker) refused(m plan.Move, d action.Decision, why string) (action.Decision, string) {
	w.say("not run: %s (%s)", text.Display(m.Command), text.Display(why))
	if d == action.Human {
		return action.Human, why
	}
	return action.Deny, why
}

// chosen reports whether an operator has chosen the remedy, or the option that needs this remedy first.
func (w *walker) chosen(m plan.Move) bool {
	if m.Picked {
		return true
	}
	for i := len(w.ch.Levels) - 1; i > 0; i-- {
		if l, up := w.ch.Levels[i], w.ch.Levels[i-1]; !l.Remedy && up.Picked && l.For == up.Chosen {
			return true
		}
	}
	return false
}

// Run implements walk.Doer: it runs a remedy as the remedy was judged. If something has changed since the judgement,
// the remedy goes through the gate again, and on a terminal the operator is asked once more.
func (w *walker) Run(ctx context.Context, m plan.Move) (walk.Outcome, error) {
	for range maxLooks {
		out, err := w.x.Execute(ctx, w.order(m))
		switch {
		case ctx.Err() != nil:
			return walk.Outcome{}, interrupted(ctx)
		case err != nil:
			w.say("failed: %s", text.Display(err.Error()))
			return walk.Outcome{Text: err.Error()}, nil
		case out.Changed == "":
			return w.came(m, out)
		}
		w.say("not begun, since something has changed: %s", text.Display(out.Changed))
		if d, why := w.gate(m, out.Now); d != action.Auto {
			return walk.Outcome{Text: fmt.Sprintf("not run: %s: %s", d, why)}, nil
		}
	}
	return walk.Outcome{Text: "not run: what it stands on changes all the time"}, nil
}

// order makes the executor's order for a remedy that has passed the gate. Its Intend writes nothing to the disk,
// because the chain has been saved with the move in it.
func (w *walker) order(m plan.Move) execute.Order {
	o := execute.Order{Action: m.Action(), Budget: w.budget(), Basis: w.approved.Basis(), Hurry: w.a.hurry, Output: w.a.stderr,
		Label: undo.Label{Run: w.ch.ID, Recovery: w.ch.Attempts}, Option: m.Option, Signature: w.ch.Levels[len(w.ch.Levels)-1].Failure.Signature}
	person := w.approved.Decision == action.Human
	if person {
		o.Confirm = func(_ context.Context, now execute.Judgement) (string, error) {
			if now.Decision == action.Deny {
				return now.Reason, nil
			}
			return strings.Join(o.Basis.Drift(now.Basis()), "; "), nil
		}
	}
	o.Intend = func(in execute.Intent) error {
		if !person {
			w.used++
		}
		w.people[m.Option] = person
		if in.Undo.ID != "" {
			w.kept = append(w.kept, in.Undo.ID)
		}
		switch {
		case in.Undo.Err != nil:
			w.say("nothing is kept for undo: %s", text.Display(in.Undo.Err.Error()))
		case len(in.Undo.NotKept) > 0:
			w.say("not kept for undo: %s", text.Display(in.Undo.Missing()))
		}
		w.say("level %d runs: %s", m.Depth, text.Display(m.Command))
		return nil
	}
	return o
}

// came turns the outcome of a remedy into the outcome of the move. If the remedy has failed, came classifies its
// failure.
func (w *walker) came(m plan.Move, out execute.Outcome) (walk.Outcome, error) {
	if len(out.Appeared) > 0 {
		w.say("look at what it made where superloop or git would act on it: %s", text.Display(strings.Join(out.Appeared, ", ")))
	}
	switch {
	case out.End == execute.Lost:
		return walk.Outcome{}, errors.New(out.Error)
	case out.End == execute.NotStarted:
		w.say("failed: %s", text.Display(out.Error))
		return walk.Outcome{Text: out.Error}, nil
	case out.OK():
		return walk.Outcome{OK: true}, nil
	}
	exit := rules.Exit{Code: max(out.Code, 0), Signal: out.Signal, TimedOut: out.End == execute.TimedOut, Duration: out.Duration}
	if out.End == execute.OutputLimit {
		exit.Code = 1
	}
	w.say("failed: %s", how(out))
	w.end = endOf(out.Output.Text())
	f, options, err := w.look(rules.Input{Source: rules.SourceRecovery, Command: m.Command, Dir: filepath.Join(w.paths.Repo, out.Now.Place.Dir), Exit: exit,
		Stdout: strings.NewReader(out.Output.Text()), Merged: true})
	return walk.Outcome{Text: how(out), Failure: f, Options: options}, err
}

// how describes how a remedy failed, with the last line of its output (at most 300 bytes of it).
func how(out execute.Outcome) string {
	s := fmt.Sprintf("exit code %d", max(out.Code, 0))
	switch {
	case out.End == execute.OutputLimit:
		s = "it was stopped because it printed too much"
	case out.End == execute.TimedOut:
		s = "it did not end in time"
	case out.Signal != "":
		s = "ended by " + out.Signal
	}
	last := ""
	for line := range strings.Lines(out.Output.Text()) {
		if t := strings.TrimSpace(line); t != "" {
			last = t
		}
	}
	if last != "" {
		s += ": " + text.Display(last[:min(len(last), 300)])
	}
	return s
}

// walker walks one chain: it judges each remedy, runs it, and checks whether the remedy has helped.
type walker struct {
	a       *app
	c       *cli.Context
	ctx     context.Context // of the verb
	k       *aid
	x       *execute.Executor
	spawner *proc.Spawner
	lock    *durable.Lock
	store   walk.Store
	paths   layout.Paths
	dir     string // the directory in which the command runs
	rel     string // dir, relative to the repository

	terminal *os.File // asks the operator, nil without a terminal
	ch       *plan.Chain
	command  string
	last     proc.Result // the end of the command's last run
	end      string      // the end of the stderr of the last command
	used     int         // counts the remedies that ran without an operator's approval
	waiting  []waiting
	asks     bool     // waiting has a remedy that --yes would run
	kept     []string // ids of undo sets
	pinned   bool
	approved execute.Judgement // lets the next remedy run
	people   map[string]bool   // by an option's key: whether an operator, not the policy, let the option run
}

// at sets the directory in which the command runs. It fails if the directory is not in the repository.
func (w *walker) at(dir string) error {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return err
	}
	rel, err := filepath.Rel(w.paths.Repo, dir)
	if err != nil || rel == ".." || strings.HasPrefix(rel, "../") {
		return failf(exitUsage, "cd "+text.Paste(w.paths.Repo), "this folder is not in %s, the repository: remedies run in there", w.paths.Repo)
	}
	w.dir, w.rel = dir, filepath.ToSlash(rel)
	return nil
}

func (w *walker) close() error {
	var err error
	if w.spawner != nil {
		err = w.spawner.Close()
	}
	if w.x != nil {
		err = errors.Join(err, w.x.Unpin(context.WithoutCancel(w.ctx)))
	}
	if w.lock != nil {
		err = errors.Join(err, w.lock.Unlock())
	}
	return err
}

// say prints a line of progress to stderr.
func (w *walker) say(format string, args ...any) {
	fmt.Fprintf(w.a.stderr, "superloop: "+format+"\n", args...)
}

// walk walks the chain until the chain ends. It stops with an error if a command that was begun has no known outcome,
// or if another process uses or changes the chain.
func (w *walker) walk() error {
	w.x.Marker, w.people = "SUPERLOOP_MARK="+w.ch.ID, map[string]bool{}
	err := walk.Walk(w.ctx, w.ch, w.store, w, time.Now)
	lost, isLost := errors.AsType[*walk.LostError](err)
	_, changed := errors.AsType[*walk.ChangedError](err)
	_, held := errors.AsType[*durable.LockedError](err)
	switch {
	case w.ctx.Err() != nil:
		return interrupted(w.ctx)
	case isLost:
		return failf(exitHuman, "superloop chain retry "+w.ch.ID, "%w", lost)
	case changed, held:
		return failf(exitHeld, "superloop chain show "+w.ch.ID, "%w", err)
	}
	return err
}

// Wait implements walk.Doer: it waits for d, or until a signal ends ctx.
func (w *walker) Wait(ctx context.Context, d time.Duration) error {
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

// Verify implements walk.Doer: it runs the command of the goal again, learns from the result, and classifies a failure.
func (w *walker) Verify(context.Context) (walk.Outcome, error) {
	w.say("again: %s", text.Display(w.ch.Goal.Command))
	in, err := w.runCommand()
	if err != nil {
		return walk.Outcome{}, err
	}
	if in.Exit.OK() {
		w.learn(true, plan.Failure{})
		return walk.Outcome{OK: true}, nil
	}
	f, options, err := w.look(in)
	if err == nil {
		w.learn(false, f)
	}
	return walk.Outcome{Text: fmt.Sprintf("exit code %d", shellCode(w.last)), Failure: f, Options: options}, err
}

// runCommand runs the command that the chain is to make pass. It is the operator's own, so nothing confines it.
func (w *walker) runCommand() (rules.Input, error) {
	s, err := proc.Start(proc.OnHost(""))
	if err != nil {
		return rules.Input{}, fmt.Errorf("running %s: %w", said(w.command), err)
	}
	in, res, err := w.a.runPlainly(w.ctx, s, w.k.classifier.Sift, w.command, w.dir, w.c.Duration("timeout"))
	if err == nil {
		w.last, w.end = res, endOf(res.Stderr.Text())
	}
	return in, errors.Join(err, s.Close())
}

// look classifies the failure of a command and returns the options against it. It returns no options if the code is at
// fault.
func (w *walker) look(in rules.Input) (plan.Failure, []plan.Choice, error) {
	found, resolved, err := w.k.explain(w.ctx, in)
	if err != nil {
		return plan.Failure{}, nil, err
	}
	var options []plan.Choice
	if !found.Code {
		options = remedy.Choices(resolved)
	}
	return w.failureOf(found), options, nil
}
