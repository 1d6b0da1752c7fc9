package project

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Runner is how init starts an agent CLI: headless, the prompt on stdin, free
// to edit and run commands in its folder. What is missing to that (structured
// output, the permissions' own flags) superloop adds for the version at hand.
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
	// Runners to write; the first one runs every role, but the reviewer is given
	// to the second where there is one: another model sees other mistakes.
	Runners []string
}

// Config writes a configuration that validates.
func Config(c Choice) ([]byte, error) {
	type m = map[string]any
	runners := m{}
	for _, r := range c.Runners {
		runners[r] = RunnerOf(r)
	}
	if len(c.Runners) == 0 {
		return nil, errors.New("a configuration needs at least one runner")
	}
	reviewer := c.Runners[0]
	if len(c.Runners) > 1 {
		reviewer = c.Runners[1]
	}
	tests := m{"mode": "disabled", "commands": []string{}}
	if c.Test != "" {
		tests = m{"mode": "every", "commands": []string{c.Test}}
	}
	role := func(runner string) m { return m{"runner": runner} }
	loop := ordered{
		{"id", c.LoopID},
		{"spec_file", fmt.Sprintf(".superloop/specs/%s.md", c.LoopID)},
		{"max_iterations", 20},
		{"max_wall_time", "8h"},
		{"completion_promise", "SUPERLOOP_COMPLETE"},
		{"checklists", []string{}},
		{"tests", tests},
		{"evidence", m{"enabled": false, "require_on_completion": true, "artifacts": []string{}}},
		{"approval", m{"enabled": false, "require_on_completion": true}},
		{"reviewer_packet", m{"enabled": true}},
		{"timeouts", m{"enabled": true, "default": 1800, "implementer": 3600, "inactivity": 900}},
		{"stuck", m{"enabled": true, "threshold": 5, "action": "report_and_stop", "ignore": []string{}}},
		{"git", m{"commit_strategy": "never"}},
		{"roles", ordered{
			{"planner", role(c.Runners[0])}, {"implementer", role(c.Runners[0])},
			{"tester", role(c.Runners[0])}, {"reviewer", role(reviewer)},
		}},
	}
	out, err := json.MarshalIndent(ordered{{"runners", runners}, {"loops", []any{loop}}}, "", "  ")
	if err != nil {
		return nil, err
	}
	return append(out, '\n'), nil
}

// ordered is an object whose keys stay in the order that a person reads best.
type ordered []struct {
	Key   string
	Value any
}

// MarshalJSON implements json.Marshaler.
func (o ordered) MarshalJSON() ([]byte, error) {
	out := []byte{'{'}
	for i, kv := range o {
		if i > 0 {
			out = append(out, ',')
		}
		key, err := json.Marshal(kv.Key)
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(kv.Value)
		if err != nil {
			return nil, err
		}
		out = append(append(append(out, key...), ':'), value...)
	}
	return append(out, '}'), nil
}
