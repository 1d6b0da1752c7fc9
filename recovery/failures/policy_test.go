package failures

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/superloop/superloop/recovery/classify"
)

func fit(agents ...Agent) []Candidate {
	var out []Candidate
	for _, a := range agents {
		out = append(out, Candidate{Agent: a, Fit: true})
	}
	return out
}

func event(t testing.TB, o RoleOutcome, a Agent) Event {
	t.Helper()
	o.Task, o.Agent = work, a
	e, ok := Detect(o, classify.Signature)
	if !ok {
		t.Fatalf("%+v is no failure", o)
	}
	return e
}

// crash is a counted failure, each with a signature of its own.
func crash(t testing.TB, a Agent, says string) Event {
	return event(t, RoleOutcome{Outcome: "exit", ExitCode: 1, Error: says}, a)
}

// TestThreeSteps: another agent, the cause, an operator.
// Conforms: 003-req-2, 003-req-3, 003-pipe-first, 003-pipe-second, 003-pipe-third, 003-c3-mark, 003-c4-trigger-count
// Conforms: 003-mgr-first, 003-mgr-second, 003-mgr-third, 003-mgr-release
func TestThreeSteps(t *testing.T) {
	t.Parallel()
	opus := Agent{Runner: "claude", Provider: "anthropic", Model: "opus"}
	list := fit(alice, opus, bob, carol)
	s := New(work, alice, Limits{}, noon)
	s, d := Next(s, crash(t, alice, "red"), list, noon.Add(time.Minute))
	if d.Step != StepReassign || d.Agent != bob || d.From != alice || !d.Release || !d.NewSession || d.Reason != ReasonFailed || s.Agent != bob {
		t.Fatalf("first: %+v", d)
	}
	if len(d.Tell) != 1 || !strings.Contains(d.Tell[0], "claude (anthropic, sonnet)") || !strings.Contains(d.Tell[0], "red") {
		t.Errorf("it tells %q", d.Tell)
	}
	s, d = Next(s, crash(t, bob, "green"), list, noon.Add(2*time.Minute))
	if d.Step != StepRootCause || d.Agent != (Agent{}) || d.From != bob || !d.Release || s.Phase != Analysing || !d.Until.Equal(noon.Add(12*time.Minute)) {
		t.Fatalf("second: %+v", d)
	}
	s, d = Analysed(s, Analysis{Summary: "the store is locked", Instruction: "close it"}, list, noon.Add(3*time.Minute))
	if d.Step != StepResume || d.Agent != carol || len(d.Tell) != 4 || d.Tell[2] != "cause found: the store is locked" {
		t.Fatalf("after the analysis: %+v", d)
	}
	s, d = Next(s, crash(t, carol, "blue"), list, noon.Add(4*time.Minute))
	if d.Step != StepEscalate || d.Type != TypeRole || d.Reason != ReasonTooOften || !d.Release || s.Phase != WithHuman || s.Agent != (Agent{}) {
		t.Fatalf("third: %+v", d)
	}
	if again, d := Next(s, crash(t, carol, "late"), list, noon.Add(5*time.Minute)); d.Step != StepNone || !reflect.DeepEqual(again, s) {
		t.Errorf("an end goes on: %+v", d)
	}
	s, d = Answered(s, "use the other store", list, noon.Add(time.Hour))
	if d.Step != StepResume || s.Phase != Working || s.Counted != 0 || !strings.Contains(d.Tell[len(d.Tell)-1], "use the other store") {
		t.Errorf("after the answer: %+v", d)
	}
}

