package failures

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"
)

// Record is an event of a journal, as Fold reads it.
type Record struct {
	Event  string
	LoopID string
	At     time.Time
	Fields json.RawMessage
}

// Rate counts runs of one kind and those that failed.
type Rate struct {
	Name     string  `json:"name"`
	Runs     int     `json:"runs"`
	Failures int     `json:"failures"`
	Rate     float64 `json:"rate"`
}

// Spread describes a set of times, in milliseconds.
type Spread struct {
	Count  int   `json:"count"`
	Median int64 `json:"median_ms"`
	P90    int64 `json:"p90_ms"`
	Worst  int64 `json:"worst_ms"`
}

// Figures are the figures about failures and responses, computed from journals. A rate of nothing is 0; its count shows
// that it is of nothing.
type Figures struct {
	From time.Time `json:"from,omitzero"`
	To   time.Time `json:"to,omitzero"`

	Total    Rate   `json:"total"`
	ByHour   []Rate `json:"by_hour"` // named 2026-01-23T05, in UTC; the latest maxHours
	ByRunner []Rate `json:"by_runner"`
	ByRole   []Rate `json:"by_role"`

	Failures int `json:"failures"` // all detected failures
	Counted  int `json:"counted"`
	// Reassigned counts how often another agent got a task: at once, after an analysis, after a wait or after an answer.
	// Analysed, Escalated, Waited and Retried count the failures that got this response at once. The rates are the shares
	// in Failures.
	Reassigned      int     `json:"reassigned"`
	Analysed        int     `json:"analysed"`
	Escalated       int     `json:"escalated"`
	Waited          int     `json:"waited"`
	Retried         int     `json:"retried"`
	ReassignRate    float64 `json:"reassignment_rate"`
	AnalysisRate    float64 `json:"analysis_rate"`
	EscalationRate  float64 `json:"escalation_rate"`
	FirstReassigned Rate    `json:"first_reassignments"` // Failures counts first reassignments after which the task failed again
	// Fixes counts the fixes of analyses that were carried out: superloop ran the command, or the agent that got the
	// instruction ended its run. Failures counts those that did not help: the command failed, or what had failed did so
	// again.
	Fixes  Rate   `json:"fixes"`
	Causes []Rate `json:"causes"` // Runs counts the analyses of a type
	// Detection is the time from the end of a process to the event. Response is the time that the decision took.
	// Recovery is the time from a task's first failure to its success.
	Detection Spread `json:"detection"`
	Response  Spread `json:"response"`
	Recovery  Spread `json:"recovery"`

	Tripped     int    `json:"runners_tripped"`
	Preventions int    `json:"preventions_added"`
	Prevented   int    `json:"preflight_stops"` // how often checks found a broken environment before a role ran
	Alerts      []Rate `json:"alerts"`          // Runs counts the alerts of a severity
}

// These constants bound a Fold's memory, and number its groups and its sets of times.
const (
	maxHours = 48
	maxTimes = 10_000 // times in each Spread; new times replace the oldest
	maxNames = 500

	byHour, byRunner, byRole, byCause, byAlert = 0, 1, 2, 3, 4
)

// Timing names a set of times of Figures.
type Timing int

// The sets of times.
const (
	Detection Timing = iota
	Response
	Recovery
)

// Fold adds up the events of journals. Events of several loops may be mixed if those of each loop are in order. The
// zero value is ready to use.
//
// Of the loop's own events Fold reads role_end, role_failed and role_timeout (role, runner, outcome), recovery_executed
// and recovery_failed (command), and tests_end and tests_rerun_end (status). Fold does not count an interrupted role as a
// run. loop_start drops the open tasks of its loop.
type Fold struct {
	Observe func(which Timing, took time.Duration) // gets each time as it is added; nil for nobody

	f      Figures
	groups [5]map[string]*Rate
	open   map[string]*mending
	times  [3][]int64
}

// mending describes a task between its first failure and its success.
type mending struct {
	since         time.Time
	reassigned    int
	judgeReassign bool // the end of the next run shows whether the first reassignment has helped
	fix           *fixing
}

// fixing is the fix of the last analysis of a task, until it is known whether it has helped.
type fixing struct {
	kind, command string
	done          bool // the fix was carried out; what runs next judges it
}

// tests is the role in the events of an analysis of the tests. The tests are no role: tests_end tells how they ended.
const tests = "tests"

