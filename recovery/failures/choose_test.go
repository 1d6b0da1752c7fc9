package failures

import (
	"slices"
	"testing"
	"time"
)

// TestChoose: fit before on probation, another provider before the same, no lower
// tier, then as listed.
// Conforms: 003-c3-provider, 003-c3-tier, 003-c3-available
func TestChoose(t *testing.T) {
	t.Parallel()
	a := func(r, p string, tier int) Candidate {
		return Candidate{Agent: Agent{Runner: r, Provider: p}, Tier: tier, Fit: true}
	}
	probe := func(c Candidate) Candidate { c.Fit, c.Probe = false, true; return c }
	gone := func(c Candidate) Candidate { c.Fit = false; return c }
	list := []Candidate{a("a", "x", 2)}
	for name, c := range map[string]struct {
		more []Candidate
		want string
	}{
		"other provider":             {[]Candidate{a("b", "x", 3), a("c", "y", 2)}, "c"},
		"even if lower":              {[]Candidate{a("b", "x", 3), a("c", "y", 1)}, "c"},
		"as listed":                  {[]Candidate{a("b", "y", 2), a("c", "z", 3)}, "b"},
		"no lower":                   {[]Candidate{a("b", "y", 1), a("c", "z", 2)}, "c"},
		"the nearest lower":          {[]Candidate{a("b", "y", 0), a("c", "z", 1)}, "c"},
		"same provider, higher":      {[]Candidate{a("b", "x", 2), a("c", "x", 3)}, "c"},
		"fit first":                  {[]Candidate{probe(a("b", "y", 2)), a("c", "x", 2)}, "c"},
		"on probation where no else": {[]Candidate{gone(a("b", "y", 2)), probe(a("c", "x", 2))}, "c"},
		"nobody":                     {[]Candidate{gone(a("b", "y", 2))}, ""},
	} {
		if got, ok := Choose(append(slices.Clone(list), c.more...), []Agent{list[0].Agent}, 2); got.Runner != c.want || ok != (c.want != "") {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestRoleFitness: of agents that are alike the one that clearly fails less in the role comes first; when all have
// failed the task, it is the least failing one.
// Conforms: 003-mgr-second-fresh
func TestRoleFitness(t *testing.T) {
	t.Parallel()
	var h Health
	run := func(a Agent, role string, ok bool) {
		r := Result{Agent: a, Role: role}
		if !ok {
			e := crash(t, a, "red")
			e.Task.Role, r.Failure = role, &e
		}
		h.Ended(r, noon)
		h.Reset(a) // the breaker is not what is tried here
	}
	for n := range 6 {
		run(bob, "tester", false)
		run(bob, "implementer", true)
		run(carol, "implementer", n > 0)
		run(carol, "tester", true)
	}
	look := func(role string) (out []Candidate) {
		for _, a := range []Agent{alice, bob, carol} {
			out = append(out, h.Look(a, role, 0, time.Time{}, noon))
		}
		return out
	}
	carolAs := func(c Candidate) bool { return c.Agent == carol && c.Runs == 6 && c.Failed == 0 }
	if c, _ := Choose(look("tester"), []Agent{alice}, 0); !carolAs(c) {
		t.Errorf("tester: %+v", c)
	}
	if c, _ := Choose(look("implementer"), []Agent{alice}, 0); c.Agent != bob {
		t.Errorf("a single failure changes the order: %+v", c)
	}
	limit := RoleOutcome{Outcome: "error", Class: "overloaded"}
	e := event(t, limit, carol)
	h.Ended(Result{Agent: carol, Role: "tester", Failure: &e}, noon)
	h.Reset(carol)
	if c, _ := leastFailing(look("tester"), Agent{}); !carolAs(c) {
		t.Errorf("an outage counts against the role: %+v", c)
	}
	if c, _ := leastFailing(fit(alice, bob), alice); c.Agent != bob {
		t.Errorf("of equals the one that has just failed: %+v", c)
	}
	s, _ := Next(New(work, alice, Limits{}, noon), crash(t, alice, "red"), look("tester")[:2], noon)
	s, _ = Next(s, crash(t, bob, "green"), look("tester")[:2], noon)
	if _, d := Analysed(s, Analysis{}, look("tester")[:2], noon); d.Agent != alice {
		t.Errorf("nobody is fresh, and the more failing one gets it: %+v", d)
	}
}

// TestStoppedByACheck: an agent that a check stops gets the task only where nobody else ever will.
func TestStoppedByACheck(t *testing.T) {
	t.Parallel()
	list := []Candidate{{Agent: alice, Fit: true, Check: "tool-1"}, {Agent: bob, Fit: true}}
	s, _ := Next(New(work, alice, Limits{}, noon), crash(t, alice, "red"), list[:1], noon)
	if _, d := Analysed(s, Analysis{}, list, noon); d.Agent != bob {
		t.Errorf("%+v", d)
	}
	if _, d := Analysed(s, Analysis{}, list[:1], noon); d.Step != StepResume || d.Agent != alice {
		t.Errorf("alone: the check is to ask: %+v", d)
	}
	later := []Candidate{list[0], {Agent: bob, Until: noon.Add(time.Minute)}}
	if _, d := Analysed(s, Analysis{}, later, noon); d.Step != StepWait {
		t.Errorf("somebody will be fit: %+v", d)
	}
}
