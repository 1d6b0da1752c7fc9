package stats

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"
)

// recoveries is a Recovery while it grows.
type recoveries struct {
	total               Proposals
	sources, categories tally[Proposals]
	runs                [2]executions // by a rule, by a person
	asked               questions
	aid                 remediation
}

// tally keeps a figure for each name, in the order in which they came.
type tally[T any] struct {
	names []string
	of    map[string]*T
}

func (t *tally[T]) at(name string) *T {
	if v, ok := t.of[name]; ok {
		return v
	}
	if t.of == nil {
		t.of = map[string]*T{}
	}
	v := new(T)
	t.of[name] = v
	t.names = append(t.names, name)
	return v
}

// The outcomes of a command. Each that began has exactly one.
const (
	open = iota
	unknown
	failed
	verified
	ineffective
	harmful
	outcomes
)

type executions struct {
	begun, ok           int
	by                  [outcomes]int
	ms                  int64
	toStart, toVerified []int64
}

type questions struct {
	opened, resolved, dropped int
	types, methods            tally[int]
	iterations                int
	active                    time.Duration
	took                      []int64
}

// proposal is one that was judged, and what is known of it since.
type proposal struct {
	s                *section
	source, category string
	digest, verdict  string
	fallback         bool
	at               time.Time
	byPerson         bool
	run              *execution // the last one
}

// execution is one run of a proposal's command.
type execution struct {
	id            string
	who           int // 0: a rule let it run, 1: a person
	ended, judged bool
	outcome       int
}

// question is one that nobody has answered yet.
type question struct {
	s  *section
	at time.Time
}

func (r *recoveries) report() Recovery {
	out := Recovery{Proposals: r.total, BySource: proposalGroups(r.sources), ByCategory: proposalGroups(r.categories),
		Auto: r.runs[0].report(), Approved: r.runs[1].report()}
	out.Remediation = r.aid.report()
	q := r.asked
	out.Escalations = Escalations{Opened: q.opened, Resolved: q.resolved, Dropped: q.dropped, Open: q.opened - q.resolved - q.dropped,
		ByType: counts(q.types), ByMethod: counts(q.methods), Iterations: q.iterations, ActiveMS: q.active.Milliseconds(), Resolution: spread(q.took),
		PerIteration: per(float64(q.opened), float64(q.iterations)), PerActiveHour: per(float64(q.opened), q.active.Hours())}
	return out
}

func (e *executions) report() Executions {
	out := Executions{Executed: e.begun, Succeeded: e.ok, DurationMS: e.ms, Verified: e.by[verified], Ineffective: e.by[ineffective], Harmful: e.by[harmful],
		Unknown: e.by[unknown], Failed: e.by[failed], Open: e.by[open], ToStart: spread(e.toStart), ToVerified: spread(e.toVerified)}
	out.SuccessRate = per(float64(out.Verified), float64(out.Verified+out.Ineffective+out.Harmful+out.Failed))
	return out
}

func per(n, by float64) *float64 {
	if by <= 0 {
		return nil
	}
	rate := n / by
	return &rate
}

func proposalGroups(t tally[Proposals]) []ProposalGroup {
	out := make([]ProposalGroup, len(t.names))
	for i, name := range t.names {
		out[i] = ProposalGroup{Name: name, Proposals: *t.of[name]}
	}
	slices.SortStableFunc(out, func(a, b ProposalGroup) int { return cmp.Compare(b.Proposed, a.Proposed) })
	return out
}

func counts(t tally[int]) []Count {
	out := make([]Count, len(t.names))
	for i, name := range t.names {
		out[i] = Count{Name: name, Count: *t.of[name]}
	}
	slices.SortStableFunc(out, func(a, b Count) int { return cmp.Compare(b.Count, a.Count) })
	return out
}

// spread of no particular order; it leaves ms as it is.
func spread(ms []int64) Spread {
	if len(ms) == 0 {
		return Spread{}
	}
	sorted := slices.Sorted(slices.Values(ms))
	rank := func(percent int) *int64 {
		v := sorted[(len(sorted)*percent+99)/100-1]
		return &v
	}
	return Spread{Count: len(ms), MedianMS: rank(50), P90MS: rank(90), MaxMS: rank(100)}
}

// recoveryFields are those of every event about recoveries.
type recoveryFields struct {
	N            int64
	ID           string
	Role         string
	Source       string
	Category     string
	Digest       string
	Verdict      string
	Rule         string
	Result       string
	Fallback     bool
	ExitCode     *int64
	Ended        string
	DurationMS   json.RawMessage
	EscalationID string
	Type         string
	Method       string
	Status       string
}

// readRecovery reads each field by itself, so that one of another type leaves
// the others told.
func readRecovery(raw json.RawMessage) recoveryFields {
	var all map[string]json.RawMessage
	_ = json.Unmarshal(raw, &all) // no object has no fields
	var f recoveryFields
	for name, to := range map[string]any{"n": &f.N, "id": &f.ID, "role": &f.Role, "ended": &f.Ended, "source": &f.Source, "category": &f.Category, "digest": &f.Digest, "verdict": &f.Verdict,
		"rule": &f.Rule, "result": &f.Result, "fallback": &f.Fallback, "exit_code": &f.ExitCode, "escalation_id": &f.EscalationID,
		"type": &f.Type, "method": &f.Method, "status": &f.Status} {
		_ = json.Unmarshal(all[name], to) // not told then
	}
	f.DurationMS = all["duration_ms"]
	return f
}

// Merge is what the journals of several loops tell together of recoveries and
// questions. The folds stay as they are.
func Merge(folds ...*Fold) Recovery {
	var all recoveries
	for _, f := range folds {
		all.merge(&f.all.recoveries)
	}
	return all.report()
}

func (r *recoveries) merge(o *recoveries) {
	r.total.plus(o.total)
	for _, name := range o.sources.names {
		r.sources.at(name).plus(*o.sources.of[name])
	}
	for _, name := range o.categories.names {
		r.categories.at(name).plus(*o.categories.of[name])
	}
	for i := range r.runs {
		a, b := &r.runs[i], &o.runs[i]
		a.begun, a.ok, a.ms = a.begun+b.begun, a.ok+b.ok, plus(a.ms, b.ms)
		for outcome, n := range b.by {
			a.by[outcome] += n
		}
		a.toStart, a.toVerified = append(a.toStart, b.toStart...), append(a.toVerified, b.toVerified...)
	}
	r.aid.merge(&o.aid)
	a, b := &r.asked, &o.asked
	a.opened, a.resolved, a.dropped = a.opened+b.opened, a.resolved+b.resolved, a.dropped+b.dropped
	a.iterations, a.active, a.took = a.iterations+b.iterations, a.active+b.active, append(a.took, b.took...)
	for _, name := range b.types.names {
		*a.types.at(name) += *b.types.of[name]
	}
	for _, name := range b.methods.names {
		*a.methods.at(name) += *b.methods.of[name]
	}
}

func (p *Proposals) plus(o Proposals) {
	p.Proposed += o.Proposed
	p.ToRun += o.ToRun
	p.ToHuman += o.ToHuman
	p.Denied += o.Denied
	p.Invalid += o.Invalid
	p.Stale += o.Stale
	p.Fallbacks += o.Fallbacks
	p.Executed += o.Executed
	p.Verified += o.Verified
}
