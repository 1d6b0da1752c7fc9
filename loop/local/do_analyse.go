package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/superloop/superloop/loop"

	"go.uber.org/zap"

	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/loop/effects"
	"github.com/superloop/superloop/recovery"
	"github.com/superloop/superloop/recovery/action"
	"github.com/superloop/superloop/recovery/classify"
	"github.com/superloop/superloop/recovery/preflight"
	"github.com/superloop/superloop/recovery/remedy"
	"github.com/superloop/superloop/recovery/respond"
	"github.com/superloop/superloop/roles"
)

// rootCauseFile is what an analysis came to, for people and for the next role.
const rootCauseFile = "root-cause.json"

// Bounds of what an analysis looks at.
const (
	maxCommits = 20
	maxOutput  = 32 << 10 // bytes of an output that a diagnostician is shown
)

// surelyKnown is the confidence from which nobody is asked besides, and a cure is
// tried.
const surelyKnown = 0.7

// analyse looks for the cause of what has failed again: by rules, and by the
// diagnostician if there is one and no rule is sure.
func (d *driver) analyse(ctx context.Context, e loop.Effect) (loop.Fact, error) {
	began := time.Now()
	c, outputs, err := d.caseOf(ctx, e)
	if err != nil {
		return nil, err
	}
	rc := respond.Analyse(c, d.host.Now(d.state))
	f := loop.Analysed{EffectID: e.ID}
	if who := d.loop.Respond.Diagnostician; who != nil && rc.Confidence < surelyKnown {
		if rc, err = d.askDiagnostician(ctx, e, *who, c, outputs, rc, &f); err != nil {
			return nil, err
		}
	}
	if ctx.Err() != nil {
		return nil, nil // the supervisor leaves; what was found is found again
	}
	f.AnalysedFields, f.Analysis, f.WhyChain = rc.Fields(e.Role, time.Since(began)), rc.Analysis(), rc.WhyChain
	f.Instruction, f.Evidence = rc.Fix.Instruction, []string{}
	for _, q := range rc.Evidence {
		f.Evidence = append(f.Evidence, quoted(q))
	}
	if rc.Fix.Kind == respond.FixEnvironment && rc.Fix.Command != "" && rc.Confidence >= surelyKnown {
		a := action.Draft{Command: rc.Fix.Command, WorkingDir: ".", TimeoutMS: recovery.DefaultTimeout.Milliseconds(),
			Expected: "the " + e.Role + " can do its work", Confidence: "high"}.Action()
		f.Command = &a
	}
	if e.Reason != loop.TestsTask {
		f.Candidates = d.runners.Candidates(d.state, e.Role)
	}
	if f.File, err = d.writeCause(rc); err != nil {
		return nil, err
	}
	return f, d.prevent(ctx, rc)
}

func quoted(q respond.Quote) string {
	switch {
	case q.File != "" && q.Line > 0:
		return fmt.Sprintf("%s:%d: %s", q.File, q.Line, q.Text)
	case q.Source != "":
		return q.Source + ": " + q.Text
	}
	return q.Text
}

func (d *driver) writeCause(rc respond.RootCause) (string, error) {
	data, err := json.MarshalIndent(rc, "", "  ")
	if err != nil {
		return "", fmt.Errorf("writing %s: %w", rootCauseFile, err)
	}
	return d.paths.Rel(d.paths.File(rootCauseFile)), d.host.Write(rootCauseFile, append(data, '\n'))
}

// prevent adds the check that would have told of the cause before a role was
// started.
func (d *driver) prevent(ctx context.Context, rc respond.RootCause) error {
	check, ok := rc.Check()
	if !ok {
		if check, ok = rc.Suspicion(); !ok || !d.brokenNow(ctx, check) {
			return nil
		}
	}
	var added respond.Prevention
	isNew := false
	bounded, stop := context.WithTimeout(context.WithoutCancel(ctx), storeTime)
	defer stop()
	if _, err := d.preventions().Update(bounded, func(ps *respond.Preventions) bool {
		p, fresh, err := ps.Add(check, d.host.Now(d.state))
		if err != nil {
			d.log.Warn("a check could not be added", zap.Error(err))
			return false
		}
		added, isNew = p, fresh
		return fresh
	}); err != nil {
		d.log.Warn("a check could not be kept", zap.Error(err))
		return nil
	}
	if !isNew {
		return nil
	}
	return d.record(respond.EventPrevention, respond.PreventionFields{ID: added.ID, Check: added.Kind, Category: rc.Category, Reason: added.Reason,
		By: added.AddedBy, Cause: rc.ID})
}