// TestAnswers: what each kind of failure leads to when it is the first.
// Conforms: 003-c3-none
func TestAnswers(t *testing.T) {
	t.Parallel()
	down := func(c Candidate, until time.Time) Candidate { c.Fit, c.Until = false, until; return c }
	later := noon.Add(20 * time.Minute)
	both := fit(alice, bob)
	for name, c := range map[string]struct {
		o      RoleOutcome
		list   []Candidate
		limits Limits
		step   Step
		agent  Agent
		reason string
		typ    string
		until  time.Time
		alert  bool
	}{
		"nobody left":          {o: RoleOutcome{Outcome: "exit"}, list: fit(alice), step: StepRootCause, reason: ReasonNobodyLeft, until: noon.Add(10 * time.Minute)},
		"the others are unfit": {o: RoleOutcome{Outcome: "exit"}, list: []Candidate{both[0], down(both[1], later)}, step: StepRootCause, reason: ReasonNobodyLeft, until: noon.Add(10 * time.Minute)},
		"provider down":        {o: RoleOutcome{Outcome: "error", Class: "overloaded"}, list: both, step: StepReassign, agent: bob, reason: ReasonProvider},
		"one runner, limited": {o: RoleOutcome{Outcome: "error", Class: "rate_limited", Until: later}, list: fit(alice), step: StepWait, reason: ReasonProvider,
			until: later},
		"all down": {o: RoleOutcome{Outcome: "error", Class: "overloaded"}, list: []Candidate{down(both[0], later), down(both[1], noon.Add(time.Minute))}, step: StepWait,
			reason: ReasonProvider, typ: TypeRunner, until: noon.Add(time.Minute), alert: true},
		"impossible":    {o: RoleOutcome{Outcome: "exit", Impossible: "no such item"}, list: both, step: StepEscalate, reason: ReasonImpossible, typ: TypeRole},
		"misconfigured": {o: RoleOutcome{Outcome: "exit", Class: "bad_model"}, list: both, step: StepEscalate, reason: ReasonMisconfigured, typ: TypeRunner},
		"misconfigured, fall over": {o: RoleOutcome{Outcome: "exit", Class: "bad_model"}, list: both, limits: Limits{FallOver: true}, step: StepReassign, agent: bob,
			reason: ReasonMisconfigured, typ: TypeRunner, alert: true},
		"misconfigured, alone":  {o: RoleOutcome{Outcome: "exit", Class: "bad_model"}, list: fit(alice), limits: Limits{FallOver: true}, step: StepEscalate, reason: ReasonNobodyLeft, typ: TypeRunner},
		"login, another runner": {o: RoleOutcome{Outcome: "exit", Class: "auth"}, list: both, step: StepReassign, agent: bob, reason: ReasonAccount, typ: TypeRunner, alert: true},
		"login, alone":          {o: RoleOutcome{Outcome: "exit", Class: "auth"}, list: fit(alice), step: StepEscalate, reason: ReasonNobodyLeft, typ: TypeRunner},
		"budget":                {o: RoleOutcome{Outcome: "exit", Class: "budget"}, list: both, step: StepEscalate, reason: ReasonTooMany, typ: TypeRole},
		"lost":                  {o: RoleOutcome{Outcome: "lost"}, list: both, step: StepRetry, agent: alice, reason: ReasonChance},
		"session":               {o: RoleOutcome{Outcome: "exit", Class: "no_session"}, list: both, step: StepRetry, agent: alice, reason: ReasonChance},
		"mended": {o: RoleOutcome{Outcome: "exit", Classified: &Classified{Category: "dependency", Infra: true, Repaired: true}}, list: both, step: StepRetry, agent: alice,
			reason: ReasonRepaired},
		"one run at most": {o: RoleOutcome{Outcome: "exit"}, list: both, limits: Limits{Runs: 1}, step: StepEscalate, reason: ReasonTooMany, typ: TypeRole},
		"ground, not mended": {o: RoleOutcome{Outcome: "exit", Classified: &Classified{Category: "disk_full", Infra: true, Confidence: 0.9}}, list: both, step: StepReassign, agent: bob,
			reason: ReasonFailed},
		"ground, alone": {o: RoleOutcome{Outcome: "exit", Classified: &Classified{Category: "disk_full", Infra: true, Confidence: 0.9}}, list: fit(alice), step: StepRootCause,
			reason: ReasonNobodyLeft, until: noon.Add(10 * time.Minute)},
		"the only other is stopped by a check": {o: RoleOutcome{Outcome: "exit"}, list: []Candidate{both[0], {Agent: bob, Fit: true, Check: "tool-1"}}, step: StepRootCause,
			reason: ReasonNobodyLeft, until: noon.Add(10 * time.Minute)},
		"refused once": {o: RoleOutcome{Outcome: "error", Class: "refused"}, list: both, step: StepReassign, agent: bob, reason: ReasonFailed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, d := Next(New(work, alice, c.limits, noon), event(t, c.o, alice), c.list, noon)
			if d.Step != c.step || d.Agent != c.agent || d.Reason != c.reason || d.Type != c.typ || !d.Until.Equal(c.until) || d.Alert != c.alert || !d.Release {
				t.Errorf("got %+v", d)
			}
			if s.Agent != d.Agent || (s.Phase == Working) != (d.Agent != Agent{}) {
				t.Errorf("%+v does not hold what %+v gives", s, d)
			}
		})
	}
}

