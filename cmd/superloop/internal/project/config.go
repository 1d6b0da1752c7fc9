package project

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// Runner is the configuration that init writes for an agent CLI: headless, with the prompt on stdin, free to edit files
// and run commands in its work directory. At each start superloop adds the flags for structured output and permissions
// that the installed version of the CLI knows.
type Runner struct {
	Command     []string `json:"command"`
	Args        []string `json:"args"`
	PromptMode  string   `json:"prompt_mode"`
	Permissions string   `json:"permissions,omitempty"`
}

// RunnerOf returns the runner for the CLI of that name.
func RunnerOf(name string) Runner {
	r := Runner{Command: []string{name}, Args: []string{}, PromptMode: "stdin", Permissions: "workspace"}
	switch name {
	case "claude":
		r.Args = []string{"-p"}
	case "codex":
		r.Command, r.Args = []string{"codex", "exec"}, []string{"-"}
	case "gemini":
	case "opencode":
		r.Command = []string{"opencode", "run"}
	default:
		r.Permissions = "" // superloop does not know its flags
	}
	return r
}

// Choice holds the values from which Config makes a configuration.
type Choice struct {
	LoopID, Test string
	// Runners are the names of the runners. The first one runs every role. If there is a second one, it runs the
	// reviewer, because another model sees other mistakes.
	Runners []string
}

// configText is the template of a configuration, in the order in which it reads best. Its placeholders take JSON: the
// runners, the loop's id, the spec file, the tests, the runner of the first three roles, and the runner of the
// reviewer.
const configText = `{"runners": %s, "loops": [{
	"id": %s,
	"spec_file": %s,
	"max_iterations": 20,
	"max_wall_time": "8h",
	"completion_promise": "SUPERLOOP_COMPLETE",
	"checklists": [],
	"tests": %s,
	"evidence": {"artifacts": [], "enabled": false, "require_on_completion": true},
	"approval": {"enabled": false, "require_on_completion": true},
	"reviewer_packet": {"enabled": true},
	"timeouts": {"default": 1800, "enabled": true, "implementer": 3600, "inactivity": 900},
	"stuck": {"action": "report_and_stop", "enabled": true, "ignore": [], "threshold": 5},
	"git": {"commit_strategy": "never"},
	"roles": {"planner": {"runner": %[5]s}, "implementer": {"runner": %[5]s}, "tester": {"runner": %[5]s}, "reviewer": {"runner": %[6]s}}
}]}`

// Config returns a configuration that passes superloop validate. It fails without a runner.
func Config(c Choice) ([]byte, error) {
	if len(c.Runners) == 0 {
		return nil, errors.New("a configuration needs at least one runner")
	}
	runners := map[string]Runner{}
	for _, r := range c.Runners {
		runners[r] = RunnerOf(r)
	}
	tests := map[string]any{"mode": "disabled", "commands": []string{}}
	if c.Test != "" {
		tests = map[string]any{"mode": "every", "commands": []string{c.Test}}
	}
	var holes []any
	for _, v := range []any{runners, c.LoopID, ".superloop/specs/" + c.LoopID + ".md", tests, c.Runners[0], c.Runners[min(1, len(c.Runners)-1)]} {
		text, err := json.Marshal(v)
		if err != nil {
			return nil, err
		}
		holes = append(holes, text)
	}
	var out bytes.Buffer
	err := json.Indent(&out, fmt.Appendf(nil, configText+"\n", holes...), "", "  ")
	return out.Bytes(), err
}
