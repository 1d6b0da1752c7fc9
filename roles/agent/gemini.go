package agent

import (
	"cmp"
	"path/filepath"
	"slices"
	"strings"
)

// gemini is the adapter of Google's gemini CLI in headless mode: the prompt goes to standard input, and the events come
// from standard output.
type gemini struct{}

func (gemini) Name() string                { return "gemini" }
func (gemini) Matches(program string) bool { return program == "gemini" || program == "gemini-cli" }

// geminiModes are the permission flags of the CLI. If the owner's arguments have one of them, Request.Permissions adds
// nothing.
const geminiModes = "--approval-mode -y --yolo"

// geminiMode is the approval mode for each value of Request.Permissions. In headless mode the CLI's default offers no
// tool that writes files or runs commands. (The CLI calls the mode plan read-only. But in it the CLI asks the model to
// leave the mode when its plan is made, and then everything is allowed. A model can get there from default too, and the
// settings of a repository can allow tools. geminiReadOnly forbids both, and geminiStream ends a run that does it
// anyway.) The CLI's only sandbox is a container that the owner has to set up, so PermitWorkspace has no narrower mode
// than yolo.
var geminiMode = map[string]string{PermitRead: "default", PermitWorkspace: "yolo", PermitAll: "yolo"}

// geminiReadOnly is a policy file for the CLI. It denies the tools that write, run a command, leave the mode or send
// data away. It holds whatever the model wants and the repository's own settings allow.
const geminiReadOnly = `[[rule]]
toolName = ["enter_plan_mode", "exit_plan_mode", "write_file", "replace", "run_shell_command", "save_memory", "activate_skill", "web_fetch"]
decision = "deny"
priority = 999
`

// Command also includes the loop's directory if it lies outside the working directory, because the CLI's file tools
// reach only included directories. The environment switches off the CLI's launcher, which starts a second process and
// ignores SIGTERM. It also switches off the refusal of an untrusted directory (exit code 55), because the owner trusts
// the repository in which superloop runs agents.
func (g gemini) Command(req Request, environ []string) (Command, error) {
	if req.Asked != "" {
		return g.asking(req, environ)
	}
	b := flagsFor(req)
	b.add("-o --output-format", "--output-format=stream-json")
	b.model()
	mode := geminiMode[req.Permissions]
	if mode != "" {
		b.add(geminiModes, "--approval-mode="+mode)
	}
	b.session("-r --resume --session-id --session-file", "--resume=", "--session-id=")
	for _, dir := range outside(req) {
		// The flag takes a comma-separated list, so it cannot name a directory with a comma.
		if !strings.Contains(dir, ",") {
			b.flags = append(b.flags, "--include-directories="+dir)
		}
	}
	file := req.PromptPath + ".policy.toml"
	reading := req.Permissions == PermitRead && !hasFlag(b.words, strings.Fields(geminiModes)...)
	if reading {
		b.flags = append(b.flags, "--policy="+file)
	}
	c, err := b.command(environ, defaults(passed(req, environ), map[string]string{
		"GEMINI_CLI_NO_RELAUNCH": "true", "GEMINI_CLI_TRUST_WORKSPACE": "true",
	}))
	if reading {
		c.File, c.FileText = file, geminiReadOnly
	}
	return c, err
}

// passed returns the part of the supervisor's environment that the agent gets.
func passed(req Request, environ []string) []string {
	pass := filter(req.CLI)
	return slices.DeleteFunc(slices.Clone(environ), func(e string) bool {
		name, _, _ := strings.Cut(e, "=")
		return !pass(name)
	})
}

