package loop

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/superloop/superloop/internal/testkit"
	"github.com/superloop/superloop/recovery/action"
	"github.com/superloop/superloop/recovery/classify"
	"github.com/superloop/superloop/recovery/failures"
	"github.com/superloop/superloop/roles/agent/class"
)

// sim plays the tasks of a World through the machine itself: each is a loop
// with one role, every fact goes through Step, and the figures are folded from the
// events alone. Only agents, people and the clock are played.
type sim struct {
	t      *testing.T
	w      World
	agents []failures.Agent
	health failures.Health
	now    time.Time
	plan   Plan
	fold   failures.Fold

	tasks, done, persons, remediable, lost, runs, waits, remediates int
	// first are the first reassignments of tasks that have a remedy, when another
	// provider was healthy.
	first, firstOK    int
	detected, stepped []time.Duration
}

func newSim(t *testing.T, m Mix, agents ...failures.Agent) *sim {
	p := respondPlan()
	p.Roles, p.Tests, p.MaxIterations, p.BackoffMS = []string{"implementer"}, "disabled", 1, 5000
	return &sim{t: t, w: World{Seed: 7, Mix: m, Remediable: 0.9}, agents: agents, now: t0, plan: p}
}

func (s *sim) list() []failures.Candidate {
	var out []failures.Candidate
	for i, a := range s.agents {
		out = append(out, s.health.Look(a, "", len(s.agents)-i, time.Time{}, s.now))
	}
	if len(out) == 1 && !out[0].Until.After(s.now) {
		out[0].Fit = true
	}
	return out
}

// do puts a fact through Step and its events into the figures.
func (s *sim) do(st State, n int, f Fact) State {
	loop := fmt.Sprintf("task-%06d", n)
	begun := time.Now()
	next, effects := Step(st, Input{At: s.now, LoopID: loop, RunID: "r", Fact: answering(st, f)})
	s.stepped = append(s.stepped, time.Since(begun))
	raw, err := json.Marshal(f)
	if err != nil {
		s.t.Fatal(err)
	}
	s.fold.Add(failures.Record{Event: f.Event(), LoopID: loop, At: s.now, Fields: raw})
	for _, e := range effects {
		if e.Kind == Record {
			s.fold.Add(failures.Record{Event: e.Event, LoopID: loop, At: s.now, Fields: e.Fields})
		}
	}
	return next
}

// choose is what the driver does for a role whose failure policy names nobody.
func (s *sim) choose(e Effect) failures.Agent {
	for _, a := range s.agents {
		if a.Runner == e.Runner && a.Model == e.Model {
			return a
		}
	}
	if c, ok := failures.Choose(s.list(), nil, 0); ok {
		return c.Agent
	}
	return s.agents[0]
}

