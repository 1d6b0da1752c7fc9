package agent

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/superloop/superloop/internal/door"
	"github.com/superloop/superloop/recovery/permit"
)

// codexShut are the settings with which codex has no tool that it would use without asking, and reads nothing of the
// repository that gives rights: view_image reads any file, the search runs at the provider, a terminal takes input for a
// program that runs already, and apps are tools of the account. With the two interrupts, the reason of a refusal would break
// off what else the agent does.
var codexShut = []string{"features.view_image=false", "features.image_generation=false", "features.apps=false", "features.unified_exec_tty=false", "features.instant_interrupt=false", "features.code_mode_interrupt=false", `web_search="disabled"`}

// codexSandbox are the names of the CLI's sandboxes.
var codexSandbox = map[string]string{PermitRead: "read-only", PermitWorkspace: "workspace-write", PermitAll: "danger-full-access"}

// codexDropped are the flags of exec that mean nothing to a conversation, and whether a value follows.
var codexDropped = map[string]bool{"--json": false, "--experimental-json": false, "--skip-git-repo-check": false, "--color": true, "-o": true, "--output-last-message": true}

// asking makes the command in the form in which the CLI asks about each use of a tool: `codex app-server`; see
// codexClient. The settings of the owner's `codex exec` stay, as -c. A flag that cannot be kept is an error.
func (c codex) asking(req Request, environ []string) (Command, error) {
	line := c.line(req)
	fail := func(format string, args ...any) (Command, error) {
		return Command{}, fmt.Errorf("with permissions.mode "+req.Asked+" "+format, args...)
	}
	switch {
	case line.noExec || line.own:
		return fail("superloop drives codex in place of `codex exec`, and the runner's command is another subcommand: remove it from the runner")
	case !req.CLI.stdin() || slices.ContainsFunc(line.prompt, func(w string) bool { return w != "-" }):
		return fail(`the prompt goes over standard input: set the runner's prompt_mode to "stdin"`)
	}
	program, global := codexProgram(line.before[:len(line.before)-1])
	var args, roots []string
	set := func(key, value string) { args = append(args, "-c", key+"="+tomlString(value)) }
	words := slices.Concat(global, line.args)
	for i := 0; i < len(words); i++ {
		name, value, joined := strings.Cut(words[i], "=")
		if !strings.HasPrefix(name, "--") {
			name, value, joined = words[i], "", false
			if len(name) > 2 && name[0] == '-' {
				name, value, joined = name[:2], strings.TrimPrefix(name[2:], "="), true
			}
		}
		next := func() string {
			if !joined && i+1 < len(words) {
				i++
				return words[i]
			}
			return value
		}
		if takes, ok := codexDropped[name]; ok {
			if takes {
				next()
			}
			continue
		}
		switch name {
		case "-c", "--config":
			args = append(args, "-c", next())
		case "--enable", "--disable":
			args = append(args, name, next())
		case "--strict-config":
			args = append(args, name)
		case "-m", "--model":
			set("model", next())
		case "-s", "--sandbox":
			set("sandbox_mode", next())
		case "--dangerously-bypass-approvals-and-sandbox", "--yolo":
			set("sandbox_mode", codexSandbox[PermitAll])
		case "--add-dir":
			roots = append(roots, next())
		case "-C", "--cd":
			if dir := next(); dir != "{repo}" && filepath.Clean(dir) != req.WorkDir {
				return fail("codex works in the repository: remove %s from the runner", words[i])
			}
		default:
			return fail("codex runs as `codex app-server`, which has no %q: remove it from the runner", words[i])
		}
	}
	if req.Permissions == PermitWorkspace && !inside(req.LoopDir, req.WorkDir) {
		roots = append(roots, req.LoopDir)
	}
	if len(roots) > 0 {
		list, _ := json.Marshal(roots)
		args = append(args, "-c", "sandbox_workspace_write.writable_roots="+string(list))
	}
	if req.Asked == permit.Enforce {
		if err := codexRules(codexHome(environment(environ, nil, req.CLI.Env, req))); err != nil {
			return fail("%w", err)
		}
		// Without it codex reads .codex of a repository that the operator trusts: its rules, servers and hooks.
		var trust []string
		for _, dir := range codexRoots(req) {
			trust = append(trust, tomlString(dir)+`={trust_level="untrusted"}`)
		}
		for _, s := range append([]string{"projects={" + strings.Join(trust, ",") + "}"}, codexShut...) {
			args = append(args, "-c", s)
		}
	}
	b := flagsFor(req)
	if level := thinkingLevel(req.Thinking); level >= 0 && !codexSets(b.words, "model_reasoning_effort") {
		b.flags = append(b.flags, "-c", `model_reasoning_effort="`+codexEfforts[level]+`"`)
	}
	b.CLI.Command, b.CLI.Args, b.CLI.FastArgs = append(program, "app-server"), args, nil
	command, err := b.command(environ, defaults(passed(req, environ), map[string]string{"RUST_LOG": codexLog}))
	command.Stdin = "" // the client sends the prompt
	return command, err
}

// codexProgram splits the words before exec: what starts the CLI, and the CLI's own flags.
func codexProgram(words []string) (program, global []string) {
	at := max(0, slices.IndexFunc(words, func(w string) bool { return filepath.Base(w) == "codex" }))
	return slices.Clone(words[:at+1]), words[at+1:]
}

// codexRoots are the directories by whose names codex knows whether the operator trusts the repository.
func codexRoots(req Request) []string {
	dirs := []string{req.WorkDir, req.Repo}
	for _, dir := range dirs {
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			dirs = append(dirs, real)
		}
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

// codexRules finds rules of the operator. They let commands run without a question, app-server has no flag to leave them
// out, and each "always" that the operator has told codex is one.
func codexRules(home string) error {
	files, _ := filepath.Glob(filepath.Join(home, "rules", "*.rules")) // the pattern is good
	for _, file := range files {
		rules, _, err := door.Ends(file, maxSettings, 0)
		if err != nil && !os.IsNotExist(err) {
			return fmt.Errorf("codex runs commands without asking if its rules allow them, and they cannot be read: %w", err)
		}
		for line := range strings.Lines(rules) {
			if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
				return fmt.Errorf("codex runs without asking what %s allows: move the file away (mv %s %s.off), and list such commands in permissions.auto_approve_programs", file, file, file)
			}
		}
	}
	return nil
}

// tomlString writes a text as a string of TOML, whose escapes are those of JSON.
func tomlString(s string) string {
	text, _ := json.Marshal(s) // a string can always be written
	return string(text)
}
