package stats

import (
	"cmp"
	"slices"
	"time"

	"github.com/superloop/superloop/loop/journal"
)

// clock measures the time in which a loop is active.
type clock struct {
	last           time.Time
	ended, waiting bool
}

// tick returns the active time between the last event and ev. asked is the type of the question, if ev is one.
func (c *clock) tick(ev journal.Event, asked string) time.Duration {
	gap := time.Duration(0)
	if !c.last.IsZero() && !c.ended && !c.waiting {
		gap = max(0, ev.Timestamp.Sub(c.last))
	}
	c.last = ev.Timestamp
	switch ev.Event {
	case "loop_start":
		gap = 0 // nobody supervised the loop before its start
		c.ended, c.waiting = false, false
	case "loop_resume":
		gap, c.ended = 0, false
	case "loop_stop", "loop_complete":
		c.ended = true
	case "recovery_escalated":
		// The loop goes on while a question about a changed configuration is open.
		c.waiting = asked != "policy_change"
	case "rate_limit_wait", "approval_requested":
		c.waiting = true
	case "rate_limit_over", "approval_decided", "recovery_resolved", "role_start", "iteration_start", "tests_start", "tests_rerun_start",
		"validation_start", "recovery_executing":
		c.waiting = false
	}
	return gap
}

// Merge returns the figures of recoveries and questions of several loops together. It does not change the folds.
func Merge(folds ...*Fold) Recovery {
	var all recoveries
	for _, f := range folds {
		for _, s := range f.runs.all() {
			all.merge(&s.recoveries)
		}
	}
	return all.report()
}

func (r *recoveries) merge(o *recoveries) {
	addNumbers(&r.total, o.total)
	r.sources.plus(o.sources)
	r.categories.plus(o.categories)
	for i := range r.runs {
		a, b := &r.runs[i], &o.runs[i]
		addNumbers(&a.Executions, b.Executions)
		a.toStart, a.toVerified = append(a.toStart, b.toStart...), append(a.toVerified, b.toVerified...)
	}
	addNumbers(&r.aid.Remediation, o.aid.Remediation)
	r.aid.took = append(r.aid.took, o.aid.took...)
	a, b := &r.asked, &o.asked
	addNumbers(&a.Escalations, b.Escalations)
	a.active, a.took = a.active+b.active, append(a.took, b.took...)
	a.types.plus(b.types)
	a.methods.plus(b.methods)
}

func (r *recoveries) report() Recovery {
	asked, aid := r.asked.Escalations, r.aid.Remediation
	asked.Open = asked.Opened - asked.Resolved - asked.Dropped
	asked.ByType, asked.ByMethod = counts(r.asked.types), counts(r.asked.methods)
	asked.ActiveMS, asked.Resolution = r.asked.active.Milliseconds(), spread(r.asked.took)
	asked.PerIteration, asked.PerActiveHour = per(asked.Opened, float64(asked.Iterations)), per(asked.Opened, r.asked.active.Hours())
	aid.Took, aid.SavedIterations, aid.RemediedRate = spread(r.aid.took), aid.Remedied, per(aid.Remedied, float64(aid.Chains))
	return Recovery{Proposals: r.total, BySource: proposalGroups(r.sources), ByCategory: proposalGroups(r.categories),
		Auto: r.runs[0].report(), Approved: r.runs[1].report(), Escalations: asked, Remediation: aid}
}

func (e *executions) report() Executions {
	out := e.Executions
	out.ToStart, out.ToVerified = spread(e.toStart), spread(e.toVerified)
	out.SuccessRate = per(out.Verified, float64(out.Verified+out.Ineffective+out.Harmful+out.Failed))
	return out
}

// saved sets SavedTokens from the average tokens of the run's iterations.
func (a *Remediation) saved(total Sum[int64], iterations int) {
	if a.Remedied > 0 && total.Known != nil && iterations > 0 {
		a.SavedTokens = new(*total.Known / int64(iterations) * int64(a.Remedied))
	}
}

// per returns n divided by by, or nil if by is not positive.
func per(n int, by float64) *float64 {
	if by <= 0 {
		return nil
	}
	return new(float64(n) / by)
}

// mostFirst returns the figures of a tally with their names, the largest size first.
func mostFirst[T, G any](t tally[T], named func(string, T) G, size func(G) int) []G {
	out := []G{}
	for name, of := range t.all() {
		out = append(out, named(name, *of))
	}
	slices.SortStableFunc(out, func(a, b G) int { return cmp.Compare(size(b), size(a)) })
	return out
}

func proposalGroups(t tally[Proposals]) []ProposalGroup {
	return mostFirst(t, func(name string, p Proposals) ProposalGroup { return ProposalGroup{name, p} }, func(g ProposalGroup) int { return g.Proposed })
}

func counts(t tally[int]) []Count {
	return mostFirst(t, func(name string, n int) Count { return Count{name, n} }, func(c Count) int { return c.Count })
}

// spread computes the Spread of durations in any order. It does not change ms.
func spread(ms []int64) Spread {
	if len(ms) == 0 {
		return Spread{}
	}
	sorted := slices.Sorted(slices.Values(ms))
	rank := func(percent int) *int64 { return &sorted[(len(sorted)*percent+99)/100-1] }
	return Spread{Count: len(ms), MedianMS: rank(50), P90MS: rank(90), MaxMS: rank(100)}
}