// TestRefusedTwice: what two providers refuse is not tried with a third.
// Conforms: 003-req-repeat
func TestRefusedTwice(t *testing.T) {
	t.Parallel()
	refuse := RoleOutcome{Outcome: "error", Class: "refused"}
	s, d := Next(New(work, alice, Limits{}, noon), event(t, refuse, alice), fit(alice, bob, carol), noon)
	s, d = Next(s, event(t, refuse, d.Agent), fit(alice, bob, carol), noon.Add(time.Minute))
	if d.Step != StepEscalate || d.Reason != ReasonImpossible || len(s.Refused) != 2 {
		t.Errorf("%+v", d)
	}
}

// TestSameFailure: the third time is an operator's, though none of them counts.
// Conforms: 003-req-repeat
func TestSameFailure(t *testing.T) {
	t.Parallel()
	mended := RoleOutcome{Outcome: "exit", Classified: &Classified{Category: "dependency", Infra: true, Repaired: true, Signature: "dependency-1"}}
	s, d := New(work, alice, Limits{}, noon), Decision{}
	for range 2 {
		if s, d = Next(s, event(t, mended, alice), fit(alice, bob), noon); d.Step != StepRetry || s.Counted != 0 {
			t.Fatalf("%+v", d)
		}
	}
	if _, d = Next(s, event(t, mended, alice), fit(alice, bob), noon); d.Step != StepEscalate || d.Reason != ReasonSame {
		t.Errorf("%+v", d)
	}
}

// TestOutage: both down; one alert; on when one is back; nothing counted.
func TestOutage(t *testing.T) {
	t.Parallel()
	down := RoleOutcome{Outcome: "error", Class: "overloaded"}
	at := noon
	list := []Candidate{{Agent: alice, Until: at.Add(time.Minute)}, {Agent: bob, Fit: true}}
	s, d := Next(New(work, alice, Limits{}, noon), event(t, down, alice), list, at)
	if d.Step != StepReassign || d.Agent != bob {
		t.Fatalf("%+v", d)
	}
	list[1] = Candidate{Agent: bob, Until: at.Add(2 * time.Minute)}
	s, d = Next(s, event(t, down, bob), list, at)
	if d.Step != StepWait || !d.Alert || !d.Until.Equal(at.Add(time.Minute)) || !d.Release {
		t.Fatalf("%+v", d)
	}
	for n := range 5 {
		at = d.Until
		list = []Candidate{{Agent: alice, Until: at.Add(10 * time.Minute)}, {Agent: bob, Until: at.Add(5 * time.Minute)}}
		if s, d = WaitOver(s, list, at); d.Step != StepWait || d.Alert || !d.Until.Equal(at.Add(5*time.Minute)) {
			t.Fatalf("wait %d: %+v", n, d)
		}
	}
	s, d = WaitOver(s, []Candidate{{Agent: alice, Probe: true}, {Agent: bob, Until: at.Add(time.Hour)}}, d.Until)
	if d.Step != StepResume || d.Agent != alice || s.Counted != 0 || !d.NewSession {
		t.Fatalf("%+v", d)
	}
}

