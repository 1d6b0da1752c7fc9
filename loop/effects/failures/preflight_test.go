package failures

import (
	"errors"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/loop/effects"
	"github.com/superloop/superloop/recovery/failures"
	"github.com/superloop/superloop/recovery/preflight"
	"github.com/superloop/superloop/roles/agent/cooldown"
)

var firstRole = loop.Effect{ID: "e1", Kind: loop.RunRole, Role: "planner", Attempt: 1}

// needs has the configuration ask for files to be there.
func (w *failuresWorld) needs(files ...string) {
	w.set.Loop.Respond.Preflight.Checks = nil
	for _, f := range files {
		w.set.Loop.Respond.Preflight.Checks = append(w.set.Loop.Respond.Preflight.Checks, config.EnvironmentCheck{Kind: "path", Path: f})
	}
}

func pathCheck(path string) failures.Prevention {
	return failures.NewCheck(failures.CheckPath, failures.CheckSpec{Path: path}, "a test", "rules")
}

// learns has a check been learned.
func (w *failuresWorld) learns(checks ...failures.Prevention) {
	w.t.Helper()
	if _, err := (preflight.Store[failures.Preventions]{Path: w.Paths.Preventions()}).Update(w.t.Context(), func(ps *failures.Preventions) bool {
		ps.Checks = append(ps.Checks, checks...)
		return true
	}); err != nil {
		w.t.Fatal(err)
	}
}

func TestChecksTheEnvironment(t *testing.T) {
	t.Parallel()
	w := newFailuresWorld(t)
	w.needs("a.txt", "b.txt", "refresh")
	if w.EnvironmentWhole(t.Context(), w.s) {
		t.Error("two files are missing")
	}
	w.tick = time.Millisecond
	f, ok := w.CheckEnvironment(t.Context(), firstRole, w.s, "sh").(loop.EnvironmentBroken)
	if !ok || len(f.Findings) != 2 || f.TookUS < 1000 {
		t.Fatalf("%+v", f)
	}
	for i, file := range []string{"a.txt", "b.txt"} {
		if g := f.Findings[i]; g.ID != pathCheck(file).ID || g.State != failures.CheckBroken {
			t.Errorf("%+v", g)
		}
	}
	f.Findings, f.TookUS = nil, 0
	want := loop.EnvironmentBroken{Of: loop.To(firstRole), Role: "planner", Category: "file_not_found", Why: "a.txt is not there; b.txt is not there"}
	want.Action = loop.EnvironmentOperator
	if !reflect.DeepEqual(f, want) {
		t.Errorf("%+v", f)
	}
	w.write(filepath.Join(w.Repo.Top, "a.txt"), "")
	w.write(filepath.Join(w.Repo.Top, "b.txt"), "")
	if fact := w.CheckEnvironment(t.Context(), firstRole, w.s, "sh"); fact != nil || !w.EnvironmentWhole(t.Context(), w.s) {
		t.Errorf("%+v", fact)
	}
	w.said()
	if ps := w.learned(); len(ps.Checks) != 0 {
		t.Errorf("%+v", ps)
	}
}

