package stats

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/superloop/superloop/loop/journal"
)

// recoveries holds the figures of a run from which its Recovery is made.
type recoveries struct {
	total               Proposals
	sources, categories tally[Proposals]
	runs                [2]executions // approved by a rule, approved by a human
	asked               questions
	aid                 remediation
}

type executions struct {
	Executions
	toStart, toVerified []int64
}

type questions struct {
	Escalations
	types, methods tally[int]
	active         time.Duration
	took           []int64
}

type remediation struct {
	Remediation
	took   []int64
	opened map[string]time.Time
}

// proposal is a proposal with a verdict, and what followed.
type proposal struct {
	s                *section
	source, category string
	digest, verdict  string
	fallback         bool
	at               time.Time
	byHuman          bool
	run              *execution // the last execution
}

// execution is one execution of a proposal's command.
type execution struct {
	id            string
	of            *executions
	ended, judged bool
	outcome       string
}

// question is a question that nobody has answered yet.
type question struct {
	s  *section
	at time.Time
}

// addRecovery takes an event into the figures of recoveries and questions.
func (f *Fold) addRecovery(s *section, ev journal.Event, d fields) {
	s.recoveries.asked.active += f.clock.tick(ev, d.Type)
	if f.run != ev.RunID || f.proposals == nil {
		f.run, f.proposals, f.judged = ev.RunID, map[int64]*proposal{}, nil
	}
	switch ev.Event {
	case "failure_classified", "chain_opened", "chain_closed", "verify_self_repaired", "verify_self_repair_failed":
		s.recoveries.aid.add(ev, d)
	case "iteration_start":
		s.recoveries.asked.Iterations++
	case "loop_start", "loop_complete":
		f.drop()
	case "loop_stop":
		if d.Status != "paused" {
			f.drop()
		}
	case "recovery_escalated":
		f.ask(s, ev, d)
	case "recovery_resolved":
		f.resolve(ev.Timestamp, d)
	case "recovery_proposed", "recovery_invalid", "recovery_denied":
		f.propose(s, ev, d)
	case "recovery_approved", "recovery_executing", "recovery_executed", "recovery_failed", "recovery_verified":
		p := f.proposals[d.N]
		if p == nil { // the journal lacks its recovery_proposed: this event has to do
			p = &proposal{s: s, category: d.Category, at: ev.Timestamp}
			f.proposals[d.N] = p
		}
		switch ev.Event {
		case "recovery_approved":
			p.byHuman = d.Source == "human"
		case "recovery_executing":
			p.begin(ev.Timestamp, d)
		case "recovery_verified":
			p.verify(ev.Timestamp, d)
		default:
			p.end(ev, d)
		}
	}
}

// parts returns the three counters that count the proposal: all, by source, by category.
func (p *proposal) parts() [3]*Proposals {
	r := &p.s.recoveries
	return [3]*Proposals{&r.total, r.sources.at(p.source), r.categories.at(p.category)}
}

// propose counts a proposal. If its command gets several verdicts, only the last one counts. Its fallback counts as
// another proposal. If a recovery_invalid or recovery_denied follows a recovery_proposed with the same verdict, it only
// explains that verdict and counts nothing.
func (f *Fold) propose(s *section, ev journal.Event, d fields) {
	p := &proposal{s: s, source: cmp.Or(d.Source, d.Role), category: d.Category, digest: d.Digest, verdict: d.Verdict, fallback: d.Fallback,
		at: ev.Timestamp, byHuman: d.Verdict == "human"}
	switch {
	case ev.Event == "recovery_proposed":
		if old := f.proposals[d.N]; old != nil && old.fallback == d.Fallback && old.verdict != "" {
			for _, g := range old.parts() {
				*g.of(old.verdict)--
				*g.of(d.Verdict)++
			}
			old.verdict, old.byHuman = d.Verdict, p.byHuman
			return
		}
		f.proposals[d.N], f.judged = p, p
	case ev.Event == "recovery_invalid":
		if f.judged != nil && f.judged.verdict == "invalid" && f.judged.digest == d.Digest {
			return
		}
		p.verdict = "invalid"
	case d.Rule == "stale":
		p.verdict = "stale"
	default:
		return
	}
	for _, g := range p.parts() {
		g.Proposed++
		*g.of(p.verdict)++
		if p.fallback {
			g.Fallbacks++
		}
	}
}

// of returns the counter of a verdict. A verdict that this build does not know counts as human.
func (p *Proposals) of(verdict string) *int {
	known := map[string]*int{"auto": &p.ToRun, "deny": &p.Denied, "invalid": &p.Invalid, "stale": &p.Stale}
	return cmp.Or(known[verdict], &p.ToHuman)
}

