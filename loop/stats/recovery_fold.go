package stats

import (
	"fmt"
	"time"

	"github.com/superloop/superloop/loop/journal"
)

// mending is what Fold remembers of recoveries between events.
type mending struct {
	run       string
	proposals map[int64]*proposal // of the run
	last      *proposal           // the one that was judged last
	questions map[string]*question
	clock     clock
}

// addRecovery takes an event into what is known of recoveries and questions.
func (f *Fold) addRecovery(s *section, ev journal.Event) {
	m := &f.mending
	gap := m.clock.tick(ev)
	for _, r := range f.both(s) {
		r.asked.active += gap
	}
	if m.run != ev.RunID || m.proposals == nil {
		m.run, m.proposals, m.last = ev.RunID, map[int64]*proposal{}, nil
	}
	switch ev.Event {
	case "failure_classified", "chain_opened", "chain_closed", "verify_self_repaired", "verify_self_repair_failed":
		for _, r := range f.both(s) {
			r.aid.add(ev)
		}
	case "iteration_start":
		for _, r := range f.both(s) {
			r.asked.iterations++
		}
	case "loop_start", "loop_complete":
		f.drop()
	case "loop_stop":
		if readRecovery(ev.Fields).Status != "paused" {
			f.drop()
		}
	case "recovery_proposed", "recovery_invalid", "recovery_denied":
		f.propose(s, ev, readRecovery(ev.Fields))
	case "recovery_approved":
		d := readRecovery(ev.Fields)
		f.proposal(s, ev, d).byPerson = d.Source == "human"
	case "recovery_executing":
		d := readRecovery(ev.Fields)
		f.begin(f.proposal(s, ev, d), ev.Timestamp, d)
	case "recovery_executed", "recovery_failed":
		d := readRecovery(ev.Fields)
		f.end(f.proposal(s, ev, d), ev, d)
	case "recovery_verified":
		d := readRecovery(ev.Fields)
		f.verify(f.proposal(s, ev, d), ev.Timestamp, d)
	case "recovery_escalated":
		f.ask(s, ev, readRecovery(ev.Fields))
	case "recovery_resolved":
		f.resolve(ev.Timestamp, readRecovery(ev.Fields))
	}
}

// both are the figures of a run and of all.
func (f *Fold) both(s *section) [2]*recoveries {
	return [2]*recoveries{&s.recoveries, &f.all.recoveries}
}

// parts are the figures of a proposal's run and of all, each in its three places.
func (f *Fold) parts(p *proposal) []*Proposals {
	var out []*Proposals
	for _, r := range f.both(p.s) {
		out = append(out, &r.total, r.sources.at(p.source), r.categories.at(p.category))
	}
	return out
}

// propose counts a proposal. Its command may be judged again, when something has
// changed, and only the last verdict counts; its fallback counts by itself. A
// recovery_invalid or recovery_denied that follows a verdict of its own kind only
// explains it.
func (f *Fold) propose(s *section, ev journal.Event, d recoveryFields) {
	m := &f.mending
	p := &proposal{s: s, source: d.Source, category: d.Category, digest: d.Digest, verdict: d.Verdict, fallback: d.Fallback,
		at: ev.Timestamp, byPerson: d.Verdict == "human"}
	if p.source == "" {
		p.source = d.Role
	}
	switch {
	case ev.Event == "recovery_proposed":
		if old := m.proposals[d.N]; old != nil && old.fallback == d.Fallback && old.verdict != "" {
			for _, g := range f.parts(old) {
				g.add(old.verdict, -1)
				g.add(d.Verdict, 1)
			}
			old.verdict, old.byPerson = d.Verdict, p.byPerson
			return
		}
		m.proposals[d.N], m.last = p, p
	case ev.Event == "recovery_invalid":
		if m.last != nil && m.last.verdict == "invalid" && m.last.digest == d.Digest {
			return
		}
		p.verdict = "invalid"
	case d.Rule == "stale":
		p.verdict = "stale"
	default:
		return
	}
	for _, g := range f.parts(p) {
		g.Proposed++
		g.add(p.verdict, 1)
		if p.fallback {
			g.Fallbacks++
		}
	}
}

// add counts a verdict. One that this build does not know went to a person:
// nothing else does what is not understood.
func (p *Proposals) add(verdict string, n int) {
	switch verdict {
	case "auto":
		p.ToRun += n
	case "deny":
		p.Denied += n
	case "invalid":
		p.Invalid += n
	case "stale":
		p.Stale += n
	default:
		p.ToHuman += n
	}
}

// proposal is the one that an event is about. A journal may lack its
// recovery_proposed; then nothing is known of it but what the event says.
func (f *Fold) proposal(s *section, ev journal.Event, d recoveryFields) *proposal {
	p := f.mending.proposals[d.N]
	if p == nil {
		p = &proposal{s: s, category: d.Category, at: ev.Timestamp}
		f.mending.proposals[d.N] = p
	}
	return p
}

