package agent

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/superloop/superloop/internal/text"
)

// opencode is the adapter of the opencode CLI, started as `opencode run`: the prompt goes to standard input, and the
// events come from standard output.
type opencode struct{}

func (opencode) Name() string                { return "opencode" }
func (opencode) Matches(program string) bool { return program == "opencode" }

const opencodeSessions = "-s --session -c --continue"

var (
	// opencodeValued are the flags that take the next word as their value.
	opencodeValued = strings.Fields(`--log-level --command -s --session -m --model --agent --format -f --file --title
		--attach -p --password -u --username --dir --port --variant --prompt`)
	// opencodeVariants are the variants for each of thinkingLevels. A model ignores a variant that it does not know, so
	// the last one is not "max".
	opencodeVariants = [...]string{"none", "minimal", "low", "medium", "high", "high"}
)

// Command puts the flag for the event stream right after the word run. It gives a new session a title, because
// otherwise the CLI asks a model for a title in every run. While the CLI waits for a provider, it prints no event for
// up to hours. So Command switches on the log on standard error. At the level of errors it tells of failed attempts and
// says why a model was not found. Only at the level INFO does it tell when the next attempt begins.
func (o opencode) Command(req Request, environ []string) (Command, error) {
	if err := req.check(); err != nil {
		return Command{}, err
	}
	if req.Asked != "" {
		return o.asking(req, environ)
	}
	req = withRun(req)
	b := flagsFor(req)
	b.add("--format", "--format=json")
	b.model()
	if level := thinkingLevel(req.Thinking); level >= 0 {
		variant := opencodeVariants[level]
		if req.Thinking == "max" && (strings.Contains(req.Model, "claude") || strings.Contains(req.Model, "gemini-2")) {
			variant = "max"
		}
		b.add("--variant", "--variant="+variant)
	}
	b.session(opencodeSessions, "--session=", "")
	if req.Resume == nil {
		b.add(opencodeSessions+" --title", fmt.Sprintf("--title=superloop %s %s %d", req.Loop, req.Role, req.Iteration))
	}
	if req.Permissions == PermitWorkspace || req.Permissions == PermitAll {
		b.add("--auto --yolo --dangerously-skip-permissions", "--auto")
	}
	env := defaults(passed(req, environ), map[string]string{
		"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
		"OPENCODE_PRINT_LOGS": "1", "OPENCODE_LOG_LEVEL": "INFO",
	})
	permissions, err := opencodePermissions(req, environ)
	if err != nil {
		return Command{}, err
	}
	maps.Copy(env, permissions)
	if content, ok := permissions[opencodeContentVariable]; ok && req.CLI.Env[opencodeContentVariable] != "" {
		// The runner's own value would take precedence. content already includes it.
		b.CLI.Env = maps.Clone(req.CLI.Env)
		b.CLI.Env[opencodeContentVariable] = content
	}
	return b.command(environ, env)
}

// withRun returns the request with the word run at the end of the command, so that flags follow it. Before the word run
// the CLI knows few flags, and without it the CLI opens its screen. A wrapper that adds the word run itself needs the
// generic adapter.
func withRun(req Request) Request {
	words, run := slices.Concat(req.CLI.Command, req.args()), 1
	for i, word := range req.CLI.Command {
		if strings.HasPrefix(filepath.Base(word), "opencode") {
			run = i + 1
		}
	}
	for run < len(words) && (words[run] != "run" || slices.Contains(opencodeValued, words[run-1])) {
		run++
	}
	if run == len(words) {
		run = len(req.CLI.Command)
		words = slices.Insert(words, run, "run")
	}
	req.CLI.Command, req.CLI.Args, req.CLI.FastArgs = slices.Clone(words[:run+1]), words[run+1:], nil
	return req
}

// rule is a permission in opencode's settings: allow, deny or ask by pattern. The last pattern that matches counts.
// Marshalling sorts the patterns, so "*" comes first.
type rule = map[string]string

// opencodePermissions returns the environment variables that limit a role to its permissions. Unlike other CLIs,
// opencode allows everything by default, and what a repository's own opencode.json grants to a named agent takes
// precedence over OPENCODE_PERMISSION. So an agent that may write that file could lift the limits of the next one. For
// PermitRead the limits therefore also name the agent, in the settings that the CLI reads last, and forbid handing work
// to other agents. A role with PermitWorkspace may reach directories outside the workspace only if it has to leave its
// files there.
func opencodePermissions(req Request, environ []string) (map[string]string, error) {
	outer := rule{"*": "deny"}
	for _, dir := range outside(req) {
		outer[strings.TrimSuffix(dir, "/")+"/*"] = "allow"
	}
	_, own := req.CLI.Env["OPENCODE_PERMISSION"]
	switch {
	case req.Permissions == PermitWorkspace:
		return map[string]string{"OPENCODE_PERMISSION": marshalled(map[string]any{"external_directory": outer})}, nil
	case req.Permissions != PermitRead || own:
		return nil, nil
	}
	allowed := map[string]any{
		"*": "deny", "edit": "deny", "bash": "deny", "task": "deny", "external_directory": outer,
		"read":    rule{"*": "allow", "*.env": "deny", "*.env.*": "deny", "*.env.example": "allow"},
		"invalid": "allow", // the tool "invalid" answers a call of a tool that does not exist
	}
	for name := range strings.FieldsSeq("glob grep list lsp skill todowrite todoread webfetch websearch codesearch") {
		allowed[name] = "allow"
	}
	name, _ := flagValue(req.words(), "--agent")
	content, err := opencodeContent(req, environ, name, "", nil, map[string]any{"permission": allowed})
	return map[string]string{"OPENCODE_PERMISSION": marshalled(allowed), opencodeContentVariable: content}, err
}

