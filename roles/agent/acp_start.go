package agent

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/superloop/superloop/internal/door"
	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/recovery/permit"
	"github.com/superloop/superloop/roles/agent/class"
)

// acpArgs reads the owner's words for a CLI that is started otherwise. dropped and kept are the flags without a meaning and
// those that stay, and whether a value follows; valued are those whose value the caller wants. Any other flag is an error
// that names it.
func acpArgs(words []string, dropped, kept map[string]bool, valued map[string]*string) (args []string, err error) {
	for i := 0; i < len(words); i++ {
		name, value, joined := strings.Cut(words[i], "=")
		to, wanted := valued[name]
		takes, keep := kept[name]
		if !keep {
			takes = dropped[name]
		}
		whole := words[i : i+1]
		if (takes || wanted) && !joined && i+1 < len(words) {
			i++
			value, whole = words[i], words[i-1:i+1]
		}
		_, drop := dropped[name]
		switch {
		case wanted:
			*to = value
		case keep:
			args = append(args, whole...)
		case !drop:
			return nil, fmt.Errorf("it has no %q: remove it from the runner", words[i])
		}
	}
	return args, nil
}

// acpRefuse makes an error of a request that cannot be met.
func acpRefuse(req Request, cli string, err error) error {
	mode := ""
	if req.Asked != "" {
		mode = "with permissions.mode " + req.Asked + " "
	}
	return fmt.Errorf("%ssuperloop drives %s by the Agent Client Protocol: %w", mode, cli, err)
}

const acpStdin = `the prompt goes over standard input: set the runner's prompt_mode to "stdin"`

// opencodeACP is opencode as an agent of the protocol.
var opencodeACP = acpAgent{name: "opencode", translate: opencodeUse, drops: true}

func (opencode) Converse(req Request, with Conversation) Client {
	if req.Asked == permit.Enforce {
		with.Prompt = remembered(req, "AGENTS.md", with.Prompt)
	}
	return opencodeACP.converse(req, with)
}

// opencodeTools are the tools of opencode about which it asks if its settings say so. What it can do without them is nothing
// outside of itself.
const opencodeTools = "bash edit read glob grep list webfetch websearch codesearch lsp skill todowrite todoread"

// opencodeShut is what the CLI cannot ask about: the questions of a sub-agent reach nobody, and a question to a person has
// none in the protocol. What it asks on top of a tool's own question is left to that.
var opencodeShut = map[string]any{"task": "deny", "question": "deny", "plan_enter": "deny", "plan_exit": "deny", "external_directory": "allow", "doom_loop": "allow"}

