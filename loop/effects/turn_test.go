package effects

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/roles/agent"
	"github.com/superloop/superloop/roles/agent/class"
	"github.com/superloop/superloop/roles/agent/price"
)

func TestTurnsLearn(t *testing.T) {
	t.Parallel()
	inRoleWorld(t, func(t *testing.T, w *roleWorld) {
		turns := w.roles.Turns
		account := agent.Account{Provider: "generic", ID: "a"}
		n, usd := int64(1e6), 0.25
		used := agent.Usage{Input: &n, Output: &n}
		learn := func(f loop.RoleEnded, runner string, res agent.Result) loop.RoleEnded {
			t.Helper()
			if err := turns.Learn(w.state, &f, config.Role{Name: "planner", Runner: runner}, account, res); err != nil {
				t.Fatal(err)
			}
			return f
		}
		ok := loop.RoleEnded{Outcome: loop.OutcomeOK, Model: "asked"}
		same(t, learn(ok, "one", agent.Result{}), ok)
		same(t, learn(ok, "one", agent.Result{Learned: agent.Learned{Model: "answered", Usage: used, CostUSD: &usd, Totals: &agent.Totals{CostUSD: &usd}}}),
			loop.RoleEnded{Outcome: loop.OutcomeOK, Model: "answered", Usage: &loop.Usage{Input: &n, Output: &n}, CostUSD: &usd, CostSource: "runner",
				SessionTotals: []byte(`{"usage":{"Input":null,"Output":null,"CacheRead":null,"CacheWrite":null,"Reasoning":null},"cost_usd":0.25}`)})
		// Prices: those of the configuration that is in force.
		table, err := price.Embedded()
		if err != nil {
			t.Fatal(err)
		}
		if f := learn(ok, "one", agent.Result{Learned: agent.Learned{Usage: used}}); f.CostUSD != nil {
			t.Errorf("nobody knows the price: %v", *f.CostUSD)
		}
		next := *w.set.Config
		next.Prices = map[string]config.Rate{"asked": {Input: 2, Output: 3}}
		w.set.Config = &next
		five := 5.0
		same(t, learn(ok, "one", agent.Result{Learned: agent.Learned{Usage: used}}),
			loop.RoleEnded{Outcome: loop.OutcomeOK, Model: "asked", Usage: &loop.Usage{Input: &n, Output: &n}, CostUSD: &five, CostSource: "prices of " + table.Date()})
		// What a CLI says of its account.
		bad := loop.RoleEnded{Outcome: loop.OutcomeError}
		if f := learn(bad, "cl", agent.Result{Learned: agent.Learned{Class: class.Auth}}); f.Fix != "claude auth login" || f.Limit != nil {
			t.Errorf("%+v", f)
		}
		if f := learn(bad, "one", agent.Result{Learned: agent.Learned{Class: class.Auth}}); f.Fix != "log in with /bin/agent-one, or set its key" {
			t.Errorf("%+v", f)
		}
		if f := learn(bad, "cl", agent.Result{Learned: agent.Learned{Class: class.Billing}}); f.Fix != "add credit to the account of runner cl" {
			t.Errorf("%+v", f)
		}
		limited := agent.Result{Learned: agent.Learned{Class: class.Limit}}
		if f := learn(loop.RoleEnded{Outcome: loop.OutcomeInterrupted}, "one", limited); f.Limit != nil {
			t.Errorf("%+v", f)
		}
		if _, known, _ := w.roles.Runners.Cooldowns.Get(account); known {
			t.Error("a run that was broken off tells of a limit")
		}
		if f := learn(bad, "one", limited); f.Limit == nil || f.Limit.Strikes != 1 || f.Fix != "" {
			t.Errorf("%+v", f)
		}
		if _, known, _ := w.roles.Runners.Cooldowns.Get(account); !known {
			t.Error("other loops are not told of the limit")
		}
		learn(ok, "one", agent.Result{})
		if _, known, _ := w.roles.Runners.Cooldowns.Get(account); known {
			t.Error("a success does not lift a limit whose end was a guess")
		}
		if f := learn(bad, "one", agent.Result{Learned: agent.Learned{Class: class.Model}}); f.Fix != "" || f.Limit != nil {
			t.Errorf("%+v", f)
		}
	})
}

func TestAskAnAgent(t *testing.T) {
	t.Parallel()
	inRoleWorld(t, func(t *testing.T, w *roleWorld) {
		at := func(name string) string { return filepath.Join(w.host.Paths.Loop, "asked", name) }
		q := AgentQuestion{Role: config.Role{Name: "diagnostician", Runner: "one", Timeout: time.Minute}, Prompt: "why?",
			Files: RoleFiles{Prompt: at("prompt.md"), Log: at("log"), Last: at("answer.md")}}
		w.agent = func(context.Context, proc.Spec) (proc.Result, error) {
			if got, err := os.ReadFile(q.Files.Prompt); err != nil || string(got) != "why?" {
				t.Errorf("the agent reads %q, %v", got, err)
			}
			return exited(0, "because\n"), nil
		}
		f, answer, err := w.roles.Turns.Ask(t.Context(), w.state, q)
		if err != nil || f.Outcome != loop.OutcomeOK || strings.TrimSpace(answer) != "because" {
			t.Fatalf("%+v, %q, %v", f, answer, err)
		}
		if kept, err := os.ReadFile(q.Files.Last); err != nil || strings.TrimSpace(string(kept)) != "because" {
			t.Errorf("the answer that is kept: %q, %v", kept, err)
		}
		for _, op := range []string{"prompt:create", "log:create", "usage:append"} {
			w.disk[op] = syscall.ENOSPC
			if _, answer, err := w.roles.Turns.Ask(t.Context(), w.state, q); err == nil || answer != "" || !strings.Contains(err.Error(), "superloop run --loop l") {
				t.Errorf("%s fails: %q, %v", op, answer, err)
			}
			delete(w.disk, op)
		}
		w.agent = func(context.Context, proc.Spec) (proc.Result, error) { return exited(3, "half an ans"), nil }
		if f, answer, err := w.roles.Turns.Ask(t.Context(), w.state, q); err != nil || answer != "" || f.Outcome != loop.OutcomeExit {
			t.Errorf("an agent that fails: %+v, %q, %v", f, answer, err)
		}
	})
}

