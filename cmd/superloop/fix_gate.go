package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/recovery"
	"github.com/superloop/superloop/recovery/action"
	"github.com/superloop/superloop/recovery/cage"
	"github.com/superloop/superloop/recovery/chain"
	rules "github.com/superloop/superloop/recovery/classify"
	"github.com/superloop/superloop/recovery/guard"
	"github.com/superloop/superloop/recovery/undo"
)

// verdict is what may happen with a cure, and where.
type verdict struct {
	recovery.Verdict
	place cage.Place
}

// judge says what may happen with a cure as things are now, as a loop does: the
// policy, what confines commands here, the files that the command reads, the
// budget.
func (w *walker) judge(ctx context.Context, m chain.Move) (verdict, error) {
	var j verdict
	cmd := recovery.Command{Text: m.Command, WorkingDir: m.WorkingDir}
	place, err := cage.Resolve(w.repo, m.WorkingDir)
	if err != nil {
		cmd.DirProblem = err.Error()
	}
	j.place = place
	p := w.k.policy
	var facts recovery.Facts
	if s := p.Settings; s.Sandbox.Required || s.OnUnknown == recovery.UnknownAllow {
		if w.box == nil {
			box, err := cage.Measure(ctx, w.spawner)
			if err != nil {
				return j, fmt.Errorf("finding out how commands can be confined: %w", err)
			}
			w.box = &box
		}
		facts.Confined = w.box.Level.Meets(cage.Landlock)
		facts.LooseOK = facts.Confined
	}
	j.Verdict = recovery.Decide(p, cmd, facts)
	if j.Decision == action.Auto && j.Analysis != nil {
		if p.Settings.Guard != recovery.GuardOff {
			facts.Changed = w.changed(ctx, p, j.Analysis, cmd)
		}
		if facts.Changed == "" {
			facts.Changed = w.strange(j.Analysis, place)
		}
		if facts.Changed != "" {
			j.Verdict = recovery.Decide(p, cmd, facts)
		}
	}
	j.Verdict = recovery.Limit(p, j.Verdict, recovery.Budget{Used: w.used, Waits: true}, time.Now())
	return j, nil
}

// changed says what of the files that a listed command reads is not as it was
// committed: an agent may have worked here.
func (w *walker) changed(ctx context.Context, p *recovery.Policy, a *recovery.Analysis, cmd recovery.Command) string {
	query := func(a *recovery.Analysis, dir string) guard.Query {
		q := guard.Query{WorkingDir: dir, Mode: guard.Mode(p.Settings.Guard), Repo: w.repo}
		for _, part := range a.Parts {
			q.Commands = append(q.Commands, part.Words)
		}
		return q
	}
	unseen := func(err error) string { return "what it reads cannot be looked at: " + text.Display(err.Error()) }
	if w.baseline == nil {
		req := guard.Request{Repo: w.repo, File: filepath.Join(w.private, "guard.json"), From: guard.Head, Time: time.Now()}
		for _, entry := range p.Settings.AutoApprove {
			req.Queries = append(req.Queries, query(recovery.Analyse(entry), ""))
		}
		base, err := guard.Take(ctx, w.a.disk, req)
		if errors.Is(err, guard.ErrNoHead) {
			req.From = guard.Now
			base, err = guard.Take(ctx, w.a.disk, req)
		}
		if err != nil {
			return unseen(err)
		}
		w.baseline = base
	}
	tree, err := guard.Open(w.repo)
	if err != nil {
		return unseen(err)
	}
	defer func() { _ = tree.Close() }() // it was only read
	report, err := guard.Check(w.baseline, tree, query(a, cmd.WorkingDir))
	if err != nil {
		return unseen(err)
	}
	return guard.Summary(report.Changes)
}

// strange says what is wrong with a program that the command names: it is found in
// the repository by its name alone, or others may write it.
func (w *walker) strange(a *recovery.Analysis, place cage.Place) string {
	path := ""
	for _, e := range cage.Environment(os.Environ(), nil, w.repo, "") {
		if v, ok := strings.CutPrefix(e, "PATH="); ok {
			path = v
		}
	}
	dir := filepath.Join(w.repo, place.Dir)
	for _, part := range a.Parts {
		if len(part.Words) == 0 || part.Words[0] == guard.Unknown {
			continue
		}
		_, err := guard.Resolve(part.Words[0], dir, path, w.repo)
		var bad *guard.ResolveError
		if errors.As(err, &bad) && bad.File != "" {
			if _, gone := os.Stat(bad.File); gone == nil {
				return text.Display(bad.Error())
			}
		}
	}
	return ""
}

