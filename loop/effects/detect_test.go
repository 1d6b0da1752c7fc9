package effects

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/recovery/failures"
	"github.com/superloop/superloop/roles/agent/class"
)

// Conforms: 003-req-1, 003-pipe-detect, 003-pipe-respond, 003-c1-failed, 003-c1-event, 003-hook-status, 003-mgr-order
// Conforms: 003-test-5s, 003-sc-time
func TestDetectsAFailure(t *testing.T) {
	t.Parallel()
	inRoleWorld(t, func(t *testing.T, w *roleWorld) {
		w.agent = func(context.Context, proc.Spec) (proc.Result, error) { pass(time.Second); return exited(3, ""), nil }
		w.classified = &failures.Classified{Category: "disk_full", Infra: true, Confidence: 0.9, Signature: "sig"}
		at := w.host.Now(w.state).Add(time.Second)
		f := w.perform(w.effect("implementer"))
		if f.Failure == nil {
			t.Fatalf("%+v", f)
		}
		one := failures.Agent{Runner: "one", Provider: "generic"}
		e := f.Failure.Event
		if e.Task != w.host.Task("implementer") || e.Agent != one || e.RunID != "run" || e.Iteration != 1 || e.Attempt != 1 || e.Kind != failures.KindExit ||
			e.Category != "disk_full" || e.Blame != failures.BlameEnvironment || !e.At.Equal(at) || e.Signature == "" {
			t.Errorf("%+v", e)
		}
		if f.Failure.ClassifyUS != 7 || f.Failure.Tripped != nil || f.Failure.DetectMS != 0 || f.Failure.RespondUS != 0 || f.Outcome != loop.OutcomeExit || f.Alerts != nil {
			t.Errorf("%+v", f.Failure)
		}
		same(t, f.Failure.Candidates, []failures.Candidate{{Agent: one, Fit: true, Runs: 1, Failed: 1}, {Agent: failures.Agent{Runner: "two", Provider: "generic", Model: "m"}, Tier: 2, Fit: true}})
		w.order("sweep, environment, fact role_start, run, lies, classify")
		if exists(w.roles.Snapshots.Store().Path) {
			t.Error("a failure was kept as a success")
		}
		if s := w.watched().Samples; len(s) != 1 || !s[0].Failed || s[0].Category != "disk_full" {
			t.Errorf("%+v", s)
		}
	})
}

// TestDetectTimes: how long it has taken from the end of the process on.
// Conforms: 003-req-1, 003-pipe-detect, 003-mgr-duration, 003-test-detect
func TestDetectTimes(t *testing.T) {
	t.Parallel()
	inRoleWorld(t, func(t *testing.T, w *roleWorld) {
		now := time.Now()
		w.host.Clock = func() time.Time { now = now.Add(time.Millisecond); return now }
		f := loop.RoleEnded{Role: "planner", Outcome: loop.OutcomeExit}
		ended := w.host.Clock()
		w.state.Response.Policy = &failures.State{Phase: failures.Working, Task: w.host.Task("planner")}
		w.roles.detect(t.Context(), w.state, &f, run{role: RoleOf(w.set.Loop, "planner"), ended: ended})
		if f.Failure == nil || f.Failure.RespondUS != 1000 || f.Failure.DetectMS != now.Sub(ended).Milliseconds() || f.Failure.DetectMS < 3 {
			t.Errorf("%+v", f.Failure)
		}
	})
}

// TestLimitHasAnEnd: the failure knows until when its provider refuses.
func TestLimitHasAnEnd(t *testing.T) {
	t.Parallel()
	inRoleWorld(t, func(t *testing.T, w *roleWorld) {
		until := w.host.Now(w.state).Add(time.Hour)
		f := loop.RoleEnded{Role: "planner", Outcome: loop.OutcomeError, Class: string(class.Limit), Limit: &loop.LimitFact{Until: until}}
		one, _ := AgentOf(w.set.Config, config.Choice{Runner: "one"}, nil)
		w.roles.detect(t.Context(), w.state, &f, run{role: RoleOf(w.set.Loop, "planner"), who: one})
		if f.Failure == nil || f.Failure.Kind != failures.KindLimit || !f.Failure.Until.Equal(until) {
			t.Fatalf("%+v", f.Failure)
		}
		same(t, f.Failure.Tripped, failures.TrippedFields{Runner: "one", Provider: "generic", Kind: failures.KindLimit, Reason: f.Failure.Why, Trips: 1, Until: until})
	})
}

