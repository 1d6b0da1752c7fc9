package mockapi

import (
	_ "embed"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// Key is the credential that Environment gives to every CLI. It is valid nowhere.
const Key = "superloop-mock-key-0123456789abcdef"

// CLIs returns the names of the CLIs that Environment knows.
func CLIs() []string {
	return []string{"claude", "codex", "gemini", "opencode", "qwen", "copilot", "pi"}
}

// The settings files of the CLIs. @URL@ stands for the address of the server.
var (
	//go:embed clients/codex.toml
	codexConfig string
	//go:embed clients/gemini.json
	geminiConfig string
	//go:embed clients/opencode.json
	opencodeConfig string
	//go:embed clients/qwen.json
	qwenConfig string
	//go:embed clients/pi_models.json
	piModels string
	//go:embed clients/pi_settings.json
	piSettings string
)

// Environment returns the settings with which a CLI talks to the server at url. The caller adds env to an environment
// that holds none of the CLI's own variables (a bare one with PATH is best). Before the CLI starts, the caller writes
// files, whose paths are relative to home. The CLI then uses Key, sends no telemetry and does not update itself. Its
// home directory and all its state are below home.
func Environment(cli, url, home string) (env []string, files map[string]string, err error) {
	env = []string{"HOME=" + home,
		"XDG_CONFIG_HOME=" + filepath.Join(home, ".config"), "XDG_DATA_HOME=" + filepath.Join(home, ".local", "share"),
		"XDG_STATE_HOME=" + filepath.Join(home, ".local", "state"), "XDG_CACHE_HOME=" + filepath.Join(home, ".cache")}
	files = map[string]string{}
	switch cli {
	case "claude":
		env = append(env, "ANTHROPIC_BASE_URL="+url, "ANTHROPIC_API_KEY="+Key,
			"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_AUTOUPDATER=1", "DISABLE_TELEMETRY=1", "DISABLE_ERROR_REPORTING=1")
	case "codex":
		env = append(env, "OPENAI_API_KEY="+Key, "CODEX_HOME="+filepath.Join(home, ".codex"))
		files[".codex/config.toml"] = strings.ReplaceAll(codexConfig, "@URL@", url)
	case "gemini":
		env = append(env, "GOOGLE_GEMINI_BASE_URL="+url, "GEMINI_API_KEY="+Key, "GEMINI_CLI_TRUST_WORKSPACE=true")
		files[".gemini/settings.json"] = geminiConfig
	case "opencode":
		env = append(env, "ANTHROPIC_API_KEY="+Key,
			"OPENCODE_DISABLE_AUTOUPDATE=1", "OPENCODE_DISABLE_MODELS_FETCH=1", "OPENCODE_DISABLE_LSP_DOWNLOAD=1", "OPENCODE_DISABLE_DEFAULT_PLUGINS=1")
		files[".config/opencode/opencode.json"] = strings.ReplaceAll(opencodeConfig, "@URL@", url)
	case "qwen":
		env = append(env, "ANTHROPIC_BASE_URL="+url, "ANTHROPIC_API_KEY="+Key)
		files[".qwen/settings.json"] = qwenConfig
	case "copilot":
		env = append(env, "COPILOT_PROVIDER_TYPE=anthropic", "COPILOT_PROVIDER_BASE_URL="+url, "COPILOT_PROVIDER_API_KEY="+Key, "COPILOT_MODEL=claude-sonnet-4-5", "COPILOT_OFFLINE=true")
	case "pi":
		env = append(env, "ANTHROPIC_API_KEY="+Key, "PI_OFFLINE=1")
		files[".pi/agent/models.json"] = strings.ReplaceAll(piModels, "@URL@", url)
		files[".pi/agent/settings.json"] = piSettings
	default:
		return nil, nil, fmt.Errorf("no way is known to point %q at a mock model server, only %s", cli, strings.Join(CLIs(), ", "))
	}
	return env, files, nil
}

// Subscription replaces claude's API key by the token of a subscription. Only with such a token does claude report the
// windows of a limit.
func Subscription(env []string) []string {
	env = slices.DeleteFunc(slices.Clone(env), func(e string) bool { return strings.HasPrefix(e, "ANTHROPIC_API_KEY=") })
	return append(env, "CLAUDE_CODE_OAUTH_TOKEN="+Key)
}
