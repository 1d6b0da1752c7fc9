package project

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/superloop/superloop/loop/config"
)

// What an operator types becomes a command that runs headless, and none of the operator's words is lost or doubled.
func TestRunnerFor(t *testing.T) {
	t.Parallel()
	for typed, want := range map[string]string{
		"claude":                        "claude | -p",
		"claude --model opus":           "claude | -p --model opus",
		"claude -p --model opus":        "claude | -p --model opus",
		"/opt/x/claude --print":         "/opt/x/claude | --print",
		"codex":                         "codex exec | -",
		"codex exec --full-auto":        "codex exec | --full-auto -",
		"codex exec --full-auto -":      "codex exec | --full-auto -",
		"codex -m o3":                   "codex exec | -m o3 -",
		"opencode run":                  "opencode run | ",
		"gemini --yolo":                 "gemini | --yolo",
		"./agent.sh --quick":            "./agent.sh | --quick",
		"./agent.sh -f {prompt_file}":   "./agent.sh | -f {prompt_file}",
		"bash -c 'cat {prompt_file}'":   "bash | -c 'cat {prompt_file}'",
		"some/where/codex-wrapper exec": "some/where/codex-wrapper | exec",
	} {
		r := RunnerFor(strings.Fields(typed))
		if got := strings.Join(r.Command, " ") + " | " + strings.Join(r.Args, " "); got != want {
			t.Errorf("%s becomes %q, want %q", typed, got, want)
		}
		if file := strings.Contains(typed, "{prompt"); file != (r.PromptMode == "file") {
			t.Errorf("%s gets its prompt by %s", typed, r.PromptMode)
		}
	}
}

// The configuration of a prompt is valid, has one role, and holds all of the repository's configuration but its loops.
func TestPromptConfig(t *testing.T) {
	t.Parallel()
	base := `{"runners": {"claude": {"command": ["mine"]}, "b": {"command": ["b"]}}, "recovery": {"auto_approve": ["x"]}, "protect": {"paths": ["/p"]},
		"loops": [{"id": "one", "spec_file": "s", "max_iterations": 1, "completion_promise": "P", "roles": {"planner": {"runner": "b"}}}]}`
	p := Prompted{LoopID: "prompt", SpecFile: "P.md", Agents: []string{"codex"}, Tests: []string{"make test"}, Installs: []string{"npm ci"},
		MaxIterations: 7, MaxTime: time.Hour, MaxSilence: time.Minute, MaxCostUSD: 3, Promise: "OK"}
	for name, c := range map[string]struct {
		words, base, runner, command, approve string
		runners                               int
	}{
		"nothing":          {"", "", "codex", "codex exec", "npm ci", 1},
		"words":            {"gemini --yolo", "", "gemini", "gemini", "npm ci", 1},
		"a runner of base": {"claude", base, "claude", "mine", "x", 2},
		"words beside one": {"claude -x", base, "claude-given", "claude", "x", 3},
		"found beside":     {"", base, "codex", "codex exec", "x", 3},
		"the default":      {"", strings.Replace(base, "{", `{"role_defaults": {"implementer": {"runner": "b"}}, `, 1), "b", "b", "x", 2},
	} {
		p := p
		p.Words = strings.Fields(c.words)
		if c.base != "" {
			p.Base = []byte(c.base)
		}
		data, runner, err := PromptConfig(p)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		cfg, err := config.LoadBytes("/repo/.superloop/loops/prompt/config.json", data)
		if err != nil {
			t.Fatalf("%s: %v\n%s", name, err, data)
		}
		policy, _ := cfg.Policy("prompt")
		l := cfg.Loops[0]
		if got := strings.Join(cfg.Runners[runner].Command, " "); runner != c.runner || got != c.command || len(cfg.Runners) != c.runners || l.Roles[0].Runner != runner ||
			!reflect.DeepEqual(policy.Settings.AutoApprove, []string{c.approve}) {
			t.Errorf("%s: %s runs %q, with %d runners and %v", name, runner, got, len(cfg.Runners), policy.Settings.AutoApprove)
		}
		if len(cfg.Loops) != 1 || len(l.Roles) != 1 || !l.PromptOnly || l.MaxIterations != 7 || l.MaxWallTime != time.Hour || l.MaxCostUSD != 3 || !l.Gated() ||
			l.CompletionPromise != "OK" || l.Roles[0].Inactivity != time.Minute || len(cfg.Protect.Paths) != min(1, len(c.base)) {
			t.Errorf("%s: %+v", name, l)
		}
	}
	p.Agents, p.Tests = nil, nil
	if _, _, err := PromptConfig(p); err == nil || !strings.Contains(err.Error(), "none of claude, codex") {
		t.Errorf("without an agent: %v", err)
	}
	p.Words = []string{"x"}
	data, _, err := PromptConfig(p)
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := config.LoadBytes("/repo/.superloop/loops/prompt/config.json", data)
	if err != nil || cfg.Loops[0].Gated() || !cfg.Loops[0].Completion.AllowUngated || !cfg.Loops[0].Completion.RequireChange {
		t.Errorf("without a test: %v %s", err, data)
	}
	for _, bad := range []string{`[]`, `{"runners": 1}`, `{`} {
		p.Base = []byte(bad)
		if _, _, err := PromptConfig(p); err == nil {
			t.Errorf("%s is taken for a configuration", bad)
		}
	}
}

// A loop of one prompt that is taken over keeps all of its settings but the place of its spec, and the loops of the
// configuration that is there stay in front of it.
func TestFromPrompt(t *testing.T) {
	t.Parallel()
	own, _, err := PromptConfig(Prompted{LoopID: "prompt", SpecFile: "P.md", Words: []string{"claude"}, Tests: []string{"make test"}, MaxIterations: 7, MaxCostUSD: 3,
		MaxTime: time.Hour, MaxSilence: time.Minute, Promise: "OK"})
	if err != nil {
		t.Fatal(err)
	}
	before, err := config.LoadBytes("/repo/.superloop/loops/prompt/config.json", own)
	if err != nil {
		t.Fatal(err)
	}
	for _, base := range []string{"", `{"loops": [{"id": "one", "spec_file": "s", "max_iterations": 1, "completion_promise": "P", "roles": {"planner": {"runner": "claude"}}}]}`} {
		data, err := FromPrompt(own, []byte(base), ".superloop/specs/prompt.md")
		if err != nil {
			t.Fatal(err)
		}
		after, err := config.LoadBytes("/repo/.superloop/config.json", data)
		if err != nil {
			t.Fatalf("%v\n%s", err, data)
		}
		if len(after.Loops) != 1+min(1, len(base)) || base != "" && after.Loops[0].ID != "one" {
			t.Errorf("the loops are %+v", after.Loops)
		}
		want, got := before.Loops[0], after.Loops[len(after.Loops)-1]
		want.SpecFile = ".superloop/specs/prompt.md"
		if !reflect.DeepEqual(got, want) || !reflect.DeepEqual(after.Runners, before.Runners) {
			t.Errorf("the loop is\n%+v\nwant\n%+v", got, want)
		}
	}
	for _, bad := range []string{"[", `{"loops": 1}`} {
		if _, err := FromPrompt(own, []byte(bad), "s"); err == nil {
			t.Errorf("%s is taken for a configuration", bad)
		}
		if _, err := FromPrompt([]byte(bad), nil, "s"); err == nil {
			t.Errorf("%s is taken for a configuration of a loop", bad)
		}
	}
}
