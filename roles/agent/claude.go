package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/superloop/superloop/recovery/permit"
)

// claude is the adapter of Claude Code. It uses the CLI's stream of JSON lines unless the owner has chosen another
// output format.
type claude struct{}

func (claude) Name() string { return "claude" }

func (claude) Matches(program string) bool { return program == "claude" || program == "claude-code" }

// claudePermits are the permission flags: if the owner has set one, superloop adds none. claudeResumes are the flags
// for a session that may have counters of earlier runs.
const (
	claudePermits = "--permission-mode --dangerously-skip-permissions --allow-dangerously-skip-permissions --permission-prompt-tool " +
		"--allowedTools --allowed-tools --disallowedTools --disallowed-tools --tools --restricted"
	claudeResumes = "--resume -r --continue -c --from-pr --teleport"
)

// The settings for each of thinkingLevels: claudeEfforts for newer models, claudeThinking (in tokens) for older ones.
var (
	claudeEfforts  = [...]string{"low", "low", "low", "medium", "high", "max"}
	claudeThinking = [...]string{"0", "1024", "4096", "10000", "20000", "32000"}
)

func (c claude) Command(req Request, environ []string) (Command, error) {
	b := flagsFor(req)
	b.add("--print -p", "--print")
	if req.Asked != "" {
		return c.asking(b, environ)
	}
	if format, ok := flagValue(b.words, "--output-format"); !ok || format == "stream-json" {
		b.add("--output-format", "--output-format=stream-json")
		b.add("--verbose", "--verbose") // the CLI refuses the stream without --verbose
	}
	b.permit(claudePermits, claudeRights)
	return c.rest(b, environ)
}

// claudeRights are the flags for each of the permissions.
var claudeRights = map[string][]string{
	PermitRead:      {"--tools=Read,Grep,Glob"},
	PermitWorkspace: {"--permission-mode=acceptEdits", "--allowedTools=Bash,Edit,Write,NotebookEdit"},
	PermitAll:       {"--dangerously-skip-permissions"},
}

// asking makes the command in the form in which the CLI asks about each use of a tool; see claudeClient. To observe
// changes nothing of what runs. To enforce, the CLI gets no rights of its own beyond those that it cannot go without, and
// reads no settings, hooks and MCP servers of the repository, which agents can write.
func (c claude) asking(b *builder, environ []string) (Command, error) {
	for _, own := range []string{"--permission-prompt-tool", "--input-format", "--setting-sources", "--replay-user-messages"} {
		if hasFlag(b.words, own) {
			return Command{}, fmt.Errorf("the runner's command has %s, which superloop sets itself when permissions.mode is %s: remove it from the runner", own, b.Asked)
		}
	}
	if format, ok := flagValue(b.words, "--output-format"); ok && format != "stream-json" {
		return Command{}, fmt.Errorf("the runner's command has --output-format=%s, but with permissions.mode %s it must be stream-json: remove it from the runner", format, b.Asked)
	}
	if !b.CLI.stdin() || slices.ContainsFunc(b.words, holdsPrompt) {
		return Command{}, fmt.Errorf(`with permissions.mode %s the prompt goes over standard input: set the runner's prompt_mode to "stdin"`, b.Asked)
	}
	b.add("--output-format", "--output-format=stream-json")
	b.add("--verbose", "--verbose")
	b.flags = append(b.flags, "--input-format=stream-json", "--permission-prompt-tool=stdio")
	rights := claudeRights
	if b.Asked == permit.Enforce {
		b.flags = append(b.flags, "--setting-sources=user")
		b.add("--strict-mcp-config", "--strict-mcp-config")
		rights = map[string][]string{PermitRead: claudeRights[PermitRead], PermitWorkspace: {"--permission-mode=default"}, PermitAll: {"--permission-mode=default"}}
	}
	b.permit(claudePermits, rights)
	command, err := c.rest(b, environ)
	command.Stdin = "" // the client sends the prompt
	return command, err
}

// rest adds the flags that both forms of the command have, and makes it.
func (c claude) rest(b *builder, environ []string) (Command, error) {
	req := b.Request
	b.model()
	b.session("--session-id "+claudeResumes, "--resume=", "--session-id=")
	if req.MaxCostUSD > 0 {
		b.add("--max-budget-usd", "--max-budget-usd="+strconv.FormatFloat(req.MaxCostUSD, 'f', -1, 64))
	}
	return b.command(environ, c.environment(req, environ, b.words, os.Geteuid() == 0))
}

