package agent

import (
	"cmp"
	"path/filepath"
	"slices"
	"strings"
)

// gemini is Google's CLI of that name, headless: its prompt on standard input, its events on standard output.
type gemini struct{}

func (gemini) Name() string                { return "gemini" }
func (gemini) Matches(program string) bool { return program == "gemini" || program == "gemini-cli" }
func (gemini) Stream(req Request) Stream   { return newGeminiStream(req) }

// geminiModes are the owner's own words on permissions; any of them, and Request.Permissions adds nothing.
const geminiModes = "--approval-mode -y --yolo"

// geminiMode is the approval mode for what a role may do. Headless, default offers no tool that writes or runs a
// command. (In plan, the mode that is called read-only, the CLI asks the model to leave it when its plan is made, and
// then everything is allowed. A model gets there from default too, and the settings of a repository can allow tools:
// geminiReadOnly forbids both, and geminiStream ends a run that does it all the same.) The only sandbox is a container
// that the owner has to set up, so the workspace has no narrower mode than yolo.
var geminiMode = map[string]string{PermitRead: "default", PermitWorkspace: "yolo", PermitAll: "yolo"}

// geminiReadOnly is a policy that holds whatever the model wants and the repository's own settings allow: no tool that
// writes, runs a command, leaves the mode or sends something away.
const geminiReadOnly = `[[rule]]
toolName = ["enter_plan_mode", "exit_plan_mode", "write_file", "replace", "run_shell_command", "save_memory", "activate_skill", "web_fetch"]
decision = "deny"
priority = 999
`

// Command also names the loop's directory where it lies outside of the working directory, since the CLI's file tools go
// nowhere else. The environment switches off the launcher, which starts a second process and ignores SIGTERM, and the
// refusal of an untrusted directory (exit 55): the owner's repository is trusted, as all that it runs here is.
func (gemini) Command(req Request, environ []string) (Command, error) {
	b := flagsFor(req)
	b.add("-o --output-format", "--output-format=stream-json")
	b.model()
	mode := geminiMode[req.Permissions]
	if mode != "" {
		b.add(geminiModes, "--approval-mode="+mode)
	}
	b.session("-r --resume --session-id --session-file", "--resume=", "--session-id=")
	for _, dir := range outside(req) {
		// The flag takes a list; a directory with a comma cannot be said.
		if !strings.Contains(dir, ",") {
			b.flags = append(b.flags, "--include-directories="+dir)
		}
	}
	var files map[string]string
	if policy := req.PromptPath + ".policy.toml"; req.Permissions == PermitRead && !hasFlag(b.words, strings.Fields(geminiModes)...) {
		b.flags = append(b.flags, "--policy="+policy)
		files = map[string]string{policy: geminiReadOnly}
	}
	c, err := b.command(environ, defaults(passed(req, environ), map[string]string{
		"GEMINI_CLI_NO_RELAUNCH": "true", "GEMINI_CLI_TRUST_WORKSPACE": "true",
	}))
	c.Files = files
	return c, err
}

// passed is what of the supervisor's environment the agent gets.
func passed(req Request, environ []string) []string {
	pass := filter(req.CLI)
	return slices.DeleteFunc(slices.Clone(environ), func(e string) bool {
		name, _, _ := strings.Cut(e, "=")
		return !pass(name)
	})
}

// outside gives the directories of a role's files that are not below the working directory, each once.
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
		Keys:    []string{"GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_CLOUD_ACCESS_TOKEN"},
		Login:   "gemini",
		Version: []string{"--version"},
		Help:    plainHelp,
		Replaced: map[string]string{
			"-a": "@path in the prompt", "--all-files": "@path in the prompt",
			"-c": "general.checkpointing in settings.json", "--checkpointing": "general.checkpointing in settings.json",
			"--experimental-acp": "--acp",
			"--telemetry":        "GEMINI_TELEMETRY_ENABLED in the environment",
			"--telemetry-target": "GEMINI_TELEMETRY_TARGET in the environment",
		},
		LoggedIn:       geminiLoggedIn,
		ChoosesSession: true,
		Account:        geminiAccount,
	}
}

// Ways to log in, as security.auth.selectedType names them.
const (
	geminiOAuth  = "oauth-personal"
	geminiKey    = "gemini-api-key"
	geminiVertex = "vertex-ai"
)

