package replay

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/journal"
	"github.com/superloop/superloop/recovery"
	"github.com/superloop/superloop/recovery/action"
)

// player drives the real machine through iterations in which a tester proposes commands, with a policy that judges them
// as the performers do. It keeps the events.
type player struct {
	t      testing.TB
	policy *recovery.Policy
	s      loop.State
	now    time.Time
	events []journal.Event
	runs   int
	pause  time.Duration // the time between two facts
	answer func() string // of an operator
	ends   func() int    // the exit code of a command
}

// proposal is what a tester proposes, with the facts of that time.
type proposal struct {
	command, confidence, changed string
	confined, loose              bool
}

func newPlayer(t testing.TB, p *recovery.Policy) *player {
	return &player{t: t, policy: p, now: time.Date(2026, 3, 1, 22, 0, 0, 0, time.UTC), pause: time.Second,
		answer: func() string { return loop.MethodApprove }, ends: func() int { return 0 }}
}

// start begins a run.
func (p *player) start() {
	p.runs++
	w, err := loop.WireOf(loop.Started{Rules: loop.CurrentRules, Plan: loop.Plan{SpecFile: "spec.md", Roles: []string{"tester"}, Promise: "DONE", Tests: "every", Attempts: 3, Recovery: true}}, p.now)
	if err != nil {
		p.t.Fatal(err)
	}
	w.LoopID, w.RunID = "one", fmt.Sprintf("run-%d", p.runs)
	p.wire(w)
}

func (p *player) fact(f loop.Fact) {
	w, err := loop.WireOf(f, p.now)
	if err != nil {
		p.t.Fatal(err)
	}
	p.wire(w)
}

func (p *player) wire(w loop.Wire) {
	p.t.Helper()
	next, lines, taken, err := loop.Apply(p.s, w, p.now)
	if err != nil || !taken {
		p.t.Fatalf("%s was not taken at %+v: %v", w.Event, p.s.Pending, err)
	}
	for _, l := range lines {
		p.events = append(p.events, journal.Event{Seq: int64(len(p.events) + 1), Timestamp: l.Timestamp, Event: l.Event, LoopID: l.LoopID, RunID: l.RunID, Iteration: l.Iteration, Fields: l.Fields})
	}
	p.s, p.now = next, p.now.Add(p.pause)
}

// judged returns the fact of a verdict on an action.
func (p *player) judged(e loop.Effect, n int, a action.Action, fallback bool, now proposal, taking bool) loop.Fact {
	known := action.Facts{Confined: &now.confined, Loose: &now.loose}
	facts := recovery.Facts{Confined: now.confined, LooseOK: now.loose}
	if p.policy.Settings.Guard != recovery.GuardOff {
		facts.Changed, known.Changed = now.changed, &now.changed
	}
	v := recovery.Limit(p.policy, recovery.Decide(p.policy, recovery.Command{Text: a.Command, WorkingDir: a.WorkingDir, Confidence: a.Confidence}, facts), recovery.Budget(p.s.Budget(a.Digest)), p.now)
	if v.Decision == action.Auto && taking && slices.Contains(p.s.Recoveries.Ran, a.Digest) {
		v.Decision, v.Rule, v.Reason = action.Human, loop.RuleRan, loop.ReasonRan
	}
	if v.Decision == action.Invalid && taking {
		return loop.ProposalInvalid{Of: loop.To(e), Role: "tester", Problems: []loop.Problem{}, Digest: fmt.Sprint(p.now), Command: a.Command, Rule: v.Rule, Reason: v.Reason, PolicyDigest: v.PolicyDigest, Facts: known}
	}
	return loop.Proposed{Of: loop.To(e), N: n, Source: "tester", Digest: fmt.Sprint(p.now), Action: a, Fallback: fallback, Verdict: string(v.Decision), Rule: v.Rule, Reason: v.Reason, NotBefore: v.NotBefore,
		PolicyDigest: v.PolicyDigest, InputsDigest: "in", Facts: known}
}