// environment returns the variables that superloop adds. superloop retries failed runs itself, so the CLI may retry a
// request only twice. The time bound of a request is long enough for a slow answer. The owner's environment takes
// precedence, except for the thinking, which the role's settings decide. superloop sets the thinking by variables and
// not by --effort, because older releases ignore an unknown variable but fail at an unknown flag.
func (claude) environment(req Request, environ, words []string, root bool) map[string]string {
	env := defaults(environ, map[string]string{
		"DISABLE_AUTOUPDATER":     "1",
		"CLAUDE_CODE_MAX_RETRIES": "2",
		// The time to the first byte of an answer, in ms. If an answer stops half-way, the CLI itself gives up after 5
		// minutes.
		"API_TIMEOUT_MS": "300000",
	})
	if level := thinkingLevel(req.Thinking); level >= 0 {
		env["MAX_THINKING_TOKENS"] = claudeThinking[level]
		if !hasFlag(words, "--effort") { // the variable would take precedence over the flag
			env["CLAUDE_CODE_EFFORT_LEVEL"] = claudeEfforts[level]
		}
	}
	if req.Permissions == PermitAll && root {
		env["IS_SANDBOX"] = "1" // without IS_SANDBOX the CLI refuses to skip permissions as root
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
		// Releases 2.1.197 and 2.1.329 accept these flags but do not list them in the help.
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

// claudeClouds are the other providers: the variable that switches to each, and the variables that identify the account
// there.
var claudeClouds = []struct {
	on, provider string
	names        []string
}{
	{"CLAUDE_CODE_USE_BEDROCK", "bedrock", []string{"AWS_BEARER_TOKEN_BEDROCK", "AWS_ACCESS_KEY_ID", "AWS_PROFILE", "AWS_REGION", "ANTHROPIC_BEDROCK_BASE_URL"}},
	{"CLAUDE_CODE_USE_VERTEX", "vertex", []string{"ANTHROPIC_VERTEX_PROJECT_ID", "CLOUD_ML_REGION", "GOOGLE_APPLICATION_CREDENTIALS", "ANTHROPIC_VERTEX_BASE_URL"}},
	{"CLAUDE_CODE_USE_FOUNDRY", "foundry", []string{"ANTHROPIC_FOUNDRY_API_KEY", "ANTHROPIC_FOUNDRY_RESOURCE", "ANTHROPIC_FOUNDRY_BASE_URL"}},
}

// claudeCredential looks for credentials in the same order as the CLI, and returns the account that they belong to.
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
	provider := "gateway" // another provider with Anthropic's API at that address
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
			Helper string `json:"apiKeyHelper"` // the command that prints a key
		}
		if readJSON(path, &s) && s.Helper != "" {
			return Login{LoginYes, "apiKeyHelper in " + path}, Account{provider, accountHere(base, "helper", s.Helper)}
		}
	}
	if name, token := firstIn(env, "CLAUDE_CODE_OAUTH_TOKEN"); name != "" {
		return Login{LoginYes, name}, account(token)
	}
	// The state file lies beside the settings directory, or inside it if the owner has chosen that directory. The
	// tokens of a login change, but the account in the state file does not. Without a state file the directory
	// identifies the account.
	path := filepath.Join(homeIn(env, "CLAUDE_CONFIG_DIR", ""), ".claude.json")
	var state struct {
		Key     string `json:"primaryApiKey"`
		Account struct {
			UUID         string `json:"accountUuid"`
			Organization string `json:"organizationUuid"`
		} `json:"oauthAccount"`
	}
	_ = readJSON(path, &state)
	id := Account{provider, accountHere(base, claudeHome(env))}
	switch {
	case state.Account.UUID != "":
		id = account(state.Account.UUID, state.Account.Organization)
	case state.Key != "":
		id = account(state.Key)
	}
	kept := filepath.Join(claudeHome(env), ".credentials.json")
	var login struct {
		OAuth struct {
			Access  string `json:"accessToken"`
			Refresh string `json:"refreshToken"`
			Expires int64  `json:"expiresAt"` // Unix time in ms
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