// TestWaitsAreBounded: a day of waiting, then an operator; the wall clock stands still
// meanwhile.
func TestWaitsAreBounded(t *testing.T) {
	t.Parallel()
	at := noon
	unfit := func() []Candidate { return []Candidate{{Agent: alice, Until: at.Add(7 * time.Hour)}} }
	s, d := Next(New(work, alice, Limits{}, noon), event(t, RoleOutcome{Outcome: "error", Class: "network"}, alice), unfit(), at)
	waits := 0
	for d.Step == StepWait {
		waits++
		at = d.Until
		s, d = WaitOver(s, unfit(), at)
	}
	if waits != 4 || at.Sub(noon) != 24*time.Hour || d.Step != StepEscalate || d.Type != TypeRunner || d.Reason != ReasonTooLong || s.worked(at) != 0 {
		t.Errorf("%d waits until %v: %+v, worked %d ms", waits, at, d, s.worked(at))
	}
}

// TestWall: the time in which something was done is bounded, too.
func TestWall(t *testing.T) {
	t.Parallel()
	s, d := Next(New(work, alice, Limits{}, noon), crash(t, alice, "red"), fit(alice, bob), noon)
	if _, d = Next(s, crash(t, d.Agent, "green"), fit(alice, bob), noon.Add(7*time.Hour)); d.Reason != ReasonTooLong {
		t.Errorf("%+v", d)
	}
}

// TestNotDown: a provider that works for other tasks is not what this one fails of.
func TestNotDown(t *testing.T) {
	t.Parallel()
	at, s, d := noon, New(work, alice, Limits{}, noon), Decision{Agent: alice}
	for range 20 {
		list := fit(alice)
		list[0].LastSuccess = at
		at = at.Add(time.Minute)
		switch s.Phase {
		case Working:
			s, d = Next(s, event(t, RoleOutcome{Outcome: "error", Class: "overloaded"}, d.Agent), list, at)
		case Waiting:
			s, d = WaitOver(s, list, at)
		case Analysing:
			s, d = Analysed(s, Analysis{}, list, at)
		}
		if s.Phase.Ended() {
			break
		}
	}
	if s.Phase != WithHuman || s.Analyses == 0 {
		t.Errorf("%+v", s)
	}
}

// TestWrongList: who is fit by the list and down by experience is waited for after
// two rounds, so that nothing is tried in a storm.
func TestWrongList(t *testing.T) {
	t.Parallel()
	s, d := New(work, alice, Limits{}, noon), Decision{}
	runs := 0
	for s.Phase == Working && runs < 50 {
		s, d = Next(s, event(t, RoleOutcome{Outcome: "error", Class: "overloaded"}, s.Agent), fit(alice, bob), noon)
		runs++
	}
	if runs != 5 || d.Step != StepWait || !d.Until.Equal(noon.Add(restAfterDowns)) {
		t.Errorf("after %d runs: %+v", runs, d)
	}
}

// TestMended: what was mended afterwards is taken back.
func TestMended(t *testing.T) {
	t.Parallel()
	e := crash(t, alice, "red")
	s, _ := Next(New(work, alice, Limits{}, noon), e, fit(alice, bob), noon)
	if s = Mended(s, e.Signature, 1); s.Counted != 0 || len(s.Failed) != 1 {
		t.Errorf("%+v", s)
	}
	if s = Mended(s, e.Signature, 5); s.Counted != 0 {
		t.Errorf("%+v", s)
	}
}

