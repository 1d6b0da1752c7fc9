package failures

import (
	"context"
	"fmt"

	"go.uber.org/zap"

	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/worktree"
	"github.com/superloop/superloop/recovery/classify"
	"github.com/superloop/superloop/recovery/failures"
	"github.com/superloop/superloop/recovery/preflight"
	"github.com/superloop/superloop/recovery/remedy"
	"github.com/superloop/superloop/roles"
)

// Bounds of what an analysis looks at.
const (
	maxCommits = 20
	maxOutput  = 32 << 10 // bytes of an output that a diagnostician is shown
)

// caseOf is everything that rules look at: the failures, what was printed, what has changed since it worked, and what
// rules know as a remedy. It also gives what a diagnostician is shown of the outputs.
func (f *Performer) caseOf(ctx context.Context, e loop.Effect, s loop.State) (failures.Case, []failures.Output) {
	c := failures.Case{RunID: s.RunID, Iteration: s.Iteration, Task: f.Task(e.Role)}
	var failure classify.Failure
	var shown failures.Output
	var err error
	if e.Reason == loop.TestsTask {
		failure, shown, err = f.failedTests(ctx, s)
		c.History = testHistory(s, failure)
	} else {
		failure, shown, err = f.failedRole(ctx, s, e.Role)
		c.History = f.roleHistory(s, e.Role)
	}
	if err != nil && ctx.Err() == nil {
		f.Log.Warn("what has failed could not be classified for its cause", zap.Error(err))
	}
	for _, ev := range failure.Evidence {
		c.Evidence = append(c.Evidence, failures.Quote{Source: shown.Source, File: ev.File, Line: ev.FileLine, Text: ev.Text})
	}
	c.Captures = failure.Captures
	if failure.Infra {
		b := f.Rules.read() // they have classified it
		plan := remedy.Resolve(b.cat, failure, b.profile, remedy.Situation{Dir: f.Repo.Top, FailedCommand: failure.Command, Score: f.Score(failure.Signature)})
		c.Command = remedyOf(plan)
	}
	c.Facts = f.facts(ctx, s, c.Evidence, c.Captures)
	return c, []failures.Output{shown}
}

// remedyOf is the command of the first option that superloop itself can carry out now.
func remedyOf(p remedy.Plan) string {
	for _, o := range p.Options {
		if o.Command != "" && o.Availability == remedy.Ready && string(o.Executor) == "wrapper" && !o.Plain() {
			return o.Command
		}
	}
	return ""
}

func (f *Performer) failedRole(ctx context.Context, s loop.State, role string) (classify.Failure, failures.Output, error) {
	r := s.Roles[role]
	log := f.RoleFiles(s.Iteration, role, r.Attempt).Log
	text, _, err := roles.ReadRegular(log, maxOutput/4, maxOutput*3/4)
	out := failures.Output{Source: f.Paths.Rel(log), Text: text}
	if err != nil {
		return classify.Failure{}, out, err
	}
	failure, err := f.failureOfRole(ctx, r, log)
	return failure, out, err
}

// roleHistory are the failures of the task that the policy has counted so far.
func (f *Performer) roleHistory(s loop.State, role string) []failures.Entry {
	all := s.Response.History.Of(f.Task(role))
	for i, e := range all {
		if e.RunID == s.RunID && e.Iteration == s.Iteration {
			return all[i:]
		}
	}
	return all[max(0, len(all)-1):]
}

func (f *Performer) failedTests(ctx context.Context, s loop.State) (classify.Failure, failures.Output, error) {
	file := f.Paths.File(testOutput)
	text, _, err := roles.ReadRegular(file, maxOutput/2, maxOutput/2)
	out := failures.Output{Source: f.Paths.Rel(file), Text: text}
	if err != nil || len(s.TestOutputs) == 0 {
		return classify.Failure{}, out, err
	}
	b, err := f.Rules.load(f.Journal)
	if err != nil {
		return classify.Failure{}, out, err
	}
	in, where := f.failedCommand(s.TestOutputs[0])
	failure, err := f.classify(ctx, b, in, where)
	return failure, out, err
}

// testHistory are the runs of the tests that failed in the same way.
func testHistory(s loop.State, failure classify.Failure) []failures.Entry {
	same := s.Response.Same
	what := "the tests fail"
	if len(s.TestFailures) > 0 {
		what = fmt.Sprintf("%s ends with exit code %d", s.TestFailures[0].Command, s.TestFailures[0].ExitCode)
	}
	e := failures.Entry{Agent: failures.Agent{Runner: s.Roles[roles.Implementer].Runner}, RunID: s.RunID, Kind: failures.KindExit,
		Class: failures.Unknown, Category: failure.Category, Handler: failure.Handler, Blame: failures.BlameTask, Signature: same.Signature, Counted: true, Why: what}
	if e.Category == "" {
		e.Category = classify.CategoryUnknown
	}
	switch {
	case failure.Code:
		e.Class = failures.Code
	case failure.Infra:
		e.Class, e.Blame = failures.Environment, failures.BlameEnvironment
	}
	var out []failures.Entry
	for n := max(same.Count, 1); n > 0; n-- {
		e.Iteration = s.Iteration - n + 1
		out = append(out, e)
	}
	return out
}

// Facts are what is known of the environment: what has changed since the last success, and what fails in other loops.
func (f *Performer) Facts(ctx context.Context, s loop.State) failures.Facts {
	return f.facts(ctx, s, nil, nil)
}

func (f *Performer) facts(ctx context.Context, s loop.State, evidence []failures.Quote, captures map[string]string) failures.Facts {
	var facts failures.Facts
	was, now := f.Environment(s)
	facts.Changes = failures.Compare(was, now)
	since := was.At
	if since.IsZero() {
		since = s.StartedAt
	}
	commits, err := f.Repo.Recent(ctx, since, maxCommits)
	f.Warn("the last commits cannot be looked at", err)
	facts.Commits = loop.Map(commits, func(c worktree.Committed) failures.CommitFact {
		return failures.CommitFact{SHA: c.SHA, At: c.At, Subject: c.Subject, Files: c.Files}
	})
	if w, err := f.WatchStore().Load(); err == nil {
		for _, x := range w.Samples {
			if x.Failed && x.Loop != f.LoopID {
				facts.Others = append(facts.Others, failures.Elsewhere{Loop: x.Loop, Category: x.Category, Provider: x.Agent.Provider, At: x.At})
			}
		}
	}
	if p := captures["path"]; p != "" {
		evidence = append(evidence, failures.Quote{File: p})
	}
	facts.Exists = preflight.LookFor(f.Repo.Top, evidence)
	return facts
}