// TestLongReport: the beginning of a report is compared, 1 MiB.
func TestLongReport(t *testing.T) {
	t.Parallel()
	inRoleWorld(t, func(t *testing.T, w *roleWorld) {
		w.set.Loop.Respond.Insist = []string{config.InsistDifference}
		digest := func(text string) string {
			t.Helper()
			w.agent = func(context.Context, proc.Spec) (proc.Result, error) {
				w.write(w.host.Paths.File("plan.md"), text)
				return exited(0, ""), nil
			}
			return w.perform(w.effect("planner")).Digest
		}
		long := strings.Repeat("x", 1<<20)
		a, b, c := digest(long+"a"), digest(long+"b"), digest(long[1:]+"c")
		if a == "" || len(a) != 16 || a != b || a == c {
			t.Errorf("%s %s %s", a, b, c)
		}
	})
}

func TestNobodyResponds(t *testing.T) {
	t.Parallel()
	inRoleWorld(t, func(t *testing.T, w *roleWorld) {
		w.state.Plan.Respond = nil
		w.agent = func(context.Context, proc.Spec) (proc.Result, error) { return exited(3, ""), nil }
		if f := w.perform(w.effect("planner")); f.Failure != nil || f.Category != "exit" || exists(w.host.Paths.Health()) {
			t.Errorf("%+v", f)
		}
		w.agent = func(context.Context, proc.Spec) (proc.Result, error) { return exited(0, ""), nil }
		w.silent = true
		if f := w.perform(w.effect("reviewer")); f.Outcome != loop.OutcomeUnfit || f.Failure != nil || !strings.Contains(f.Error, `(review.md); "respond": {"insist": []} asks for none`) {
			t.Errorf("no report: %+v", f)
		}
		w.silent = false
		if f := w.perform(w.effect("planner")); f.Outcome != "ok" || exists(w.roles.Snapshots.Store().Path) {
			t.Errorf("%+v", f)
		}
	})
}

// TestInsists: what a turn that ended well must have left.
func TestInsists(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		role   string
		insist []string
		prep   func(w *roleWorld)
		report string // what the agent writes, "" for nothing
		kind   failures.Kind
		calls  string
	}{
		"several runners, no report":   {"implementer", nil, nil, "", failures.KindMissing, ""},
		"several runners, report":      {"implementer", nil, nil, "new", "", ""},
		"one runner, no report":        {"planner", nil, nil, "", failures.KindMissing, ""},
		"an empty report":              {"planner", nil, nil, " \n", failures.KindEmpty, ""},
		"one runner, report":           {"planner", nil, nil, "new", "", ""},
		"the same but for blanks":      {"planner", []string{config.InsistDifference}, lastReport("982d9e3eb996f559"), "  text\n\n", failures.KindSame, ""},
		"a proposal instead":           {"implementer", nil, func(w *roleWorld) { w.lies = true }, "", "", ""},
		"insists on nothing":           {"implementer", []string{}, nil, "", "", ""},
		"the same report":              {"planner", []string{config.InsistDifference}, lastReport("982d9e3eb996f559"), "text", failures.KindSame, ""},
		"another report":               {"planner", []string{config.InsistDifference}, lastReport("0000000000000000"), "text", "", ""},
		"no report to compare":         {"planner", []string{config.InsistDifference}, lastReport("982d9e3eb996f559"), "", "", ""},
		"nothing changed":              {"implementer", []string{config.InsistChange}, func(w *roleWorld) { w.trees = []string{"a", "a"} }, "", failures.KindNoChange, ", tree"},
		"something changed":            {"implementer", []string{config.InsistChange}, func(w *roleWorld) { w.trees = []string{"a", "b"} }, "", "", ", tree"},
		"the planner changes nothing":  {"planner", []string{config.InsistChange}, nil, "", "", ""},
		"no tree":                      {"implementer", []string{config.InsistChange}, func(w *roleWorld) { w.treeErr = errBroken }, "", "", ", tree"},
		"no look when nobody asks":     {"implementer", []string{config.InsistReport}, nil, "new", "", ""},
		"a change that cannot be told": {"implementer", []string{config.InsistChange}, func(w *roleWorld) { w.trees = []string{"a"} }, "", "", ", tree"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inRoleWorld(t, func(t *testing.T, w *roleWorld) {
				w.silent, w.set.Loop.Respond.Insist = true, c.insist
				if c.prep != nil {
					c.prep(w)
				}
				w.agent = func(context.Context, proc.Spec) (proc.Result, error) {
					if c.report != "" {
						w.write(w.host.Paths.File(map[string]string{"planner": "plan.md", "implementer": "implementer.md"}[c.role]), c.report)
					}
					return exited(0, ""), nil
				}
				f := w.perform(w.effect(c.role))
				if c.kind == "" {
					if f.Failure != nil || f.Outcome != loop.OutcomeOK {
						t.Errorf("%+v", f)
					}
				} else if f.Failure == nil || f.Failure.Kind != c.kind || f.Outcome != loop.OutcomeUnfit || f.Category != string(c.kind) || f.Error != f.Failure.Why || f.Error == "" {
					t.Errorf("%+v %+v", f, f.Failure)
				}
				if !strings.HasPrefix(strings.Join(w.calls, ", "), "sweep, environment, fact role_start"+c.calls+", run") {
					t.Error(w.calls)
				}
				if warned := w.lastWarning() != ""; warned != (name == "no tree") {
					t.Error("warned:", warned)
				}
			})
		})
	}
}