// of returns the counter of an outcome, nil for an unknown outcome. Each execution has exactly one outcome.
func (e *Executions) of(outcome string) *int {
	return map[string]*int{"open": &e.Open, "unknown": &e.Unknown, "failed": &e.Failed, "verified": &e.Verified, "ineffective": &e.Ineffective,
		"harmful": &e.Harmful}[outcome]
}

// begin counts an execution that begins. A second record of the same start counts nothing.
func (p *proposal) begin(at time.Time, d fields) {
	if p.run != nil && p.run.id == d.ID {
		return
	}
	p.run = &execution{id: d.ID, outcome: "open", of: &p.s.recoveries.runs[0]}
	if d.Source == "human" || d.Source != "auto" && p.byHuman {
		p.run.of = &p.s.recoveries.runs[1]
	}
	for _, g := range p.parts() {
		g.Executed++
	}
	x := p.run.of
	x.Executed++
	x.Open++
	x.toStart = append(x.toStart, at.Sub(p.at).Milliseconds())
}

func (p *proposal) end(ev journal.Event, d fields) {
	p.begin(ev.Timestamp, d) // a command that could not be started may have no recovery_executing
	if p.run.ended {
		return
	}
	p.run.ended = true
	if ms := number(d.DurationMS); ms != nil {
		p.run.of.DurationMS = plus(p.run.of.DurationMS, *ms)
	}
	ok := ev.Event == "recovery_executed" && d.ExitCode == 0
	if ok {
		p.run.of.Succeeded++
	}
	if ok || d.Ended == "killed" {
		p.turn("unknown")
	} else {
		p.turn("failed")
	}
}

// verify takes the result of the tests, if it is about an execution. A repair that a human made by hand has no id.
func (p *proposal) verify(at time.Time, d fields) {
	if !slices.Contains([]string{"verified", "ineffective", "harmful"}, d.Result) || p.run == nil || p.run.id != d.ID {
		return
	}
	p.turn(d.Result)
	if !p.run.judged {
		p.run.judged = true
		p.run.of.toVerified = append(p.run.of.toVerified, at.Sub(p.at).Milliseconds())
	}
}

// turn gives an execution another outcome.
func (p *proposal) turn(to string) {
	from := p.run.outcome
	p.run.outcome = to
	*p.run.of.of(from)--
	*p.run.of.of(to)++
	for _, g := range p.parts() {
		if from == "verified" {
			g.Verified--
		}
		if to == "verified" {
			g.Verified++
		}
	}
}

func (f *Fold) ask(s *section, ev journal.Event, d fields) {
	id := cmp.Or(d.EscalationID, fmt.Sprint(ev.Seq))
	if f.questions[id] != nil {
		return // the supervisor that resumed the loop asked it again
	}
	f.questions[id] = &question{s: s, at: ev.Timestamp}
	s.recoveries.asked.Opened++
	*s.recoveries.asked.types.at(d.Type)++
}

func (f *Fold) resolve(at time.Time, d fields) {
	if q := f.questions[d.EscalationID]; q != nil {
		delete(f.questions, d.EscalationID)
		asked := &q.s.recoveries.asked
		asked.Resolved++
		*asked.methods.at(d.Method)++
		asked.took = append(asked.took, at.Sub(q.at).Milliseconds())
	}
}

// drop gives up the open questions, because nobody waits for the answers any more.
func (f *Fold) drop() {
	for _, q := range f.questions {
		q.s.recoveries.asked.Dropped++
	}
	clear(f.questions)
}

func (a *remediation) add(ev journal.Event, d fields) {
	switch ev.Event {
	case "failure_classified":
		a.Classified++
		switch {
		case d.Code:
			a.Code++
		case d.Infra:
			a.Infra++
		default:
			a.Unknown++
		}
	case "chain_opened":
		a.Chains++
		if a.opened == nil {
			a.opened = map[string]time.Time{}
		}
		a.opened[d.ChainID] = ev.Timestamp
	case "verify_self_repaired":
		a.VerifyRepaired++
		a.VerifySavedMS = plus(a.VerifySavedMS, max(0, d.SavedMS))
	case "verify_self_repair_failed":
		a.VerifyFailed++
	case "chain_closed":
		a.Commands += max(0, d.Attempts)
		since, ok := a.opened[d.ChainID]
		delete(a.opened, d.ChainID)
		if d.Status == "done" {
			a.Remedied++
			if ok {
				a.took = append(a.took, ev.Timestamp.Sub(since).Milliseconds())
			}
		}
	}
}
