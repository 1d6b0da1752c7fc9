package agent

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/superloop/superloop/internal/door"
	"github.com/superloop/superloop/internal/text"
)

// pi is the adapter of the pi CLI, started as `pi --mode json`: the prompt goes to standard input, and the events come from
// standard output. The CLI takes the value of a flag only as a word of its own.
type pi struct{}

func (pi) Name() string                { return "pi" }
func (pi) Matches(program string) bool { return program == "pi" }

// piThinking are the CLI's words for each of thinkingLevels. A model that knows fewer gets the nearest.
var piThinking = [...]string{"off", "minimal", "low", "medium", "high", "xhigh"}

// Command adds the flags. While the CLI waits for a provider, it prints no event for up to hours. So Command switches on
// the logs of the two libraries that most providers are reached by: at the level info they tell of each response.
func (p pi) Command(req Request, environ []string) (Command, error) {
	if err := req.check(); err != nil {
		return Command{}, err
	}
	b := flagsFor(req)
	b.add("--mode", "--mode", "json")
	if req.Model != "" && !slices.ContainsFunc(b.words, func(w string) bool { return strings.Contains(w, "{model}") }) {
		b.add("--model", "--model", req.Model)
	}
	if level := thinkingLevel(req.Thinking); level >= 0 {
		b.add("--thinking", "--thinking", piThinking[level])
	}
	if req.Resume != nil && !hasFlag(b.words, "--session", "--fork", "--continue", "-c", "--resume", "-r", "--no-session") {
		b.flags, b.err = append(b.flags, "--session", req.Resume.ID), checkSession(req.Resume.ID)
	}
	if req.Permissions == PermitRead {
		if err := piPrograms(req); err != nil {
			return Command{}, err
		}
		b.add("--tools -t --no-tools -nt --no-builtin-tools -nbt", "--tools", "read,grep,find,ls")
		b.add("--no-extensions -ne", "--no-extensions") // extensions are programs, and the repository may have some
	}
	return b.command(environ, defaults(passed(req, environ), map[string]string{
		"PI_SKIP_VERSION_CHECK": "1", "PI_TELEMETRY": "0", "ANTHROPIC_LOG": "info", "OPENAI_LOG": "info",
	}))
}

// piPrograms finds settings of the repository with which the CLI runs programs when it starts, whatever tools it has: it
// installs the packages that they name, by the command that they name.
func piPrograms(req Request) error {
	path := filepath.Join(req.WorkDir, ".pi", "settings.json")
	said, err := door.ReadOwn(path, maxSettings)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var settings map[string]any
	if err == nil {
		err = text.Decode(said, &settings)
	}
	for _, name := range []string{"packages", "npmCommand"} {
		if _, has := settings[name]; has || err != nil {
			return fmt.Errorf("preparing the %s, which is to be read-only: %s may make pi install packages: move it away (mv %[3]s %[3]s.off)", req.Role, path, text.Paste(path))
		}
	}
	return nil
}

// piProviders are the key variables of the providers whose variable is not NAME_API_KEY.
var piProviders = map[string][]string{
	"anthropic": {"ANTHROPIC_OAUTH_TOKEN", "ANTHROPIC_API_KEY"}, "azure-openai-responses": {"AZURE_OPENAI_API_KEY"}, "google": {"GEMINI_API_KEY"},
	"google-vertex": {"GOOGLE_CLOUD_API_KEY"}, "github-copilot": {"COPILOT_GITHUB_TOKEN", "GH_TOKEN", "GITHUB_TOKEN"}, "huggingface": {"HF_TOKEN"},
	"vercel-ai-gateway": {"AI_GATEWAY_API_KEY"}, "moonshotai": {"MOONSHOT_API_KEY"}, "moonshotai-cn": {"MOONSHOT_API_KEY"}, "opencode-go": {"OPENCODE_API_KEY"},
	"kimi-coding": {"KIMI_API_KEY"}, "cloudflare-workers-ai": {"CLOUDFLARE_API_KEY"}, "cloudflare-ai-gateway": {"CLOUDFLARE_API_KEY"},
	"amazon-bedrock": {"AWS_BEARER_TOKEN_BEDROCK"},
}

