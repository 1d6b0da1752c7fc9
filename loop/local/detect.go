package local

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"time"

	"github.com/superloop/superloop/loop"

	"go.uber.org/zap"

	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/recovery/classify"
	"github.com/superloop/superloop/recovery/respond"
	"github.com/superloop/superloop/roles"
)

// insists are what a turn that ended well must have left, or it has failed.
func (d *driver) insists(role config.Role) []string {
	if list := d.loop.Respond.Insist; list != nil {
		return list
	}
	if len(role.Runners) > 1 {
		return []string{config.InsistReport}
	}
	return nil
}

// before are the facts about a role's start that tell whether it did anything.
type before struct {
	tree string
}

// lookBefore takes them, as far as they are asked for.
func (d *driver) lookBefore(ctx context.Context, role config.Role) before {
	var b before
	if role.Name == roles.Implementer && slices.Contains(d.insists(role), config.InsistChange) {
		b.tree = d.treeNow(ctx)
	}
	return b
}

// treeNow is the work tree's signature, "" where it cannot be had.
func (d *driver) treeNow(ctx context.Context) string {
	sig, err := d.lookAtTree(ctx)
	if err != nil {
		d.log.Warn("whether the role changes anything cannot be told", zap.Error(err))
	}
	return sig
}

// detect finds out whether a run has failed, and how, and puts that into its fact.
// ended is when the process was gone; ground what rules say of its output, which
// took so many microseconds.
func (d *driver) detect(ctx context.Context, f *loop.RoleEnded, role config.Role, who respond.Agent, b before, ended time.Time, ground *respond.Ground, took int64) {
	if d.state.Plan.Respond == nil {
		return
	}
	must := d.insists(role)
	asked := func(what string) bool {
		return slices.Contains(must, what) && f.Outcome == loop.OutcomeOK && !f.Proposal
	}
	o := respond.RoleOutcome{Task: d.task(f.Role), Agent: who, RunID: d.state.RunID, Iteration: d.state.Iteration, Attempt: f.Attempt,
		Outcome: f.Outcome, ExitCode: f.ExitCode, Signal: f.Signal, Class: f.Class, Error: f.Error, DurationMS: f.DurationMS,
		Output: f.Output, MustReport: asked(config.InsistReport) && f.OutputFile != "", Ground: ground, At: d.host.Now(d.state)}
	if f.Limit != nil {
		o.Until = f.Limit.Until
	}
	if asked(config.InsistDifference) && f.Output == string(roles.Fresh) {
		if text, _, err := roles.ReadRegular(d.paths.File(f.OutputFile), maxReport, 0); err == nil {
			sum := sha256.Sum256([]byte(text))
			f.Digest = hex.EncodeToString(sum[:8])
		}
		o.MustDiffer, o.Digest, o.LastDigest = true, f.Digest, d.state.LastRoles[f.Role].Digest
	}
	if asked(config.InsistChange) && b.tree != "" {
		o.MustChange, o.TreeBefore, o.Tree = true, b.tree, d.treeNow(ctx)
	}
	ev, failed := respond.Detect(o, classify.Signature)
	if failed && f.Outcome == loop.OutcomeOK {
		f.Outcome, f.Error, f.Category = loop.OutcomeUnfit, ev.Why, string(ev.Kind)
	}
	if failed {
		f.Failure = &loop.FailureFact{Event: ev, ClassifyUS: took}
	}
	tripped := d.ended(who, f)
	f.Alerts = d.watch(who, f)
	if !failed {
		return
	}
	d.whyEverywhere(ctx, f)
	x := f.Failure
	x.Tripped, x.Candidates = tripped, d.candidates(role)
	begun := time.Now()
	l := respond.New(o.Task, who, d.state.Plan.Respond.Limits, o.At)
	if have := d.state.Response.Ladder; have != nil && have.Phase == respond.Working {
		l = *have
	}
	_, _ = respond.Next(l, ev, x.Candidates, o.At) // the machine does it again, in a world without a clock
	x.RespondUS = time.Since(begun).Microseconds()
	x.DetectMS = time.Since(ended).Milliseconds()
}

// whyEverywhere looks for the cause of failures that are more than this role's, by
// rules, and puts it into their alerts.
func (d *driver) whyEverywhere(ctx context.Context, f *loop.RoleEnded) {
	if !slices.ContainsFunc(f.Alerts, func(a respond.Alert) bool { return a.Analyse }) {
		return
	}
	e := f.Failure.Event
	h := d.state.Response.History.Clone()
	h.Add(e, respond.RungNone)
	rc := respond.Analyse(respond.Case{RunID: d.state.RunID, Iteration: d.state.Iteration, Task: e.Task, History: h.Of(e.Task), Facts: d.facts(ctx, nil, nil)}, e.At)
	if rc.Type == respond.CauseUnknown {
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
