package replay

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/journal"
	"github.com/superloop/superloop/recovery"
	"github.com/superloop/superloop/recovery/action"
)

// question is a command that was judged, with all that the journal says of the verdict.
type question struct {
	command action.Action
	facts   action.Facts
	n       int
	source  string
	was     Verdict
	inputs  string // the digest of what the command reads
	sure    bool   // the event has the confidence of whoever proposed the command
}

// asked is what Decide was asked.
type asked struct {
	policy                               *recovery.Policy
	text, dir, dirProblem, sure, changed string
	confined, loose                      bool
}

// history is how a run would differ from what the journal has, had the other policy judged. It holds bounds: what would
// have followed from another verdict is not known.
type history struct {
	differ   []int64        // the events of the decisions that differ or are unknown
	diverged map[int]bool   // the recoveries with such a decision
	fewer    int            // commands that ran by themselves and might not have
	more     int            // commands that did not and might have
	latest   time.Time      // the last of those
	unasked  map[string]int // how often an operator was asked about a command, and might not have been
	asked    map[string]int // how often one was not, and might have been
	ran      map[string]int // commands that might or might not have run in an iteration; its number
}

// decide is recovery.Decide, which answers the same question once.
func (f *Fold) decide(p *recovery.Policy, q question, v values) recovery.Verdict {
	key := asked{p, q.command.Command, q.command.WorkingDir, q.facts.DirProblem, v.confidence, v.facts.Changed, v.facts.Confined, v.facts.LooseOK}
	out, ok := f.memo[key]
	if !ok {
		out = recovery.Decide(p, recovery.Command{Text: key.text, WorkingDir: key.dir, DirProblem: key.dirProblem, Confidence: key.sure}, v.facts)
		f.memo[key] = out
	}
	return out
}

// policy returns the policy with a digest, nil if it is not kept.
func (f *Fold) policy(digest string) *recovery.Policy {
	p, ok := f.kept[digest]
	if !ok && f.o.Kept != nil {
		p, _ = f.o.Kept(digest) // nil with an error
	}
	f.kept[digest] = p
	return p
}

// judge gives a verdict again and compares the two.
func (f *Fold) judge(ev journal.Event, q question) {
	d := Decision{LoopID: ev.LoopID, RunID: ev.RunID, Seq: ev.Seq, At: ev.Timestamp, Iteration: ev.Iteration, N: q.n, Source: q.source,
		Command: q.command.Command, WorkingDir: q.command.WorkingDir, Was: q.was}
	was := f.policy(q.was.PolicyDigest)
	p := cmp.Or(f.o.Policy, was)
	if was == nil && p != nil && p.Digest == q.was.PolicyDigest {
		was = p
	}
	switch s := &f.fold.State; {
	case p == nil:
		d.Now, d.Missing = Verdict{Verdict: Unknown, Rule: string(Unknown), Reason: fmt.Sprintf("the policy %.12s, which has judged it, is not kept beside the journal", q.was.PolicyDigest)}, []string{Policy}
	case f.o.Policy != nil && p.Digest != q.was.PolicyDigest && !p.Settings.Enabled:
		d.Now = Verdict{Verdict: None, Rule: recovery.RuleDisabled, Reason: "recovery is not enabled, so a loop takes no proposal and judges nothing"}
	case f.o.Policy != nil && p.Digest != q.was.PolicyDigest && !p.Settings.Remediation && s.Recovery != nil && s.Recovery.Origin == loop.OriginRemediation:
		d.Now = Verdict{Verdict: None, Rule: loop.ReasonRemediation, Reason: "first_aid is off, so superloop proposes no command of its own"}
	default:
		f.verdict(&d, q, p, was)
	}
	if p != nil {
		d.Now.PolicyDigest = p.Digest
	}
	f.note(d, q)
}