// fields holds all fields that Fold reads of any event.
type fields struct {
	Role      string          `json:"role"`
	Runner    string          `json:"runner"`
	Outcome   string          `json:"outcome"`
	Status    string          `json:"status"`
	Counted   bool            `json:"counted"`
	Step      Step            `json:"rung"`
	Type      string          `json:"type"`
	Fix       string          `json:"fix"`
	Sure      bool            `json:"sure"`
	Command   json.RawMessage `json:"command"`
	Severity  string          `json:"severity"`
	DetectMS  float64         `json:"detect_ms"`
	RespondUS float64         `json:"respond_us"`
}

// commandOf returns the text of a command: a string, or an object that has it in its field command.
func commandOf(raw json.RawMessage) string {
	var c struct {
		Command string `json:"command"`
	}
	if json.Unmarshal(raw, &c.Command) != nil {
		_ = json.Unmarshal(raw, &c) // anything else is no command
	}
	return c.Command
}

// Add takes the next event. Add ignores an event of a run whose fields it cannot decode.
func (f *Fold) Add(r Record) {
	var x fields
	switch r.Event {
	case "role_end", "role_failed", "role_timeout", "recovery_executed", "recovery_failed", "tests_end", "tests_rerun_end",
		EventDetected, EventReassigned, EventAnalysed, EventSystemic:
		if len(r.Fields) == 0 || json.Unmarshal(r.Fields, &x) != nil {
			return
		}
	case EventTripped:
		f.f.Tripped++
	case EventPrevention:
		f.f.Preventions++
	case EventPreflight:
		f.f.Prevented++
	case "loop_start":
		for key := range f.open { // a new run starts without open tasks
			if strings.HasPrefix(key, r.LoopID+"\x00") {
				delete(f.open, key)
			}
		}
	default:
		return
	}
	if f.f.From.IsZero() || r.At.Before(f.f.From) {
		f.f.From = r.At
	}
	f.f.To = later(f.f.To, r.At)
	key := r.LoopID + "\x00" + x.Role
	switch r.Event {
	case "role_end", "role_failed", "role_timeout":
		f.ended(r, x, key)
	case "recovery_executed", "recovery_failed":
		f.executed(r, commandOf(x.Command))
	case "tests_end", "tests_rerun_end":
		f.tested(r.LoopID, x.Status)
	case EventDetected:
		f.detected(r, x, key)
	case EventReassigned:
		f.f.Reassigned++
		if m := f.open[key]; m != nil {
			m.reassigned++
			m.judgeReassign = m.reassigned == 1
		}
	case EventAnalysed:
		f.rate(byCause, x.Type).Runs++
		if x.Sure && (x.Fix == FixEnvironment || x.Fix == FixCode) {
			if m := f.mending(key, r.At); m != nil {
				m.fix = &fixing{kind: x.Fix, command: commandOf(x.Command)}
			}
		}
	case EventSystemic:
		f.rate(byAlert, x.Severity).Runs++
	}
}

// mending returns the open task of a key, and opens it if there is none. It returns nil if too many tasks are open.
func (f *Fold) mending(key string, at time.Time) *mending {
	m := f.open[key]
	if m == nil && len(f.open) < maxNames {
		if f.open == nil {
			f.open = map[string]*mending{}
		}
		m = &mending{since: at}
		f.open[key] = m
	}
	return m
}

func (f *Fold) ended(r Record, x fields, key string) {
	if x.Outcome == "interrupted" {
		return
	}
	failed := r.Event != "role_end"
	for _, rate := range []*Rate{&f.f.Total, f.rate(byHour, r.At.UTC().Format("2006-01-02T15")), f.rate(byRunner, x.Runner), f.rate(byRole, x.Role)} {
		rate.add(failed)
	}
	if m := f.open[r.LoopID+"\x00"+tests]; m != nil && m.fix != nil && m.fix.kind == FixCode && !failed && x.Role == "implementer" {
		m.fix.done = true // the implementer has read what the analysis of the tests says
	}
	m := f.open[key]
	if m == nil {
		return
	}
	if m.judgeReassign {
		f.f.FirstReassigned.add(failed)
		m.judgeReassign = false
	}
	if x := m.fix; x != nil && (x.done || x.kind == FixCode) {
		f.f.Fixes.add(failed)
		m.fix = nil
	}
	if !failed {
		f.time(Recovery, r.At.Sub(m.since))
		delete(f.open, key)
	}
}

