package agent

import (
	"cmp"
	"path/filepath"
	"slices"

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
func codexHome(env []string) string { return homeIn(env, "CODEX_HOME", ".codex") }

// codexKept is what the CLI keeps: whose models it uses, and its own login.
type codexKept struct {
	provider string
	url      string
	keyName  string // the variable with the key; "" for the CLI's own login
	own      bool   // the CLI's own login is used
	store    string // where logins are kept, "" or "file" for the file path
	path     string
	Key      string `json:"OPENAI_API_KEY"`
	Tokens   struct {
		Access  string `json:"access_token"`
		Refresh string `json:"refresh_token"`
		Account string `json:"account_id"`
	} `json:"tokens"`
}

func codexKeeps(env []string) codexKept {
	settings := map[string]string{}                                                      // by table and key with dots between
	list, _ := manifest.TOML(readSettings(filepath.Join(codexHome(env), "config.toml"))) // of a broken one the CLI reads nothing either
	for _, s := range list {
		settings[s.Path] = s.Plain()
	}
	k := codexKept{
		provider: cmp.Or(settings["model_provider"], "openai"), own: true, url: settings["openai_base_url"],
		store: settings["cli_auth_credentials_store"], path: filepath.Join(codexHome(env), "auth.json"),
	}
	if k.provider != "openai" {
		table := "model_providers." + k.provider + "."
		k.url, k.keyName, k.own = settings[table+"base_url"], settings[table+"env_key"], settings[table+"requires_openai_auth"] == "true"
	}
	if !readJSON(k.path, &k) {
		k.Key, k.Tokens.Access, k.Tokens.Refresh, k.Tokens.Account = "", "", "", ""
	}
	return k
}

func codexLoggedIn(env []string) Login {
	k := codexKeeps(env)
	other, _ := firstIn(env, "OPENAI_API_KEY", "CODEX_ACCESS_TOKEN")
	switch {
	case k.keyName != "" && valueIn(env, k.keyName) != "":
		return Login{LoginYes, k.keyName}
	case k.keyName != "":
		return Login{LoginNo, "the provider " + k.provider + " takes its key from " + k.keyName + ", which is not set"}
	case !k.own:
		return Login{LoginUnknown, "the provider " + k.provider + " names no key"}
	case valueIn(env, "CODEX_API_KEY") != "":
		return Login{LoginYes, "CODEX_API_KEY"}
	case k.Key != "" || k.Tokens.Access+k.Tokens.Refresh != "":
		return Login{LoginYes, k.path}
	case other != "":
		return Login{LoginUnknown, other + " is set, which not every release takes for itself; CODEX_API_KEY or a login is"}
	case k.store != "" && k.store != "file":
		return Login{LoginUnknown, "a login may be in the system's keychain"}
	}
	return Login{LoginNo, "CODEX_API_KEY is not set, and there is no login in " + k.path}
}

func codexAccount(_ Request, env []string) Account {
	k := codexKeeps(env)
	provider := "gateway"
	if k.url == "" && k.provider == "openai" || hostIn(k.url, ".openai.com") {
		provider = "openai"
	}
	if k.keyName != "" {
		return Account{provider, AccountID(k.url, valueIn(env, k.keyName))}
	}
	// The tokens of a login change, the account does not.
	if id := cmp.Or(valueIn(env, "CODEX_API_KEY"), k.Tokens.Account, k.Key); id != "" {
		return Account{provider, AccountID(k.url, id)}
	}
	return Account{provider, AccountID(k.url, codexHome(env), k.provider)}
}