// caseOf is everything that rules look at: the failures, what was printed, what
// has changed since it worked, and what rules know as a cure.
func (d *driver) caseOf(ctx context.Context, e loop.Effect) (respond.Case, []respond.Output, error) {
	c := respond.Case{RunID: d.state.RunID, Iteration: d.state.Iteration, Task: d.host.Task(e.Role)}
	var failure classify.Failure
	var output respond.Output
	var err error
	if e.Reason == loop.TestsTask {
		failure, output, err = d.failedTests(ctx)
		c.History = d.testHistory(failure)
	} else {
		failure, output, err = d.failedRole(ctx, e.Role)
		c.History = d.roleHistory(e.Role)
	}
	switch {
	case ctx.Err() != nil:
		return c, nil, errors.Join(ctx.Err(), err)
	case err != nil:
		d.log.Warn("what has failed could not be classified for its cause", zap.Error(err))
	}
	for _, ev := range failure.Evidence {
		c.Evidence = append(c.Evidence, respond.Quote{Source: output.Source, File: ev.File, Line: ev.FileLine, Text: ev.Text})
	}
	c.Captures = failure.Captures
	if failure.Infra && d.aid != nil {
		plan := remedy.Resolve(d.aid.cat, failure, d.aid.profile, remedy.Situation{Dir: d.repo.Top, FailedCommand: failure.Command, Score: d.executor.Score(failure.Signature)})
		c.Command = cureOf(plan)
	}
	c.Facts = d.facts(ctx, c.Evidence, c.Captures)
	return c, []respond.Output{output}, nil
}

// cureOf is the command of the first option that superloop itself can carry out
// now.
func cureOf(p remedy.Plan) string {
	for _, o := range p.Options {
		if o.Command != "" && o.Availability == remedy.Ready && string(o.Executor) == "wrapper" && !o.Plain() {
			return o.Command
		}
	}
	return ""
}

// failedRole is what rules say of the log of the role's last run.
func (d *driver) failedRole(ctx context.Context, role string) (classify.Failure, respond.Output, error) {
	r := d.state.Roles[role]
	log := d.host.RoleFiles(d.state.Iteration, role, r.Attempt).Log
	text, _, err := roles.ReadRegular(log, maxOutput/4, maxOutput*3/4)
	out := respond.Output{Source: d.paths.Rel(log), Text: text}
	if err != nil {
		return classify.Failure{}, out, err
	}
	f, err := d.failureOfRole(ctx, roleFailure{r.Runner, r.ExitCode, r.Signal, r.Outcome, r.DurationMS}, log)
	return f, out, err
}

// roleHistory are the failures of this ladder.
func (d *driver) roleHistory(role string) []respond.Entry {
	all := d.state.Response.History.Of(d.host.Task(role))
	for i, e := range all {
		if e.RunID == d.state.RunID && e.Iteration == d.state.Iteration {
			return all[i:]
		}
	}
	return all[max(0, len(all)-1):]
}

// failedTests is what rules say of the first command of the tests that failed.
func (d *driver) failedTests(ctx context.Context) (classify.Failure, respond.Output, error) {
	file := d.paths.File("test-output.txt")
	text, _, err := roles.ReadRegular(file, maxOutput/2, maxOutput/2)
	out := respond.Output{Source: d.paths.Rel(file), Text: text}
	if err != nil || len(d.state.TestOutputs) == 0 {
		return classify.Failure{}, out, err
	}
	a, err := d.rulesOfAid()
	if err != nil {
		return classify.Failure{}, out, err
	}
	f, err := d.classifyTests(ctx, a, d.state.TestOutputs[0])
	return f, out, err
}