// begin counts a command that begins; a second record of the same beginning does
// not.
func (f *Fold) begin(p *proposal, at time.Time, d recoveryFields) {
	if p.run != nil && p.run.id == d.ID {
		return
	}
	e := &execution{id: d.ID, outcome: open}
	if d.Source == "human" || d.Source != "auto" && p.byPerson {
		e.who = 1
	}
	p.run = e
	for _, g := range f.parts(p) {
		g.Executed++
	}
	for _, r := range f.both(p.s) {
		x := &r.runs[e.who]
		x.begun++
		x.by[open]++
		x.toStart = append(x.toStart, at.Sub(p.at).Milliseconds())
	}
}

func (f *Fold) end(p *proposal, ev journal.Event, d recoveryFields) {
	f.begin(p, ev.Timestamp, d) // one that could not be started may have no beginning
	if p.run.ended {
		return
	}
	p.run.ended = true
	ok := ev.Event == "recovery_executed" && (d.ExitCode == nil || *d.ExitCode == 0)
	for _, r := range f.both(p.s) {
		x := &r.runs[p.run.who]
		x.ms = plus(x.ms, number(d.DurationMS).n)
		if ok {
			x.ok++
		}
	}
	switch {
	case ok, d.Ended == "killed":
		f.turn(p, unknown)
	default:
		f.turn(p, failed)
	}
}

// verify takes what the tests said, if it is about a command: what a person has
// mended by hand has no id.
func (f *Fold) verify(p *proposal, at time.Time, d recoveryFields) {
	to := map[string]int{"verified": verified, "ineffective": ineffective, "harmful": harmful}[d.Result]
	if to == 0 || p.run == nil || p.run.id != d.ID {
		return
	}
	f.turn(p, to)
	if p.run.judged {
		return
	}
	p.run.judged = true
	for _, r := range f.both(p.s) {
		x := &r.runs[p.run.who]
		x.toVerified = append(x.toVerified, at.Sub(p.at).Milliseconds())
	}
}

// turn gives a command that began another outcome.
func (f *Fold) turn(p *proposal, to int) {
	from := p.run.outcome
	p.run.outcome = to
	for _, g := range f.parts(p) {
		if from == verified {
			g.Verified--
		}
		if to == verified {
			g.Verified++
		}
	}
	for _, r := range f.both(p.s) {
		x := &r.runs[p.run.who]
		x.by[from]--
		x.by[to]++
	}
}

func (f *Fold) ask(s *section, ev journal.Event, d recoveryFields) {
	m := &f.mending
	if d.EscalationID == "" {
		d.EscalationID = fmt.Sprint(ev.Seq)
	}
	if _, asked := m.questions[d.EscalationID]; asked {
		return // put again by a supervisor that took the loop up
	}
	if m.questions == nil {
		m.questions = map[string]*question{}
	}
	m.questions[d.EscalationID] = &question{s: s, at: ev.Timestamp}
	for _, r := range f.both(s) {
		r.asked.opened++
		*r.asked.types.at(d.Type)++
	}
}

func (f *Fold) resolve(at time.Time, d recoveryFields) {
	q := f.mending.questions[d.EscalationID]
	if q == nil {
		return
	}
	delete(f.mending.questions, d.EscalationID)
	for _, r := range f.both(q.s) {
		r.asked.resolved++
		*r.asked.methods.at(d.Method)++
		r.asked.took = append(r.asked.took, at.Sub(q.at).Milliseconds())
	}
}

// drop gives up what was asked: nobody waits for the answer any more.
func (f *Fold) drop() {
	for _, q := range f.mending.questions {
		for _, r := range f.both(q.s) {
			r.asked.dropped++
		}
	}
	clear(f.mending.questions)
}

// clock tells the time in which a loop is active.
type clock struct {
	last           time.Time
	ended, waiting bool
}

// tick gives the active time between the event before and this one.
func (c *clock) tick(ev journal.Event) time.Duration {
	gap := time.Duration(0)
	if !c.last.IsZero() && !c.ended && !c.waiting {
		gap = max(0, ev.Timestamp.Sub(c.last))
	}
	c.last = ev.Timestamp
	switch ev.Event {
	case "loop_start":
		gap = 0 // whatever was before it: nobody was there
		c.ended, c.waiting = false, false
	case "loop_resume":
		gap, c.ended = 0, false
	case "loop_stop", "loop_complete":
		c.ended = true
	case "recovery_escalated":
		// A change of the config is asked about while the loop goes on.
		c.waiting = readRecovery(ev.Fields).Type != "policy_change"
	case "rate_limit_wait", "approval_requested":
		c.waiting = true
	case "rate_limit_over", "approval_decided", "recovery_resolved", "role_start", "iteration_start", "tests_start", "tests_rerun_start",
		"validation_start", "recovery_executing":
		c.waiting = false
	}
	return gap
}