// note takes a decision into the history of the run, and into the report.
func (f *Fold) note(d Decision, q question) {
	unknown := d.Now.Verdict == Unknown
	d.Differs = !unknown && d.Now.Verdict != d.Was.Verdict
	if h := &f.run; d.Differs || unknown {
		h.differ = append(h.differ, d.Seq)
		h.diverged[q.n] = true
		may := func(v action.Decision) bool {
			return d.Now.Verdict == v || unknown && (d.Possible == nil || slices.Contains(d.Possible, v))
		}
		digest := q.command.Digest
		switch {
		case d.Was.Verdict == action.Auto:
			h.fewer++
			h.ran[digest] = d.Iteration
		case may(action.Auto):
			h.more++
			h.latest, h.ran[digest] = d.At, d.Iteration
		}
		switch {
		case d.Was.Verdict == action.Human:
			h.unasked[digest]++
		case may(action.Human):
			h.asked[digest]++
		}
	}
	if before, ok := f.open[d.N]; ok && d.N > 0 {
		f.out.Decisions[before].Became.Again = d.Seq
	}
	delete(f.open, d.N)
	if d.At.Before(f.o.Since) {
		return
	}
	f.out.Judged++
	switch {
	case d.Differs:
		f.out.Differ++
	case unknown:
		f.out.Unknown++
	}
	f.out.Decisions = append(f.out.Decisions, d)
	if d.N > 0 {
		f.open[d.N] = len(f.out.Decisions) - 1
	}
	if p := f.o.Policy; p != nil {
		v := f.decide(p, q, values{confidence: q.command.Confidence, facts: recovery.Facts{Confined: true, LooseOK: true}})
		switch {
		case v.Entry >= 0:
			f.out.Hits.AutoApprove[v.Entry]++
		case v.Pattern >= 0:
			f.out.Hits.RequireHuman[v.Pattern]++
		case v.Decision != action.Invalid:
			f.out.Hits.OnUnknown++
		}
	}
}

// values are values of the facts, some of which the journal may lack.
type values struct {
	facts      recovery.Facts
	confidence string
}

// possible returns every combination of values that the facts can have had, and the names of those that the journal
// lacks. Bit i of an index is set if the fact missing[i] has its stricter value.
func possible(q question, p, was *recovery.Policy) (all []values, missing []string) {
	known := values{confidence: q.command.Confidence}
	var alter []func(*values)
	lacks := func(name string, stricter func(*values)) {
		missing, alter = append(missing, name), append(alter, stricter)
	}
	if c := q.facts.Confined; c != nil {
		known.facts.Confined = *c
	} else {
		known.facts.Confined = true
		lacks(Confined, func(v *values) { v.facts.Confined = false })
	}
	if l := q.facts.Loose; l != nil {
		known.facts.LooseOK = *l
	} else {
		known.facts.LooseOK = true
		lacks(Loose, func(v *values) { v.facts.LooseOK = false })
	}
	switch {
	case p.Settings.Guard == recovery.GuardOff:
	case looked(q.facts.Changed, p.Settings.Guard, was):
		known.facts.Changed = *q.facts.Changed
	default:
		lacks(Changed, func(v *values) { v.facts.Changed = "the journal does not say whether what it reads has changed" })
	}
	if !q.sure {
		known.confidence = action.High
		lacks(Confidence, func(v *values) { v.confidence = action.Low })
	}
	for bits := range 1 << len(alter) {
		v := known
		for i, stricter := range alter {
			if bits>>i&1 == 1 {
				stricter(&v)
			}
		}
		all = append(all, v)
	}
	return all, missing
}

// looked reports whether what a policy has found out about the inputs of a command is what a policy with another guard
// would have found out. strict watches all that scripts watches, and more.
func looked(changed *string, guard string, was *recovery.Policy) bool {
	if changed == nil || was == nil {
		return false
	}
	switch was.Settings.Guard {
	case guard:
		return true
	case recovery.GuardStrict:
		return *changed == ""
	default:
		return *changed != ""
	}
}