// testHistory are the runs of the tests that failed in the same way.
func (d *driver) testHistory(f classify.Failure) []respond.Entry {
	s := d.state.Response.Same
	what := "the tests fail"
	if len(d.state.TestFailures) > 0 {
		what = fmt.Sprintf("%s ends with exit code %d", d.state.TestFailures[0].Command, d.state.TestFailures[0].ExitCode)
	}
	e := respond.Entry{Agent: respond.Agent{Runner: d.state.Roles[roles.Implementer].Runner}, RunID: d.state.RunID, Kind: respond.KindExit,
		Class: respond.Unknown, Category: f.Category, Handler: f.Handler, Blame: respond.BlameTask, Signature: s.Signature, Counted: true, Why: what}
	if e.Category == "" {
		e.Category = classify.CategoryUnknown
	}
	switch {
	case f.Code:
		e.Class = respond.Code
	case f.Infra:
		e.Class, e.Blame = respond.Environment, respond.BlameGround
	}
	var out []respond.Entry
	for n := max(s.Count, 1); n > 0; n-- {
		e.Iteration = d.state.Iteration - n + 1
		out = append(out, e)
	}
	return out
}

// facts are what is known of the environment.
func (d *driver) facts(ctx context.Context, evidence []respond.Quote, captures map[string]string) respond.Facts {
	var f respond.Facts
	was, err := d.snapshots.Store().Load()
	if err != nil {
		d.log.Warn("the environment of the last success cannot be read", zap.Error(err))
	}
	f.Changes = respond.Compare(was, d.snapshots.Current(d.state))
	since := was.At
	if since.IsZero() {
		since = d.state.StartedAt
	}
	commits, err := d.repo.Recent(ctx, since, maxCommits)
	if err != nil {
		d.log.Warn("the last commits cannot be looked at", zap.Error(err))
	}
	for _, c := range commits {
		f.Commits = append(f.Commits, respond.CommitFact{SHA: c.SHA, At: c.At, Subject: c.Subject, Files: c.Files})
	}
	if w, err := d.runners.WatchStore().Load(); err == nil {
		for _, s := range w.Samples {
			if s.Failed && s.Loop != d.o.LoopID {
				f.Others = append(f.Others, respond.Elsewhere{Loop: s.Loop, Category: s.Category, Provider: s.Agent.Provider, At: s.At})
			}
		}
	}
	if p := captures["path"]; p != "" {
		evidence = append(evidence, respond.Quote{File: p})
	}
	f.Exists = preflight.LookFor(d.repo.Top, evidence)
	return f
}

func (d *driver) preventions() preflight.Store[respond.Preventions] {
	return preflight.Store[respond.Preventions]{Disk: d.o.Disk, Path: d.paths.Preventions()}
}

// causeFiles are the prompt, log and answer of the diagnostician.
func (d *driver) causeFiles(id string) effects.RoleFiles {
	base := filepath.Join(d.paths.Logs(d.state.Iteration), loop.Diagnostician+"."+id)
	return effects.RoleFiles{Prompt: base + ".prompt.md", Log: base + ".log", Last: base + ".answer.md"}
}

// diagnosticianRole is the diagnostician as a role: its runner and its bounds.
func (d *driver) diagnosticianRole(who config.Diagnostician, e loop.Effect) config.Role {
	r := config.Role{Name: loop.Diagnostician, Runner: who.Runner, Model: who.Model, Timeout: who.Timeout, Permissions: "read-only"}
	if r.Timeout <= 0 {
		r.Timeout = d.loop.Respond.AnalysisTime
	}
	if left := e.Until.Sub(d.host.Now(d.state)); !e.Until.IsZero() && (r.Timeout <= 0 || left < r.Timeout) {
		r.Timeout = max(left, time.Second)
	}
	return r
}

// classifyTests is what rules say of what a command of the tests has printed.
func (d *driver) classifyTests(ctx context.Context, a *aid, span loop.OutputSpan) (classify.Failure, error) {
	in := classify.Input{Source: loop.FailedTests, Command: span.Command, Dir: d.repo.Top, Merged: true, Probes: d.probes(),
		Exit: classify.Exit{Code: span.ExitCode, Signal: span.Signal, TimedOut: span.TimedOut}}
	if in.Exit.OK() {
		in.Exit.Code = 1
	}
	if out, err := os.Open(d.paths.File("test-output.txt")); err == nil {
		defer out.Close()
		in.Stdout = io.NewSectionReader(out, span.From, span.To-span.From)
	}
	return a.classifier.Classify(ctx, in)
}