// geminiMethod is the way to log in that the CLI will take, and where that is said. The settings win.
func geminiMethod(env []string) (method, where string) {
	path := filepath.Join(geminiHome(env), "settings.json")
	var settings struct {
		Security struct {
			Auth struct {
				SelectedType string `json:"selectedType"`
			} `json:"auth"`
		} `json:"security"`
		Old string `json:"selectedAuthType"`
	}
	if readJSON(path, &settings) {
		if m := cmp.Or(settings.Security.Auth.SelectedType, settings.Old); m != "" {
			return m, path
		}
	}
	switch {
	case valueIn(env, "GOOGLE_GENAI_USE_GCA") == "true":
		return geminiOAuth, "GOOGLE_GENAI_USE_GCA"
	case valueIn(env, "GOOGLE_GENAI_USE_VERTEXAI") == "true":
		return geminiVertex, "GOOGLE_GENAI_USE_VERTEXAI"
	case valueIn(env, "GOOGLE_GEMINI_BASE_URL") != "":
		return "gateway", "GOOGLE_GEMINI_BASE_URL"
	case valueIn(env, "GEMINI_API_KEY") != "":
		return geminiKey, "GEMINI_API_KEY"
	}
	return "", ""
}

func geminiLoggedIn(env []string) Login {
	home := geminiHome(env)
	settings, creds := filepath.Join(home, "settings.json"), filepath.Join(home, "oauth_creds.json")
	kept := filepath.Join(home, "gemini-credentials.json")
	login, dotenv := firstFile(creds, kept), firstFile(filepath.Join(home, ".env"), filepath.Join(filepath.Dir(home), ".env"))
	method, where := geminiMethod(env)
	lacks := func(name string) bool { return valueIn(env, name) == "" }
	switch {
	case method == geminiKey && !lacks("GEMINI_API_KEY"):
		return Login{LoginYes, "GEMINI_API_KEY"}
	case method == geminiKey && firstFile(kept) != "":
		return Login{LoginUnknown, "a key may be in " + kept + " or in the system's keychain"}
	case method == geminiKey:
		return Login{LoginUnknown, "GEMINI_API_KEY is not set; a key may be in the system's keychain"}
	case method == geminiOAuth && login != "":
		return Login{LoginYes, login}
	case method == geminiOAuth:
		return Login{LoginNo, where + " says " + method + ", and there is no " + creds}
	case method == geminiVertex && !lacks("GOOGLE_API_KEY"):
		return Login{LoginYes, "GOOGLE_API_KEY"}
	case method == geminiVertex && (lacks("GOOGLE_CLOUD_PROJECT") || lacks("GOOGLE_CLOUD_LOCATION")):
		return Login{LoginNo, "Vertex AI needs GOOGLE_API_KEY, or GOOGLE_CLOUD_PROJECT and GOOGLE_CLOUD_LOCATION"}
	case method == geminiVertex && firstFile(valueIn(env, "GOOGLE_APPLICATION_CREDENTIALS")) != "":
		return Login{LoginYes, "GOOGLE_APPLICATION_CREDENTIALS"}
	case method == geminiVertex:
		return Login{LoginUnknown, "the machine's own Google Cloud credentials are not looked at"}
	case method == "gateway": // headless, the CLI refuses this with "Invalid auth method selected"
		return Login{LoginNo, "GOOGLE_GEMINI_BASE_URL is set, so security.auth.selectedType must be in " + settings}
	case method == "" && dotenv != "":
		return Login{LoginUnknown, "a key may be in " + dotenv}
	case method == "":
		return Login{LoginNo, "neither " + settings + " nor the environment says how to log in"}
	}
	return Login{LoginUnknown, where + " says " + method}
}

func geminiAccount(_ Request, env []string) Account {
	method, _ := geminiMethod(env)
	id := AccountID(method, geminiHome(env))
	switch method {
	case geminiKey, "gateway":
		if key := valueIn(env, "GEMINI_API_KEY"); key != "" {
			id = AccountID(valueIn(env, "GOOGLE_GEMINI_BASE_URL"), key)
		}
	case geminiVertex:
		project := valueIn(env, "GOOGLE_CLOUD_PROJECT")
		if key := valueIn(env, "GOOGLE_API_KEY"); key != "" || project != "" {
			id = AccountID(method, key, project)
		}
	case geminiOAuth:
		var accounts struct {
			Active string `json:"active"`
		}
		if readJSON(filepath.Join(geminiHome(env), "google_accounts.json"), &accounts) && accounts.Active != "" {
			id = AccountID(method, accounts.Active)
		}
	}
	return Account{Provider: "google", ID: id}
}

func geminiHome(env []string) string {
	return filepath.Join(cmp.Or(valueIn(env, "GEMINI_CLI_HOME"), valueIn(env, "HOME")), ".gemini")
}
