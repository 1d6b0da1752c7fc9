package stats

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/superloop/superloop/loop/journal"
	"github.com/superloop/superloop/recovery/failures"
)

// Fold adds up a journal, event by event. Its memory grows with the runs, the
// iterations and the names in the journal, not with its events.
type Fold struct {
	loopID string
	all    section
	runs   []*section
	index  map[string]*section
	last   *section
	open   *attempt

	mending mending
}

type section struct {
	id                               string
	from, to                         time.Time
	total                            figures
	recoveries                       recoveries
	failures                         failures.Fold
	roles, models, runners, numbered groups
}

// groups keep the order in which they came.
type groups struct {
	list  []*group
	index map[string]*group
}

type group struct {
	name string
	figures
}

func (g *groups) of(name string) *figures {
	if at, ok := g.index[name]; ok {
		return &at.figures
	}
	if g.index == nil {
		g.index = map[string]*group{}
	}
	at := &group{name: name}
	g.list = append(g.list, at)
	g.index[name] = at
	return &at.figures
}

// New is a fold that has seen nothing.
func New() *Fold { return &Fold{index: map[string]*section{}} }

// Add takes the journal's next event; events have to come in order. It fails on
// an outcome of a role whose names are no strings, and adds nothing then. A count
// or a cost that is no number from 0 to a million dollars is unknown.
func (f *Fold) Add(ev journal.Event) error {
	if ev.LoopID != "" {
		f.loopID = ev.LoopID
	}
	s := f.section(ev)
	switch ev.Event {
	case "loop_start", "loop_resume":
		f.lose()
	case "role_start":
		a, err := decode(ev)
		if err != nil {
			return err
		}
		f.lose()
		f.open = &attempt{ended: a, s: s, iteration: ev.Iteration, at: ev.Timestamp}
	case "role_end", "role_failed", "role_timeout":
		e, err := decode(ev)
		if err != nil {
			return err
		}
		f.open = nil
		f.count(s, ev.Iteration, e)
	}
	f.addRecovery(s, ev)
	for _, s := range []*section{s, &f.all} {
		s.failures.Add(RecordOf(ev))
	}
	return nil
}

// RecordOf is an event as failures.Fold takes it.
func RecordOf(ev journal.Event) failures.Record {
	return failures.Record{Event: ev.Event, LoopID: ev.LoopID, RunID: ev.RunID, Iteration: ev.Iteration, At: ev.Timestamp, Fields: ev.Fields}
}

// attempt is one that has begun.
type attempt struct {
	ended
	s         *section
	iteration int
	at        time.Time
}

// lose counts an attempt whose end nobody saw: the loop goes on without one.
func (f *Fold) lose() {
	if f.open == nil {
		return
	}
	a := f.open
	f.open = nil
	f.count(a.s, a.iteration, ended{Role: a.Role, Runner: a.Runner, Model: a.Model, Outcome: "lost"})
}

func (f *Fold) section(ev journal.Event) *section {
	s := f.last
	if s == nil || s.id != ev.RunID {
		if s = f.index[ev.RunID]; s == nil {
			s = &section{id: ev.RunID}
			f.index[ev.RunID] = s
			f.runs = append(f.runs, s)
		}
		f.last = s
	}
	for _, s := range []*section{s, &f.all} {
		if s.from.IsZero() {
			s.from = ev.Timestamp
		}
		s.to = ev.Timestamp
	}
	return s
}

func (f *Fold) count(s *section, iteration int, e ended) {
	t := e.taken()
	for _, fig := range [...]*figures{
		&s.total, s.roles.of(e.Role), s.models.of(e.Model), s.runners.of(e.Runner), s.numbered.of(strconv.Itoa(iteration)),
		&f.all.total, f.all.roles.of(e.Role), f.all.models.of(e.Model), f.all.runners.of(e.Runner),
	} {
		fig.add(&t)
	}
}

// Report gives what was added so far; more may be added afterwards, which changes
// no report that was given.
func (f *Fold) Report() Report {
	r := Report{LoopID: f.loopID, All: f.all.report(), Runs: []Section{}}
	for _, s := range f.runs {
		r.Runs = append(r.Runs, s.report())
	}
	if a := f.open; a != nil {
		open := &Open{Role: a.Role, Runner: a.Runner, Iteration: a.iteration, Since: a.at}
		r.All.Open = open
		r.Runs[slices.Index(f.runs, a.s)].Open = open
	}
	return r
}

func (s *section) report() Section {
	recovery := s.recoveries.report()
	recovery.Remediation.saved(s.total, s.recoveries.asked.iterations)
	out := Section{RunID: s.id, From: s.from, To: s.to, Total: s.total.report(), Recovery: recovery, Failures: s.failures.Figures(),
		ByRole: s.roles.report(), ByModel: s.models.report(), ByRunner: s.runners.report(), ByIteration: s.numbered.report()}
	slices.SortStableFunc(out.ByIteration, func(a, b Group) int {
		return cmp.Or(len(a.Name)-len(b.Name), strings.Compare(a.Name, b.Name)) // numbers
	})
	return out
}

func (g *groups) report() []Group {
	out := make([]Group, len(g.list))
	for i, p := range g.list {
		out[i] = Group{Name: p.name, Figures: p.figures.report()}
	}
	return out
}