// outside returns the directories of a role's files that are not below the working directory, each once.
func outside(req Request) []string {
	var dirs []string
	for _, dir := range []string{req.LoopDir, filepath.Dir(req.LastMessageFile)} {
		if !inside(dir, req.WorkDir) && !slices.ContainsFunc(dirs, func(other string) bool { return inside(dir, other) }) {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

func (gemini) Profile() Profile {
	return Profile{
		Keys:  []string{"GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_CLOUD_ACCESS_TOKEN"},
		Login: "gemini",
		Help:  plainHelp,
		Replaced: map[string]string{
			"-a": "@path in the prompt", "--all-files": "@path in the prompt",
			"-c": "general.checkpointing in settings.json", "--checkpointing": "general.checkpointing in settings.json",
			"--experimental-acp": "--acp",
			"--telemetry":        "GEMINI_TELEMETRY_ENABLED in the environment",
			"--telemetry-target": "GEMINI_TELEMETRY_TARGET in the environment",
		},
		ChoosesSession: true,
		Credential:     geminiCredential,
	}
}

// The login methods, as security.auth.selectedType names them.
const geminiOAuth, geminiKey, geminiVertex = "oauth-personal", "gemini-api-key", "vertex-ai"

// geminiCredential finds the login for the login method that the CLI will use. The settings take precedence over the
// environment.
func geminiCredential(_ Request, env []string) (Login, Account) {
	home := filepath.Join(cmp.Or(valueIn(env, "GEMINI_CLI_HOME"), valueIn(env, "HOME")), ".gemini")
	settings, creds, kept := filepath.Join(home, "settings.json"), filepath.Join(home, "oauth_creds.json"), filepath.Join(home, "gemini-credentials.json")
	key, base := valueIn(env, "GEMINI_API_KEY"), valueIn(env, "GOOGLE_GEMINI_BASE_URL")
	method, where := "", settings
	var chosen struct {
		Security struct {
			Auth struct {
				SelectedType string `json:"selectedType"`
			} `json:"auth"`
		} `json:"security"`
		Old string `json:"selectedAuthType"`
	}
	if readJSON(settings, &chosen) {
		method = cmp.Or(chosen.Security.Auth.SelectedType, chosen.Old)
	}
	switch {
	case method != "":
	case valueIn(env, "GOOGLE_GENAI_USE_GCA") == "true":
		method, where = geminiOAuth, "GOOGLE_GENAI_USE_GCA"
	case valueIn(env, "GOOGLE_GENAI_USE_VERTEXAI") == "true":
		method = geminiVertex
	case base != "":
		method = "gateway"
	case key != "":
		method = geminiKey
	}
	oauth, vertex := method == geminiOAuth, method == geminiVertex
	cloudKey, project, place := valueIn(env, "GOOGLE_API_KEY"), valueIn(env, "GOOGLE_CLOUD_PROJECT"), valueIn(env, "GOOGLE_CLOUD_LOCATION")
	var accounts struct {
		Active string `json:"active"`
	}
	account := Account{"google", accountHere(method, home)}
	switch {
	case (method == geminiKey || method == "gateway") && key != "":
		account.ID = AccountID(base, key)
	case vertex && cloudKey+project != "":
		account.ID = AccountID(method, cloudKey, project)
	case oauth && readJSON(filepath.Join(home, "google_accounts.json"), &accounts) && accounts.Active != "":
		account.ID = AccountID(method, accounts.Active)
	}
	login, dotenv := firstFile(creds, kept), firstFile(filepath.Join(home, ".env"), filepath.Join(filepath.Dir(home), ".env"))
	return decide([]loginRule{
		{method == geminiKey && key != "", LoginYes, "GEMINI_API_KEY"},
		{method == geminiKey && firstFile(kept) != "", LoginUnknown, "a key may be in " + kept + " or in the system's keychain"},
		{method == geminiKey, LoginUnknown, "GEMINI_API_KEY is not set; a key may be in the system's keychain"},
		{oauth && login != "", LoginYes, login},
		{oauth, LoginNo, where + " says " + method + ", and there is no " + creds},
		{vertex && cloudKey != "", LoginYes, "GOOGLE_API_KEY"},
		{vertex && (project == "" || place == ""), LoginNo, "Vertex AI needs GOOGLE_API_KEY, or GOOGLE_CLOUD_PROJECT and GOOGLE_CLOUD_LOCATION"},
		{vertex && firstFile(valueIn(env, "GOOGLE_APPLICATION_CREDENTIALS")) != "", LoginYes, "GOOGLE_APPLICATION_CREDENTIALS"},
		{vertex, LoginUnknown, "the machine's own Google Cloud credentials are not looked at"},
		// In headless mode the CLI refuses this with "Invalid auth method selected".
		{method == "gateway", LoginNo, "GOOGLE_GEMINI_BASE_URL is set, so security.auth.selectedType must be in " + settings},
		{method == "" && dotenv != "", LoginUnknown, "a key may be in " + dotenv},
		{method == "", LoginNo, "neither " + settings + " nor the environment says how to log in"},
		{true, LoginUnknown, where + " says " + method},
	}), account
}