// piKeys are the variables in which pi 0.73 looks for a credential. Those that other programs need too, such as
// GITHUB_TOKEN, HF_TOKEN, the keys of clouds, and codex with Azure AZURE_OPENAI_API_KEY, are left out.
var piKeys = strings.Fields(`AI_GATEWAY_API_KEY ANTHROPIC_API_KEY ANTHROPIC_OAUTH_TOKEN CEREBRAS_API_KEY COPILOT_GITHUB_TOKEN DEEPSEEK_API_KEY
	FIREWORKS_API_KEY GEMINI_API_KEY GROQ_API_KEY KIMI_API_KEY MINIMAX_API_KEY MINIMAX_CN_API_KEY MISTRAL_API_KEY MOONSHOT_API_KEY OPENAI_API_KEY
	OPENCODE_API_KEY OPENROUTER_API_KEY XAI_API_KEY XIAOMI_API_KEY XIAOMI_TOKEN_PLAN_AMS_API_KEY XIAOMI_TOKEN_PLAN_CN_API_KEY
	XIAOMI_TOKEN_PLAN_SGP_API_KEY ZAI_API_KEY`)

func (pi) Profile() Profile {
	return Profile{Keys: piKeys, Login: "pi", Help: plainHelp, Credential: piCredential}
}

// piLogin is what the CLI keeps of a provider: in auth.json a key or the tokens of a login, in models.json an address and a
// key. The key is one, or names a variable that holds it, or is a command behind "!".
type piLogin struct {
	Type      string `json:"type"`
	Key       string `json:"key"`
	APIKey    string `json:"apiKey"`
	BaseURL   string `json:"baseUrl"`
	AccountID string `json:"accountId"`
}

// piCredential looks for a login with the provider that the model's name, a flag or the settings name. An extension may have
// a login too, so it never returns LoginNo. The CLI prefers its own logins to keys in the environment, and these to
// models.json.
func piCredential(req Request, env []string) (Login, Account) {
	dir, words := homeIn(env, "PI_CODING_AGENT_DIR", ".pi/agent"), req.words()
	logins, models := map[string]piLogin{}, struct{ Providers map[string]piLogin }{}
	auth, custom := filepath.Join(dir, "auth.json"), filepath.Join(dir, "models.json")
	readJSON(auth, &logins)
	readJSON(custom, &models)
	provider := piProvider(req, dir)
	names := piProviders[provider]
	if names == nil {
		names = []string{strings.ToUpper(strings.ReplaceAll(provider, "-", "_")) + "_API_KEY"}
	}
	if provider == "" {
		names = piKeys
	}
	own, known := logins[provider]
	base := models.Providers[provider]
	name, secret := firstIn(env, names...)
	flag, given := flagValue(words, "--api-key")
	login := decide([]loginRule{
		{given, LoginYes, "--api-key"},
		{known || provider == "" && len(logins) > 0, LoginYes, auth},
		{name != "", LoginYes, name},
		{base.APIKey != "", LoginYes, custom},
		{true, LoginUnknown, "neither " + auth + " nor the environment has a login; an extension may"},
	})
	if provider == "" {
		return login, Account{"pi", accountHere(dir)}
	}
	switch {
	case given:
		secret = flag
	case known && own.Type == "oauth":
		if own.AccountID != "" {
			return login, Account{provider, AccountID("account", own.AccountID)}
		}
		secret = "" // the tokens of a login change daily, but the file stays
	case known:
		secret = piSecret(own.Key, env)
	case name == "":
		secret = piSecret(base.APIKey, env)
	}
	if secret == "" {
		return login, Account{provider, accountHere(provider, dir, base.BaseURL)}
	}
	return login, Account{provider, AccountID(base.BaseURL, secret)} // the same id as in the adapter of the provider's own CLI
}

// piSecret returns the key that a file of the CLI tells; "" if only a command knows it.
func piSecret(key string, env []string) string {
	if strings.HasPrefix(key, "!") {
		return ""
	}
	return cmp.Or(valueIn(env, key), key)
}

// piProvider returns the provider of the model that a turn uses; "" if only the CLI's catalogue of models knows it.
func piProvider(req Request, dir string) string {
	words := req.words()
	if provider, ok := flagValue(words, "--provider"); ok {
		return provider
	}
	model := req.Model
	if own, ok := flagValue(words, "--model"); ok {
		model = strings.ReplaceAll(own, "{model}", req.Model)
	}
	if provider, _, ok := strings.Cut(model, "/"); ok {
		return strings.ToLower(provider)
	}
	if model != "" {
		return ""
	}
	var settings struct{ DefaultProvider string }
	for _, path := range []string{filepath.Join(req.WorkDir, ".pi", "settings.json"), filepath.Join(dir, "settings.json")} {
		if readJSON(path, &settings) && settings.DefaultProvider != "" {
			return strings.ToLower(settings.DefaultProvider)
		}
	}
	return ""
}
