package failures

import (
	"testing"

	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/recovery/failures"
)

// scoped is a learned check that a file is there.
func scoped(path string, s failures.Scope) failures.Prevention {
	var ps failures.Preventions
	p := pathCheck(path)
	p.Scope = s
	p, _, _ = ps.Add(p, p.AddedAt)
	return p
}

// A learned check stops the runner that failed, in its role and loop, whatever role is first; it stops nobody else. What
// an operator asks for stops everybody.
func TestALearnedCheckStopsWhatFailed(t *testing.T) {
	t.Parallel()
	tester := failures.Scope{Loop: "one", Role: "tester", Runners: []string{"a"}}
	second := loop.Effect{ID: "e2", Kind: loop.RunRole, Role: "tester", Attempt: 1}
	for name, c := range map[string]struct {
		check  failures.Prevention
		e      loop.Effect
		runner string
		stops  bool
	}{
		"the runner that failed":   {scoped("gone", tester), second, "a", true},
		"another runner":           {scoped("gone", tester), second, "b", false},
		"another role":             {scoped("gone", tester), firstRole, "a", false},
		"another loop":             {scoped("gone", failures.Scope{Loop: "two", Role: "tester", Runners: []string{"a"}}), second, "a", false},
		"whole":                    {scoped("refresh", tester), second, "a", false},
		"the tests of the loop":    {scoped("gone", failures.Scope{Loop: "one"}), firstRole, "b", true},
		"the tests, not the first": {scoped("gone", failures.Scope{Loop: "one"}), second, "b", false},
		"an operator's":            {pathCheck("gone"), firstRole, "b", true},
	} {
		w := newFailuresWorld(t)
		w.learns(c.check)
		f, stopped := w.CheckEnvironment(t.Context(), c.e, w.s, c.runner).(loop.EnvironmentBroken)
		if stopped != c.stops || stopped && f.Findings[0].Learned != c.check.Learned() {
			t.Errorf("%s: %+v", name, f)
		}
		id := ""
		if c.stops && c.check.OfRunner() {
			id = c.check.ID
		}
		if got := w.Stopped(w.s, c.e.Role)(c.runner); got != id {
			t.Errorf("%s: the runner is stopped by %q, want %q", name, got, id)
		}
	}
	w := newFailuresWorld(t)
	w.learns(scoped("gone", tester))
	w.s.Response.Overruled = w.s.Iteration
	if got := w.Stopped(w.s, "tester")("a"); got != "" {
		t.Errorf("an operator has overruled it, and %s stops", got)
	}
}

// A learned check that fails while its runner succeeds is wrong: it goes at once, and that is recorded. Another runner's
// success, a failure and a check that passes say nothing.
func TestAFalseCheckGoesAtOnce(t *testing.T) {
	t.Parallel()
	s := failures.Scope{Loop: "one", Role: "tester", Runners: []string{"a"}}
	for name, c := range map[string]struct {
		path  string
		ended loop.RoleEnded
		gone  bool
	}{
		"it succeeds without":    {"gone", loop.RoleEnded{Role: "tester", Runner: "a", Outcome: loop.OutcomeOK}, true},
		"what it wants is there": {"refresh", loop.RoleEnded{Role: "tester", Runner: "a", Outcome: loop.OutcomeOK}, false},
		"another runner":         {"gone", loop.RoleEnded{Role: "tester", Runner: "b", Outcome: loop.OutcomeOK}, false},
		"another role":           {"gone", loop.RoleEnded{Role: "planner", Runner: "a", Outcome: loop.OutcomeOK}, false},
		"it fails":               {"gone", loop.RoleEnded{Role: "tester", Runner: "a", Outcome: loop.OutcomeExit}, false},
	} {
		w := newFailuresWorld(t)
		w.learns(scoped(c.path, s))
		w.Overrule(t.Context(), w.s, c.ended)
		if p := w.learned().Checks[0]; p.Active() == c.gone {
			t.Errorf("%s: %+v", name, p)
		}
		if c.gone {
			w.said(failures.EventRetired)
		} else {
			w.said()
		}
	}
}
