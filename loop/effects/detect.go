package effects

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/recovery/classify"
	"github.com/superloop/superloop/recovery/failures"
	"github.com/superloop/superloop/roles"
)

// insists are what a turn that ended well must have left, or it has failed.
func (r *Roles) insists(role config.Role) []string {
	if list := r.Settings().Loop.Respond.Insist; list != nil {
		return list
	}
	if len(role.Runners) > 1 {
		return []string{config.InsistReport}
	}
	return nil
}

// treeBefore is the signature of the tree before a role that must change something, "" for others.
func (r *Roles) treeBefore(ctx context.Context, s loop.State, role config.Role) string {
	if role.Name != roles.Implementer || !slices.Contains(r.insists(role), config.InsistChange) {
		return ""
	}
	return r.treeNow(ctx, s)
}

// treeNow is the work tree's signature, "" where it cannot be had.
func (r *Roles) treeNow(ctx context.Context, s loop.State) string {
	sig, err := r.Tree.Look(ctx, s)
	if err != nil {
		r.Log.Warn("whether the role changes anything cannot be told", zap.Error(err))
	}
	return sig
}

// run is what is known of a run besides its fact.
type run struct {
	role       config.Role
	who        failures.Agent
	tree       string               // treeBefore
	ended      time.Time            // the process was gone
	known      *failures.Classified // what rules say of its output
	classifyUS int64                // how long they took
}

// detect finds out whether a run has failed, and how, and puts that into its fact.
func (r *Roles) detect(ctx context.Context, s loop.State, f *loop.RoleEnded, x run) {
	if s.Plan.Respond == nil {
		return
	}
	must := r.insists(x.role)
	asked := func(what string) bool {
		return slices.Contains(must, what) && f.Outcome == loop.OutcomeOK && !f.Proposal
	}
	o := failures.RoleOutcome{Task: r.Task(f.Role), Agent: x.who, RunID: s.RunID, Iteration: s.Iteration, Attempt: f.Attempt,
		Outcome: f.Outcome, ExitCode: f.ExitCode, Signal: f.Signal, Class: f.Class, Error: f.Error, DurationMS: f.DurationMS,
		Output: f.Output, MustReport: asked(config.InsistReport) && f.OutputFile != "", Classified: x.known, At: r.Now(s)}
	if f.Limit != nil {
		o.Until = f.Limit.Until
	}
	if asked(config.InsistDifference) && f.Output == string(roles.Fresh) {
		if text, _, err := roles.ReadRegular(r.Paths.File(f.OutputFile), maxReport, 0); err == nil {
			sum := sha256.Sum256([]byte(text))
			f.Digest = hex.EncodeToString(sum[:8])
		}
		o.MustDiffer, o.Digest, o.LastDigest = true, f.Digest, s.LastRoles[f.Role].Digest
	}
	if asked(config.InsistChange) && x.tree != "" {
		o.MustChange, o.TreeBefore, o.Tree = true, x.tree, r.treeNow(ctx, s)
	}
	ev, failed := failures.Detect(o, classify.Signature)
	if failed && f.Outcome == loop.OutcomeOK {
		f.Outcome, f.Error, f.Category = loop.OutcomeUnfit, ev.Why, string(ev.Kind)
	}
	if failed {
		f.Failure = &loop.FailureFact{Event: ev, ClassifyUS: x.classifyUS}
	}
	tripped, alerts := r.Runners.end(s, x.who, f)
	f.Alerts = alerts
	if !failed {
		return
	}
	r.whyEverywhere(ctx, s, f)
	f.Failure.Tripped, f.Failure.Candidates = tripped, r.Runners.Candidates(s, f.Role)
	begun := r.Clock()
	l := failures.New(o.Task, x.who, s.Plan.Respond.Limits, o.At)
	if have := s.Response.Policy; have != nil && have.Phase == failures.Working {
		l = *have
	}
	_, _ = failures.Next(l, ev, f.Failure.Candidates, o.At) // the machine does it again, in a world without a clock
	now := r.Clock()
	f.Failure.RespondUS = now.Sub(begun).Microseconds()
	f.Failure.DetectMS = now.Sub(x.ended).Milliseconds()
}

// whyEverywhere looks for the cause of failures that are more than this role's, by
// rules, and puts it into their alerts.
func (r *Roles) whyEverywhere(ctx context.Context, s loop.State, f *loop.RoleEnded) {
	if !slices.ContainsFunc(f.Alerts, func(a failures.Alert) bool { return a.Analyse }) {
		return
	}
	e := f.Failure.Event
	h := s.Response.History.Clone()
	h.Add(e, failures.StepNone)
	rc := failures.Analyse(failures.Case{RunID: s.RunID, Iteration: s.Iteration, Task: e.Task, History: h.Of(e.Task), Facts: r.Failures.Facts(ctx, s)}, e.At)
	if rc.Type == failures.CauseUnknown {
		return
	}
	for i := range f.Alerts {
		if f.Alerts[i].Analyse {
			f.Alerts[i].Cause = rc.Description
		}
	}
}

// maxReport bounds how much of a report is compared with the last one.
const maxReport = 1 << 20