// course is one way in which a run can have come to a decision.
type course struct {
	budget recovery.Budget
	now    time.Time
	ran    bool // superloop has run the very command in this iteration
}

// courses returns every way in which the run can have come to a command. The first is that of the journal. certain says
// that the others differ from it in the clock alone.
func (f *Fold) courses(ev journal.Event, q question) (all []course, certain bool) {
	s, h := &f.fold.State, &f.run
	taking := s.Pending != nil && s.Pending.Kind == loop.TakeProposal
	is := course{budget: recovery.Budget(s.Budget(q.command.Digest)), now: ev.Timestamp, ran: taking && slices.Contains(s.Recoveries.Ran, q.command.Digest)}
	all = []course{is}
	each := func(change func(c course) course) {
		for _, c := range slices.Clone(all) {
			if c = change(c); !slices.Contains(all, c) {
				all = append(all, c)
			}
		}
	}
	each(func(c course) course { c.now = s.UpdatedAt; return c })
	if len(h.differ) == 0 {
		return all, true
	}
	each(func(c course) course { c.budget.Used = max(0, is.budget.Used-h.fewer); return c })
	each(func(c course) course {
		if c.budget.Used == is.budget.Used {
			c.budget.Used += h.more
		}
		return c
	})
	if h.fewer > 0 {
		each(func(c course) course { c.budget.Last = time.Time{}; return c })
	}
	if h.more > 0 && !is.budget.Last.After(h.latest) && (s.Recovery == nil || s.Recovery.Plan == nil || s.Recovery.Plan.Attempts == 0) {
		each(func(c course) course { c.budget.Last = h.latest; return c })
	}
	each(func(c course) course {
		c.budget.Rejected = max(0, is.budget.Rejected-h.unasked[q.command.Digest])
		return c
	})
	each(func(c course) course { c.budget.Rejected += h.asked[q.command.Digest]; return c })
	if taking && h.ran[q.command.Digest] == ev.Iteration && h.ran[q.command.Digest] > 0 {
		each(func(c course) course { c.ran = !c.ran; return c })
	}
	return all, false
}

// limited applies what follows from the history of the run to a verdict of Decide.
func limited(p *recovery.Policy, v recovery.Verdict, c course) Verdict {
	v = recovery.Limit(p, v, c.budget, c.now)
	if v.Decision == action.Auto && c.ran {
		v.Decision, v.Rule, v.NotBefore = action.Human, loop.RuleRan, time.Time{}
		v.Reason = loop.ReasonRan
	}
	return Verdict{Verdict: v.Decision, Rule: v.Rule, Reason: v.Reason, NotBefore: v.NotBefore}
}

// verdict judges by a policy. was is the policy that has judged, nil if it is not kept.
func (f *Fold) verdict(d *Decision, q question, p, was *recovery.Policy) {
	ev := journal.Event{Seq: d.Seq, Timestamp: d.At, Iteration: d.Iteration}
	same := p.Digest == q.was.PolicyDigest
	drifted, missing := f.drifted(q, same)
	if missing {
		d.Now, d.Missing = Verdict{Verdict: Unknown, Rule: loop.RuleDrift, Reason: "it was asked about again because the policy had changed since it was approved; with one policy all the time the approval might have held"}, []string{Approval}
		return
	}
	facts, lacking := possible(q, p, was)
	courses, certain := f.courses(ev, q)
	grid := make([][]Verdict, len(facts)) // by the facts, then by the course
	for i, v := range facts {
		judged := f.decide(p, q, v)
		ways := courses
		if judged.Decision != action.Auto && !slices.ContainsFunc(courses, func(c course) bool { return c.budget.Rejected > 0 }) {
			ways = courses[:1] // no limit applies to it
		}
		for _, c := range ways {
			one := limited(p, judged, c)
			if drifted && one.Verdict != action.Invalid {
				one = Verdict{Verdict: action.Human, Rule: loop.RuleDrift, Reason: q.was.Reason}
			}
			grid[i] = append(grid[i], one)
		}
	}
	d.Now = grid[0][0]
	for _, row := range grid {
		for _, v := range row {
			if !slices.Contains(d.Possible, v.Verdict) {
				d.Possible = append(d.Possible, v.Verdict)
			}
		}
	}
	if same && certain {
		// The same policy, in the same state of the run: if the verdict is one of those that are possible, it shows how
		// the facts were that the journal lacks.
		if v, ok := evidence(grid, q.was); ok {
			d.Now, d.Possible = v, nil
			return
		}
	}
	if len(d.Possible) == 1 {
		d.Possible = nil
		return
	}
	slices.Sort(d.Possible)
	d.Missing = depends(grid, lacking, certain)
	d.Now = Verdict{Verdict: Unknown, Rule: string(Unknown), Reason: f.why(d.Missing)}
}

