package loop

import (
	"slices"
	"testing"
	"time"

	"github.com/superloop/superloop/recovery/classify"
	"github.com/superloop/superloop/recovery/failures"
)

// driver plays a World against the failure policy and the breakers, one task after the
// other, as a loop would.
type driver struct {
	t      *testing.T
	w      World
	agents []failures.Agent
	h      failures.Health
	hist   failures.History
	now    time.Time
	limits failures.Limits
	// aid is the share of broken environments that rules mend before the failure policy is
	// asked.
	aid float64

	tasks, done, persons, remediable, lost int // lost: operators with a remedy
	reassigned, first, firstOK             int
	analysed, waits, alerts, runs, steps   int
	response                               []time.Duration
	hopeless                               int             // first reassignments that no other runner can help
	failedBy                               map[Trouble]int // first reassignments that did not help
}

func (d *driver) list() []failures.Candidate {
	var out []failures.Candidate
	for i, a := range d.agents {
		out = append(out, d.h.Look(a, "", len(d.agents)-i, time.Time{}, d.now))
	}
	return out
}

// play brings one task to its end.
func (d *driver) play(n int) {
	start, ok := failures.Choose(d.list(), nil, 0)
	a := start.Agent
	if !ok {
		a = d.agents[0] // it is found out by trying
	}
	j := d.w.Job(n, a, d.now)
	s := failures.New(j.Task, a, d.limits, d.now)
	d.tasks++
	if j.Remediable {
		d.remediable++
	}
	reassigned := false // the attempt that runs is the first one after a reassignment
	healthy := false
	for attempt := 1; !s.Phase.Ended(); {
		if d.steps++; d.steps > 200*(n+1)+2000 {
			d.t.Fatalf("task %d (%s) does not end: %+v", n, j.Trouble, s)
		}
		var dec failures.Decision
		switch s.Phase {
		case failures.Working:
			holder := s.Agent
			d.h.Started(holder, d.now)
			o, took := d.w.Run(j, holder, attempt, d.now)
			attempt++
			d.runs++
			d.now = d.now.Add(took)
			if o.Classified != nil && o.Classified.Infra && j.Remediable && !j.Repaired && d.w.chance(n, "aid") < d.aid {
				j.Repaired, o.Classified.Repaired = true, true
			}
			began := time.Now()
			e, failed := failures.Detect(o, classify.Signature)
			if !failed {
				d.h.Ended(failures.Result{Agent: holder}, d.now)
				if reassigned && healthy && !j.shared() {
					d.firstOK++
					d.failedBy[j.Trouble]--
				}
				d.hist.Succeeded(j.Task)
				s.Phase, s.Agent = failures.Done, failures.Agent{} // the loop forgets the policy then
				d.done++
				continue
			}
			d.h.Ended(failures.Result{Agent: holder, Failure: &e}, d.now)
			list := d.list()
			s, dec = failures.Next(s, e, list, d.now)
			d.hist.Add(e, dec.Step)
			d.response = append(d.response, time.Since(began))
			first := !reassigned && dec.Step == failures.StepReassign && d.reassignedOf(j) == 1
			reassigned = first
			if first {
				healthy = slices.ContainsFunc(list, func(c failures.Candidate) bool { return c.Fit && c.Provider != holder.Provider })
				switch {
				case healthy && j.Remediable && !j.shared():
					d.first++
					d.failedBy[j.Trouble]++
				case healthy:
					d.hopeless++
				}
			}
			if dec.Step == failures.StepReassign {
				d.reassigned++
			}
		case failures.Waiting:
			d.now = s.Until
			s, dec = failures.WaitOver(s, d.list(), d.now)
		case failures.Analysing:
			d.analysed++
			d.now = d.now.Add(30 * time.Second)
			an := failures.Analysis{}
			if j.Trouble == Broken {
				j.Repaired = j.Remediable
				an = failures.Analysis{Summary: "a module is missing", Person: !j.Remediable, Why: "nobody may install it"}
			}
			if j.Trouble == CodeFault {
				j.Told, an = true, failures.Analysis{Summary: "a nil map in store.go:41", Instruction: "make the map"}
			}
			s, dec = failures.Analysed(s, an, d.list(), d.now)
		}
		if dec.Step == failures.StepWait {
			d.waits++
		}
		if dec.Alert {
			d.alerts++
		}
	}
	if s.Phase == failures.WithHuman {
		d.persons++
		if j.Remediable {
			d.lost++
		}
	}
	if s.Agent != (failures.Agent{}) {
		d.t.Fatalf("%s still holds task %d", s.Agent, n)
	}
}

func (d *driver) reassignedOf(j Job) int {
	n := 0
	for _, e := range d.hist.Of(j.Task) {
		if e.Response == failures.StepReassign {
			n++
		}
	}
	return n
}

func (d *driver) run(tasks int) {
	for n := range tasks {
		d.play(n)
	}
}

var gemini = failures.Agent{Runner: "gemini", Provider: "google"}

