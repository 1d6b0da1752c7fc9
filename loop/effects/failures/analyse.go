package failures

import (
	"context"
	"encoding/json"
	"fmt"

	"go.uber.org/zap"

	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/effects"
	"github.com/superloop/superloop/recovery"
	"github.com/superloop/superloop/recovery/action"
	"github.com/superloop/superloop/recovery/failures"
)

// surelyKnown is the confidence from which nobody is asked besides, and a remedy is tried.
const surelyKnown = 0.7

// analyse looks for the cause of what has failed again: by rules, and by the
// diagnostician if there is one and no rule is sure.
func (f *Performer) analyse(ctx context.Context, e loop.Effect, s loop.State) (loop.Fact, error) {
	began := f.Clock()
	c, shown := f.caseOf(ctx, e, s)
	if ctx.Err() != nil {
		return nil, nil // what was found is found again
	}
	rc := failures.Analyse(c, f.Now(s))
	a := loop.Analysed{EffectID: e.ID}
	if f.Settings().Loop.Respond.Diagnostician != nil && rc.Confidence < surelyKnown {
		var err error
		if rc, err = f.askDiagnostician(ctx, e, s, c, shown, rc, &a); err != nil {
			return nil, err
		}
		if ctx.Err() != nil {
			return nil, nil
		}
	}
	a.AnalysedFields, a.Analysis, a.WhyChain = rc.Fields(e.Role, f.Clock().Sub(began)), rc.Analysis(), rc.WhyChain
	a.Instruction, a.Evidence = rc.Fix.Instruction, []string{}
	for _, q := range rc.Evidence {
		a.Evidence = append(a.Evidence, quoted(q))
	}
	if rc.Fix.Kind == failures.FixEnvironment && rc.Fix.Command != "" && rc.Confidence >= surelyKnown {
		remediate := action.Draft{Command: rc.Fix.Command, WorkingDir: ".", TimeoutMS: recovery.DefaultTimeout.Milliseconds(),
			Expected: "the " + e.Role + " can do its work", Confidence: "high"}.Action()
		a.Command = &remediate
	}
	if e.Reason != loop.TestsTask {
		a.Candidates = f.Roles.Candidates(s, e.Role)
	}
	var err error
	if a.File, err = f.writeCause(rc); err != nil {
		return nil, err
	}
	if err := f.prevent(ctx, s, rc); err != nil {
		return nil, err
	}
	return a, nil
}

func quoted(q failures.Quote) string {
	switch {
	case q.File != "" && q.Line > 0:
		return fmt.Sprintf("%s:%d: %s", q.File, q.Line, q.Text)
	case q.Source != "":
		return q.Source + ": " + q.Text
	}
	return q.Text
}

func (f *Performer) writeCause(rc failures.RootCause) (string, error) {
	data, err := json.MarshalIndent(rc, "", "  ")
	if err != nil {
		return "", fmt.Errorf("writing %s: %w", effects.RootCauseFile, err)
	}
	return f.Paths.Rel(f.Paths.File(effects.RootCauseFile)), f.Write(effects.RootCauseFile, append(data, '\n'))
}

// prevent adds the check that would have told of the cause before a role was started.
func (f *Performer) prevent(ctx context.Context, s loop.State, rc failures.RootCause) error {
	check, ok := rc.Check()
	if !ok {
		if check, ok = rc.Suspicion(); !ok || !f.brokenNow(ctx, s, check) {
			return nil
		}
	}
	var added failures.Prevention
	isNew := false
	if err := f.updateChecks(ctx, func(ps *failures.Preventions) bool {
		p, fresh, err := ps.Add(check, f.Now(s))
		if err != nil {
			f.Log.Warn("a check could not be added", zap.Error(err))
			return false
		}
		added, isNew = p, fresh
		return fresh
	}); err != nil {
		f.Log.Warn("a check could not be kept", zap.Error(err))
		return nil
	}
	if !isNew {
		return nil
	}
	return f.Journal.Record(failures.EventPrevention, failures.PreventionFields{ID: added.ID, Check: added.Kind, Category: rc.Category, Reason: added.Reason,
		By: added.AddedBy, Cause: rc.ID})
}