// evidence returns the verdict of a grid that is the recorded one, or else has its rule, or else its decision.
func evidence(grid [][]Verdict, was Verdict) (Verdict, bool) {
	all := slices.Concat(grid...)
	for _, alike := range []func(v Verdict) bool{
		func(v Verdict) bool {
			return v.Rule == was.Rule && v.Reason == was.Reason && v.NotBefore.Equal(was.NotBefore)
		},
		func(v Verdict) bool { return v.Rule == was.Rule },
		func(Verdict) bool { return true },
	} {
		if i := slices.IndexFunc(all, func(v Verdict) bool { return v.Verdict == was.Verdict && alike(v) }); i >= 0 {
			return all[i], true
		}
	}
	return Verdict{}, false
}

// drifted reports whether a command was asked about again since what its approval was bound to had changed, and whether
// that would have come with another policy, too. missing says that this cannot be known.
func (f *Fold) drifted(q question, same bool) (drifted, missing bool) {
	r := f.fold.State.Recovery
	if q.was.Rule != loop.RuleDrift || r == nil || f.run.diverged[q.n] {
		return false, false // without that approval there was nothing to drift
	}
	if !same && r.PolicyDigest != q.was.PolicyDigest && r.InputsDigest == q.inputs {
		return false, true
	}
	return true, false
}

// depends names what makes the verdicts of a grid differ.
func depends(grid [][]Verdict, lacking []string, certain bool) (out []string) {
	for i, name := range lacking {
		for at, row := range grid {
			other := grid[at^1<<i]
			if slices.ContainsFunc(row, func(v Verdict) bool {
				return !slices.ContainsFunc(other, func(o Verdict) bool { return o.Verdict == v.Verdict })
			}) {
				out = append(out, name)
				break
			}
		}
	}
	for _, row := range grid {
		if slices.ContainsFunc(row, func(v Verdict) bool { return v.Verdict != row[0].Verdict }) {
			if certain {
				return append(out, Clock)
			}
			return append(out, History)
		}
	}
	return out
}

// why says in a sentence what a verdict depends on.
func (f *Fold) why(missing []string) string {
	words := map[string]string{
		Confined: "whether commands ran in a sandbox", Loose: "whether on_unknown allow was accepted there", Changed: "whether what it reads had changed, as this policy watches it",
		Confidence: "how sure its proposer was", Clock: "the millisecond in which it was judged, because the cooldown ended then",
	}
	var parts []string
	for _, name := range missing {
		if name != History {
			parts = append(parts, words[name])
		}
	}
	out := "the journal does not say " + strings.Join(parts, ", nor ")
	if slices.Contains(missing, History) {
		first := fmt.Sprintf("from event %d on the run would have gone another way, and its budget, its cooldown or its refusals decide here", f.run.differ[0])
		if len(parts) == 0 {
			return first
		}
		out += "; and " + first
	}
	return out
}
