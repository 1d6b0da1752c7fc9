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
	case "gemini", "qwen", "copilot", "pi":
	case "opencode":
		r.Command = []string{"opencode", "run"}
	default:
		r.Permissions = "" // superloop does not know its flags
	}
	return r
}

// Choice holds the values from which Config makes a configuration.
type Choice struct {
	LoopID string
	// Tests are the commands that run the tests. Without one, an operator approves the completion.
	Tests []string
	// Checks are commands that the configuration names and does not run: the gate "validation" is off.
	Checks []string
	// Installs are the commands that a recovery may run without an operator.
	Installs []string
	// Managers are the package managers, whose commands that publish always need an operator.
	Managers []string
	// Runners are the names of the runners. The first one runs every role. If there is a second one, it runs the
	// reviewer, because another model sees other mistakes.
	Runners []string
}

// configText is the template of a configuration, in the order in which it reads best. Its placeholders take JSON: the
// runners, the recovery section, the loop's id, the spec file, the tests, the commands of the validation, whether an
// operator approves, the runner of the first three roles, and the runner of the reviewer.
const configText = `{"runners": %s, "recovery": %s, "loops": [{
	"id": %s,
	"spec_file": %s,
	"max_iterations": 20,
	"max_wall_time": "8h",
	"completion_promise": "SUPERLOOP_COMPLETE",
	"tests": %s,
	"validation": {"enabled": false, "mode": "on_promise", "require_on_completion": true, "commands": %s},
	"prerequisites": {"enabled": false, "require_on_completion": true, "checks": []},
	"checklists": [],
	"evidence": {"enabled": false, "require_on_completion": true, "artifacts": []},
	"approval": {"enabled": %s, "require_on_completion": true},
	"reviewer_packet": {"enabled": true},
	"timeouts": {"default": 1800, "enabled": true, "implementer": 3600, "inactivity": 900},
	"stuck": {"action": "report_and_stop", "enabled": true, "ignore": [], "threshold": 2},
	"git": {"commit_strategy": "never"},
	"roles": {"planner": {"runner": %[8]s}, "implementer": {"runner": %[8]s}, "tester": {"runner": %[8]s}, "reviewer": {"runner": %[9]s}}
}]}`

// policy is the recovery section.
type policy struct {
	Enabled      bool     `json:"enabled"`
	AutoApprove  []string `json:"auto_approve"`
	RequireHuman []string `json:"require_human"`
	OnUnknown    string   `json:"on_unknown"`
}

// requireHuman are the commands that always need an operator, whatever the project. publish are those of the package
// managers.
var (
	requireHuman = []string{"rm -rf *", "sudo *", "git push", "git reset --hard", "git clean *", "curl *", "wget *"}
	publish      = map[string][]string{
		"npm": {"npm publish"}, "pnpm": {"pnpm publish"}, "yarn": {"yarn publish", "yarn npm publish"}, "bun": {"bun publish"}, "deno": {"deno publish"},
		"cargo": {"cargo publish"}, "pip": {"twine upload"}, "uv": {"uv publish"}, "poetry": {"poetry publish"}, "pipenv": {"twine upload"},
		"maven": {"mvn deploy", "./mvnw deploy"}, "gradle": {"gradle publish", "./gradlew publish"}, "bundler": {"gem push"},
		"mix": {"mix hex.publish"}, "dotnet": {"dotnet nuget push"},
	}
)

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
	if len(c.Tests) > 0 {
		tests = map[string]any{"mode": "every", "commands": c.Tests}
	}
	recovery := policyFor(c.Installs, c.Managers)
	var holes []any
	for _, v := range []any{runners, recovery, c.LoopID, ".superloop/specs/" + c.LoopID + ".md", tests, append([]string{}, c.Checks...), len(c.Tests) == 0,
		c.Runners[0], c.Runners[min(1, len(c.Runners)-1)]} {
		text, err := plainJSON(v)
		if err != nil {
			return nil, err
		}
		holes = append(holes, text)
	}
	var out bytes.Buffer
	err := json.Indent(&out, fmt.Appendf(nil, configText+"\n", holes...), "", "  ")
	return out.Bytes(), err
}

// policyFor returns the recovery section that lets the installs run without an operator.
func policyFor(installs, managers []string) policy {
	p := policy{Enabled: true, AutoApprove: append([]string{}, installs...), RequireHuman: append([]string{}, requireHuman...), OnUnknown: "escalate"}
	for _, m := range managers {
		p.RequireHuman = append(p.RequireHuman, publish[m]...)
	}
	return p
}

// plainJSON returns v as JSON in which "&&" reads as such.
func plainJSON(v any) ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSpace(out.Bytes()), err
}
