package agent

import (
	"cmp"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// claude is Claude Code, with its stream of JSON lines unless the owner has chosen another output.
type claude struct{}

func (claude) Name() string { return "claude" }

func (claude) Matches(program string) bool { return program == "claude" || program == "claude-code" }

// The owner's own words on permissions, and for sessions that may have counters of earlier runs.
const (
	claudePermits = "--permission-mode --dangerously-skip-permissions --allow-dangerously-skip-permissions --permission-prompt-tool " +
		"--allowedTools --allowed-tools --disallowedTools --disallowed-tools --tools --restricted"
	claudeResumes = "--resume -r --continue -c --from-pr --teleport"
)

// What thinking is to newer models and to older ones, by thinkingLevels.
var (
	claudeEfforts  = [...]string{"low", "low", "low", "medium", "high", "max"}
	claudeThinking = [...]string{"0", "1024", "4096", "10000", "20000", "32000"}
)

func (c claude) Command(req Request, environ []string) (Command, error) {
	b := flagsFor(req)
	b.add("--print -p", "--print")
	if format, ok := flagValue(b.words, "--output-format"); !ok || format == "stream-json" {
		b.add("--output-format", "--output-format=stream-json")
		b.add("--verbose", "--verbose") // the stream is refused without it
	}
	b.model()
	b.permit(claudePermits, map[string][]string{
		PermitRead:      {"--tools=Read,Grep,Glob"},
		PermitWorkspace: {"--permission-mode=acceptEdits", "--allowedTools=Bash,Edit,Write,NotebookEdit"},
		PermitAll:       {"--dangerously-skip-permissions"},
	})
	b.session("--session-id "+claudeResumes, "--resume=", "--session-id=")
	if req.MaxCostUSD > 0 {
		b.add("--max-budget-usd", "--max-budget-usd="+strconv.FormatFloat(req.MaxCostUSD, 'f', -1, 64))
	}
	return b.command(environ, c.environment(req, environ, b.words, os.Geteuid() == 0))
}

// environment gives the variables that superloop adds. Superloop owns the retries, so the CLI has few of its own, and
// the bounds on its requests are what a slow answer needs. The owner's environment wins, but for the thinking, which is
// the role's: that goes by the environment, not by --effort, because releases ignore a variable that they do not know,
// and a flag would end them.
func (claude) environment(req Request, environ, words []string, root bool) map[string]string {
	env := defaults(environ, map[string]string{
		"DISABLE_AUTOUPDATER":     "1",
		"CLAUDE_CODE_MAX_RETRIES": "2",
		// To the first byte of an answer. One that stops half-way the CLI gives up after 5 minutes.
		"API_TIMEOUT_MS": "300000",
	})
	if level := thinkingLevel(req.Thinking); level >= 0 {
		env["MAX_THINKING_TOKENS"] = claudeThinking[level]
		if !hasFlag(words, "--effort") { // the variable would win over it
			env["CLAUDE_CODE_EFFORT_LEVEL"] = claudeEfforts[level]
		}
	}
	if req.Permissions == PermitAll && root {
		env["IS_SANDBOX"] = "1" // without it the CLI refuses to skip permissions as root
	}
	return env
}

func (claude) Profile() Profile {
	return Profile{
		Keys: []string{
			"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN", "CLAUDE_CODE_OAUTH_REFRESH_TOKEN",
			"ANTHROPIC_FOUNDRY_API_KEY", "AWS_BEARER_TOKEN_BEDROCK",
		},
		Login: "claude auth login",
		Help:  plainHelp,
		// 2.1.197 and 2.1.329 take these and do not list them.
		Hidden: strings.Fields(`--max-turns --permission-prompt-tool --system-prompt-file --append-system-prompt-file --max-thinking-tokens
			--thinking --thinking-display --resume-session-at --rewind-files --task-budget --plan-mode-instructions --managed-settings
			--prefill --channels --advisor --workload --plugin-dir-no-mcp --agent-id --agent-name --agent-type --agent-color --team-name
			--teammate-mode --parent-session-id --sdk-url --cloud --teleport --fast-mode --append-subagent-system-prompt
			--append-subagent-system-prompt-file`),
		Replaced:       map[string]string{"--mcp-debug": "--debug"},
		ChoosesSession: true,
		Credential:     claudeCredential,
	}
}

func claudeHome(env []string) string { return homeIn(env, "CLAUDE_CONFIG_DIR", ".claude") }

// claudeClouds are the other providers, by the variable that switches to them, with what names the account there.
var claudeClouds = []struct {
	on, provider string
	names        []string
}{
	{"CLAUDE_CODE_USE_BEDROCK", "bedrock", []string{"AWS_BEARER_TOKEN_BEDROCK", "AWS_ACCESS_KEY_ID", "AWS_PROFILE", "AWS_REGION", "ANTHROPIC_BEDROCK_BASE_URL"}},
	{"CLAUDE_CODE_USE_VERTEX", "vertex", []string{"ANTHROPIC_VERTEX_PROJECT_ID", "CLOUD_ML_REGION", "GOOGLE_APPLICATION_CREDENTIALS", "ANTHROPIC_VERTEX_BASE_URL"}},
	{"CLAUDE_CODE_USE_FOUNDRY", "foundry", []string{"ANTHROPIC_FOUNDRY_API_KEY", "ANTHROPIC_FOUNDRY_RESOURCE", "ANTHROPIC_FOUNDRY_BASE_URL"}},
}

// claudeCredential looks for credentials in the order of the CLI, and says whose account they are of.
func claudeCredential(_ Request, env []string) (Login, Account) {
	for _, c := range claudeClouds {
		if slices.Contains([]string{"1", "true", "yes", "on"}, strings.ToLower(strings.TrimSpace(valueIn(env, c.on)))) {
			var values []string
			for _, name := range c.names {
				values = append(values, valueIn(env, name))
			}
			return Login{LoginUnknown, c.on + " is set: the credentials of that cloud are not looked at"}, Account{c.provider, AccountID(values...)}
		}
	}
	base := valueIn(env, "ANTHROPIC_BASE_URL")
	provider := "gateway" // whoever else speaks Anthropic's language at that address
	if base == "" || hostIn(base, ".anthropic.com") {
		provider = "anthropic"
	}
	account := func(names ...string) Account {
		return Account{provider, AccountID(append([]string{base}, names...)...)}
	}
	if name, key := firstIn(env, "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_API_KEY"); name != "" {
		return Login{LoginYes, name}, account(key)
	}
	for _, name := range []string{"settings.json", "settings.local.json"} {
		path := filepath.Join(claudeHome(env), name)
		var s struct {
			Helper string `json:"apiKeyHelper"` // the command that gives a key
		}
		if readJSON(path, &s) && s.Helper != "" {
			return Login{LoginYes, "apiKeyHelper in " + path}, account("helper", s.Helper)
		}
	}
	if name, token := firstIn(env, "CLAUDE_CODE_OAUTH_TOKEN"); name != "" {
		return Login{LoginYes, name}, account(token)
	}
	// The state is beside the directory of the settings unless the owner has chosen that. The tokens of a login change,
	// the account does not; without a state it is told by its directory.
	path := filepath.Join(homeIn(env, "CLAUDE_CONFIG_DIR", ""), ".claude.json")
	var state struct {
		Key     string `json:"primaryApiKey"`
		Account struct {
			UUID         string `json:"accountUuid"`
			Organization string `json:"organizationUuid"`
		} `json:"oauthAccount"`
	}
	_ = readJSON(path, &state)
	id := account(cmp.Or(state.Key, claudeHome(env)))
	if state.Account.UUID != "" {
		id = account(state.Account.UUID, state.Account.Organization)
	}
	kept := filepath.Join(claudeHome(env), ".credentials.json")
	var login struct {
		OAuth struct {
			Access  string `json:"accessToken"`
			Refresh string `json:"refreshToken"`
			Expires int64  `json:"expiresAt"` // ms
		} `json:"claudeAiOauth"`
	}
	if readJSON(kept, &login) && login.OAuth.Access+login.OAuth.Refresh != "" {
		over := time.UnixMilli(login.OAuth.Expires)
		if login.OAuth.Refresh == "" && login.OAuth.Expires > 0 && over.Before(time.Now()) {
			return Login{LoginNo, "the login in " + kept + " is over since " + over.UTC().Format(time.DateTime) + " UTC"}, id
		}
		return Login{LoginYes, kept}, id
	}
	if state.Key != "" {
		return Login{LoginYes, path}, id
	}
	if runtime.GOOS == "darwin" {
		return Login{LoginUnknown, "a login may be in the keychain"}, id
	}
	return Login{LoginNo, "neither the environment nor " + claudeHome(env) + " has a key or a login"}, id
}
