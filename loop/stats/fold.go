package stats

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/loop/journal"
	"github.com/superloop/superloop/recovery/failures"
)

// Fold adds up the events of a journal. Its memory grows with the number of runs, iterations and names, not with the
// number of events.
type Fold struct {
	loopID   string
	runs     tally[section]
	last     *section      // the section of the last event
	open     *attempt      // the attempt that has begun and not ended
	failures failures.Fold // of all runs

	// What Fold remembers of recoveries and questions between events.
	run       string
	proposals map[int64]*proposal // of the run, by number
	judged    *proposal           // the last one
	questions map[string]*question
	clock     clock
}

// section holds the figures of one run.
type section struct {
	id         string
	from, to   time.Time
	total      figures
	by         [4]tally[figures] // role, model, runner, iteration
	recoveries recoveries
	failures   failures.Fold
}

// attempt is an attempt of a role that has begun.
type attempt struct {
	fields
	s         *section
	iteration int
	at        time.Time
}

// New returns a Fold without events.
func New() *Fold { return &Fold{questions: map[string]*question{}} }

// Add takes the next event of the journal. Events have to come in order. Add returns an error, and counts nothing, for
// an event of a role with a field of an unexpected type, such as a name that is no string. A count that is no integer
// of 0 or more is unknown, and so is a cost that is no number from 0 to a million dollars.
func (f *Fold) Add(ev journal.Event) error {
	var d fields
	err := text.Decode(ev.Fields, &d) // a field of an unexpected type stays empty; the others are set
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

// RecordOf converts an event into the record that failures.Fold takes.
func RecordOf(ev journal.Event) failures.Record {
	return failures.Record{Event: ev.Event, LoopID: ev.LoopID, At: ev.Timestamp, Fields: ev.Fields}
}

// lose counts the open attempt as lost: the loop went on and nobody recorded the attempt's end.
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

// Report returns the figures of all events so far. A later Add does not change a report.
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
		return cmp.Or(len(a.Name)-len(b.Name), strings.Compare(a.Name, b.Name)) // names are numbers
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
