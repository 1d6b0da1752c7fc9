package project

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/superloop/superloop/internal/pattern"
	"github.com/superloop/superloop/internal/text"
)

// Prompted holds the values from which PromptConfig makes the configuration of a loop that is one prompt and one agent.
type Prompted struct {
	LoopID string
	// SpecFile is the file with the prompt, relative to the repository.
	SpecFile string
	// Words are the agent's command line as an operator typed it. Without one, the runner of Base runs that the implementer
	// has by role_defaults, or the only one; else the first of Agents.
	Words, Agents []string
	// Tests are the commands that judge the work. Without one, the agent's promise alone ends the loop.
	Tests []string
	// Installs are the commands that a recovery may run without an operator, Managers the package managers. Both count
	// only where Base has no recovery section.
	Installs, Managers []string
	MaxIterations      int
	MaxTime            time.Duration
	MaxSilence         time.Duration
	MaxCostUSD         float64 // 0 is no bound
	Promise            string
	// Base is the repository's configuration, or nil. All of it but its loops holds for this loop as well.
	Base []byte
}

// promptLoop is the loop in the order in which it reads best.
type promptLoop struct {
	ID            string         `json:"id"`
	SpecFile      string         `json:"spec_file"`
	PromptOnly    bool           `json:"prompt_only"`
	MaxIterations int            `json:"max_iterations"`
	MaxWallTime   string         `json:"max_wall_time"`
	MaxCostUSD    float64        `json:"max_cost_usd,omitempty"`
	Promise       string         `json:"completion_promise"`
	Completion    map[string]any `json:"completion"`
	Tests         map[string]any `json:"tests"`
	Respond       map[string]any `json:"respond"`
	Timeouts      map[string]any `json:"timeouts"`
	Stuck         map[string]any `json:"stuck"`
	Git           map[string]any `json:"git"`
	Roles         map[string]any `json:"roles"`
}

// PromptConfig returns the configuration of the loop, and the name of its runner in it. It fails without an agent, and
// if Base is no JSON object.
func PromptConfig(p Prompted) (data []byte, runner string, err error) {
	file := map[string]json.RawMessage{}
	if p.Base != nil {
		if err := text.Decode(p.Base, &file); err != nil {
			return nil, "", fmt.Errorf("reading the repository's configuration: %w", err)
		}
	}
	runners := map[string]json.RawMessage{}
	if raw, ok := file["runners"]; ok {
		if err := text.Decode(raw, &runners); err != nil {
			return nil, "", fmt.Errorf("reading the runners of the repository's configuration: %w", err)
		}
	}
	if runner, err = p.runner(runners, file["role_defaults"]); err != nil {
		return nil, "", err
	}
	set := func(key string, v any) {
		if err == nil {
			file[key], err = plainJSON(v)
		}
	}
	set("runners", runners)
	if _, ok := file["recovery"]; !ok {
		set("recovery", policyFor(p.Installs, p.Managers))
	}
	set("loops", []promptLoop{p.loop(runner)})
	if err != nil {
		return nil, "", err
	}
	data, err = indented(file)
	return data, runner, err
}

func (p Prompted) loop(runner string) promptLoop {
	l := promptLoop{ID: p.LoopID, SpecFile: p.SpecFile, PromptOnly: true, MaxIterations: p.MaxIterations, MaxWallTime: p.MaxTime.String(),
		MaxCostUSD: p.MaxCostUSD, Promise: p.Promise,
		Completion: map[string]any{"require_reports": []string{}}, Tests: map[string]any{"mode": "every", "commands": p.Tests},
		Respond:  map[string]any{"insist": []string{}},
		Timeouts: map[string]any{"enabled": true, "default": max(time.Hour, 4*p.MaxSilence).String(), "inactivity": p.MaxSilence.String()},
		Stuck:    map[string]any{"enabled": true, "threshold": 3},
		Git:      map[string]any{"commit_strategy": "never"},
		Roles:    map[string]any{"implementer": map[string]any{"runner": runner}}}
	if len(p.Tests) == 0 {
		l.Completion["allow_ungated"], l.Tests = true, map[string]any{"mode": "disabled", "commands": []string{}}
	}
	return l
}

