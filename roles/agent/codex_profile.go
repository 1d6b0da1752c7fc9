package agent

import (
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/superloop/superloop/internal/manifest"
)

func (codex) Profile() Profile {
	return Profile{
		Keys:    []string{"OPENAI_API_KEY", "CODEX_API_KEY", "CODEX_ACCESS_TOKEN", "AWS_BEARER_TOKEN_BEDROCK"},
		Login:   "codex login",
		Version: []string{"--version"},
		Help:    codexHelp,
		Hidden:  []string{"--yolo", "--experimental-json"}, // of 0.169.0
		Replaced: map[string]string{
			"--full-auto": "--sandbox=workspace-write", "-a": `-c approval_policy="never"`, "--ask-for-approval": `-c approval_policy="never"`,
			"--search": `-c web_search="live"`, "--reasoning-effort": `-c model_reasoning_effort="high"`,
			"--approval-mode": "--sandbox=workspace-write", "-q": "exec", "--quiet": "exec",
		},
		LoggedIn: codexLoggedIn,
		Account:  codexAccount,
	}
}

// codexHelp: each level of subcommands has flags of its own.
func codexHelp(args []string) []string {
	at := slices.IndexFunc(args, func(w string) bool { return w == "exec" || w == "e" })
	if at < 0 {
		return []string{"--help"}
	}
	for _, w := range args[at+1:] {
		if w == "--" {
			break
		}
		if w == "resume" || w == "fork" || w == "review" {
			return []string{"exec", w, "--help"}
		}
	}
	return []string{"exec", "--help"}
}

// codexHome is where the CLI keeps its settings, logins and sessions.
func codexHome(env []string) string {
	if dir := valueIn(env, "CODEX_HOME"); dir != "" {
		return dir
	}
	return filepath.Join(valueIn(env, "HOME"), ".codex")
}

// codexProvider is whose models the CLI uses, by its settings.
type codexProvider struct {
	name    string
	url     string
	keyName string // the variable with the key; "" for the CLI's own login
	login   bool   // the CLI's own login is used
}

func codexProviderOf(env []string) codexProvider {
	settings := readTOML(filepath.Join(codexHome(env), "config.toml"))
	p := codexProvider{name: settings["model_provider"], login: true}
	if p.name == "" {
		p.name = "openai"
	}
	if p.name == "openai" {
		p.url = settings["openai_base_url"]
		return p
	}
	table := "model_providers." + p.name + "."
	p.url, p.keyName = settings[table+"base_url"], settings[table+"env_key"]
	p.login = settings[table+"requires_openai_auth"] == "true"
	return p
}

// codexLogin is what the CLI keeps of a login.
type codexLogin struct {
	Key    string `json:"OPENAI_API_KEY"`
	Tokens struct {
		Access  string `json:"access_token"`
		Refresh string `json:"refresh_token"`
		Account string `json:"account_id"`
	} `json:"tokens"`
}

func codexLoggedIn(env []string) Login {
	p := codexProviderOf(env)
	switch {
	case p.keyName != "" && valueIn(env, p.keyName) != "":
		return Login{LoginYes, p.keyName}
	case p.keyName != "":
		return Login{LoginNo, "the provider " + p.name + " takes its key from " + p.keyName + ", which is not set"}
	case !p.login:
		return Login{LoginUnknown, "the provider " + p.name + " names no key"}
	case valueIn(env, "CODEX_API_KEY") != "":
		return Login{LoginYes, "CODEX_API_KEY"}
	}
	kept := filepath.Join(codexHome(env), "auth.json")
	var login codexLogin
	if readJSON(kept, &login) && (login.Key != "" || login.Tokens.Access+login.Tokens.Refresh != "") {
		return Login{LoginYes, kept}
	}
	for _, name := range []string{"OPENAI_API_KEY", "CODEX_ACCESS_TOKEN"} {
		if valueIn(env, name) != "" {
			return Login{LoginUnknown, name + " is set, which not every release takes for itself; CODEX_API_KEY or a login is"}
		}
	}
	if settings := readTOML(filepath.Join(codexHome(env), "config.toml")); settings["cli_auth_credentials_store"] != "" && settings["cli_auth_credentials_store"] != "file" {
		return Login{LoginUnknown, "a login may be in the system's keychain"}
	}
	return Login{LoginNo, "CODEX_API_KEY is not set, and there is no login in " + kept}
}

func codexAccount(_ Request, env []string) Account {
	p := codexProviderOf(env)
	account := Account{Provider: "gateway"}
	if p.url == "" && p.name == "openai" || openaiHost(p.url) {
		account.Provider = "openai"
	}
	if p.keyName != "" {
		account.ID = AccountID(p.url, valueIn(env, p.keyName))
		return account
	}
	if key := valueIn(env, "CODEX_API_KEY"); key != "" {
		account.ID = AccountID(p.url, key)
		return account
	}
	var login codexLogin
	_ = readJSON(filepath.Join(codexHome(env), "auth.json"), &login) // none is an account by its directory
	switch {
	case login.Tokens.Account != "": // the tokens change, the account does not
		account.ID = AccountID(p.url, login.Tokens.Account)
	case login.Key != "":
		account.ID = AccountID(p.url, login.Key)
	default:
		account.ID = AccountID(p.url, codexHome(env), p.name)
	}
	return account
}

func openaiHost(base string) bool {
	u, err := url.Parse(base)
	return err == nil && strings.HasSuffix("."+strings.ToLower(u.Hostname()), ".openai.com")
}

// readTOML gives the settings of a TOML file by table and key with dots between,
// strings decoded, anything else as it is written.
func readTOML(path string) map[string]string {
	all := map[string]string{}
	settings, _ := manifest.TOML(readSettings(path)) // of a broken one the CLI reads nothing either
	for _, s := range settings {
		all[s.Path] = s.Plain()
	}
	return all
}
