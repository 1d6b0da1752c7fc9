// Package cured finds in the journal of a loop which failures of the tests a command has cured.
package cured

import (
	"fmt"
	"slices"
	"strings"

	"github.com/superloop/superloop/internal/pattern"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/journal"
)

// Failure is a failure of the tests that superloop has classified.
type Failure struct {
	loop.Classified
	Seq   int64 // of its failure_classified
	run   string
	tried []*Attempt
}

// Attempt is a command that ran while the failure was there.
type Attempt struct {
	N        int
	Command  string
	Dir      string // relative to the repository
	Source   string // the role that proposed it, superloop or human
	Category string // what its proposal says
	Seq      int64  // of its recovery_verified, 0 if there is none
	Result   string // what the tests said: verified, ineffective, harmful, unknown; "" if they did not run
	Why      string // of the result
	failure  *Failure
}

// Journal holds the failures of a loop, in order, as far as Add has seen them.
type Journal struct {
	failures []*Failure
	run      string
	attempts map[int]*Attempt // of the run, by N
	last     *Attempt         // whose result is known, while the next failure may be the same
	seqs     map[int64]*Failure
}

// Add reads the next event.
func (j *Journal) Add(ev journal.Event) error {
	if j.run != ev.RunID || j.attempts == nil {
		j.run, j.attempts, j.last = ev.RunID, map[int]*Attempt{}, nil
	}
	if j.seqs == nil {
		j.seqs = map[int64]*Failure{}
	}
	switch ev.Event {
	case "failure_classified":
		f := &Failure{Seq: ev.Seq, run: ev.RunID}
		if err := text.Decode(ev.Fields, &f.Classified); err != nil {
			return fmt.Errorf("reading event %d (%s): %w", ev.Seq, ev.Event, err)
		}
		if f.Source != "test_command" {
			return nil
		}
		if a := j.last; a != nil && a.failure != nil && a.failure.Signature == f.Signature && a.Result == loop.Verified {
			a.Result, a.Why = loop.Ineffective, "the tests fail of the same again"
		}
		j.last = nil
		j.failures = append(j.failures, f)
		j.seqs[ev.Seq] = f
	case "iteration_start":
		j.last = nil
	case "recovery_proposed", "recovery_executing", "recovery_verified":
		return j.attempt(ev)
	}
	return nil
}

// attempt reads an event of a recovery.
func (j *Journal) attempt(ev journal.Event) error {
	var d struct {
		N          int    `json:"n"`
		ID         string `json:"id"`
		Command    string `json:"command"`
		WorkingDir string `json:"working_dir"`
		Source     string `json:"source"`
		Category   string `json:"category"`
		Result     string `json:"result"`
		Why        string `json:"why"`
	}
	if err := text.Decode(ev.Fields, &d); err != nil {
		return fmt.Errorf("reading event %d (%s): %w", ev.Seq, ev.Event, err)
	}
	a := j.attempts[d.N]
	if a == nil {
		a = &Attempt{N: d.N}
		j.attempts[d.N] = a
	}
	switch ev.Event {
	case "recovery_proposed":
		a.Source, a.Category = d.Source, d.Category
	case "recovery_executing":
		a.Command, a.Dir = d.Command, d.WorkingDir
		if f := j.newest(); f != nil && f.run == ev.RunID && a.failure == nil {
			a.failure = f
			f.tried = append(f.tried, a)
		}
	case "recovery_verified":
		a.Seq, a.Result, a.Why = ev.Seq, d.Result, d.Why
		j.last = a
	}
	if a.failure != nil {
		j.seqs[ev.Seq] = a.failure
	}
	return nil
}

func (j *Journal) newest() *Failure {
	if len(j.failures) == 0 {
		return nil
	}
	return j.failures[len(j.failures)-1]
}

// Find returns the failure of an event: a failure_classified of the tests, or an event of a recovery that ran against
// one. seq 0 stands for the newest failure that a command has cured or, if there is none, the newest failure. It returns
// nil if there is no such failure. What ran against the same failure at other times counts as well.
func (j *Journal) Find(seq int64) *Failure {
	f := j.seqs[seq]
	if seq == 0 {
		f = j.newest()
		for _, at := range slices.Backward(j.failures) {
			if _, ok := at.Cure(); ok {
				f = at
				break
			}
		}
	}
	if f == nil {
		return nil
	}
	found := *f
	found.tried = nil
	for _, at := range j.failures {
		if at == f || at.Signature == f.Signature {
			found.tried = append(found.tried, at.tried...)
		}
	}
	return &found
}

// Cure returns the last command after which the tests said that the failure was gone.
func (f *Failure) Cure() (Attempt, bool) {
	for _, a := range slices.Backward(f.tried) {
		if a.Result == loop.Verified {
			return *a, true
		}
	}
	return Attempt{}, false
}

// Tried returns the last attempt with a command. It returns the zero Attempt if the command did not run against the
// failure.
func (f *Failure) Tried(command string) Attempt {
	for _, a := range slices.Backward(f.tried) {
		if a.Command == command {
			return *a
		}
	}
	return Attempt{}
}

// What says what became of the commands that ran, for a message.
func (f *Failure) What() string {
	var out []string
	for _, a := range f.tried {
		why := a.Why
		if a.Result == "" {
			why = "it did not succeed"
		}
		out = append(out, fmt.Sprintf("%s (%s)", a.Command, why))
	}
	if len(out) == 0 {
		return "no command ran against it"
	}
	return "what ran against it did not help: " + strings.Join(out, ", ")
}

// placed matches the place in the code that superloop puts before a line of evidence.
var placed = pattern.Lazy(`^\S+:\d+: `)

// Lines returns the lines of the output that the event has, in the order of the output as far as it is known, without
// those that are about a place in the code.
func (f *Failure) Lines() string {
	out := slices.DeleteFunc(slices.Clone(f.Evidence), placed().MatchString)
	if f.Handler == "" {
		slices.Reverse(out) // of a failure that no rule knows these are the last lines, the last first
	}
	return strings.Join(out, "\n")
}
