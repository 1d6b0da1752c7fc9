package failures

import (
	"encoding/json"
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/superloop/superloop/recovery/classify"
)

func result(t testing.TB, a Agent, task int, o RoleOutcome) Result {
	o.Task, o.Agent = Task{Loop: "l", Role: "r", Item: fmt.Sprint(task)}, a
	e, ok := Detect(o, classify.Signature)
	if !ok {
		t.Fatalf("%+v is no failure", o)
	}
	return Result{Agent: a, Failure: &e}
}

// TestBreaker: three failures in a row over two tasks; a minute; a probe; two
// minutes; a probe that succeeds.
// Conforms: 003-c3-available
func TestBreaker(t *testing.T) {
	t.Parallel()
	var h Health
	exit := RoleOutcome{Outcome: "exit"}
	for n := range 5 {
		if h.Ended(result(t, alice, 1, exit), noon) {
			t.Fatalf("one task has made it unfit, failure %d", n+1)
		}
	}
	if !h.Ended(result(t, alice, 2, exit), noon) {
		t.Fatal("two tasks have not")
	}
	if c := h.Look(alice, "r", 1, time.Time{}, noon); c.usable() || !c.Until.Equal(noon.Add(time.Minute)) || c.Why == "" || c.Tier != 1 {
		t.Errorf("%+v", c)
	}
	if c := h.Look(bob, "r", 0, time.Time{}, noon); !c.Fit {
		t.Errorf("another one: %+v", c)
	}
	at := noon.Add(time.Minute)
	if c := h.Look(alice, "r", 0, time.Time{}, at); c.Fit || !c.Probe {
		t.Errorf("%+v", c)
	}
	h.Started(alice, at)
	if c := h.Look(alice, "r", 0, time.Time{}, at); c.usable() || !c.Until.Equal(at.Add(time.Hour)) {
		t.Errorf("a second probe: %+v", c)
	}
	if !h.Ended(result(t, alice, 1, exit), at) || h.Of(alice).Trips != 2 || !h.Of(alice).Until.Equal(at.Add(2*time.Minute)) {
		t.Errorf("%+v", h.Of(alice))
	}
	at = at.Add(2 * time.Minute)
	h.Started(alice, at)
	if c := h.Look(alice, "r", 0, time.Time{}, at.Add(time.Hour)); !c.Probe {
		t.Errorf("a lost probe blocks it for ever: %+v", c)
	}
	h.Ended(Result{Agent: alice}, at)
	if c := h.Look(alice, "r", 0, time.Time{}, at); !c.Fit || !c.LastSuccess.Equal(at) || h.Of(alice).Trips != 0 {
		t.Errorf("%+v", c)
	}
}

// TestTripped: what makes an agent unfit at once, until when, and what never does.
func TestTripped(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		o     RoleOutcome
		trips bool
		until time.Time
	}{
		"limit, told":   {RoleOutcome{Outcome: "error", Class: "rate_limited", Until: noon.Add(5 * time.Hour)}, true, noon.Add(5 * time.Hour)},
		"limit, untold": {RoleOutcome{Outcome: "error", Class: "rate_limited"}, true, noon.Add(time.Minute)},
		"overloaded":    {RoleOutcome{Outcome: "error", Class: "overloaded"}, true, noon.Add(time.Minute)},
		"login":         {RoleOutcome{Outcome: "error", Class: "auth"}, true, time.Time{}},
		"settings":      {RoleOutcome{Outcome: "error", Class: "config_error"}, true, time.Time{}},
		"the ground":    {RoleOutcome{Outcome: "exit", Classified: &Classified{Category: "disk_full", Infra: true, Confidence: 0.9}}, false, time.Time{}},
		"the task":      {RoleOutcome{Outcome: "error", Class: "refused"}, false, time.Time{}},
		"chance":        {RoleOutcome{Outcome: "lost"}, false, time.Time{}},
	} {
		var h Health
		for task := range 4 {
			if got := h.Ended(result(t, alice, task, c.o), noon); got != c.trips {
				t.Fatalf("%s: tripped %v", name, got)
			}
			if task == 0 {
				if b := h.Of(alice); c.trips != (b.Circuit == OpenCut) || !b.Until.Equal(c.until) {
					t.Errorf("%s: %+v", name, b)
				}
			}
		}
	}
}

// TestSharedLimit: what other loops know counts, too; the later end wins, and what
// needs an operator is not lifted by time.
func TestSharedLimit(t *testing.T) {
	t.Parallel()
	var h Health
	limit := noon.Add(10 * time.Minute)
	if c := h.Look(alice, "r", 0, limit, noon); c.usable() || !c.Until.Equal(limit) {
		t.Errorf("%+v", c)
	}
	if c := h.Look(alice, "r", 0, limit, limit); !c.Fit {
		t.Errorf("%+v", c)
	}
	h.Ended(result(t, alice, 1, RoleOutcome{Outcome: "error", Class: "rate_limited", Until: noon.Add(time.Hour)}), noon)
	if c := h.Look(alice, "r", 0, limit, noon); !c.Until.Equal(noon.Add(time.Hour)) {
		t.Errorf("%+v", c)
	}
	h.Ended(result(t, alice, 1, RoleOutcome{Outcome: "error", Class: "auth"}), noon)
	if c := h.Look(alice, "r", 0, limit, noon); c.usable() || !c.Until.IsZero() {
		t.Errorf("%+v", c)
	}
	if c := h.Look(alice, "r", 0, time.Time{}, noon.Add(1000*time.Hour)); c.usable() || !c.Until.IsZero() {
		t.Errorf("%+v", c)
	}
	h.Reset(alice)
	if c := h.Look(alice, "r", 0, time.Time{}, noon); !c.Fit || h.Of(alice).Runs != 2 {
		t.Errorf("%+v, %+v", c, h.Of(alice))
	}
}