// Bounds of a cure, and of what is kept of those that ran.
const (
	cureGrace = 5 * time.Second
	undoKeep  = 20
	undoAge   = 14 * 24 * time.Hour
)

// executed is how a cure went.
type executed struct {
	exit   rules.Exit
	output string
	dir    string
	note   string
}

func (e executed) how() string {
	s := fmt.Sprintf("exit code %d", e.exit.Code)
	switch {
	case e.note != "":
		s = e.note
	case e.exit.TimedOut:
		s = "it did not end in time"
	case e.exit.Signal != "":
		s = "ended by " + e.exit.Signal
	}
	last := ""
	for line := range strings.Lines(e.output) {
		if t := strings.TrimSpace(line); t != "" {
			last = t
		}
	}
	if last != "" {
		s += ": " + text.Display(last[:min(len(last), 300)])
	}
	return s
}

// execute runs a cure in the cage.
func (w *walker) execute(ctx context.Context, m chain.Move, j verdict) (executed, error) {
	set := w.k.policy.Settings
	timeout := min(msec(m.TimeoutMS), set.MaxTimeout())
	if timeout <= 0 {
		timeout = recovery.DefaultTimeout
	}
	tmp, remove, err := cage.NewTmp(os.TempDir())
	if err != nil {
		return executed{}, err
	}
	base := os.Environ()
	env := cage.Environment(base, set.EnvPassthrough, w.repo, tmp)
	home, path := w.a.env("HOME"), w.a.env("PATH")
	writable := append([]string{tmp}, cage.Caches(home, path)...)
	for _, c := range set.Sandbox.Caches {
		if rest, ok := strings.CutPrefix(c, "~/"); ok {
			c = filepath.Join(home, rest)
		}
		writable = append(writable, c)
	}
	spec := cage.Spec{Command: m.Command, Place: j.place, Env: env, Writable: writable, Protected: cage.Protected(w.repo),
		Hidden: append(cage.Sockets(), w.paths.State), Network: cage.Network(set.NetworkOf(m.Command)), Timeout: timeout, Grace: cureGrace,
		Hurry: w.a.hurry, Output: w.a.stderr, Secrets: cage.Secrets(base), Marker: "SUPERLOOP_MARK=" + w.ch.ID}
	if set.Sandbox.Required {
		spec.Required = cage.Landlock
	}
	res, err := cage.Run(ctx, w.spawner, spec)
	err = errors.Join(err, remove())
	e := executed{dir: filepath.Join(w.repo, j.place.Dir), output: res.Output.Text(),
		exit: rules.Exit{Code: max(res.Code, 0), Signal: res.Signal, TimedOut: res.Ended == proc.TimedOut, Duration: res.Duration}}
	if res.Ended == cage.OutputLimit {
		e.note, e.exit.Code = "it was stopped because it printed too much", 1
	}
	if len(res.Appeared) > 0 {
		w.say("look at what it made where superloop or git would act on it: %s", text.Display(strings.Join(res.Appeared, ", ")))
	}
	return e, err
}

func (w *walker) undoStore() undo.Store {
	return undo.Store{Disk: w.a.disk, Dir: w.paths.Undo(), Repo: w.repo}
}

// keep keeps what a cure is about to delete or overwrite. What goes wrong is said
// and stops nothing: the environment is broken, and a full disk is one way.
func (w *walker) keep(ctx context.Context, m chain.Move, n int) (id, note string) {
	var commands [][]string
	for _, p := range recovery.Analyse(m.Command).Parts {
		commands = append(commands, p.Words)
	}
	targets, err := undo.Plan(w.repo, m.WorkingDir, commands)
	if err != nil {
		return "", "nothing is kept for undo: " + err.Error()
	}
	k, err := w.undoStore().Keep(ctx, undo.Request{Targets: targets, Caps: undo.DefaultCaps(), Time: time.Now(),
		Label: undo.Label{Run: w.ch.ID, Recovery: n, Command: m.Command}})
	switch {
	case err != nil:
		return "", "nothing is kept for undo: " + err.Error()
	case len(k.NotKept) > 0:
		note = fmt.Sprintf("not kept for undo: %s (%s)", k.NotKept[0].Path, k.NotKept[0].Why)
	}
	return k.ID, note
}

// seal records what a cure has left behind, and drops old sets.
func (w *walker) seal(ctx context.Context, id string) {
	ctx = context.WithoutCancel(ctx)
	s := w.undoStore()
	if err := s.Seal(ctx, id); err != nil {
		w.say("superloop undo will take what the cure changed for somebody else's: %v", err)
	}
	if _, err := s.Prune(ctx, undoKeep, undoAge, time.Now()); err != nil {
		w.say("old sets of undo stay: %v", err)
	}
}