// runner chooses the runner of the loop, and adds it to the runners if they do not have it.
func (p Prompted) runner(runners map[string]json.RawMessage, defaults json.RawMessage) (string, error) {
	words := p.Words
	if len(words) == 0 {
		var of struct {
			Implementer struct {
				Runner string `json:"runner"`
			} `json:"implementer"`
		}
		_ = json.Unmarshal(defaults, &of) // a section of another form names no runner here
		if _, ok := runners[of.Implementer.Runner]; ok {
			return of.Implementer.Runner, nil
		}
		switch {
		case len(runners) == 1:
			return slices.Collect(maps.Keys(runners))[0], nil
		case len(p.Agents) > 0:
			words = p.Agents[:1]
		default:
			return "", fmt.Errorf("no agent is named behind --, and none of %s is on PATH", strings.Join(agents, ", "))
		}
	}
	name := runnerName(words[0])
	_, taken := runners[name]
	if taken && len(words) == 1 && words[0] == name {
		return name, nil // the operator has configured this agent
	}
	for taken {
		name += "-given"
		_, taken = runners[name]
	}
	raw, err := plainJSON(RunnerFor(words))
	runners[name] = raw
	return name, err
}

var oddName = pattern.Lazy(`[^A-Za-z0-9._-]+`)

// runnerName makes the name of a runner from the program of its command.
func runnerName(program string) string {
	name := strings.TrimLeft(oddName().ReplaceAllString(path.Base(program), "-"), ".")
	if name == "" {
		return "agent"
	}
	return name[:min(len(name), 40)]
}

// RunnerFor returns the runner for an agent's command line as an operator types it: "claude", "claude --model opus",
// "codex exec --full-auto -". For a known CLI it adds the words that make it run headless where they are missing. Any
// other program gets the prompt on stdin, or by its own {prompt} or {prompt_file}.
func RunnerFor(words []string) Runner {
	name := path.Base(words[0])
	r := RunnerOf(name)
	r.Command = append([]string{words[0]}, r.Command[1:]...)
	rest := words[1:]
	if sub := r.Command[1:]; len(sub) > 0 && len(rest) > 0 && rest[0] == sub[0] {
		rest = rest[1:]
	}
	given := func(list ...string) bool {
		return slices.ContainsFunc(list, func(w string) bool { return slices.Contains(rest, w) })
	}
	switch {
	case name == "claude" && given("-p", "--print"), name == "codex" && given("-"):
		r.Args = append([]string{}, rest...)
	case name == "codex":
		r.Args = append(append([]string{}, rest...), r.Args...)
	default:
		r.Args = append(r.Args, rest...)
	}
	if slices.ContainsFunc(rest, func(w string) bool { return strings.Contains(w, "{prompt_file}") || strings.Contains(w, "{prompt}") }) {
		r.PromptMode = "file"
	}
	return r
}

// FromPrompt returns the configuration of the repository that does what one of PromptConfig does: own with its loop's
// spec in another file, behind the loops of base if that is not empty.
func FromPrompt(own, base []byte, spec string) ([]byte, error) {
	file, under := map[string]json.RawMessage{}, struct {
		Loops []json.RawMessage `json:"loops"`
	}{}
	var mine struct {
		Loops []map[string]json.RawMessage `json:"loops"`
	}
	if err := errors.Join(text.Decode(own, &file), text.Decode(own, &mine)); err != nil {
		return nil, fmt.Errorf("reading the configuration of the loop: %w", err)
	}
	if len(base) > 0 {
		if err := text.Decode(base, &under); err != nil {
			return nil, fmt.Errorf("reading the repository's configuration: %w", err)
		}
	}
	for _, l := range mine.Loops {
		raw, err := plainJSON(spec)
		if err != nil {
			return nil, err
		}
		l["spec_file"] = raw
		if raw, err = plainJSON(l); err != nil {
			return nil, err
		}
		under.Loops = append(under.Loops, raw)
	}
	loops, err := plainJSON(under.Loops)
	if err != nil {
		return nil, err
	}
	file["loops"] = loops
	return indented(file)
}

// indented returns a file of JSON as people read it.
func indented(file map[string]json.RawMessage) ([]byte, error) {
	all, err := plainJSON(file)
	var out bytes.Buffer
	if err == nil {
		err = json.Indent(&out, append(all, '\n'), "", "  ")
	}
	return out.Bytes(), err
}
