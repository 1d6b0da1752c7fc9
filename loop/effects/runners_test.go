package effects

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/recovery/failures"
	"github.com/superloop/superloop/roles/agent"
	"github.com/superloop/superloop/roles/agent/class"
	"github.com/superloop/superloop/roles/agent/cooldown"
)

// health is what the file says.
func (w *roleWorld) health() failures.Health {
	w.t.Helper()
	h, err := w.roles.Runners.HealthStore().Load()
	if err != nil {
		w.t.Fatal(err)
	}
	return h
}

func (w *roleWorld) watched() failures.Watch {
	w.t.Helper()
	h, err := w.roles.Runners.WatchStore().Load()
	if err != nil {
		w.t.Fatal(err)
	}
	return h
}

// lastWarning is the text of the last line that was logged, "" for none.
func (w *roleWorld) lastWarning() string {
	all := w.logs.TakeAll()
	if len(all) == 0 {
		return ""
	}
	return all[len(all)-1].Message
}

// broken puts something that cannot be read in the place of a file.
func (w *roleWorld) broken(path string) {
	w.t.Helper()
	w.write(path, "{")
}

func TestRoleOf(t *testing.T) {
	t.Parallel()
	l := config.Loop{Roles: []config.Role{{Name: "a", Runner: "x"}, {Name: "b", Runner: "y"}}}
	if got := RoleOf(l, "b"); got.Runner != "y" {
		t.Errorf("%+v", got)
	}
	same(t, RoleOf(l, "c"), config.Role{Name: "c"})
	same(t, CLIOf(config.Runner{Command: []string{"c"}, Args: []string{"a"}, FastArgs: []string{"f"}, PromptMode: "stdin", Env: map[string]string{"K": "v"}, Adapter: "codex", PassEnv: []string{"P"}}),
		agent.CLI{Command: []string{"c"}, Args: []string{"a"}, FastArgs: []string{"f"}, PromptMode: "stdin", Env: map[string]string{"K": "v"}, Adapter: "codex", PassEnv: []string{"P"}})
}

func TestCandidates(t *testing.T) {
	t.Parallel()
	inRoleWorld(t, func(t *testing.T, w *roleWorld) {
		r, now := w.roles.Runners, time.Now().UTC()
		one, two := failures.Agent{Runner: "one", Provider: "generic"}, failures.Agent{Runner: "two", Provider: "generic", Model: "m"}
		same(t, r.Candidates(w.state, "implementer"), []failures.Candidate{{Agent: one, Fit: true}, {Agent: two, Tier: 2, Fit: true}})
		if r.Candidates(w.state, "nobody") != nil {
			t.Error("a role that the loop does not have")
		}
		w.unfit("one", now.Add(time.Minute))
		_, account := AgentOf(w.set.Config, config.Choice{Runner: "two", Model: "m"}, nil)
		if err := r.Cooldowns.Set(cooldown.Cooldown{Account: account, Class: class.Limit, Until: now.Add(20 * time.Second)}); err != nil {
			t.Fatal(err)
		}
		limited := now.Add(21 * time.Second) // with half of a tenth
		want := []failures.Candidate{{Agent: one, Until: now.Add(time.Minute), Why: "it failed"}, {Agent: two, Tier: 2, Until: limited, Why: "its provider's limit is not over"}}
		same(t, r.Candidates(w.state, "implementer"), want)
		// With a single runner there is nobody else to wait with, unless its provider says so.
		same(t, r.Candidates(w.state, "planner"), []failures.Candidate{{Agent: one, Fit: true, Why: "it failed"}})
		_, account = AgentOf(w.set.Config, config.Choice{Runner: "one"}, nil)
		if err := r.Cooldowns.Set(cooldown.Cooldown{Account: account, Class: class.Limit, Until: now.Add(20 * time.Second)}); err != nil {
			t.Fatal(err)
		}
		same(t, r.Candidates(w.state, "planner"), []failures.Candidate{{Agent: one, Until: now.Add(time.Minute), Why: "its provider's limit is not over"}})
		w.broken(w.host.Paths.Health())
		if got := r.Candidates(w.state, "implementer"); len(got) != 2 || w.lastWarning() != "what is known of the runners cannot be read; all count as fit" {
			t.Errorf("%+v", got)
		}
	})
}