// iteration plays one iteration in which a tester makes a proposal, or none.
func (p *player) iteration(now *proposal) {
	p.t.Helper()
	if p.s.Pending == nil {
		p.start()
	}
	for from := p.s.Iteration; p.s.Pending != nil && p.s.Iteration == from; {
		e := *p.s.Pending
		of := loop.To(e)
		switch e.Kind {
		case loop.RunRole:
			p.fact(loop.RoleStarted{Of: of, Role: e.Role, Attempt: e.Attempt})
			p.fact(loop.RoleEnded{Of: of, Role: e.Role, Attempt: e.Attempt, Outcome: loop.OutcomeOK, Output: "fresh", Proposal: now != nil})
		case loop.TakeProposal:
			p.fact(p.judged(e, p.s.Recoveries.Proposed+1, action.Draft{Command: now.command, WorkingDir: ".", TimeoutMS: 1000, Confidence: now.confidence}.Action(), false, *now, true))
		case loop.JudgeAttempt:
			p.fact(p.judged(e, p.s.Recovery.N, p.s.Recovery.Attempt, p.s.Recovery.Fallback, *now, false))
		case loop.ExecuteRecovery:
			r := p.s.Recovery
			p.fact(loop.Executing{N: r.N, ID: e.ID, Source: r.Approved, Command: r.Attempt.Command, WorkingDir: "."})
			p.fact(loop.Executed{N: r.N, ID: e.ID, Command: r.Attempt.Command, ExitCode: p.ends(), Ended: "exited"})
		case loop.RunTests:
			p.fact(loop.TestsStarted{Of: of, Commands: []string{"check"}, Reason: e.Reason})
			p.fact(loop.TestsEnded{Of: of, Status: "failed", ExitCode: 1, Tree: "t", Verification: &loop.Verification{Result: loop.Ineffective}})
		case loop.AskHuman:
			p.fact(loop.Escalated{Of: of, Type: loop.EscalationApproval, Awaiting: "human", ID: e.ID, N: p.s.Recovery.N})
			method := p.answer()
			if p.s.Recovery.Tries > 0 {
				method = loop.MethodReject // it would be asked about for ever
			}
			p.fact(loop.Resolved{Of: of, ID: e.ID, By: "cli:ann", Method: method})
		case loop.Wait:
			p.now = p.now.Add(max(0, e.Until.Sub(p.now)))
			p.fact(loop.WaitOver{ID: e.ID})
		case loop.CheckPromise:
			p.fact(loop.PromiseChecked{Of: of, Expected: "DONE", Tree: "t"})
		case loop.Report:
			p.fact(loop.Reported{Of: of})
		default:
			p.t.Fatalf("nothing plays %s", e.Kind)
		}
	}
}

// fold returns the report of a Fold over the events.
func fold(t testing.TB, o Options, events []journal.Event) Report {
	t.Helper()
	f := New(o)
	for _, ev := range events {
		if err := f.Add(ev); err != nil {
			t.Fatal(err)
		}
	}
	return f.Report()
}

// keeps returns a function that knows some policies.
func keeps(all ...*recovery.Policy) func(string) (*recovery.Policy, error) {
	return func(digest string) (*recovery.Policy, error) {
		for _, p := range all {
			if p.Digest == digest {
				return p, nil
			}
		}
		return nil, fmt.Errorf("no policy %s", digest)
	}
}

func policy(t interface{ Fatal(...any) }, change func(s *recovery.Settings)) *recovery.Policy {
	s := recovery.Defaults()
	s.AutoApprove = []string{"npm ci"}
	change(&s)
	p, problems := recovery.Compile(s)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return p
}

// without returns the events with a fact taken out of the verdicts.
func without(t testing.TB, events []journal.Event, fact string) []journal.Event {
	t.Helper()
	events = slices.Clone(events)
	for i, ev := range events {
		var all, facts map[string]json.RawMessage
		if json.Unmarshal(ev.Fields, &all) != nil || json.Unmarshal(all["facts"], &facts) != nil {
			continue
		}
		delete(facts, fact)
		all["facts"], _ = json.Marshal(facts)
		events[i].Fields, _ = json.Marshal(all)
	}
	return events
}
