package project

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/superloop/superloop/loop/config"
)

func TestConfigValidates(t *testing.T) {
	t.Parallel()
	for _, runners := range [][]string{{"claude"}, {"codex"}, {"claude", "codex"}, {"gemini", "opencode"},
		{"mine", "claude"}, {"claude", "codex", "gemini"}} {
		for _, test := range []string{"", "true", "true a<b>&&c"} {
			t.Run(filepath.Join(append([]string{"of"}, runners...)...), func(t *testing.T) {
				t.Parallel()
				defer func() {
					if p := recover(); p != nil {
						t.Errorf("Config panics: %v", p)
					}
				}()
				data, err := Config(Choice{LoopID: "first", Tests: strings.Fields(test), Runners: runners})
				if err != nil {
					t.Fatal(err)
				}
				c, err := config.LoadBytes(filepath.Join(t.TempDir(), ".superloop", "config.json"), data)
				if err != nil {
					t.Fatalf("it does not validate: %v\n%s", err, data)
				}
				checkMeaning(t, c, runners, test)
			})
		}
	}
}

func TestConfigWithoutARunnerIsRefused(t *testing.T) {
	t.Parallel()
	if data, err := Config(Choice{LoopID: "first"}); err == nil {
		t.Fatalf("no runner gave %s", data)
	}
}

func TestConfigOfAnEvilLoopIDIsRefused(t *testing.T) {
	t.Parallel()
	data, err := Config(Choice{LoopID: "../evil", Runners: []string{"claude"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := config.LoadBytes("config.json", data); err == nil {
		t.Errorf("a loop id with a path in it is valid:\n%s", data)
	}
}

func TestRunnerOfReadsThePromptOnStdin(t *testing.T) {
	t.Parallel()
	for _, name := range append(slices.Clone(agents), "mine") {
		r := RunnerOf(name)
		if len(r.Command) == 0 || r.Command[0] != name || r.PromptMode != "stdin" || r.Args == nil {
			t.Errorf("RunnerOf(%s) is %+v", name, r)
		}
	}
}

// checkMeaning: the first runner has every role but the reviewer, which is the
// second's where there is one; the tests are those that were chosen.
func checkMeaning(t *testing.T, c *config.Config, runners []string, test string) {
	t.Helper()
	if len(c.Runners) != len(runners) || len(c.Loops) != 1 || len(c.Warnings) != 0 {
		t.Fatalf("%d runners, %d loops, warnings %v", len(c.Runners), len(c.Loops), c.Warnings)
	}
	loop := c.Loops[0]
	if loop.ID != "first" || loop.SpecFile != ".superloop/specs/first.md" || loop.CompletionPromise != "SUPERLOOP_COMPLETE" {
		t.Errorf("the loop is %+v", loop)
	}
	if test == "" && (loop.Tests.Mode != config.TestsDisabled || !loop.Approval.Enabled) ||
		test != "" && (loop.Tests.Mode != config.TestsEvery || !slices.Equal(loop.Tests.Commands, strings.Fields(test)) || loop.Approval.Enabled) {
		t.Errorf("tests are %+v, want %q", loop.Tests, test)
	}
	var names []string
	for _, r := range loop.Roles {
		names = append(names, r.Name)
		want := runners[0]
		if r.Name == "reviewer" && len(runners) > 1 {
			want = runners[1]
		}
		if r.Runner != want {
			t.Errorf("%s is run by %s, want %s", r.Name, r.Runner, want)
		}
	}
	if want := []string{"planner", "implementer", "tester", "reviewer"}; !slices.Equal(names, want) {
		t.Errorf("roles are %v, want %v", names, want)
	}
}
