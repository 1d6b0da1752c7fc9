package agent

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/recovery/permit"
	"github.com/superloop/superloop/roles/agent/class"
)

// qwen is the adapter of the Qwen Code CLI, which is always started as an agent of the Agent Client Protocol: `qwen --acp`;
// see acpClient.
type qwen struct{}

func (qwen) Name() string                { return "qwen" }
func (qwen) Matches(program string) bool { return program == "qwen" }
func (qwen) speaks()                     {}

// qwenACP is qwen as an agent of the protocol. A use of a tool that it asks about is never in progress.
var qwenACP = acpAgent{name: "qwen", translate: qwenUse, mode: "default", drops: true, starts: true}

func (qwen) Converse(req Request, with Conversation) Client {
	if req.Asked == permit.Enforce {
		with.Prompt = remembered(req, "QWEN.md", remembered(req, "AGENTS.md", with.Prompt))
	}
	return qwenACP.converse(req, with)
}

const (
	// qwenTools are the tools of qwen about which it asks if its settings say so, and qwenWrites those of them that change
	// something. A rule for files holds for all tools that read or that write files.
	qwenTools  = "run_shell_command edit write_file notebook_edit read_file grep_search glob list_directory web_fetch web_search read_mcp_resource mcp__*"
	qwenWrites = "run_shell_command edit write_file notebook_edit"
	// qwenShut are the tools that it does not get to enforce: what works later or elsewhere, in a sub-agent or by another
	// tool, and what asks a person.
	qwenShut = `agent list_agents send_message skill tool_call tool_search ask_user_question enter_plan_mode exit_plan_mode get_goal update_goal
		propose_goal cron_create cron_list cron_delete loop_wakeup create_sub_session monitor exec lsp workflow save_memory task_create
		task_update task_list task_stop team_create team_delete team_plan_approval request_shutdown enter_worktree exit_worktree artifact
		record_artifact record_source report_findings image_gen display_image zoom_image`
)

// qwenFlags are the flags that stay, and whether a value follows. qwenLoose are those that stay only if nothing is enforced.
var (
	qwenFlags = map[string]bool{"-m": true, "--model": true, "-d": false, "--debug": false, "--proxy": true, "--auth-type": true, "--openai-api-key": true,
		"--openai-base-url": true, "--include-directories": true, "--add-dir": true, "--system-prompt": true, "--append-system-prompt": true,
		"--max-session-turns": true, "--exclude-tools": true}
	qwenLoose = map[string]bool{"--approval-mode": true, "-y": false, "--yolo": false, "--allowed-tools": true, "--core-tools": true, "--mcp-config": true,
		"--allowed-mcp-server-names": true, "-e": true, "--extensions": true, "--bare": false, "--safe-mode": false}
)

// Command starts the CLI as an agent of the protocol. To enforce, settings of the highest tier make it ask about each tool,
// and the repository is one that it does not trust, so that it reads no settings of it.
func (q qwen) Command(req Request, environ []string) (Command, error) {
	if err := req.check(); err != nil {
		return Command{}, err
	}
	if !req.CLI.stdin() {
		return Command{}, acpRefuse(req, "qwen", errors.New(acpStdin))
	}
	dropped := map[string]bool{"--acp": false, "--experimental-acp": false, "-o": true, "--output-format": true, "--input-format": true}
	kept, enforced := maps.Clone(qwenFlags), req.Asked == permit.Enforce
	if !enforced {
		maps.Copy(kept, qwenLoose)
	} else {
		maps.Copy(dropped, map[string]bool{"--approval-mode": true, "-y": false, "--yolo": false, "--allowed-tools": true})
	}
	args, err := acpArgs(req.args(), dropped, kept, nil)
	if err != nil {
		return Command{}, acpRefuse(req, "qwen", err)
	}
	b := flagsFor(req)
	b.flags = append(b.flags, "--acp")
	b.model()
	switch {
	case enforced:
		b.flags = append(b.flags, "--approval-mode=default")
	case req.Permissions == PermitRead:
		b.add("--approval-mode -y --yolo --exclude-tools", "--approval-mode=default", "--exclude-tools="+strings.ReplaceAll(qwenWrites, " ", ","))
	case req.Permissions != "":
		b.add("--approval-mode -y --yolo", "--approval-mode=yolo")
	}
	for _, dir := range outside(req) {
		if !strings.Contains(dir, ",") {
			b.flags = append(b.flags, "--include-directories="+dir)
		}
	}
	env := defaults(passed(req, environ), map[string]string{"QWEN_CODE_NO_RELAUNCH": "true"})
	b.CLI.Args, b.CLI.FastArgs, b.CLI.Env = args, nil, maps.Clone(req.CLI.Env)
	file, settings := req.PromptPath+".qwen.json", ""
	if enforced {
		if settings, err = qwenAsks(req, cmp.Or(req.CLI.Env[qwenSystem], valueIn(passed(req, environ), qwenSystem))); err != nil {
			return Command{}, acpRefuse(req, "qwen", err)
		}
		for name, value := range map[string]string{qwenSystem: file, "QWEN_CODE_TRUSTED_FOLDERS_PATH": file, "QWEN_CODE_SIMPLE": "", "QWEN_CODE_SAFE_MODE": ""} {
			env[name] = value
			delete(b.CLI.Env, name)
		}
	}
	c, err := b.command(environ, env)
	c.Stdin = "" // the client sends the prompt
	if enforced {
		c.File, c.FileText = file, settings
	}
	return c, err
}

