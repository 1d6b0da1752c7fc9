package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/loop/layout"
	"github.com/superloop/superloop/recovery/failures"
	"github.com/superloop/superloop/recovery/preflight"
	"github.com/superloop/superloop/roles/agent"
	"github.com/superloop/superloop/roles/agent/class"
	"github.com/superloop/superloop/roles/agent/cooldown"
	"github.com/superloop/superloop/server/api"
)

// twoRunners is a loop whose implementer has several runners.
const twoRunners = `{
  "runners": {"claude": {"command": ["claude"]}, "codex": {"command": ["codex"]}, "spare": {"command": ["sh", "-c", "true"]}},
  "loops": [
    {"id": "l", "spec_file": ".superloop/specs/l.md", "completion_promise": "DONE",
     "roles": {"planner": {"runner": "claude"}, "implementer": {"runners": [{"runner": "claude", "tier": 2}, {"runner": "codex", "model": "big"}]},
       "tester": {"runner": "claude"}, "reviewer": {"runner": "claude"}}},
    {"id": "m", "spec_file": ".superloop/specs/l.md", "completion_promise": "DONE", "roles": {"planner": {"runner": "codex"}}}
  ]
}`

func sharedPlaces(t *testing.T, n *testEnv) layout.Paths {
	t.Helper()
	paths, err := layout.NewPaths(n.path("repo"), "l", n.path("state"))
	if err == nil {
		err = os.MkdirAll(filepath.Dir(paths.Health()), 0o700)
	}
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

func (n *testEnv) runnerRows(args ...string) []runnerRow {
	n.t.Helper()
	code, out := n.superloop(nil, append([]string{"runners", "--json"}, args...)...)
	var rows struct{ Runners []runnerRow }
	if err := json.Unmarshal([]byte(out), &rows); err != nil || code != 0 {
		n.t.Fatalf("%d, %v: %s", code, err, out)
	}
	return rows.Runners
}

func TestRunners(t *testing.T) {
	t.Parallel()
	n := newTestEnv(t, false)
	n.write("repo/.superloop/config.json", twoRunners)
	paths := sharedPlaces(t, n)

	// Nothing has run: everybody is fit, and nothing is known of anybody.
	rows := n.runnerRows()
	if len(rows) != 4 {
		t.Fatalf("%+v", rows)
	}
	for _, r := range rows {
		if r.State != runnerFit || r.SuccessRate != nil || r.CostPerSuccess != nil || r.Limit != nil || !r.Configured {
			t.Errorf("%+v", r)
		}
	}
	if code, out := n.superloop(nil, "runners", "--loop", "l"); code != 0 || strings.Contains(out, "spare") ||
		!strings.Contains(out, "claude  anthropic  -      planner (1), implementer (1), tester (1), reviewer (1)  fit    -      0     -        -        -            -             -\n") {
		t.Errorf("%d\n%s", code, out)
	}
	if code, out := n.superloop(nil, "runners", "--reset", "codex"); code != exitNothing || !strings.Contains(out, "nothing speaks against codex") {
		t.Errorf("%d\n%s", code, out)
	}

	// claude has worked, codex has lost its login, somebody is there no more, and
	// there is a limit.
	claude, codex := failures.Agent{Runner: "claude", Provider: "anthropic"}, failures.Agent{Runner: "codex", Provider: "openai", Model: "big"}
	gone := failures.Agent{Runner: "gone", Provider: "x"}
	now := time.Now()
	usd := 0.5
	store := preflight.Store[failures.Health]{Disk: durable.OS(), Path: paths.Health()}
	if _, err := store.Update(context.Background(), func(h *failures.Health) bool {
		h.Ended(failures.Result{Agent: claude, CostUSD: &usd}, now)
		h.Ended(failures.Result{Agent: claude}, now)
		h.Ended(failures.Result{Agent: claude, CostUSD: &usd, Failure: &failures.Event{Agent: claude, Kind: failures.KindExit, Blame: failures.BlameTask}}, now)
		h.Ended(failures.Result{Agent: codex, Failure: &failures.Event{Agent: codex, Kind: failures.KindAuth, Blame: failures.BlameAccount, Why: "its login\nis over"}}, now)
		h.Ended(failures.Result{Agent: gone, Failure: &failures.Event{Agent: gone, Kind: failures.KindLimit, Blame: failures.BlameProvider, Why: "no", Until: now.Add(time.Hour)}}, now)
		return true
	}); err != nil {
		t.Fatal(err)
	}
	account := agent.AccountOf(agent.Request{CLI: agent.CLI{Command: []string{"claude"}}}, n.env)
	if err := cooldown.New(durable.OS(), paths.Cooldowns()).Set(cooldown.Cooldown{Account: account, Class: class.Limit, Kind: "five_hour", Until: now.Add(2 * time.Hour), Told: true}); err != nil {
		t.Fatal(err)
	}
	byName := map[string]runnerRow{}
	rows = n.runnerRows()
	for _, r := range rows {
		byName[r.Agent.String()] = r
	}
	if r := byName["claude (anthropic)"]; rows[0].Agent != claude || r.State != runnerUnfit || r.Limit == nil || r.Limit.Kind != "five_hour" || r.Runs != 3 || r.RecentRuns != 3 ||
		r.CostPerSuccess == nil || *r.CostPerSuccess != 0.5 || r.UnpricedRuns != 1 || len(r.Uses) != 4 || r.Uses[1] != (api.RunnerUse{Loop: "l", Role: "implementer", Place: 1, Tier: 2}) {
		t.Errorf("claude is %+v", r)
	}
	if r := byName["codex (openai, big)"]; r.State != runnerMend || !r.Until.IsZero() || !strings.Contains(r.Why, "login") || len(r.Uses) != 1 || r.Uses[0].Place != 2 {
		t.Errorf("codex is %+v", r)
	}
	if r := byName["gone (x)"]; r.Configured || r.State != runnerUnfit || len(r.Uses) != 0 {
		t.Errorf("gone is %+v", r)
	}
	code, out := n.superloop(nil, "runners")
	for _, want := range []string{">= $0.5000 (1 run unknown)", "67 % of 3", "unfit until mended", "not in the configuration", "rate_limited until ", "its login is over", "m/planner (1)"} {
		if !strings.Contains(out, want) {
			t.Errorf("%d, and no %q in\n%s", code, want, out)
		}
	}

	// An operator has mended codex.
	for _, c := range []struct {
		word string
		code int
		says string
	}{{"codex:small", exitNothing, "nothing speaks against"}, {"nobody", exitNotFound, `no runner "nobody"`}, {"codex:big", 0, "codex (openai, big) counts as fit again"},
		{"codex", exitNothing, "nothing speaks against"}, {"gone", 0, "gone (x) counts as fit again"}} {
		if code, out := n.superloop(nil, "runners", "--reset", c.word); code != c.code || !strings.Contains(out, c.says) {
			t.Errorf("--reset %s ends with %d: %s", c.word, code, out)
		}
	}
	health, err := store.Load()
	if b := health.Of(codex); err != nil || b.Circuit != failures.Closed || b.Runs != 1 {
		t.Errorf("codex is %+v, %v", b, err)
	}
	if code, out := n.superloop(nil, "runners", "--reset", "codex", "--loop", "l"); code != exitUsage || !strings.Contains(out, "takes no --loop") {
		t.Errorf("%d: %s", code, out)
	}
	if err := os.WriteFile(paths.Health(), []byte("no JSON"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, out := n.superloop(nil, "runners"); code != exitFailed || !strings.Contains(out, "to put it aside type: mv ") {
		t.Errorf("of a damaged file: %d: %s", code, out)
	}
}