func newDriver(t *testing.T, m Mix, agents ...failures.Agent) *driver {
	return &driver{t: t, w: World{Seed: 7, Mix: m, Remediable: 0.9}, agents: agents, now: t0, aid: 0.8, failedBy: map[Trouble]int{}}
}

// TestPolicySimulation: 10,000 tasks with a mix of failures. Nearly all first
// reassignments to a healthy provider succeed where the runner was the cause, few tasks that have a remedy reach a
// operator, all of them end.
func TestPolicySimulation(t *testing.T) {
	t.Parallel()
	d := newDriver(t, Mix{Hiccup: 0.10, Outage: 0.08, Blackout: 0.01, Broken: 0.05, Hopeless: 0.03, Flaky: 0.08, CodeFault: 0.03}, claude, codex, gemini)
	d.run(10_000)
	ok := float64(d.firstOK) / float64(max(1, d.first))
	lost := float64(d.lost) / float64(d.remediable)
	slices.Sort(d.response)
	t.Logf("%d tasks in %d runs: %d done, %d with an operator (%d of %d curable: %.2f %%); %d reassigned, %d first ones of a runner's failure, %.1f %% of them succeed (not: %v), %d that no runner can help; %d analyses, %d waits, %d alerts; response median %s, worst %s",
		d.tasks, d.runs, d.done, d.persons, d.lost, d.remediable, 100*lost, d.reassigned, d.first, 100*ok, d.failedBy, d.hopeless, d.analysed, d.waits, d.alerts,
		d.response[len(d.response)/2], d.response[len(d.response)-1])
	if d.done+d.persons != d.tasks || d.first < 500 {
		t.Errorf("%d of %d ended, %d reassigned", d.done+d.persons, d.tasks, d.first)
	}
	if ok < 0.9 {
		t.Errorf("%.3f of the first reassignments succeed", ok)
	}
	if lost >= 0.05 {
		t.Errorf("%.3f of the tasks with a remedy reach an operator", lost)
	}
	// What has no remedy reaches an operator, and with few runs.
	if d.persons < d.tasks-d.remediable {
		t.Errorf("%d with an operator, %d have no remedy", d.persons, d.tasks-d.remediable)
	}
}

// TestPolicyExtremes: no mix locks it up, and what cannot be done costs few runs.
func TestPolicyExtremes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		mix    Mix
		agents []failures.Agent
		tasks  int
		most   float64 // runs a task
		person bool    // all of them
	}{
		"all impossible":             {Mix{Hopeless: 1}, []failures.Agent{claude, codex, gemini}, 1000, 3, true},
		"all impossible, one runner": {Mix{Hopeless: 1}, []failures.Agent{claude}, 1000, 3, true},
		"all runners down":           {Mix{Blackout: 1}, []failures.Agent{claude, codex, gemini}, 500, 40, false},
		"one runner, down":           {Mix{Outage: 1}, []failures.Agent{claude}, 500, 40, false},
		"all broken":                 {Mix{Broken: 1}, []failures.Agent{claude, codex}, 1000, 4, false},
		"all flaky":                  {Mix{Flaky: 1}, []failures.Agent{claude, codex, gemini}, 1000, 4, false},
		"all flaky, one runner":      {Mix{Flaky: 1}, []failures.Agent{claude}, 1000, 6, false},
		"all bugs":                   {Mix{CodeFault: 1}, []failures.Agent{claude, codex}, 1000, 4, false},
		"all hiccups":                {Mix{Hiccup: 1}, []failures.Agent{claude, codex}, 1000, 3, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDriver(t, c.mix, c.agents...)
			d.run(c.tasks)
			t.Logf("%d tasks, %d runs, %d done, %d with an operator (%d curable), %d waits, %d alerts", d.tasks, d.runs, d.done, d.persons, d.lost, d.waits, d.alerts)
			if d.done+d.persons != c.tasks || c.person && d.persons != c.tasks {
				t.Errorf("%d done, %d with an operator", d.done, d.persons)
			}
			if got := float64(d.runs) / float64(c.tasks); got > c.most {
				t.Errorf("%.2f runs a task", got)
			}
			if name == "all runners down" && (d.lost > 0 || d.waits == 0 || d.alerts > c.tasks) {
				t.Errorf("%d reached an operator, %d waits, %d alerts", d.lost, d.waits, d.alerts)
			}
		})
	}
}

// TestWorldRepeats: the same seed plays the same.
func TestWorldRepeats(t *testing.T) {
	t.Parallel()
	play := func() *driver {
		d := newDriver(t, Mix{Hiccup: 0.2, Flaky: 0.3, Broken: 0.2}, claude, codex)
		d.run(300)
		return d
	}
	a, b := play(), play()
	if a.runs != b.runs || !a.now.Equal(b.now) || a.persons != b.persons {
		t.Errorf("%d runs until %v, then %d until %v", a.runs, a.now, b.runs, b.now)
	}
}