// qwenSystem names the variable with the file whose settings overrule all others.
const qwenSystem = "QWEN_CODE_SYSTEM_SETTINGS_PATH"

// qwenAsks returns the settings that overrule all others, in addition to those of the machine in the file system. The same
// file is the CLI's list of trusted directories, which looks at the names of directories only.
func qwenAsks(req Request, system string) (string, error) {
	if system == "" {
		system = map[bool]string{true: "/Library/Application Support/QwenCode/settings.json", false: "/etc/qwen-code/settings.json"}[runtime.GOOS == "darwin"]
	}
	settings := map[string]any{}
	if data := readSettings(system); data != nil {
		if err := text.Decode(data, &settings); err != nil {
			return "", fmt.Errorf("the settings in %s must be JSON without comments: %w", system, err)
		}
	}
	dir, err := filepath.EvalSymlinks(req.WorkDir)
	if err != nil {
		return "", err
	}
	ask, deny := strings.Fields(qwenTools), strings.Fields(qwenShut)
	if req.Permissions == PermitRead {
		deny = append(deny, strings.Fields(qwenWrites)...)
	}
	rules := object(settings, "permissions")
	for name, list := range map[string][]string{"ask": ask, "deny": deny} {
		given, _ := rules[name].([]any)
		for _, tool := range list {
			given = append(given, tool)
		}
		rules[name] = given
	}
	object(object(settings, "security"), "folderTrust")["enabled"] = true
	object(settings, "ide")["enabled"] = false // an editor could trust the repository
	memory := object(settings, "memory")       // agents of their own, which write it
	memory["enableManagedAutoMemory"], memory["enableManagedAutoDream"], memory["enableAutoSkill"] = false, false, false
	settings["disableAllHooks"], settings["$version"] = true, cmp.Or(settings["$version"], any(4))
	settings[req.WorkDir], settings[dir] = "DO_NOT_TRUST", "DO_NOT_TRUST"
	return marshalled(settings), nil
}

func (qwen) Stream(req Request) Stream {
	s := newACPStream(req)
	s.classify = func(s *acpStream, _ proc.Result) class.Class {
		return cmp.Or(classOf("acp.answer", s.failure), classOf("provider.text", s.failure))
	}
	return s
}

func (qwen) Profile() Profile {
	return Profile{
		Keys:       []string{"OPENAI_API_KEY", "DASHSCOPE_API_KEY", "BAILIAN_CODING_PLAN_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY"},
		Login:      "qwen auth",
		Help:       plainHelp,
		Credential: qwenCredential,
	}
}

// qwenKeys are the variables with the key for each way to log in.
var qwenKeys = map[string]string{"openai": "OPENAI_API_KEY", "openai-responses": "OPENAI_API_KEY", "anthropic": "ANTHROPIC_API_KEY", "gemini": "GEMINI_API_KEY", "vertex-ai": "GOOGLE_API_KEY"}