// TestFailurePolicy plays random failures, lists and times. Whatever comes, it ends or
// knows when to go on; nobody holds a task that is not being worked on; who failed
// it is not given it before the cause was looked for; the bounds hold; what is
// given is not changed, and survives JSON.
// Conforms: 003-c3-mark, 003-c3-notagain, 003-hook-assign
func TestFailurePolicy(t *testing.T) {
	t.Parallel()
	agents := []Agent{alice, bob, carol, {Runner: "claude", Provider: "anthropic", Model: "opus"}}
	rapid.Check(t, func(rt *rapid.T) {
		limits := Limits{Failures: rapid.IntRange(0, 5).Draw(rt, "failures"), FallOver: rapid.Bool().Draw(rt, "over"),
			WaitMS: int64(rapid.IntRange(0, 10_000_000).Draw(rt, "wait"))}
		now, s := noon, New(work, alice, limits, noon)
		steps := 0
		for ; !s.Phase.Ended(); steps++ {
			if steps > 2000 {
				rt.Fatalf("no end: %+v", s)
			}
			list := anyList(rt, agents, now)
			was, _ := json.Marshal(s)
			var next State
			var d Decision
			switch s.Phase {
			case Working:
				now = now.Add(time.Duration(rapid.IntRange(0, 3600).Draw(rt, "ran")) * time.Second)
				e, failed := Detect(anyOutcome(rt), classify.Signature)
				e.Agent, e.At = s.Agent, now
				if failed {
					next, d = Next(s, e, list, now)
				} else {
					next = s // the loop forgets the policy of a task that is done
					next.Phase, next.Agent = Done, Agent{}
				}
				if failed && (!d.Release || d.From != s.Agent) {
					rt.Fatalf("%s is not released: %+v", s.Agent, d)
				}
			case Waiting:
				now = s.Until
				next, d = WaitOver(s, list, now)
			case Analysing:
				now = now.Add(time.Minute)
				next, d = Analysed(s, Analysis{Person: rapid.IntRange(0, 9).Draw(rt, "sure") == 0}, list, now)
			}
			if after, _ := json.Marshal(s); string(after) != string(was) {
				rt.Fatalf("what was given has changed:\n%s\n%s", was, after)
			}
			if (next.Phase == Working) != (next.Agent != Agent{}) || d.Agent != next.Agent {
				rt.Fatalf("%s, and %s holds it: %+v", next.Phase, next.Agent, d)
			}
			if (next.Phase == Waiting || next.Phase == Analysing) && !next.Until.After(now) {
				rt.Fatalf("%s until %v, it is %v", next.Phase, next.Until, now)
			}
			if d.Step == StepReassign && slices.Contains(next.Failed, d.Agent) && next.Analyses == 0 {
				rt.Fatalf("%s has failed it before: %+v", d.Agent, next)
			}
			if d.Agent != (Agent{}) && !slices.ContainsFunc(list, func(c Candidate) bool { return c.Agent == d.Agent && c.usable() }) {
				rt.Fatalf("%s is not fit: %+v", d.Agent, list)
			}
			if next.Phase == WithHuman && (d.Type == "" || d.Reason == "" || d.Step != StepEscalate) {
				rt.Fatalf("an operator is not told why: %+v", d)
			}
			if len(next.Tell) > maxTell || next.Runs > next.Limits.Runs || next.Counted > next.Limits.Failures {
				rt.Fatalf("out of bounds: %+v", next)
			}
			s = back(rt, next)
		}
	})
}

// back is a state after it was written down and read.
func back(rt *rapid.T, s State) State {
	data, err := json.Marshal(s)
	if err != nil {
		rt.Fatal(err)
	}
	var out State
	if err := json.Unmarshal(data, &out); err != nil || fmt.Sprintf("%+v", out) != fmt.Sprintf("%+v", s) {
		rt.Fatalf("%v\n%+v\n%+v", err, out, s)
	}
	return out
}

func anyList(rt *rapid.T, agents []Agent, now time.Time) []Candidate {
	var list []Candidate
	for i, a := range agents[:rapid.IntRange(1, len(agents)).Draw(rt, "agents")] {
		c := Candidate{Agent: a, Tier: rapid.IntRange(0, 2).Draw(rt, "tier")}
		switch rapid.IntRange(0, 4).Draw(rt, fmt.Sprint("fit", i)) {
		case 0:
			c.Probe = true
		case 1:
			c.Until = now.Add(time.Duration(rapid.IntRange(-5, 7200).Draw(rt, "until")) * time.Second)
		case 2: // for an operator to mend
		default:
			c.Fit = true
		}
		if rapid.Bool().Draw(rt, "works") {
			c.LastSuccess = now
		}
		list = append(list, c)
	}
	return list
}