// play brings one task to its end.
func (s *sim) play(n int) {
	st := s.do(State{}, n, Started{Plan: s.plan, Rules: CurrentRules})
	j := s.w.Job(n, s.choose(*st.Pending), s.now)
	s.tasks++
	if j.Remediable {
		s.remediable++
	}
	reassigned, healthy, given := false, false, 0
	for steps := 0; ; steps++ {
		if st.Status.Ended() {
			if st.Status == Completed {
				s.done++
			} else {
				s.t.Fatalf("task %d (%s) ends %s: %s", n, j.Trouble, st.Status, st.Detail)
			}
			return
		}
		if st.Pending == nil || steps > 3000 {
			s.t.Fatalf("task %d (%s) does not end: %s at %s, %+v", n, j.Trouble, st.Status, st.At, st.Pending)
		}
		p := *st.Pending
		switch p.Kind {
		case RunRole:
			who := s.choose(p)
			s.health.Started(who, s.now)
			s.runs++
			o, took := s.w.Run(j, who, s.attempt(p, st), s.now)
			s.now = s.now.Add(took)
			begun := time.Now()
			f := RoleEnded{Role: p.Role, Runner: who.Runner, Attempt: p.Attempt, Outcome: o.Outcome, ExitCode: o.ExitCode, Class: o.Class, Error: o.Error,
				Output: o.Output, DurationMS: o.DurationMS}
			o.Task, o.At = failures.Task{Loop: st.LoopID, Role: p.Role}, s.now
			ev, failed := failures.Detect(o, classify.Signature)
			res := failures.Result{Agent: who}
			if failed {
				if f.Outcome == OutcomeOK {
					f.Outcome = OutcomeUnfit
				}
				if class.Class(o.Class).Waits() {
					f.Limit = &LimitFact{Provider: who.Provider, Until: o.Until}
				}
				res.Failure = &ev
			}
			s.health.Ended(res, s.now)
			if failed {
				f.Failure = &FailureFact{Event: ev, Candidates: s.list()}
			}
			s.detected = append(s.detected, time.Since(begun))
			if reassigned && healthy && j.Remediable && !j.shared() {
				s.first++
				if !failed {
					s.firstOK++
				}
			}
			st = s.do(st, n, f)
			reassigned = false
			if failed && st.Pending != nil && st.Pending.Kind == RunRole && st.Pending.Reason == ReasonReassigned {
				given++
				reassigned = given == 1
				healthy = slices.ContainsFunc(f.Failure.Candidates, func(c failures.Candidate) bool { return c.Fit && c.Provider != who.Provider })
			}
		case Wait:
			s.waits++
			if p.Until.After(s.now) {
				s.now = p.Until
			}
			st = s.do(st, n, WaitOver{ID: p.ID, Candidates: s.list()})
		case Analyse:
			s.now = s.now.Add(30 * time.Second)
			st = s.do(st, n, s.analyse(&j, st))
		case JudgeAttempt:
			st = s.do(st, n, Proposed{N: st.Recovery.N, Source: SourceSuperloop, Action: st.Recovery.Attempt, Verdict: "auto", Rule: "auto_approve"})
		case ExecuteRecovery:
			st = s.do(st, n, Executing{ID: p.ID, Source: SourceAuto, Command: st.Recovery.Attempt.Command})
			s.now = s.now.Add(20 * time.Second)
			s.remediates++
			j.Repaired = true
			st = s.do(st, n, Executed{ID: p.ID, Command: st.Recovery.Attempt.Command, Ended: "exited"})
		case AskHuman:
			s.persons++
			if j.Remediable {
				s.lost++
			}
			if l := st.Response.Policy; l != nil && l.Agent != (failures.Agent{}) {
				s.t.Fatalf("%s still holds task %d", l.Agent, n)
			}
			return
		case CheckPromise:
			st = s.do(st, n, PromiseChecked{Matched: true})
		default:
			st = s.do(st, n, goodFact(st, true))
		}
	}
}

// attempt numbers the runs of a task as the World counts them.
func (s *sim) attempt(p Effect, st State) int {
	return 1 + len(st.Response.History.Of(failures.Task{Loop: st.LoopID, Role: p.Role}))
}

// analyse is the real analysis of what the World's failures look like.
func (s *sim) analyse(j *Job, st State) Fact {
	task := failures.Task{Loop: st.LoopID, Role: st.Pending.Role}
	c := failures.Case{RunID: "r", Iteration: 1, Task: task, History: st.Response.History.Of(task)}
	switch j.Trouble {
	case Broken:
		if j.Remediable {
			c.Command = "npm ci"
		}
		c.Captures = map[string]string{"pkg": "left-pad"}
		c.Evidence = []failures.Quote{{Source: "log", Text: "Cannot find module 'left-pad'"}}
	case CodeFault:
		c.Evidence = []failures.Quote{{Source: "log", File: "store.go", Line: 41, Text: "panic: nil map in store.go:41"}}
	}
	rc := failures.Analyse(c, s.now)
	f := Analysed{EffectID: st.Pending.ID, AnalysedFields: rc.Fields(task.Role, time.Second), Analysis: rc.Analysis(), Candidates: s.list()}
	if j.Trouble == CodeFault {
		j.Told = f.Analysis.Instruction != ""
	}
	if rc.Fix.Kind == failures.FixEnvironment && rc.Fix.Command != "" && rc.Confidence >= 0.7 {
		f.Command = &action.Action{Command: rc.Fix.Command, WorkingDir: ".", TimeoutMS: 1000, Digest: "d"}
	}
	return f
}