func lastReport(digest string) func(w *roleWorld) {
	return func(w *roleWorld) { w.state.LastRoles = map[string]loop.RoleResult{"planner": {Digest: digest}} }
}

// TestAlertsHaveACause: failures of more than one role are looked at across roles, by
// rules; only those alerts that ask for it get the cause.
// Conforms: 003-c4-trigger-class, 003-c4-trigger-rate
func TestAlertsHaveACause(t *testing.T) {
	t.Parallel()
	inRoleWorld(t, func(t *testing.T, w *roleWorld) {
		w.set.Loop.Respond.Systemic = config.Systemic{Window: time.Hour, MinRuns: 1, CriticalRate: 0.5}
		w.agent = func(context.Context, proc.Spec) (proc.Result, error) { return exited(3, ""), nil }
		w.classified = &failures.Classified{Category: "disk_full", Infra: true, Confidence: 0.9, Signature: "sig"}
		for n := range 3 {
			w.facts.Others = append(w.facts.Others, failures.Elsewhere{Loop: "other", Category: "disk_full", Provider: "generic", At: time.Now().Add(-time.Duration(n) * time.Minute)})
		}
		w.facts.Changes = []failures.Change{{What: "package.json"}}
		f := w.perform(w.effect("planner"))
		if len(f.Alerts) != 1 || !f.Alerts[0].Analyse {
			t.Fatalf("%+v", f.Alerts)
		}
		w.order("sweep, environment, fact role_start, run, lies, classify, facts")
		if f.Alerts[0].Cause == "" {
			t.Errorf("%+v", f.Alerts)
		}
		g := f
		g.Alerts = []failures.Alert{{Analyse: false}, {Analyse: true}}
		w.roles.whyEverywhere(t.Context(), w.state, &g)
		if g.Alerts[0].Cause != "" || g.Alerts[1].Cause != f.Alerts[0].Cause {
			t.Errorf("%+v", g.Alerts)
		}
		w.calls, g.Alerts = nil, []failures.Alert{{}}
		w.roles.whyEverywhere(t.Context(), w.state, &g)
		if w.order(""); g.Alerts[0].Cause != "" {
			t.Errorf("%+v", g.Alerts)
		}
	})
}

func TestSnapshots(t *testing.T) {
	t.Parallel()
	inRoleWorld(t, func(t *testing.T, w *roleWorld) {
		n := w.roles.Snapshots
		bin := filepath.Join(w.host.Paths.Repo, "bin")
		w.write(filepath.Join(bin, "agent-x"), "#!/bin/sh\n")
		w.write(filepath.Join(bin, "git"), "#!/bin/sh\nexit\n")
		w.write(filepath.Join(w.host.Repo.Top, "go.mod"), "module x\n")
		for _, name := range []string{"node", "npm", "python3", "go", "cargo", "make", "gcc"} {
			w.write(filepath.Join(bin, name), "")
		}
		for _, name := range []string{"agent-x", "git", "node", "npm", "python3", "go", "cargo", "make", "gcc"} {
			if err := os.Chmod(filepath.Join(bin, name), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		w.host.Environ = []string{"PATH=" + bin}
		w.set.Config.Runners["x"] = config.Runner{Command: []string{"agent-x"}}
		n.Keep(w.state)
		first, err := n.Store().Load()
		if err != nil || !first.At.Equal(w.host.Now(w.state)) || first.Files["go.mod"] == "" || len(first.Tools) != 9 ||
			!strings.HasPrefix(first.Tools["git"], filepath.Join(bin, "git")+" (15 bytes of ") || !strings.Contains(first.Tools["agent-x"], "(10 bytes of ") {
			t.Fatalf("%+v %v", first, err)
		}
		pass(snapshotEvery - 1)
		n.Keep(w.state)
		if s, _ := n.Store().Load(); !s.At.Equal(first.At) {
			t.Error("kept again so soon")
		}
		pass(1)
		n.Keep(w.state)
		if s, _ := n.Store().Load(); !s.At.Equal(first.At.Add(30 * time.Second)) {
			t.Error("not kept", s.At)
		}
		pass(time.Hour)
		w.state.Plan.Respond = nil
		n.Keep(w.state)
		if s, _ := n.Store().Load(); !s.At.Equal(first.At.Add(30 * time.Second)) {
			t.Error("kept although nobody asks")
		}
		w.state.Plan.Respond = &loop.RespondPlan{}
		w.disk["respond:create"] = errBroken
		n.Keep(w.state)
		if w.lastWarning() != "the environment of this success could not be kept" {
			t.Error("no warning")
		}
	})
}
