package agent

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
)

// opencode is the CLI of that name, headless: `opencode run`, its prompt on
// standard input, its events on standard output.
type opencode struct{}

func (opencode) Name() string                { return "opencode" }
func (opencode) Matches(program string) bool { return program == "opencode" }
func (opencode) Stream(req Request) Stream   { return newOpencodeStream() }

// Command adds what the owner has not said themselves: the word run, the event
// stream right after it, the model, the variant that fits the thinking, and the
// session. A new session gets a title, since without one the CLI asks a model
// for it in every run.
//
// While it waits for a provider the CLI is silent for up to hours; its log on
// standard error tells of failed attempts, and why a model was not found.
func (o opencode) Command(req Request, environ []string) (Command, error) {
	if err := req.check(); err != nil {
		return Command{}, err
	}
	req = withRun(req)
	words := req.words()
	var flags []string
	if !hasFlag(words, "--format") {
		flags = append(flags, "--format=json")
	}
	flags = append(flags, modelFlag(req)...)
	if variant := o.variant(req); variant != "" && !hasFlag(words, "--variant") {
		flags = append(flags, "--variant="+variant)
	}
	if !hasFlag(words, "-s", "--session", "-c", "--continue") {
		switch {
		case req.Resume != nil:
			if err := checkSession(req.Resume.ID); err != nil {
				return Command{}, err
			}
			flags = append(flags, "--session="+req.Resume.ID)
		case !hasFlag(words, "--title"):
			flags = append(flags, fmt.Sprintf("--title=superloop %s %s %d", req.Loop, req.Role, req.Iteration))
		}
	}
	if req.Permissions == PermitWorkspace || req.Permissions == PermitAll {
		if !hasFlag(words, "--auto", "--yolo", "--dangerously-skip-permissions") {
			flags = append(flags, "--auto")
		}
	}
	env := defaults(passed(req, environ), map[string]string{
		"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
		"OPENCODE_PRINT_LOGS": "1", "OPENCODE_LOG_LEVEL": "ERROR",
	})
	permissions, err := opencodePermissions(req, environ)
	if err != nil {
		return Command{}, err
	}
	maps.Copy(env, permissions)
	if content, ok := permissions[opencodeContentVariable]; ok && req.CLI.Env[opencodeContentVariable] != "" {
		// The runner's own would win; it is part of this one.
		req.CLI.Env = maps.Clone(req.CLI.Env)
		req.CLI.Env[opencodeContentVariable] = content
	}
	return assemble(req, environ, flags, env)
}

// withRun gives the request in the form in which flags can follow the word run:
// Command ends with it. Before that word the CLI knows few flags, and without it
// it opens a window. A wrapper that says run itself can only be configured with
// the generic adapter.
func withRun(req Request) Request {
	words := slices.Concat(req.CLI.Command, req.args())
	at := len(req.CLI.Command)
	program := 0
	for i, word := range req.CLI.Command {
		if strings.HasPrefix(filepath.Base(word), "opencode") {
			program = i
		}
	}
	command := append(slices.Clone(req.CLI.Command), "run")
	for i := program + 1; i < len(words); i++ {
		if words[i] == "run" && !opencodeTakesValue(words[i-1]) {
			at = i + 1
			command = slices.Clone(words[:at])
			break
		}
	}
	req.CLI.Command = command
	req.CLI.Args, req.CLI.FastArgs = slices.Clone(words[at:]), nil
	return req
}

// opencodeTakesValue reports whether the word after this flag belongs to it.
func opencodeTakesValue(flag string) bool {
	return slices.Contains([]string{
		"--log-level", "--command", "-s", "--session", "-m", "--model", "--agent", "--format", "-f", "--file", "--title",
		"--attach", "-p", "--password", "-u", "--username", "--dir", "--port", "--variant", "--prompt",
	}, flag)
}

// variant is the word for a thinking level. Which words a model knows differs
// from model to model; one that it does not know leaves it at its own default,
// so that the most must not be a word of a few models.
func (opencode) variant(req Request) string {
	level := thinkingLevel(req.Thinking)
	if level < 0 {
		return ""
	}
	word := [...]string{"none", "minimal", "low", "medium", "high", "high"}[level]
	if req.Thinking == "max" && (strings.Contains(req.Model, "claude") || strings.Contains(req.Model, "gemini-2")) {
		return "max"
	}
	return word
}

// opencodeData is where the CLI keeps its logins.
func opencodeData(env []string) string {
	if dir := valueIn(env, "XDG_DATA_HOME"); dir != "" {
		return filepath.Join(dir, "opencode")
	}
	return filepath.Join(valueIn(env, "HOME"), ".local", "share", "opencode")
}
