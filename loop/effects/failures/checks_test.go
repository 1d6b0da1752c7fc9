package failures

import (
	"testing"

	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/loop/effects"
	"github.com/superloop/superloop/recovery/failures"
)

func TestConfiguredChecks(t *testing.T) {
	t.Parallel()
	got := ConfiguredChecks(config.Respond{Preflight: config.Environment{Checks: []config.EnvironmentCheck{
		{Kind: "port", Port: 5432, Want: "open"},
		{Kind: "disk", Path: "/tmp", FreeMB: 10},
		{Kind: "port", Port: 5432, Want: "open"},
		{Kind: "moon"},
	}}})
	if len(got) != 3 || got[0].Kind != failures.CheckPort || got[0].Spec != (failures.CheckSpec{Port: 5432, Want: "open"}) || got[1].Spec.FreeMB != 10 {
		t.Fatalf("%+v", got)
	}
	for i, wrong := range []bool{false, false, true} {
		if (got[i].Valid() != nil) != wrong || got[i].ID == "" || got[i].AddedBy != failures.AddedByConfig || got[i].Reason != "the configuration asks for it" {
			t.Errorf("%+v: %v", got[i], got[i].Valid())
		}
	}
	if ConfiguredChecks(config.Respond{}) != nil {
		t.Error("nothing is configured")
	}
}

// An account is the runner's: by its command, its adapter and its own environment.
func TestAgentOf(t *testing.T) {
	t.Parallel()
	cfg := &config.Config{Runners: map[string]config.Runner{"a": {Command: []string{"mine", "--x"}}, "b": {Command: []string{"mine", "--y"}}, "c": {Command: []string{"sh"}, Adapter: "claude"}}}
	a, first := effects.AgentOf(cfg, config.Choice{Runner: "a", Model: "m"}, nil)
	_, second := effects.AgentOf(cfg, config.Choice{Runner: "b", Model: "m"}, nil)
	c, third := effects.AgentOf(cfg, config.Choice{Runner: "c"}, nil)
	if first == second || first.Provider != second.Provider || third.Provider == first.Provider {
		t.Errorf("%+v %+v %+v", first, second, third)
	}
	if a != (failures.Agent{Runner: "a", Provider: first.Provider, Model: "m"}) || c != (failures.Agent{Runner: "c", Provider: third.Provider}) {
		t.Errorf("%+v %+v", a, c)
	}
}

func TestVariable(t *testing.T) {
	t.Parallel()
	env := []string{"A=1", "B=x=y", "AB=3", "A=2", "C"}
	for name, want := range map[string]string{"A": "2", "B": "x=y", "AB": "3", "C": "", "D": ""} {
		if got := variable(env, name); got != want {
			t.Errorf("%s is %q", name, got)
		}
	}
	if variable(env[:1], "A") != "1" {
		t.Error("the first one is not seen")
	}
}
