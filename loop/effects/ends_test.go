package effects

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
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

// TestSuccessesAreHeld: successes that follow each other fast are written together,
// once enough of them are in the file.
func TestSuccessesAreHeld(t *testing.T) {
	t.Parallel()
	inRoleWorld(t, func(t *testing.T, w *roleWorld) {
		for n := 1; n <= holdFrom; n++ {
			w.success("planner")
			if got := len(w.watched().Samples); got != n {
				t.Fatalf("%d of %d are written", got, n)
			}
		}
		_, one := w.success("planner")
		w.success("planner")
		if n, h := len(w.watched().Samples), w.health(); n != holdFrom || h.Of(one).Runs != holdFrom {
			t.Fatalf("%d are written, %+v", n, h)
		}
		for range 2 { // to ask changes nothing
			if h, err := w.roles.Runners.Health(); err != nil || h.Of(one).Runs != holdFrom+2 {
				t.Errorf("what is held is not known: %+v %v", h, err)
			}
		}
		if w.health().Of(one).Runs != holdFrom {
			t.Error("to ask has written them")
		}
		begun := time.Now().UTC()
		pass(30*time.Second - time.Nanosecond)
		synctest.Wait()
		if n := len(w.watched().Samples); n != holdFrom {
			t.Fatalf("%d are written too early", n)
		}
		pass(time.Nanosecond)
		synctest.Wait()
		all := w.watched()
		if n, h := len(all.Samples), w.health(); n != holdFrom+2 || h.Of(one).Runs != holdFrom+2 || h.Of(one).Unpriced != holdFrom+2 {
			t.Fatalf("%d are written, %+v", n, h)
		}
		same(t, all.Samples[holdFrom+1], failures.Sample{At: begun, Task: w.host.Task("planner").Key(), Loop: "l", Agent: one})
		if !w.health().Of(one).LastSuccess.Equal(begun) {
			t.Error("a success has the time at which it was written")
		}
		// What comes so late after the last write is written at once, and the next ones are not.
		pass(holdTime)
		w.success("planner")
		if n := len(w.watched().Samples); n != holdFrom+3 {
			t.Fatalf("%d are written", n)
		}
		pass(holdTime - time.Millisecond)
		w.success("planner")
		if n := len(w.watched().Samples); n != holdFrom+3 {
			t.Fatalf("%d are written", n)
		}
		w.roles.Runners.Flush() // the supervisor leaves
		if n := len(w.watched().Samples); n != holdFrom+4 {
			t.Fatalf("%d are written", n)
		}
		before := w.read(w.host.Paths.Watched())
		w.roles.Runners.Flush()
		pass(2 * holdTime)
		if w.read(w.host.Paths.Watched()) != before || w.lastWarning() != "" {
			t.Error("there was nothing to write")
		}
	})
}

// TestFailuresAreWritten: with all that is held, in their order; and as long as there
// is one in the window, successes are written at once.
func TestFailuresAreWritten(t *testing.T) {
	t.Parallel()
	inRoleWorld(t, func(t *testing.T, w *roleWorld) {
		w.set.Loop.Respond.Systemic.SameCategory = 1
		for range holdFrom + 3 {
			if alerts, _ := w.success("planner"); alerts != nil {
				t.Errorf("%+v", alerts)
			}
		}
		tripped, alerts := w.failure("implementer")
		all := w.watched().Samples
		if len(all) != holdFrom+4 || !all[holdFrom+3].Failed || all[holdFrom+3].Category != "crash" || slices.ContainsFunc(all[:holdFrom+3], func(s failures.Sample) bool { return s.Failed }) {
			t.Fatalf("%+v", all)
		}
		if tripped != nil || alerts != nil {
			t.Errorf("%+v %+v", tripped, alerts)
		}
		_, one := w.success("planner")
		if len(w.watched().Samples) != holdFrom+5 {
			t.Error("a success is held although there are failures")
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
		w.success("planner") // it closes the circuit, so it is written
		if w.health().Of(one).Circuit != failures.Closed {
			t.Errorf("%+v", w.health())
		}
	})
}

// TestSomethingToForget: a success that changes what decides is never held.
func TestSomethingToForget(t *testing.T) {
	t.Parallel()
	for name, b := range map[string]failures.Breaker{
		"open":           {Circuit: failures.OpenCut},
		"half open":      {Circuit: failures.HalfOpen},
		"failures":       {Circuit: failures.Closed, InRow: 1},
		"was unfit":      {Circuit: failures.Closed, Trips: 1},
		"another's file": {Circuit: failures.Closed},
	} {
		inRoleWorld(t, func(t *testing.T, w *roleWorld) {
			_, one := w.success("planner")
			for range holdFrom - 1 {
				w.success("planner")
			}
			b.Agent = one
			if _, err := w.roles.Runners.HealthStore().Update(t.Context(), func(h *failures.Health) bool { h.Breakers[0] = b; return true }); err != nil {
				t.Fatal(err)
			}
			w.success("planner")
			held := len(w.watched().Samples) == holdFrom
			if want := name == "another's file"; held != want {
				t.Errorf("%s: held is %v", name, held)
			}
		})
	}
	for _, path := range []func(w *roleWorld) string{func(w *roleWorld) string { return w.host.Paths.Health() }, func(w *roleWorld) string { return w.host.Paths.Watched() }} {
		inRoleWorld(t, func(t *testing.T, w *roleWorld) {
			for range holdFrom {
				w.success("planner")
			}
			w.broken(path(w))
			w.success("planner")
			if !strings.Contains(w.lastWarning(), "could not be kept") || len(w.roles.Runners.held) != 0 {
				t.Error("what cannot be read is no reason to hold anything")
			}
		})
	}
}

// TestOldEndsSayNothing: only what is in the window counts for holding.
func TestOldEndsSayNothing(t *testing.T) {
	t.Parallel()
	inRoleWorld(t, func(t *testing.T, w *roleWorld) {
		w.failure("planner")
		w.success("planner")
		pass(time.Hour)
		for range holdFrom {
			w.success("planner")
		}
		if n := len(w.watched().Samples); n != holdFrom+2 {
			t.Errorf("%d", n)
		}
		w.success("planner")
		if n := len(w.watched().Samples); n != holdFrom+2 {
			t.Errorf("a failure that is over keeps a success from being held, %d", n)
		}
	})
	inRoleWorld(t, func(t *testing.T, w *roleWorld) {
		for range holdFrom - 1 {
			w.success("planner")
		}
		pass(time.Hour)
		w.success("planner")
		w.success("planner")
		if n := len(w.watched().Samples); n != holdFrom+1 {
			t.Errorf("successes that are over count, %d", n)
		}
	})
}

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