// TestLowestTier: where a long request costs more, the lower price is taken and said.
func TestLowestTier(t *testing.T) {
	t.Parallel()
	inRoleWorld(t, func(t *testing.T, w *roleWorld) {
		w.host.Clock = func() time.Time { return time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC) }
		n := int64(1e6)
		f := loop.RoleEnded{Outcome: loop.OutcomeOK, Model: "claude-opus-5"}
		if err := w.roles.Turns.Learn(w.state, &f, config.Role{Runner: "one"}, agent.Account{Provider: "anthropic"}, agent.Result{Learned: agent.Learned{Usage: agent.Usage{Input: new(int64), Output: new(int64), CacheRead: new(int64), CacheWrite: &n}}}); err != nil {
			t.Fatal(err)
		}
		if f.CostUSD == nil || *f.CostUSD != 6.25 || !strings.HasSuffix(f.CostSource, ", lowest tier") {
			t.Errorf("%q", f.CostSource)
		}
	})
}

func TestMeetLimit(t *testing.T) {
	t.Parallel()
	inRoleWorld(t, func(t *testing.T, w *roleWorld) {
		r, now := w.roles.Runners, time.Now().UTC()
		a := agent.Account{Provider: "generic", ID: "a"}
		same(t, r.meetLimit(w.state, a, agent.Learned{Class: class.Network, ErrorText: "no route"}),
			loop.LimitFact{Provider: "generic", Account: "a", Text: "no route", Until: now.Add(2*time.Second + 100*time.Millisecond), Strikes: 1, SharedUntil: now.Add(2 * time.Second)})
		c, known, err := r.Cooldowns.Get(a)
		if err != nil || !known || c.Told || !c.Until.Equal(now.Add(2*time.Second)) || c.By != "l in "+w.host.Paths.Repo || c.Class != class.Network {
			t.Errorf("%+v %v", c, err)
		}
		if got := w.lastWarning(); got != "" {
			t.Errorf("all went well, and it says %q", got)
		}
		// Another loop that is refused in the meantime has met the same outage.
		if f := r.meetLimit(w.state, a, agent.Learned{Class: class.Network}); f.Strikes != 1 || !f.SharedUntil.Equal(now.Add(2*time.Second)) {
			t.Errorf("%+v", f)
		}
		reset := now.Add(time.Hour)
		same(t, r.meetLimit(w.state, a, agent.Learned{Class: class.Limit, ErrorText: "used up", Limit: &agent.Limit{Kind: "five_hour", ResetsAt: reset}}),
			loop.LimitFact{Provider: "generic", Account: "a", Kind: "five_hour", Text: "used up", ResetsAt: reset, Until: reset.Add(30 * time.Second), Strikes: 2, SharedUntil: reset})
		if c, _, _ := r.Cooldowns.Get(a); !c.Told || c.Strikes != 2 || !c.Until.Equal(reset) {
			t.Errorf("%+v", c)
		}
		// A time that is over is no time.
		b := agent.Account{Provider: "generic", ID: "b"}
		got := r.meetLimit(w.state, b, agent.Learned{Class: class.Limit, ErrorText: "cli", Limit: &agent.Limit{ResetsAt: now}})
		same(t, got, loop.LimitFact{Provider: "generic", Account: "b", Text: "cli", Until: now.Add(63 * time.Second), Strikes: 1, SharedUntil: now.Add(time.Minute)})
		if c, _, _ := r.Cooldowns.Get(b); c.Told {
			t.Errorf("%+v", c)
		}
		if got := r.later(w.state, now.Add(-time.Hour)); !got.Equal(now.Add(1050 * time.Millisecond)) {
			t.Errorf("a wait of %v", got.Sub(now))
		}
		w.disk["cooldown:write"] = errBroken
		w.disk["cooldown:create"] = errBroken
		f := r.meetLimit(w.state, agent.Account{Provider: "generic", ID: "c"}, agent.Learned{Class: class.Limit})
		if !f.SharedUntil.IsZero() || w.lastWarning() != "other loops could not be told of the limit" {
			t.Error("no warning")
		}
		// What cannot be read stops nobody.
		files, err := filepath.Glob(filepath.Join(w.host.Paths.Cooldowns(), "*.json"))
		if err != nil || len(files) == 0 {
			t.Fatal(files, err)
		}
		for _, f := range files {
			if err := os.WriteFile(f, []byte("{"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if fact, ok := r.coolingDown(w.effect("planner"), w.state, config.Role{}, a); ok || fact != nil || w.lastWarning() != "what is known of limits cannot be read; the runner will tell" {
			t.Errorf("%+v", fact)
		}
		if f := r.meetLimit(w.state, a, agent.Learned{Class: class.Limit}); f.Strikes != 1 {
			t.Errorf("%+v", f)
		}
		r.works(a)
		if w.lastWarning() != "what was known of limits could not be forgotten" {
			t.Error("no warning")
		}
	})
}
