package agent

import (
	"net/url"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

func (claude) Profile() Profile {
	return Profile{
		Keys: []string{
			"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN", "CLAUDE_CODE_OAUTH_REFRESH_TOKEN",
			"ANTHROPIC_FOUNDRY_API_KEY", "AWS_BEARER_TOKEN_BEDROCK",
		},
		Login:          "claude auth login",
		Version:        []string{"--version"},
		Help:           func([]string) []string { return []string{"--help"} },
		Hidden:         claudeHidden(),
		Replaced:       map[string]string{"--mcp-debug": "--debug"},
		LoggedIn:       claudeLoggedIn,
		ChoosesSession: true,
		Account:        claudeAccount,
	}
}

// claudeHidden are flags that 2.1.197 and 2.1.329 take and do not list.
func claudeHidden() []string {
	return []string{
		"--max-turns", "--permission-prompt-tool", "--system-prompt-file", "--append-system-prompt-file", "--max-thinking-tokens",
		"--thinking", "--thinking-display", "--resume-session-at", "--rewind-files", "--task-budget", "--plan-mode-instructions",
		"--managed-settings", "--prefill", "--channels", "--advisor", "--workload", "--plugin-dir-no-mcp", "--agent-id", "--agent-name",
		"--agent-type", "--agent-color", "--team-name", "--teammate-mode", "--parent-session-id", "--sdk-url", "--cloud", "--teleport",
		"--fast-mode", "--append-subagent-system-prompt", "--append-subagent-system-prompt-file",
	}
}

// claudeHome is where the CLI keeps its settings, logins and sessions, and
// claudeState the file of its state, which is beside that directory unless the
// owner has chosen one.
func claudeHome(env []string) string {
	if dir := valueIn(env, "CLAUDE_CONFIG_DIR"); dir != "" {
		return dir
	}
	return filepath.Join(valueIn(env, "HOME"), ".claude")
}

func claudeState(env []string) string {
	if dir := valueIn(env, "CLAUDE_CONFIG_DIR"); dir != "" {
		return filepath.Join(dir, ".claude.json")
	}
	return filepath.Join(valueIn(env, "HOME"), ".claude.json")
}

// claudeClouds are the providers besides Anthropic itself, by the variable that
// switches to them, with what names the account there.
var claudeClouds = []struct {
	on, provider string
	names        []string
}{
	{"CLAUDE_CODE_USE_BEDROCK", "bedrock", []string{"AWS_BEARER_TOKEN_BEDROCK", "AWS_ACCESS_KEY_ID", "AWS_PROFILE", "AWS_REGION", "ANTHROPIC_BEDROCK_BASE_URL"}},
	{"CLAUDE_CODE_USE_VERTEX", "vertex", []string{"ANTHROPIC_VERTEX_PROJECT_ID", "CLOUD_ML_REGION", "GOOGLE_APPLICATION_CREDENTIALS", "ANTHROPIC_VERTEX_BASE_URL"}},
	{"CLAUDE_CODE_USE_FOUNDRY", "foundry", []string{"ANTHROPIC_FOUNDRY_API_KEY", "ANTHROPIC_FOUNDRY_RESOURCE", "ANTHROPIC_FOUNDRY_BASE_URL"}},
}

// switchedOn reads a variable as the CLI does.
func switchedOn(env []string, name string) bool {
	switch strings.ToLower(strings.TrimSpace(valueIn(env, name))) {
	case "1", "true", "yes", "on":
		return true
	}
	return false
}

// claudeLogin is what the CLI keeps of a login.
type claudeLogin struct {
	OAuth struct {
		Access  string `json:"accessToken"`
		Refresh string `json:"refreshToken"`
		Expires int64  `json:"expiresAt"` // ms
	} `json:"claudeAiOauth"`
}

type claudeKept struct {
	Key     string `json:"primaryApiKey"`
	Account struct {
		UUID         string `json:"accountUuid"`
		Organization string `json:"organizationUuid"`
	} `json:"oauthAccount"`
}

// claudeHelper is the command that gives a key, and the file that names it.
func claudeHelper(env []string) (command, path string) {
	for _, name := range []string{"settings.json", "settings.local.json"} {
		path := filepath.Join(claudeHome(env), name)
		var s struct {
			Helper string `json:"apiKeyHelper"`
		}
		if readJSON(path, &s) && s.Helper != "" {
			return s.Helper, path
		}
	}
	return "", ""
}

func claudeLoggedIn(env []string) Login {
	for _, c := range claudeClouds {
		if switchedOn(env, c.on) {
			return Login{LoginUnknown, c.on + " is set: the credentials of that cloud are not looked at"}
		}
	}
	for _, name := range []string{"ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_API_KEY"} {
		if valueIn(env, name) != "" {
			return Login{LoginYes, name}
		}
	}
	if _, path := claudeHelper(env); path != "" {
		return Login{LoginYes, "apiKeyHelper in " + path}
	}
	if valueIn(env, "CLAUDE_CODE_OAUTH_TOKEN") != "" {
		return Login{LoginYes, "CLAUDE_CODE_OAUTH_TOKEN"}
	}
	kept := filepath.Join(claudeHome(env), ".credentials.json")
	var login claudeLogin
	if readJSON(kept, &login) && login.OAuth.Access+login.OAuth.Refresh != "" {
		if o := login.OAuth; o.Refresh == "" && o.Expires > 0 && time.UnixMilli(o.Expires).Before(time.Now()) {
			return Login{LoginNo, "the login in " + kept + " is over since " + time.UnixMilli(o.Expires).UTC().Format(time.DateTime) + " UTC"}
		}
		return Login{LoginYes, kept}
	}
	var state claudeKept
	if readJSON(claudeState(env), &state) && state.Key != "" {
		return Login{LoginYes, claudeState(env)}
	}
	if runtime.GOOS == "darwin" {
		return Login{LoginUnknown, "a login may be in the keychain"}
	}
	return Login{LoginNo, "neither the environment nor " + claudeHome(env) + " has a key or a login"}
}

func claudeAccount(_ Request, env []string) Account {
	values := func(names []string) (list []string) {
		for _, name := range names {
			list = append(list, valueIn(env, name))
		}
		return list
	}
	for _, c := range claudeClouds {
		if switchedOn(env, c.on) {
			return Account{c.provider, AccountID(values(c.names)...)}
		}
	}
	base := valueIn(env, "ANTHROPIC_BASE_URL")
	account := Account{Provider: claudeProvider(base)}
	for _, name := range []string{"ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_API_KEY"} {
		if key := valueIn(env, name); key != "" {
			account.ID = AccountID(base, key)
			return account
		}
	}
	if helper, _ := claudeHelper(env); helper != "" {
		account.ID = AccountID(base, "helper", helper)
		return account
	}
	if token := valueIn(env, "CLAUDE_CODE_OAUTH_TOKEN"); token != "" {
		account.ID = AccountID(base, token)
		return account
	}
	// The tokens of a login change; the account does not.
	var state claudeKept
	_ = readJSON(claudeState(env), &state) // none is an account by its directory
	switch {
	case state.Account.UUID != "":
		account.ID = AccountID(base, state.Account.UUID, state.Account.Organization)
	case state.Key != "":
		account.ID = AccountID(base, state.Key)
	default:
		account.ID = AccountID(base, claudeHome(env))
	}
	return account
}

// claudeProvider is Anthropic, or whoever else speaks its language at that
// address.
func claudeProvider(base string) string {
	if base == "" {
		return "anthropic"
	}
	if u, err := url.Parse(base); err == nil && strings.HasSuffix("."+strings.ToLower(u.Hostname()), ".anthropic.com") {
		return "anthropic"
	}
	return "gateway"
}