func (s *sim) report() (ok, lost float64, f failures.Figures) {
	f = s.fold.Figures()
	ok, lost = float64(s.firstOK)/float64(max(1, s.first)), float64(s.lost)/float64(max(1, s.remediable))
	slices.Sort(s.detected)
	slices.Sort(s.stepped)
	s.t.Logf("%d tasks in %d runs: %d done, %d with an operator (%d of %d that have a remedy: %.2f %%); %d first reassignments of a runner's failure to a healthy provider, %.1f %% of them succeed; "+
		"%d remedies through the gate, %d waits; detecting takes %s by median, %s at worst, deciding %s and %s; the journal says: %d failures, %d reassigned, %d analysed, %d escalated, fixes %d of %d, recovery median %s",
		s.tasks, s.runs, s.done, s.persons, s.lost, s.remediable, 100*lost, s.first, 100*ok, s.remediates, s.waits,
		s.detected[len(s.detected)/2], s.detected[len(s.detected)-1], s.stepped[len(s.stepped)/2], s.stepped[len(s.stepped)-1],
		f.Failures, f.Reassigned, f.Analysed, f.Escalated, f.Fixes.Runs-f.Fixes.Failures, f.Fixes.Runs, ms(f.Recovery.Median))
	return ok, lost, f
}

// TestSimulation: 10,000 tasks with a mix of failures through the real machine, with
// the criteria of the failure response: nearly all first reassignments succeed where
// the runner was the cause and another provider is healthy, few tasks that have a remedy reach an operator, all end.
// Conforms: 003-mgr-release, 003-sc-first, 003-sc-human
func TestSimulation(t *testing.T) {
	t.Parallel()
	s := newSim(t, Mix{Hiccup: 0.10, Outage: 0.08, Blackout: 0.01, Broken: 0.05, Hopeless: 0.03,
		Flaky: 0.08, CodeFault: 0.03}, claude, codex, gemini)
	tasks := testkit.Sample(2500, 10_000, 10_000)
	for n := range tasks {
		s.play(n)
	}
	ok, lost, f := s.report()
	if s.done+s.persons != s.tasks || s.first < tasks/20 {
		t.Errorf("%d of %d ended, %d reassigned", s.done+s.persons, s.tasks, s.first)
	}
	if ok < 0.9 {
		t.Errorf("%.3f of the first reassignments succeed", ok)
	}
	if lost >= 0.05 {
		t.Errorf("%.3f of the tasks with a remedy reach an operator", lost)
	}
	if f.Total.Runs != s.runs || f.Failures == 0 || f.Escalated != s.persons {
		t.Errorf("the journal says %d runs and %d persons, there were %d and %d", f.Total.Runs, f.Escalated, s.runs, s.persons)
	}
}

// TestSimulationExtremes: no mix locks the machine up, and what cannot be done costs
// few runs.
func TestSimulationExtremes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		mix    Mix
		agents []failures.Agent
		most   float64 // runs a task
		person bool    // all of them
	}{
		"all impossible":             {Mix{Hopeless: 1}, []failures.Agent{claude, codex, gemini}, 3, true},
		"all impossible, one runner": {Mix{Hopeless: 1}, []failures.Agent{claude}, 3, true},
		"all runners down":           {Mix{Blackout: 1}, []failures.Agent{claude, codex, gemini}, 40, false},
		"one runner, down":           {Mix{Outage: 1}, []failures.Agent{claude}, 60, false},
		"all broken":                 {Mix{Broken: 1}, []failures.Agent{claude, codex}, 4, false},
		"all flaky":                  {Mix{Flaky: 1}, []failures.Agent{claude, codex, gemini}, 4, false},
		"all flaky, one runner":      {Mix{Flaky: 1}, []failures.Agent{claude}, 6, false},
		"all bugs":                   {Mix{CodeFault: 1}, []failures.Agent{claude, codex}, 4, false},
		"all hiccups":                {Mix{Hiccup: 1}, []failures.Agent{claude, codex}, 3, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSim(t, c.mix, c.agents...)
			const tasks = 500
			for n := range tasks {
				s.play(n)
			}
			s.report()
			if s.done+s.persons != tasks || c.person && s.persons != tasks {
				t.Errorf("%d done, %d with an operator", s.done, s.persons)
			}
			if got := float64(s.runs) / tasks; got > c.most {
				t.Errorf("%.2f runs a task", got)
			}
			if name == "all runners down" && (s.lost > 0 || s.waits == 0) {
				t.Errorf("%d reached an operator, %d waits", s.lost, s.waits)
			}
		})
	}
}