func TestWhenTheEnvironmentIsChecked(t *testing.T) {
	t.Parallel()
	second := loop.Effect{ID: "e2", Kind: loop.RunRole, Role: "implementer", Attempt: 1}
	again := loop.Effect{ID: "e3", Kind: loop.RunRole, Role: "planner", Attempt: 2}
	for name, c := range map[string]struct {
		e      loop.Effect
		change func(*loop.State)
		want   bool
	}{
		"the first role":         {firstRole, func(*loop.State) {}, true},
		"the second role":        {second, func(*loop.State) {}, false},
		"another attempt":        {again, func(*loop.State) {}, false},
		"no roles":               {firstRole, func(s *loop.State) { s.Plan.Roles = nil }, false},
		"no failure policy":      {firstRole, func(s *loop.State) { s.Plan.Respond = nil }, false},
		"switched off":           {firstRole, func(s *loop.State) { s.Plan.Respond = &loop.RespondPlan{} }, false},
		"overruled":              {firstRole, func(s *loop.State) { s.Response.Overruled = 3 }, false},
		"overruled before":       {firstRole, func(s *loop.State) { s.Response.Overruled = 2 }, true},
		"kept from its work":     {again, func(s *loop.State) { s.Response.Environment = &loop.EnvironmentState{Iteration: 3} }, true},
		"kept from it before":    {again, func(s *loop.State) { s.Response.Environment = &loop.EnvironmentState{Iteration: 2} }, false},
		"an analysis":            {second, func(s *loop.State) { s.Response.Policy = &failures.State{Analyses: 1} }, true},
		"failed without a cause": {second, func(s *loop.State) { s.Response.Policy = &failures.State{} }, false},
	} {
		w := newFailuresWorld(t)
		w.needs("a.txt")
		c.change(&w.s)
		if f, got := w.CheckEnvironment(t.Context(), c.e, w.s, "sh").(loop.EnvironmentBroken); got != c.want || got && (f.Role != c.e.Role || f.Effect() != c.e.ID) {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

// The first finding with a command is the proposal; it runs where it was looked at.
func TestProposesARemedy(t *testing.T) {
	t.Parallel()
	w := newFailuresWorld(t)
	w.needs("a.txt")
	w.write(filepath.Join(w.Repo.Top, "web", "package-lock.json"), `{"lockfileVersion": 3, "packages": {"": {}, "node_modules/x": {"version": "1.0.0"}}}`)
	w.write(filepath.Join(w.Repo.Top, "api", "package-lock.json"), `{"lockfileVersion": 3, "packages": {"": {}, "node_modules/x": {"version": "1.0.0"}}}`)
	for _, dir := range []string{"web/", "api"} {
		w.set.Loop.Respond.Preflight.Checks = append(w.set.Loop.Respond.Preflight.Checks, config.EnvironmentCheck{Kind: "dependency_sync", Path: dir, Manager: "npm"})
	}
	f, ok := w.CheckEnvironment(t.Context(), firstRole, w.s, "sh").(loop.EnvironmentBroken)
	if !ok || f.Command == nil || len(f.Findings) != 3 {
		t.Fatalf("%+v", f)
	}
	if a := f.Command; a.Command != "npm ci" || a.WorkingDir != "web" || a.TimeoutMS != 120000 || a.Confidence != "high" || a.Expected != "not so any more: "+f.Findings[1].Why {
		t.Errorf("%+v", a)
	}
	if f.Action != loop.EnvironmentRecover || f.Category != "dependency" {
		t.Errorf("%+v", f)
	}
	if got := w.placeOf(failures.Finding{ID: "unknown"}); got != "." {
		t.Errorf("%q", got)
	}
	abroad := failures.NewCheck(failures.CheckPath, failures.CheckSpec{Path: "../web"}, "", "")
	w.needs("../web")
	if got := w.placeOf(failures.Finding{ID: abroad.ID}); got != "." {
		t.Errorf("%q", got)
	}
}

func TestWaitsForALimit(t *testing.T) {
	t.Parallel()
	w := newFailuresWorld(t)
	choice := config.Choice{Runner: "doctor", Model: "m"}
	who, account := effects.AgentOf(w.set.Config, choice, w.Env())
	if who.Runner != "doctor" || who.Model != "m" || who.Provider == "" || who.Provider != account.Provider {
		t.Fatalf("%+v %+v", who, account)
	}
	w.set.Loop.Roles = []config.Role{{Name: "planner", Runners: []config.Choice{choice}}}
	w.set.Loop.Respond.Preflight.Checks = []config.EnvironmentCheck{{Kind: "limit", Name: who.Provider}, {Kind: "auth", Name: "doctor"}}
	if f := w.CheckEnvironment(t.Context(), firstRole, w.s, "sh"); f != nil {
		t.Fatalf("%+v", f)
	}
	until := w.at.Add(time.Hour)
	if err := w.Cooldowns.Set(cooldown.Cooldown{Account: account, Class: "rate_limit", Until: until, SetAt: w.at, Told: true, Strikes: 1}); err != nil {
		t.Fatal(err)
	}
	f, _ := w.CheckEnvironment(t.Context(), firstRole, w.s, "sh").(loop.EnvironmentBroken)
	if f.Action != loop.EnvironmentPause || len(f.Findings) != 1 || !f.Findings[0].Until.Equal(until) {
		t.Errorf("%+v", f)
	}
	// The end has come meanwhile, by the clock of the loop.
	s := w.s
	s.UpdatedAt = until
	if f := w.CheckEnvironment(t.Context(), firstRole, s, "sh"); f != nil {
		t.Errorf("%+v", f)
	}
	// A login that is missing, too, is a human's.
	health := preflight.Store[failures.Health]{Path: w.Paths.Health()}
	change := func(b failures.Breaker) {
		if _, err := health.Update(t.Context(), func(h *failures.Health) bool { h.Breakers = []failures.Breaker{b}; return true }); err != nil {
			t.Fatal(err)
		}
	}
	cut := failures.Breaker{Agent: who, Circuit: failures.OpenCut, Kind: failures.KindAuth, Why: "it has expired"}
	change(cut)
	if f, _ = w.CheckEnvironment(t.Context(), firstRole, w.s, "sh").(loop.EnvironmentBroken); f.Action != loop.EnvironmentOperator || len(f.Findings) != 2 || !strings.Contains(f.Why, "it has expired") {
		t.Errorf("%+v", f)
	}
	for name, b := range map[string]func(*failures.Breaker){
		"closed":       func(b *failures.Breaker) { b.Circuit = failures.Closed },
		"for a time":   func(b *failures.Breaker) { b.Until = w.at.Add(time.Hour) },
		"another kind": func(b *failures.Breaker) { b.Kind = failures.KindExit },
	} {
		x := cut
		b(&x)
		change(x)
		if f, _ = w.CheckEnvironment(t.Context(), firstRole, w.s, "sh").(loop.EnvironmentBroken); len(f.Findings) != 1 {
			t.Errorf("%s: %+v", name, f)
		}
	}
	w.write(w.Paths.Health(), "{")
	if f, _ = w.CheckEnvironment(t.Context(), firstRole, w.s, "sh").(loop.EnvironmentBroken); len(f.Findings) != 1 {
		t.Errorf("what is damaged says nothing: %+v", f)
	}
}

func TestCountsLearnedChecks(t *testing.T) {
	t.Parallel()
	w := newFailuresWorld(t)
	idle := pathCheck("refresh")
	idle.Runs = 499
	w.learns(pathCheck("a.txt"), idle)
	if w.EnvironmentWhole(t.Context(), w.s) {
		t.Error("a.txt is missing")
	}
	if ps := w.learned(); ps.Checks[0].Runs != 0 || ps.Checks[1].Runs != 499 {
		t.Errorf("only a look before a role counts: %+v", ps)
	}
	stopped := gone()
	if f, _ := w.CheckEnvironment(t.Context(), firstRole, w.s, "sh").(loop.EnvironmentBroken); len(f.Findings) != 1 {
		t.Errorf("%+v", f)
	}
	ps := w.learned()
	if p := ps.Checks[0]; p.Runs != 1 || p.Hits != 1 || p.Prevented != 1 || !p.LastHit.Equal(w.Now(w.s)) {
		t.Errorf("%+v", p)
	}
	if p := ps.Checks[1]; p.Runs != 500 || p.Hits != 0 || p.Prevented != 0 || !p.Retired.Equal(w.Now(w.s)) {
		t.Errorf("%+v", p)
	}
	// It is counted also when the loop is to stop in that moment.
	if f := w.CheckEnvironment(stopped, firstRole, w.s, "sh"); f != nil {
		t.Errorf("there was no time to look: %+v", f)
	}
	if p := w.learned().Checks[0]; p.Runs != 2 || p.Hits != 1 {
		t.Errorf("%+v", p)
	}
	// A check that the configuration has, too, is made once.
	w.needs("a.txt")
	if f, _ := w.CheckEnvironment(t.Context(), firstRole, w.s, "sh").(loop.EnvironmentBroken); len(f.Findings) != 1 {
		t.Errorf("%+v", f)
	}
	w.needs()
	w.fault = func(op string) error { return errTest }
	if f, _ := w.CheckEnvironment(t.Context(), firstRole, w.s, "sh").(loop.EnvironmentBroken); len(f.Findings) != 1 {
		t.Errorf("%+v", f)
	}
	w.fault = nil
	w.write(w.Paths.Preventions(), "{")
	if f := w.CheckEnvironment(t.Context(), firstRole, w.s, "sh"); f != nil {
		t.Errorf("%+v", f)
	}
}

func TestNothingLearnedNothingCounted(t *testing.T) {
	t.Parallel()
	w := newFailuresWorld(t)
	w.needs("a.txt")
	w.fault = func(op string) error { t.Errorf("the disk is asked for %s", op); return nil }
	if w.CheckEnvironment(t.Context(), firstRole, w.s, "sh") == nil {
		t.Error("a.txt is missing")
	}
}

func TestOverrules(t *testing.T) {
	t.Parallel()
	ok := loop.RoleEnded{Role: "planner", Outcome: loop.OutcomeOK}
	environment := &loop.EnvironmentState{Role: "planner", Findings: []failures.Finding{{ID: pathCheck("a.txt").ID}}}
	for name, c := range map[string]struct {
		response loop.Response
		ended    loop.RoleEnded
		want     int
	}{
		"overruled":       {loop.Response{Environment: environment, Overruled: 3}, ok, 1},
		"another time":    {loop.Response{Environment: environment, Overruled: 2}, ok, 0},
		"nothing broken":  {loop.Response{Overruled: 3}, ok, 0},
		"it was right":    {loop.Response{Environment: environment, Overruled: 3}, loop.RoleEnded{Role: "planner", Outcome: loop.OutcomeExit}, 0},
		"another's check": {loop.Response{Environment: environment, Overruled: 3}, loop.RoleEnded{Role: "tester", Outcome: loop.OutcomeOK}, 0},
	} {
		w := newFailuresWorld(t)
		w.learns(pathCheck("a.txt"), pathCheck("b.txt"))
		w.s.Response = c.response
		w.Overrule(gone(), w.s, c.ended)
		if ps := w.learned(); ps.Checks[0].Overruled != c.want || ps.Checks[1].Overruled != 0 {
			t.Errorf("%s: %+v", name, ps)
		}
	}
	w := newFailuresWorld(t)
	p := pathCheck("a.txt")
	p.Overruled = 1
	w.learns(p)
	w.s.Response = loop.Response{Environment: environment, Overruled: 3}
	w.fault = func(string) error { return errTest }
	w.Overrule(t.Context(), w.s, ok)
	if p := w.learned().Checks[0]; p.Overruled != 1 {
		t.Errorf("%+v", p)
	}
	w.fault = nil
	w.Overrule(t.Context(), w.s, ok)
	if p := w.learned().Checks[0]; !p.Retired.Equal(w.Now(w.s)) {
		t.Errorf("two false alarms and no run saved: %+v", p)
	}
}

// Another supervisor that holds the file is waited for, and not for ever.
func TestChecksAreShared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newFailuresWorld(t)
		w.learns(pathCheck("a.txt"))
		lock, err := durable.OS().Lock(w.Paths.Preventions()+".lock", nil)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		var held *durable.LockedError
		if err := effects.Update(w.preventions(), func(*failures.Preventions) bool { t.Error("changed"); return false }); !errors.As(err, &held) {
			t.Errorf("%v", err)
		}
		if waited := time.Since(began); waited != 2*time.Second {
			t.Errorf("waited for %v", waited)
		}
		if err := lock.Unlock(); err != nil {
			t.Fatal(err)
		}
		if err := effects.Update(w.preventions(), func(*failures.Preventions) bool { return false }); err != nil {
			t.Error(err)
		}
	})
}
