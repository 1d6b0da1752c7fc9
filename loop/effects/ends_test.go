package effects

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/recovery/failures"
)

// success is a run that ended well, and failure one that did not.
func (w *roleWorld) success(role string) ([]failures.Alert, failures.Agent) {
	w.t.Helper()
	one, _ := AgentOf(w.set.Config, config.Choice{Runner: "one"}, nil)
	tripped, alerts := w.roles.Runners.end(w.state, one, &loop.RoleEnded{Role: role, Outcome: loop.OutcomeOK})
	if tripped != nil {
		w.t.Errorf("%+v", tripped)
	}
	return alerts, one
}

func (w *roleWorld) failure(role string) (*failures.TrippedFields, []failures.Alert) {
	w.t.Helper()
	cost := 0.5
	one, _ := AgentOf(w.set.Config, config.Choice{Runner: "one"}, nil)
	f := &loop.RoleEnded{Role: role, Outcome: loop.OutcomeExit, CostUSD: &cost, Failure: &loop.FailureFact{Event: failures.Event{
		Task: w.host.Task(role), Agent: one, Kind: failures.KindExit, Category: "crash", Blame: failures.BlameRunner, Why: "it crashed"}}}
	return w.roles.Runners.end(w.state, one, f)
}

// TestSuccessesAreWritten: each at once, into both files.
func TestSuccessesAreWritten(t *testing.T) {
	t.Parallel()
	inRoleWorld(t, func(t *testing.T, w *roleWorld) {
		for n := 1; n <= 3; n++ {
			at := time.Now().UTC()
			_, one := w.success("planner")
			all, h := w.watched().Samples, w.health().Of(one)
			if len(all) != n || h.Runs != n || h.Unpriced != n || !h.LastSuccess.Equal(at) {
				t.Fatalf("%d of %d are written, %+v", len(all), n, h)
			}
			same(t, all[n-1], failures.Sample{At: at, Task: w.host.Task("planner").Key(), Loop: "l", Agent: one})
			pass(time.Second)
		}
		if w.lastWarning() != "" {
			t.Error(w.lastWarning())
		}
	})
}

// TestFailuresAreWritten: behind the successes before them; they make runners unfit and raise alarms.
func TestFailuresAreWritten(t *testing.T) {
	t.Parallel()
	inRoleWorld(t, func(t *testing.T, w *roleWorld) {
		const successes = 23
		w.set.Loop.Respond.Systemic.SameCategory = 1
		for range successes {
			if alerts, _ := w.success("planner"); alerts != nil {
				t.Errorf("%+v", alerts)
			}
		}
		tripped, alerts := w.failure("implementer")
		all := w.watched().Samples
		if len(all) != successes+1 || !all[successes].Failed || all[successes].Category != "crash" || slices.ContainsFunc(all[:successes], func(s failures.Sample) bool { return s.Failed }) {
			t.Fatalf("%+v", all)
		}
		if tripped != nil || alerts != nil {
			t.Errorf("%+v %+v", tripped, alerts)
		}
		_, one := w.success("planner")
		if len(w.watched().Samples) != successes+2 {
			t.Error("a success is not written")
		}
		w.failure("implementer")
		tripped, _ = w.failure("planner") // the second in a row, of another task
		b := w.health().Of(one)
		same(t, tripped, failures.TrippedFields{Runner: "one", Provider: "generic", Kind: failures.KindExit, Reason: "it crashed", Trips: 1, Until: b.OpenedAt.Add(time.Minute)})
		if b.CostUSD != 1.5 || b.Circuit != failures.OpenCut || w.health().Limits.MostMS != time.Hour.Milliseconds() {
			t.Errorf("%+v", w.health())
		}
		_, alerts = w.failure("reviewer")
		if len(alerts) != 0 { // it was told with the second failure of its kind
			t.Errorf("%+v", alerts)
		}
		pass(time.Hour)
		if h := w.health().Of(one); h.Circuit == failures.Closed {
			t.Errorf("%+v", h)
		}
		w.success("planner") // it closes the circuit
		if w.health().Of(one).Circuit != failures.Closed {
			t.Errorf("%+v", w.health())
		}
	})
}

// TestEndsNotKept: a file that cannot be read or written costs a warning.
func TestEndsNotKept(t *testing.T) {
	t.Parallel()
	for _, path := range []func(w *roleWorld) string{func(w *roleWorld) string { return w.host.Paths.Health() }, func(w *roleWorld) string { return w.host.Paths.Watched() }} {
		inRoleWorld(t, func(t *testing.T, w *roleWorld) {
			for range 2 {
				w.success("planner")
			}
			w.broken(path(w))
			w.success("planner")
			if !strings.Contains(w.lastWarning(), "could not be kept") {
				t.Error("nobody is told that the end of a run is not kept")
			}
		})
	}
}

// Conforms: 003-r4-alerts
func TestAlerts(t *testing.T) {
	t.Parallel()
	inRoleWorld(t, func(t *testing.T, w *roleWorld) {
		w.set.Loop.Respond.Systemic = config.Systemic{Window: time.Hour, MinRuns: 2, CriticalRate: 0.5}
		w.success("planner")
		if _, alerts := w.failure("planner"); alerts != nil {
			t.Errorf("half of them: %+v", alerts)
		}
		_, alerts := w.failure("implementer")
		now := time.Now().UTC()
		same(t, alerts, []failures.Alert{{Trigger: failures.TriggerRate, Severity: failures.Critical, Runs: 3, Failures: 2, Rate: 2.0 / 3, Tasks: []string{w.host.Task("planner").Key(), w.host.Task("implementer").Key()},
			Loops: []string{"l"}, Since: now.Add(-time.Hour), At: now, Analyse: true}})
		if alerts, _ := w.success("planner"); alerts != nil {
			t.Errorf("a success: %+v", alerts)
		}
	})
	same(t, thresholds(config.Systemic{Window: time.Second}), failures.Thresholds{WindowMS: 1000, WarnRate: -1, CriticalRate: -1, SameCategory: -1, SilentRuns: -1})
	same(t, thresholds(config.Systemic{Window: time.Minute, MinRuns: 1, WarnRate: 0.1, CriticalRate: 0.2, SameCategory: 3, SilentRuns: 4}),
		failures.Thresholds{WindowMS: 60000, MinRuns: 1, WarnRate: 0.1, CriticalRate: 0.2, SameCategory: 3, SilentRuns: 4})
	same(t, breakerLimits(config.Breaker{Failures: 3, First: time.Second, Most: time.Minute}), failures.BreakerLimits{Trip: 3, FirstMS: 1000, MostMS: 60000})
}