func TestChoose(t *testing.T) {
	t.Parallel()
	inRoleWorld(t, func(t *testing.T, w *roleWorld) {
		r, now := w.roles.Runners, time.Now().UTC()
		role := RoleOf(w.set.Loop, "implementer")
		choose := func(e loop.Effect) string {
			t.Helper()
			got, unfit := r.choose(e, w.state, role)
			return fmt.Sprint(got.Runner, " ", got.Model, " ", got.Permissions, " ", unfit.Runner, " ", unfit.Until.Sub(now).Seconds() > 0)
		}
		check := func(what, got, want string) {
			t.Helper()
			if got != want {
				t.Errorf("%s: %q, want %q", what, got, want)
			}
		}
		e := w.effect("implementer")
		check("the first", choose(e), "one  full  false")
		named := e
		named.Runner, named.Model = "two", "m"
		check("named", choose(named), "two m   false")
		named.Model = "n"
		check("another model", choose(named), "one  full  false")
		stopped := map[string]string{"one": "tool-1"}
		r.Stopped = func(loop.State, string) func(string) string {
			return func(runner string) string { return stopped[runner] }
		}
		check("a learned check stops the first", choose(e), "two m   false")
		stopped["two"] = "tool-1"
		check("it stops all: the first asks about it", choose(e), "one  full  false")
		stopped = nil
		w.unfit("one", now.Add(time.Minute))
		check("the next", choose(e), "two m   false")
		w.unfit("two", now.Add(time.Hour))
		check("nobody", choose(e), "one  full one true")
		pass(2 * time.Minute)
		check("a probe", choose(e), "one  full  false")
		if _, err := r.HealthStore().Update(t.Context(), func(h *failures.Health) bool { h.Reset(h.Breakers[1].Agent); return true }); err != nil {
			t.Fatal(err)
		}
		check("a fit one before a probe", choose(e), "two m   false")
		w.unfitForGood()
		check("nobody, for no time that is known", choose(e), "one  full  false")
		w.state.Plan.Respond = nil
		check("nobody responds", choose(e), "one    false") // the role as it is configured
		if got, _ := r.choose(e, w.state, config.Role{Runner: "x", Runners: []config.Choice{{Runner: "one"}}}); got.Runner != "x" {
			t.Errorf("%+v", got)
		}
	})
	inRoleWorld(t, func(t *testing.T, w *roleWorld) {
		now := time.Now().UTC()
		w.unfit("one", now.Add(time.Hour))
		w.unfit("two", now.Add(time.Minute))
		got, unfit := w.roles.Runners.choose(w.effect("implementer"), w.state, RoleOf(w.set.Loop, "implementer"))
		if got.Runner != "two" || unfit.Runner != "two" || !unfit.Until.Equal(now.Add(time.Minute)) {
			t.Errorf("%+v %+v", got, unfit)
		}
	})
}

// unfitForGood opens both circuits until a human has mended them.
func (w *roleWorld) unfitForGood() {
	w.t.Helper()
	if _, err := w.roles.Runners.HealthStore().Update(w.t.Context(), func(h *failures.Health) bool {
		for i := range h.Breakers {
			h.Breakers[i].Circuit, h.Breakers[i].Until = failures.OpenCut, time.Time{}
		}
		return true
	}); err != nil {
		w.t.Fatal(err)
	}
}

// TestProbe: whoever was unfit and is tried again is on probation while it runs.
func TestProbe(t *testing.T) {
	t.Parallel()
	inRoleWorld(t, func(t *testing.T, w *roleWorld) {
		r := w.roles.Runners
		one, _ := AgentOf(w.set.Config, config.Choice{Runner: "one"}, nil)
		r.began(w.state, one)
		if exists(w.host.Paths.Health()) {
			t.Error("nothing was known, and now there is something")
		}
		w.unfit("one", time.Now().Add(-time.Second))
		r.began(w.state, one)
		b := w.health().Of(one)
		if b.Circuit != failures.HalfOpen || !b.ProbeAt.Equal(r.Now(w.state)) {
			t.Errorf("%+v", b)
		}
		// Broken off it proves nothing.
		tripped, alerts := r.end(w.state, one, &loop.RoleEnded{Outcome: loop.OutcomeInterrupted})
		if b := w.health().Of(one); tripped != nil || alerts != nil || b.Circuit != failures.HalfOpen || !b.ProbeAt.IsZero() || b.Runs != 0 || len(w.watched().Samples) != 0 {
			t.Errorf("%+v", b)
		}
		before := w.read(w.host.Paths.Health())
		info, err := os.Stat(w.host.Paths.Health())
		if err != nil {
			t.Fatal(err)
		}
		r.end(w.state, one, &loop.RoleEnded{Outcome: loop.OutcomeInterrupted})
		if again, err := os.Stat(w.host.Paths.Health()); err != nil || !os.SameFile(info, again) {
			t.Error("the file was written although nothing has changed")
		}
		r.began(w.state, one)
		r.end(w.state, one, &loop.RoleEnded{Outcome: loop.OutcomeOK})
		if b := w.health().Of(one); b.Circuit != failures.Closed || b.Successes != 1 || before == w.read(w.host.Paths.Health()) {
			t.Errorf("%+v", b)
		}
		w.broken(w.host.Paths.Health())
		r.began(w.state, one)
		if w.lastWarning() != "" {
			t.Error("the start cannot be noted and that was tried")
		}
		r.end(w.state, one, &loop.RoleEnded{Outcome: loop.OutcomeInterrupted})
		if w.lastWarning() != "what is known of the runners could not be kept" {
			t.Error("no warning")
		}
	})
}

func TestBelieved(t *testing.T) {
	t.Parallel()
	inRoleWorld(t, func(t *testing.T, w *roleWorld) {
		r := w.roles.Runners
		one, two := w.unfit("one", time.Time{}), w.unfit("two", time.Time{})
		respond := w.state.Plan.Respond
		w.state.Plan.Respond = nil
		r.Believed(w.state, "implementer")
		if w.health().Of(one).Circuit != "open" {
			t.Error("it was mended although nobody responds")
		}
		w.state.Plan.Respond = respond
		r.Believed(w.state, "planner")
		if h := w.health(); h.Of(one).Circuit != "closed" || h.Of(two).Circuit != "open" {
			t.Errorf("%+v", h)
		}
		before, err := os.Stat(w.host.Paths.Health())
		if err != nil {
			t.Fatal(err)
		}
		r.Believed(w.state, "planner")
		if again, err := os.Stat(w.host.Paths.Health()); err != nil || !os.SameFile(before, again) {
			t.Error("nothing has changed, and the file was written")
		}
		r.Believed(w.state, "implementer")
		if h := w.health(); h.Of(two).Circuit != "closed" {
			t.Errorf("%+v", h)
		}
	})
}