// asking makes the command in the form in which the CLI asks about each use of a tool: `opencode acp`; see acpClient. To
// enforce, the permissions of the agent that works say "ask" in the settings that the CLI reads last, and it reads none of
// the repository.
func (o opencode) asking(req Request, environ []string) (Command, error) {
	line, agent, model, variant := withRun(req), "build", "", ""
	fail := func(format string, args ...any) (Command, error) {
		return Command{}, acpRefuse(req, "opencode", fmt.Errorf(format, args...))
	}
	if !req.CLI.stdin() {
		return fail("%s", acpStdin)
	}
	program := line.CLI.Command[:len(line.CLI.Command)-1]
	args, err := acpArgs(line.CLI.Args, map[string]bool{"--format": true, "--title": true, "--auto": false, "--yolo": false, "--dangerously-skip-permissions": false},
		map[string]bool{"--print-logs": false, "--log-level": true, "--pure": false}, map[string]*string{"-m": &model, "--model": &model, "--agent": &agent, "--variant": &variant})
	switch {
	case err != nil:
		return fail("%w", err)
	case strings.Contains(model, "{model}"):
		model = strings.ReplaceAll(model, "{model}", req.Model)
	}
	model = cmp.Or(model, req.Model)
	if level := thinkingLevel(req.Thinking); level >= 0 {
		variant = cmp.Or(variant, opencodeVariants[level])
	}
	env := defaults(passed(req, environ), map[string]string{
		"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_LSP_DOWNLOAD": "1", "OPENCODE_PRINT_LOGS": "1", "OPENCODE_LOG_LEVEL": "INFO",
		"OPENCODE_SERVER_PASSWORD": NewSessionID(), // it also listens on a port, for itself
	})
	own := maps.Clone(req.CLI.Env)
	if own == nil {
		own = map[string]string{}
	}
	var rights, off map[string]any
	if req.Asked == permit.Enforce {
		if err := opencodePlugins(req); err != nil {
			return fail("%w", err)
		}
		// What formats and checks files is a program of the repository, such as one of its node_modules.
		rights, off = maps.Clone(opencodeShut), map[string]any{"formatter": false, "lsp": false}
		rights["*"] = map[bool]string{true: "deny", false: "ask"}[req.Permissions == PermitRead]
		for tool := range strings.FieldsSeq(opencodeTools) {
			rights[tool] = "ask"
		}
		if req.Permissions == PermitRead {
			rights["bash"], rights["edit"] = "deny", "deny"
		}
		for name, value := range map[string]string{"OPENCODE_DISABLE_PROJECT_CONFIG": "1", "OPENCODE_PURE": "1", "OPENCODE_PERMISSION": "", "OPENCODE_CONFIG_DIR": ""} {
			env[name] = value
			delete(own, name)
		}
	} else {
		given, err := opencodePermissions(req, environ)
		if err != nil {
			return Command{}, err
		}
		maps.Copy(env, given)
		if own["OPENCODE_PERMISSION"] == "" && valueIn(passed(req, environ), "OPENCODE_PERMISSION") == "" && req.Permissions != PermitRead {
			env["OPENCODE_PERMISSION"] = opencodeUnasked(req, given["OPENCODE_PERMISSION"])
		}
	}
	content, err := opencodeContent(req, environ, agent, env[opencodeContentVariable], off, map[string]any{"model": model, "variant": variant, "permission": rights})
	if err != nil {
		return Command{}, err
	}
	env[opencodeContentVariable] = content
	delete(own, opencodeContentVariable)
	b := flagsFor(req)
	b.CLI.Command, b.CLI.Args, b.CLI.FastArgs, b.CLI.Env = append(slices.Clone(program), "acp"), args, nil, own
	command, err := b.command(environ, env)
	command.Stdin = "" // the client sends the prompt
	return command, err
}

// acpYes are the flags with which a CLI would answer its own questions with yes.
const acpYes = "--auto --yolo --dangerously-skip-permissions -y"

// accepts reports whether the questions of the CLI itself are answered with yes where nobody is asked.
func accepts(req Request) bool {
	return req.Permissions == PermitWorkspace || req.Permissions == PermitAll || hasFlag(req.words(), strings.Fields(acpYes)...)
}

// opencodeUnasked adds to permissions, as JSON, what opencode asks about by default: the question of a sub-agent would reach
// nobody, and never end.
func opencodeUnasked(req Request, permissions string) string {
	answer := map[bool]string{true: "allow", false: "deny"}[accepts(req)]
	all := map[string]any{"external_directory": answer}
	_ = json.Unmarshal([]byte(permissions), &all) // it is superloop's own, or nothing
	all["doom_loop"] = answer
	return marshalled(all)
}

// opencodePlugins finds plugins in the repository. The CLI loads them whatever its settings say, and they are programs that
// run in the CLI itself.
func opencodePlugins(req Request) error {
	for dir := req.WorkDir; ; dir = filepath.Dir(dir) {
		for _, name := range []string{".opencode/plugin", ".opencode/plugins"} {
			if list, err := os.ReadDir(filepath.Join(dir, name)); len(list) > 0 || err != nil && !os.IsNotExist(err) {
				return opencodeHeld(filepath.Join(dir, name))
			}
		}
		for _, name := range []string{"opencode.json", "opencode.jsonc", ".opencode/opencode.json", ".opencode/opencode.jsonc"} {
			settings, size, err := door.Ends(filepath.Join(dir, name), maxSettings, 0)
			if err != nil && !os.IsNotExist(err) || size > maxSettings || strings.Contains(settings, "plugin") || strings.Contains(settings, `\u`) {
				return opencodeHeld(filepath.Join(dir, name))
			}
		}
		if !inside(dir, req.Repo) || dir == req.Repo || dir == filepath.Dir(dir) {
			return nil
		}
	}
}

func opencodeHeld(path string) error {
	return fmt.Errorf("%s may have plugins, which opencode runs without asking: move it away (mv %[2]s %[2]s.off)", path, text.Paste(path))
}

