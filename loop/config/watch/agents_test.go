package watch

import "testing"

// Who may play a role and who looks for causes is held when it is another, while
// the order, the models and all else of what follows a failure is as the file
// says, and said as it is in force.
func TestRunnersAreHeld(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	v := base()
	v["runners"] = obj{"a": obj{"command": "agent"}, "b": obj{"command": "agent -b"}, "c": obj{"command": "agent -c"}}
	v["respond"] = obj{"max_runs": 5, "diagnostician": "b"}
	role := func(runners ...any) { set(v, "loops/0/roles", obj{"tester": obj{"runners": runners}}) }
	role("a", "b", "c")
	w.write(v)
	r, out := w.start(w.options())
	w.is(out, Unchanged)
	// Something is held; the rest is in force.
	set(v, "recovery/auto_approve", []any{"npm ci", "evil"})
	set(v, "respond", obj{"max_runs": 6, "breaker": obj{"failures": 2}, "diagnostician": obj{"runner": "b", "model": "m"}})
	w.write(v)
	out = w.is(w.check(r), Held)
	if got := paths(out.Changes); got != "/loops/one/respond/diagnostician map[runner:b timeout:10m0s]>map[model:m runner:b timeout:10m0s] | /respond/breaker/failures <nil>>2 | /respond/max_runs 5>6" {
		t.Errorf("changes: %s", got)
	}
	if got := r.Config().Loops[0].Respond; got.MaxRuns != 6 || got.Breaker.Failures != 2 || got.Diagnostician.Model != "m" {
		t.Errorf("in force: %+v", got)
	}
	// Only the order changes.
	role("a", obj{"runner": "c"}, obj{"runner": "b"})
	w.write(v)
	out = w.is(w.check(r), Reloaded)
	if got := paths(out.Changes); got != "/loops/one/roles/tester/runners [map[runner:a] map[runner:b] map[runner:c]]>[map[runner:a] map[runner:c] map[runner:b]]" {
		t.Errorf("changes: %s", got)
	}
	// One goes, and another is the first, which is held.
	role("b", "a")
	w.write(v)
	out = w.is(w.check(r), Held)
	if got := paths(out.Changes); got != "/loops/one/roles/tester/runners [map[runner:a] map[runner:c] map[runner:b]]>[map[runner:a] map[runner:b]]" {
		t.Errorf("changes: %s", got)
	}
	if got := r.Config().Loops[0].Roles[0]; got.Runner != "a" || len(got.Runners) != 2 || got.Runners[1].Runner != "b" {
		t.Errorf("in force: %+v", got)
	}
	// An empty section of defaults, and another diagnostician.
	set(v, "role_defaults", obj{})
	set(v, "respond/diagnostician", "c")
	w.write(v)
	out = w.is(w.check(r), Held)
	if got := paths(out.Changes); got != "/loops/one/respond/diagnostician map[model:m runner:b timeout:10m0s]>map[runner:b timeout:10m0s] | /role_defaults <nil>>map[]" {
		t.Errorf("changes: %s", got)
	}
}