// opencodeContentVariable names the variable whose settings the CLI reads after all files.
const opencodeContentVariable = "OPENCODE_CONFIG_CONTENT"

// opencodeContent adds settings, those of all and those of the agent that will run, to the settings that given or else the
// environment already has. A setting of the agent without a value says nothing.
func opencodeContent(req Request, environ []string, agent, given string, all, of map[string]any) (string, error) {
	settings := map[string]any{}
	given = cmp.Or(given, req.CLI.Env[opencodeContentVariable], valueIn(passed(req, environ), opencodeContentVariable))
	if given != "" {
		if err := text.Decode([]byte(given), &settings); err != nil {
			return "", fmt.Errorf("adding the permissions of the %s to %s, which must be JSON without comments: %w", req.Role, opencodeContentVariable, err)
		}
	}
	if agent == "" {
		agent = "build"
	}
	settings["default_agent"] = agent
	maps.Copy(settings, all)
	for name, value := range of {
		switch v := value.(type) {
		case string:
			if v != "" {
				object(object(settings, "agent"), agent)[name] = v
			}
		case map[string]any:
			if len(v) > 0 {
				object(object(settings, "agent"), agent)[name] = v
			}
		}
	}
	return marshalled(settings), nil
}

// object returns the object at a key. It replaces any other value there by an empty object.
func object(in map[string]any, key string) map[string]any {
	o, ok := in[key].(map[string]any)
	if !ok {
		o = map[string]any{}
		in[key] = o
	}
	return o
}

// marshalled returns v as JSON with sorted keys. v holds only values that can be encoded.
func marshalled(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(text)
}

func (opencode) Profile() Profile {
	return Profile{
		Keys:  opencodeKeys(),
		Login: "opencode auth login",
		Help: func(args []string) []string {
			if len(args) > 0 && !strings.HasPrefix(args[0], "-") && args[0] != "run" {
				return args[:1]
			}
			return []string{"run"}
		},
		Hidden:     []string{"--yolo", "--dangerously-skip-permissions"},
		Credential: opencodeCredential,
	}
}

// opencodeKeys returns the variables in which the provider catalogue of opencode 1.18 looks for a credential. Variables
// that other programs need too, such as GITHUB_TOKEN and the keys of clouds, are left out. (OPENCODE_AUTH_CONTENT holds
// the content of opencode's login file.)
func opencodeKeys() []string { return strings.Fields(opencodeKeysText) }

//go:embed opencode_keys.txt
var opencodeKeysText string

// opencodeProviders are the key variables of the providers whose variable is not NAME_API_KEY.
var opencodeProviders = map[string][]string{
	"google": {"GOOGLE_GENERATIVE_AI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY"}, "zai": {"ZHIPU_API_KEY"},
	"moonshotai": {"MOONSHOT_API_KEY"}, "amazon-bedrock": {"AWS_BEARER_TOKEN_BEDROCK", "AWS_ACCESS_KEY_ID"},
}

// opencodeCredential looks for a login with any provider. The settings may hold keys too, so it never returns LoginNo.
// The account is that of the provider in the model's name. The CLI prefers its own logins, which a file or a variable
// holds by provider, to keys in the environment.
func opencodeCredential(req Request, env []string) (Login, Account) {
	data := filepath.Join(homeIn(env, "XDG_DATA_HOME", filepath.Join(".local", "share")), "opencode")
	var logins map[string]json.RawMessage
	file, where := filepath.Join(data, "auth.json"), "OPENCODE_AUTH_CONTENT"
	if text := valueIn(env, where); text == "" || json.Unmarshal([]byte(text), &logins) != nil {
		logins, where = nil, file
		if !readJSON(file, &logins) {
			logins = nil
		}
	}
	key, _ := firstIn(env, opencodeKeys()...)
	login := decide([]loginRule{
		{len(logins) > 0, LoginYes, where},
		{key != "", LoginYes, key},
		{true, LoginUnknown, "neither " + file + " nor the environment has a login; the settings of a provider may"},
	})
	model := req.Model
	if own, ok := flagValue(req.words(), "-m", "--model"); ok {
		model = strings.ReplaceAll(own, "{model}", req.Model)
	}
	provider, _, ok := strings.Cut(strings.ToLower(model), "/")
	if !ok || provider == "" {
		return login, Account{"opencode", accountHere(data)}
	}
	names := opencodeProviders[provider]
	if names == nil {
		names = []string{strings.ToUpper(strings.ReplaceAll(provider, "-", "_")) + "_API_KEY"}
	}
	_, secret := firstIn(env, names...)
	account := Account{provider, accountHere(provider, data)}
	if own := logins[provider]; own != nil {
		account.ID, secret = accountHere(provider, where), "" // the tokens of a login change daily, but the file stays
		var kept struct{ Type, Key, AccountID string }
		if json.Unmarshal(own, &kept) == nil {
			if secret = kept.Key; secret == "" && kept.AccountID != "" {
				account.ID = AccountID("account", kept.AccountID)
			}
		}
	}
	if secret != "" { // the same id as in the adapter of the provider's own CLI, because both use one quota
		account.ID = AccountID("", secret)
	}
	return login, account
}