func (o opencode) served(req Request) *acpStream {
	s := newACPStream(req)
	s.log, _ = o.Stream(Request{}).(*opencodeStream)
	s.note, s.noise = s.log.logged, opencodeLog
	s.classify = func(s *acpStream, _ proc.Result) class.Class {
		found := cmp.Or(classOf("opencode.error", s.name), classOf("provider.text", s.failure), classOf("acp.answer", s.failure))
		if found == class.None && s.log.cause != "" {
			found = opencodeCause(s.log.cause)
		}
		return found
	}
	return s
}

// geminiACP is gemini as an agent of the protocol.
var geminiACP = acpAgent{name: "gemini", translate: geminiUse, mode: "default", starts: true}

func (gemini) Converse(req Request, with Conversation) Client {
	if req.Asked == permit.Enforce {
		with.Prompt = remembered(req, "GEMINI.md", with.Prompt)
	}
	return geminiACP.converse(req, with)
}

// geminiAsks is a policy file for the CLI, of the tier that no other file overrules. The CLI asks about every tool but those
// that it does not get: what a sub-agent does nobody would be asked about, and lists of tasks would be a question each. A
// rule without a pattern for the arguments of a command lets run what the CLI takes for harmless, such as ls.
const geminiAsks = `[[rule]]
toolName = "*"
decision = "ask_user"
priority = 900

[[rule]]
toolName = "run_shell_command"
argsPattern = '"command"'
decision = "ask_user"
priority = 950

[[rule]]
toolName = [%s]
decision = "deny"
priority = 999
`

const (
	geminiShut   = `"invoke_agent", "enter_plan_mode", "exit_plan_mode", "write_todos", "update_topic"`
	geminiWrites = `, "write_file", "replace", "run_shell_command", "save_memory", "activate_skill", "web_fetch"`
)

// asking makes the command in the form in which the CLI asks about each use of a tool: `gemini --acp`; see acpClient. To
// enforce, a policy makes it ask, and the repository is one that it does not trust, so that it reads no settings of it.
func (g gemini) asking(req Request, environ []string) (Command, error) {
	if !req.CLI.stdin() {
		return Command{}, acpRefuse(req, "gemini", errors.New(acpStdin))
	}
	dropped := map[string]bool{"-o": true, "--output-format": true, "--session-id": true, "--acp": false, "--experimental-acp": false}
	kept := map[string]bool{"-m": true, "--model": true, "--include-directories": true, "-d": false, "--debug": false, "-e": true, "--extensions": true}
	enforced := req.Asked == permit.Enforce
	for name, takes := range map[string]bool{"--approval-mode": true, "-y": false, "--yolo": false, "--skip-trust": false} {
		if enforced {
			dropped[name] = takes
		} else {
			kept[name] = takes
		}
	}
	args, err := acpArgs(req.args(), dropped, kept, nil)
	if err != nil {
		return Command{}, acpRefuse(req, "gemini", err)
	}
	b := flagsFor(req)
	b.flags = append(b.flags, "--acp")
	b.model()
	trust, file := "true", ""
	if enforced {
		file, trust = req.PromptPath+".policy.toml", "false"
		b.flags = append(b.flags, "--approval-mode=default", "--admin-policy="+file)
	} else if mode := geminiMode[req.Permissions]; mode != "" {
		b.add(geminiModes, "--approval-mode="+mode)
	}
	for _, dir := range outside(req) {
		if !strings.Contains(dir, ",") {
			b.flags = append(b.flags, "--include-directories="+dir)
		}
	}
	env := defaults(passed(req, environ), map[string]string{"GEMINI_CLI_NO_RELAUNCH": "true", "GEMINI_CLI_TRUST_WORKSPACE": "true"})
	b.CLI.Env = maps.Clone(req.CLI.Env)
	if enforced {
		env["GEMINI_CLI_TRUST_WORKSPACE"] = trust
		delete(b.CLI.Env, "GEMINI_CLI_TRUST_WORKSPACE")
	}
	b.CLI.Args, b.CLI.FastArgs = args, nil
	c, err := b.command(environ, env)
	c.Stdin = "" // the client sends the prompt
	if c.File = file; enforced {
		shut := geminiShut
		if req.Permissions == PermitRead {
			shut += geminiWrites
		}
		c.FileText = fmt.Sprintf(geminiAsks, shut)
	}
	return c, err
}

func (gemini) served(req Request) *acpStream {
	s := newACPStream(req)
	s.classify = func(s *acpStream, end proc.Result) class.Class {
		return geminiError("", s.failure, s.stderr(), end).class
	}
	return s
}