// TestFigures: the success rate is of the last runs, a success costs what the
// failures before it cost, and what nobody told is not nothing.
func TestHealthFigures(t *testing.T) {
	t.Parallel()
	var h Health
	usd := func(v float64) *float64 { return &v }
	if _, ok := h.Of(alice).SuccessRate(); ok {
		t.Error("a rate of nothing")
	}
	for n := range 60 {
		r := result(t, alice, n, RoleOutcome{Outcome: "error", Class: "refused"})
		if n >= 20 {
			r.Failure = nil
		}
		r.CostUSD = usd(0.5)
		h.Ended(r, noon.Add(time.Duration(n)*time.Minute))
	}
	b := h.Of(alice)
	if rate, ok := b.SuccessRate(); !ok || math.Abs(rate-0.8) > 1e-9 {
		t.Errorf("rate %v", rate)
	}
	if cost, ok := b.CostPerSuccess(); !ok || math.Abs(cost-0.75) > 1e-9 || b.Runs != 60 || b.Successes != 40 {
		t.Errorf("cost %v of %+v", cost, b)
	}
	h.Ended(Result{Agent: bob}, noon)
	if _, ok := h.Of(bob).CostPerSuccess(); ok {
		t.Error("nobody told what bob costs")
	}
	h.Broken(bob)
	if len(h.Breakers) != 2 || h.Breakers[1].Agent != bob {
		t.Errorf("%+v", h.Breakers)
	}
}

// TestHealthForever: after any history an agent is usable, or it is known when it
// will be, or an operator has to mend it; a Look changes nothing; it stays small.
func TestHealthForever(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		h, now := Health{}, noon
		for range rapid.IntRange(0, 80).Draw(rt, "n") {
			a := Agent{Runner: fmt.Sprint("r", rapid.IntRange(0, 120).Draw(rt, "agent"))}
			now = now.Add(time.Duration(rapid.IntRange(0, 4000).Draw(rt, "s")) * time.Second)
			was := fmt.Sprintf("%+v", h)
			c := h.Look(a, "r", 0, time.Time{}, now)
			if was != fmt.Sprintf("%+v", h) {
				rt.Fatal("a look has changed it")
			}
			person := h.Of(a).Circuit == OpenCut && h.Of(a).Until.IsZero()
			if !c.usable() && !person && (!c.Until.After(now) || c.Until.Sub(now) > 10*time.Hour) || c.usable() && person {
				rt.Fatalf("%+v of %+v at %v", c, h.Of(a), now)
			}
			h.Started(a, now)
			if rapid.IntRange(0, 9).Draw(rt, "lost") == 0 {
				continue
			}
			o := anyOutcome(rt)
			o.Until = now.Add(time.Duration(rapid.IntRange(-60, 36000).Draw(rt, "told")) * time.Second)
			if e, ok := Detect(o, classify.Signature); ok {
				h.Ended(Result{Agent: a, Failure: &e}, now)
			} else {
				h.Ended(Result{Agent: a}, now)
				if !h.Look(a, "r", 0, time.Time{}, now).Fit {
					rt.Fatal("who has just succeeded is unfit")
				}
			}
		}
		if len(h.Breakers) > maxAgents {
			rt.Fatalf("%d agents", len(h.Breakers))
		}
		data, err := json.Marshal(h)
		var back Health
		if err != nil || json.Unmarshal(data, &back) != nil || fmt.Sprintf("%+v", back) != fmt.Sprintf("%+v", h) {
			rt.Fatalf("%v: %+v, was %+v", err, back, h)
		}
	})
}

// TestLateSuccess: a success that is told after a later failure counts, and forgives
// nothing.
func TestLateSuccess(t *testing.T) {
	t.Parallel()
	a := Agent{Runner: "a"}
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	probe := at.Add(time.Second)
	h := Health{Breakers: []Breaker{{Agent: a, Circuit: HalfOpen, InRow: 2, Trips: 1, ProbeAt: probe, LastFailure: at, Runs: 2, Recent: "--", LastSuccess: at.Add(-time.Hour)}}}
	early := at.Add(-time.Millisecond)
	h.Ended(Result{Agent: a}, early)
	b := h.Of(a)
	if b.Circuit != HalfOpen || b.InRow != 2 || b.Trips != 1 || !b.ProbeAt.Equal(probe) || b.Runs != 3 || b.Successes != 1 || b.Recent != "--+" || !b.LastSuccess.Equal(early) {
		t.Errorf("%+v", b)
	}
	h.Ended(Result{Agent: a}, at.Add(-time.Minute))
	if b := h.Of(a); !b.LastSuccess.Equal(early) || b.Successes != 2 {
		t.Errorf("%+v", b)
	}
	h.Ended(Result{Agent: a}, at)
	if b := h.Of(a); b.Circuit != Closed || b.InRow != 0 || b.Trips != 0 || !b.ProbeAt.IsZero() {
		t.Errorf("%+v", b)
	}
}
