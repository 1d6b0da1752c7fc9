package project

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// Runner is how init starts an agent CLI: headless, the prompt on stdin, free to edit and run commands in its folder.
// What is missing to that (structured output, the permissions' own flags) superloop adds for the version at hand.
type Runner struct {
	Command     []string `json:"command"`
	Args        []string `json:"args"`
	PromptMode  string   `json:"prompt_mode"`
	Permissions string   `json:"permissions,omitempty"`
}

// RunnerOf is the runner for a CLI of that name.
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

// Choice is what the configuration is made of.
type Choice struct {
	LoopID, Test string
	// Runners to write; the first one runs every role, but the reviewer is given to the second where there is one:
	// another model sees other mistakes.
	Runners []string
}

// configText is a configuration, in the order that a human reads best. Its holes are JSON: the runners, the id, the
// spec's file, the tests, and the runner of each role.
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

// Config writes a configuration that validates.
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
