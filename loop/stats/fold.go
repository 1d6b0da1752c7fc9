package stats

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/superloop/superloop/loop/journal"
	"github.com/superloop/superloop/recovery/failures"
)

// Fold adds up a journal, event by event. Its memory grows with the runs, iterations and names, not with the events.
type Fold struct {
	loopID   string
	runs     tally[section]
	last     *section // of the last event
	open     *attempt
	failures failures.Fold // of all runs

	// What is remembered of recoveries between events.
	run       string
	proposals map[int64]*proposal // of the run
	judged    *proposal           // the last one
	questions map[string]*question
	clock     clock
}

// section is a run.
type section struct {
	id         string
	from, to   time.Time
	total      figures
	by         [4]tally[figures] // role, model, runner, iteration
	recoveries recoveries
	failures   failures.Fold
}

// attempt is one that has begun.
type attempt struct {
	fields
	s         *section
	iteration int
	at        time.Time
}

// New is a fold that has seen nothing.
func New() *Fold { return &Fold{questions: map[string]*question{}} }

// Add takes the journal's next event; events have to come in order. It fails on an outcome of a role whose names are no
// strings, and adds nothing then. A count or a cost that is no number from 0 to a million dollars is unknown.
func (f *Fold) Add(ev journal.Event) error {
	var d fields
	err := json.Unmarshal(ev.Fields, &d) // a field of another type than ours is not told, the others are
	f.loopID = cmp.Or(ev.LoopID, f.loopID)
	s := f.runs.at(ev.RunID)
	if s.from.IsZero() {
		s.id, s.from = ev.RunID, ev.Timestamp
	}
	s.to, f.last = ev.Timestamp, s
	switch ev.Event {
	case "loop_start", "loop_resume":
		f.lose()
	case "role_start", "role_end", "role_failed", "role_timeout":
		switch {
		case err != nil && len(ev.Fields) > 0:
			return fmt.Errorf("reading event %d (%s): %w", ev.Seq, ev.Event, err)
		case ev.Event == "role_start":
			f.lose()
			f.open = &attempt{fields: d, s: s, iteration: ev.Iteration, at: ev.Timestamp}
		default:
			f.open = nil
			s.count(ev.Iteration, d)
		}
	}
	f.addRecovery(s, ev, d)
	s.failures.Add(RecordOf(ev))
	f.failures.Add(RecordOf(ev))
	return nil
}

// RecordOf is an event as failures.Fold takes it.
func RecordOf(ev journal.Event) failures.Record {
	return failures.Record{Event: ev.Event, LoopID: ev.LoopID, At: ev.Timestamp, Fields: ev.Fields}
}

// lose counts an attempt whose end nobody saw: the loop goes on without one.
func (f *Fold) lose() {
	if a := f.open; a != nil {
		f.open = nil
		a.s.count(a.iteration, fields{Role: a.Role, Runner: a.Runner, Model: a.Model, Outcome: "lost"})
	}
}

func (s *section) count(iteration int, e fields) {
	one := e.figures()
	s.total.add(one)
	for i, name := range []string{e.Role, e.Model, e.Runner, strconv.Itoa(iteration)} {
		s.by[i].at(name).add(one)
	}
}

// Report gives what was added so far; more may be added afterwards, which changes no report that was given.
func (f *Fold) Report() Report {
	var all section
	r := Report{LoopID: f.loopID, Runs: []Section{}}
	for _, s := range f.runs.all() {
		if all.from.IsZero() {
			all.from = s.from
		}
		all.to = f.last.to
		all.total.add(s.total)
		for i := range 3 { // the iterations of two runs have nothing in common
			for name, of := range s.by[i].all() {
				all.by[i].at(name).add(*of)
			}
		}
		all.recoveries.merge(&s.recoveries)
		one := s.report()
		one.Failures = s.failures.Figures()
		if a := f.open; a != nil && a.s == s {
			one.Open = &Open{Role: a.Role, Runner: a.Runner, Iteration: a.iteration, Since: a.at}
			r.All.Open = one.Open
		}
		r.Runs = append(r.Runs, one)
	}
	open := r.All.Open
	r.All = all.report()
	r.All.Open, r.All.Failures = open, f.failures.Figures()
	return r
}

func (s *section) report() Section {
	recovery := s.recoveries.report()
	recovery.Remediation.saved(s.total.Tokens.Total, s.recoveries.asked.Iterations)
	out := Section{RunID: s.id, From: s.from, To: s.to, Total: s.total.report(), Recovery: recovery,
		ByRole: s.groups(0), ByModel: s.groups(1), ByRunner: s.groups(2), ByIteration: s.groups(3)}
	slices.SortStableFunc(out.ByIteration, func(a, b Group) int {
		return cmp.Or(len(a.Name)-len(b.Name), strings.Compare(a.Name, b.Name)) // numbers
	})
	return out
}

func (s *section) groups(by int) []Group {
	out := []Group{}
	for name, of := range s.by[by].all() {
		out = append(out, Group{Name: name, Figures: of.report()})
	}
	return out
}