// qwenCredential finds the login for the way that the flag, or else the settings, or else the environment chooses. The
// settings may hold keys too.
func qwenCredential(req Request, env []string) (Login, Account) {
	home := homeIn(env, "QWEN_HOME", ".qwen")
	settings, oauth := filepath.Join(home, "settings.json"), filepath.Join(home, "oauth_creds.json")
	var chosen struct {
		Security struct {
			Auth struct {
				SelectedType string `json:"selectedType"`
			} `json:"auth"`
		} `json:"security"`
	}
	way, where := "", "the command"
	if len(req.CLI.Command) > 0 {
		way, _ = flagValue(req.words(), "--auth-type")
	}
	if way == "" && readJSON(settings, &chosen) {
		way, where = chosen.Security.Auth.SelectedType, settings
	}
	if way == "" {
		where = "the environment"
		for _, name := range []string{"openai", "anthropic", "gemini", "vertex-ai"} {
			if way == "" && valueIn(env, qwenKeys[name]) != "" {
				way = name
			}
		}
	}
	key, account := valueIn(env, qwenKeys[way]), Account{"qwen", accountHere(way, home)}
	if key != "" {
		base := valueIn(env, strings.TrimSuffix(qwenKeys[way], "_API_KEY")+"_BASE_URL")
		account = Account{map[string]string{"anthropic": "anthropic", "gemini": "google", "vertex-ai": "google"}[way], AccountID(base, key)}
		account.Provider = cmp.Or(account.Provider, "openai")
	}
	return decide([]loginRule{
		{key != "", LoginYes, qwenKeys[way]},
		{way == "qwen-oauth" && firstFile(oauth) != "", LoginYes, oauth},
		{way == "qwen-oauth", LoginNo, where + " says " + way + ", and there is no " + oauth},
		{way == "", LoginUnknown, "neither " + settings + " nor the environment says how to log in"},
		{true, LoginUnknown, where + " says " + way + "; the settings of a provider may have a key"},
	}), account
}

// qwenKinds are the tools of qwen that superloop knows, with the input that holds their path.
var qwenKinds = map[string]struct {
	kind permit.Kind
	path string
}{
	"read_file": {permit.Read, "file_path"}, "grep_search": {permit.Read, "path"}, "glob": {permit.Read, "path"}, "list_directory": {permit.Read, "path"},
	"edit": {permit.Write, "file_path"}, "write_file": {permit.Write, "file_path"}, "notebook_edit": {permit.Write, "notebook_path"},
	"web_fetch": {permit.Fetch, ""}, "web_search": {permit.Fetch, ""}, "todo_write": {permit.Internal, ""}, "ask_user_question": {permit.Question, ""},
}

// qwenShell are the inputs of the shell that change nothing but what the command is and where it runs.
var qwenShell = []string{"command", "description", "timeout", "is_background", "directory"}

// qwenUse translates a use of a tool of qwen. The question has the whole input of the tool.
func qwenUse(call, question acpCall, work string) permit.Request {
	call = call.with(question)
	tool := call.Meta.Tool
	r := permit.Request{Kind: permit.Other, Tool: cmp.Or(tool, call.Title), Input: call.Input, Exact: true, Dir: work}
	in := fieldsOf(call.Input)
	word := func(key string) (string, bool) { // ok is false if nobody knows what the CLI makes of the value
		s, ok := in.word(key)
		_, there := in[key]
		return s, ok || !there
	}
	known, ok := qwenKinds[tool]
	switch {
	case strings.HasPrefix(tool, "mcp__"):
		r.Kind = permit.MCP
		return r
	case tool == "run_shell_command":
		command, ok := in.word("command")
		dir, plain := word("directory")
		for key := range in {
			ok = ok && slices.Contains(qwenShell, key)
		}
		if !ok || !plain {
			return r
		}
		if r.Kind, r.Command = permit.Command, command; filepath.IsAbs(dir) {
			r.Dir = dir
		} else if dir != "" {
			r.Dir += "/" + dir
		}
		return r
	case !ok:
		return r
	}
	name, plain := word(known.path)
	if name != "" {
		r.Paths = []string{name}
	}
	pattern, isPattern := in.word("pattern")
	switch {
	case !plain, len(r.Paths) == 0 && (known.kind == permit.Write || tool == "read_file" || tool == "list_directory"), tool == "glob" && !isPattern:
		return r
	case tool == "glob":
		if r.Paths, ok = globPaths(pattern, r.Paths); !ok {
			return r
		}
	case known.kind == permit.Write:
		r.Paths = distinct(append(r.Paths, call.paths()...))
	case known.kind == permit.Fetch:
		address, _ := in.word("url")
		r.Host = hostOf(address)
	}
	r.Kind = known.kind
	return r
}