// executed takes the end of a command. If it is the fix of an analysis, the fix was carried out; a command that failed
// has not helped.
func (f *Fold) executed(r Record, command string) {
	for key, m := range f.open {
		if m.fix == nil || m.fix.kind != FixEnvironment || command == "" || m.fix.command != command || !strings.HasPrefix(key, r.LoopID+"\x00") {
			continue
		}
		if m.fix.done = r.Event == "recovery_executed"; !m.fix.done {
			f.f.Fixes.add(true)
			m.fix = nil
		}
	}
}

// tested takes a verdict of the tests, which judges the fix of an analysis of the tests.
func (f *Fold) tested(loop, status string) {
	key := loop + "\x00" + tests
	m := f.open[key]
	if m == nil || status != "ok" && status != "failed" {
		return
	}
	if m.fix != nil && m.fix.done {
		f.f.Fixes.add(status == "failed")
		m.fix = nil
	}
	if status == "ok" {
		delete(f.open, key)
	}
}

func (f *Fold) detected(r Record, x fields, key string) {
	f.f.Failures++
	if x.Counted {
		f.f.Counted++
	}
	f.time(Detection, time.Duration(x.DetectMS)*time.Millisecond)
	f.time(Response, time.Duration(x.RespondUS)*time.Microsecond)
	f.mending(key, r.At)
	switch x.Step {
	case StepRetry:
		f.f.Retried++
	case StepRootCause:
		f.f.Analysed++
	case StepWait:
		f.f.Waited++
	case StepEscalate:
		f.f.Escalated++
		delete(f.open, key)
	}
}

func (r *Rate) add(failed bool) {
	r.Runs++
	if failed {
		r.Failures++
	}
}

func (f *Fold) rate(group int, name string) *Rate {
	g := f.groups[group]
	if g == nil {
		g = map[string]*Rate{}
		f.groups[group] = g
	}
	if _, known := g[name]; !known && len(g) >= maxNames {
		if group == byHour {
			delete(g, slices.Min(slices.Collect(maps.Keys(g))))
		} else {
			name = "others"
		}
	}
	if g[name] == nil {
		g[name] = &Rate{Name: name}
	}
	return g[name]
}

func (f *Fold) time(which Timing, took time.Duration) {
	if took < 0 {
		return
	}
	if f.Observe != nil {
		f.Observe(which, took)
	}
	t := &f.times[which]
	if len(*t) >= maxTimes {
		*t = slices.Delete(*t, 0, maxTimes/10)
	}
	*t = append(*t, took.Milliseconds())
}

// Figures returns the figures of all events added so far.
func (f *Fold) Figures() Figures {
	out := f.f
	for _, g := range []struct {
		to *[]Rate
		of int
	}{{&out.ByHour, byHour}, {&out.ByRunner, byRunner}, {&out.ByRole, byRole}, {&out.Causes, byCause}, {&out.Alerts, byAlert}} {
		*g.to = []Rate{}
		for _, name := range slices.Sorted(maps.Keys(f.groups[g.of])) {
			*g.to = append(*g.to, f.groups[g.of][name].done())
		}
	}
	out.ByHour = out.ByHour[max(0, len(out.ByHour)-maxHours):]
	out.Total, out.FirstReassigned, out.Fixes = f.f.Total.done(), f.f.FirstReassigned.done(), f.f.Fixes.done()
	out.ReassignRate, out.AnalysisRate = ratio(out.Reassigned, out.Failures), ratio(out.Analysed, out.Failures)
	out.EscalationRate = ratio(out.Escalated, out.Failures)
	out.Detection, out.Response, out.Recovery = spread(f.times[Detection]), spread(f.times[Response]), spread(f.times[Recovery])
	return out
}

func (r Rate) done() Rate {
	r.Rate = ratio(r.Failures, r.Runs)
	return r
}

// ratio returns n divided by of, or 0 if of is 0.
func ratio(n, of int) float64 {
	if of == 0 {
		return 0
	}
	return float64(n) / float64(of)
}

func spread(times []int64) Spread {
	if len(times) == 0 {
		return Spread{}
	}
	t := slices.Sorted(slices.Values(times))
	return Spread{Count: len(t), Median: t[len(t)/2], P90: t[min(len(t)-1, len(t)*9/10)], Worst: t[len(t)-1]}
}
