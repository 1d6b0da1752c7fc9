package agent

import (
	_ "embed"
	"encoding/json"
	"path/filepath"
	"strings"
)

func (opencode) Profile() Profile {
	return Profile{
		Keys:    opencodeKeys(),
		Login:   "opencode auth login",
		Version: []string{"--version"},
		Help: func(args []string) []string {
			if len(args) > 0 && !strings.HasPrefix(args[0], "-") && args[0] != "run" {
				return []string{args[0], "--help"}
			}
			return []string{"run", "--help"}
		},
		Hidden:   []string{"--yolo", "--dangerously-skip-permissions"},
		LoggedIn: opencodeLoggedIn,
		Account:  opencodeAccount,
	}
}

// opencodeKeys are the variables in which opencode 1.18's catalogue of providers
// looks for a credential, but for those that other programs need too, such as
// GITHUB_TOKEN and the keys of clouds: these are nobody's secret from another
// agent. (OPENCODE_AUTH_CONTENT is its file of logins, as a variable.)
func opencodeKeys() []string { return strings.Fields(opencodeKeysText) }

//go:embed opencode_keys.txt
var opencodeKeysText string

// opencodeProviders are the variables of the providers that people have keys
// of most; a provider that is not here is told by its name.
func opencodeProviders() map[string][]string {
	return map[string][]string{
		"anthropic": {"ANTHROPIC_API_KEY"}, "openai": {"OPENAI_API_KEY"}, "opencode": {"OPENCODE_API_KEY"},
		"google": {"GOOGLE_GENERATIVE_AI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY"}, "openrouter": {"OPENROUTER_API_KEY"},
		"mistral": {"MISTRAL_API_KEY"}, "deepseek": {"DEEPSEEK_API_KEY"}, "groq": {"GROQ_API_KEY"}, "xai": {"XAI_API_KEY"},
		"zai": {"ZHIPU_API_KEY"}, "moonshotai": {"MOONSHOT_API_KEY"}, "amazon-bedrock": {"AWS_BEARER_TOKEN_BEDROCK", "AWS_ACCESS_KEY_ID"},
	}
}

// opencodeLogins is the CLI's file of logins, by provider, and where it is.
func opencodeLogins(env []string) (logins map[string]json.RawMessage, where string) {
	if text := valueIn(env, "OPENCODE_AUTH_CONTENT"); text != "" && json.Unmarshal([]byte(text), &logins) == nil {
		return logins, "OPENCODE_AUTH_CONTENT"
	}
	where = filepath.Join(opencodeData(env), "auth.json")
	if !readJSON(where, &logins) {
		logins = nil
	}
	return logins, where
}

// opencodeLoggedIn looks for any login: which provider a run will use is in its
// model. Settings may hold keys too, so that there is never a plain no.
func opencodeLoggedIn(env []string) Login {
	if logins, where := opencodeLogins(env); len(logins) > 0 {
		return Login{LoginYes, where}
	}
	if name, _ := firstIn(env, opencodeKeys()...); name != "" {
		return Login{LoginYes, name}
	}
	return Login{LoginUnknown, "neither " + filepath.Join(opencodeData(env), "auth.json") + " nor the environment has a login; the settings of a provider may"}
}

// opencodeAccount goes by the provider in the model's name and its login, of
// which the CLI prefers its own file to the environment.
func opencodeAccount(req Request, env []string) Account {
	model := req.Model
	if own, ok := flagValue(req.words(), "-m", "--model"); ok {
		model = strings.ReplaceAll(own, "{model}", req.Model)
	}
	provider, _, ok := strings.Cut(model, "/")
	if !ok || provider == "" {
		return Account{Provider: "opencode", ID: AccountID(opencodeData(env))}
	}
	provider = strings.ToLower(provider)
	if logins, where := opencodeLogins(env); logins[provider] != nil {
		var login struct{ Type, Key, AccountID string }
		// A key is named as the CLI of the provider itself would at the provider's
		// own endpoint, since both draw on one quota.
		switch {
		case json.Unmarshal(logins[provider], &login) != nil:
		case login.Key != "":
			return Account{Provider: provider, ID: AccountID("", login.Key)}
		case login.AccountID != "":
			return Account{Provider: provider, ID: AccountID("account", login.AccountID)}
		}
		// A login's tokens change from day to day; the file stays.
		return Account{Provider: provider, ID: AccountID(provider, where)}
	}
	names := opencodeProviders()[provider]
	if names == nil {
		names = []string{strings.ToUpper(strings.ReplaceAll(provider, "-", "_")) + "_API_KEY"}
	}
	if _, key := firstIn(env, names...); key != "" {
		return Account{Provider: provider, ID: AccountID("", key)}
	}
	return Account{Provider: provider, ID: AccountID(provider, opencodeData(env))}
}

// opencodeData is where the CLI keeps its logins.
func opencodeData(env []string) string {
	if dir := valueIn(env, "XDG_DATA_HOME"); dir != "" {
		return filepath.Join(dir, "opencode")
	}
	return filepath.Join(valueIn(env, "HOME"), ".local", "share", "opencode")
}
