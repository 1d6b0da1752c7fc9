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
)

// opencode is the CLI of that name, as `opencode run`: its prompt on standard input, its events on standard output.
type opencode struct{}

func (opencode) Name() string                { return "opencode" }
func (opencode) Matches(program string) bool { return program == "opencode" }

const opencodeSessions = "-s --session -c --continue"

var (
	// opencodeValued are the flags to which the next word belongs.
	opencodeValued = strings.Fields(`--log-level --command -s --session -m --model --agent --format -f --file --title
		--attach -p --password -u --username --dir --port --variant --prompt`)
	// opencodeVariants are by thinkingLevels. A model ignores a word that it does not know, so "max" is not the last.
	opencodeVariants = [...]string{"none", "minimal", "low", "medium", "high", "high"}
)

// Command puts the event stream right after the word run. A new session gets a title, since without one the CLI asks a
// model for it in every run. While it waits for a provider the CLI is silent for up to hours; its log on standard error
// tells of failed attempts, and why a model was not found.
func (o opencode) Command(req Request, environ []string) (Command, error) {
	if err := req.check(); err != nil {
		return Command{}, err
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
		"OPENCODE_PRINT_LOGS": "1", "OPENCODE_LOG_LEVEL": "ERROR",
	})
	permissions, err := opencodePermissions(req, environ)
	if err != nil {
		return Command{}, err
	}
	maps.Copy(env, permissions)
	if content, ok := permissions[opencodeContentVariable]; ok && req.CLI.Env[opencodeContentVariable] != "" {
		// The runner's own would win; it is part of this one.
		b.CLI.Env = maps.Clone(req.CLI.Env)
		b.CLI.Env[opencodeContentVariable] = content
	}
	return b.command(environ, env)
}

// withRun gives the request in the form in which flags can follow the word run: Command ends with it. Before that word
// the CLI knows few flags, and without it it opens a window. A wrapper that says run itself needs the generic adapter.
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

// rule is what opencode's settings say of a permission: allow, deny or ask by pattern, of which the last that matches
// counts. Marshalled, patterns are sorted, and "*" is first.
type rule = map[string]string

// opencodePermissions gives the variables that hold a role to what it may do. Unlike other CLIs opencode allows
// everything by itself, and what a repository's own opencode.json grants to an agent by name beats OPENCODE_PERMISSION.
// An agent that may write that file could so free the next one: for read-only the agent is named as well, in the
// settings that are read last, and may not hand work to others. A role with the workspace asks (and --auto answers) for
// nothing outside of it but the directories where it has to leave its files.
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
		"invalid": "allow", // answers a call of a tool that is not there
	}
	for name := range strings.FieldsSeq("glob grep list lsp skill todowrite todoread webfetch websearch codesearch") {
		allowed[name] = "allow"
	}
	content, err := opencodeContent(req, environ, allowed)
	return map[string]string{"OPENCODE_PERMISSION": marshalled(allowed), opencodeContentVariable: content}, err
}

// opencodeContentVariable holds settings that are read after all files.
const opencodeContentVariable = "OPENCODE_CONFIG_CONTENT"

// opencodeContent adds the permissions of the agent that will run to the settings that the environment has already.
func opencodeContent(req Request, environ []string, allowed map[string]any) (string, error) {
	settings := map[string]any{}
	text := cmp.Or(req.CLI.Env[opencodeContentVariable], valueIn(passed(req, environ), opencodeContentVariable))
	if text != "" {
		if err := json.Unmarshal([]byte(text), &settings); err != nil {
			return "", fmt.Errorf("adding the permissions of the %s to %s, which must be JSON without comments: %w", req.Role, opencodeContentVariable, err)
		}
	}
	name, _ := flagValue(req.words(), "--agent")
	if name == "" {
		name = "build"
		settings["default_agent"] = name
	}
	object(object(settings, "agent"), name)["permission"] = allowed
	return marshalled(settings), nil
}

// object is the object at a key; anything else there is replaced by one.
func object(in map[string]any, key string) map[string]any {
	o, ok := in[key].(map[string]any)
	if !ok {
		o = map[string]any{}
		in[key] = o
	}
	return o
}

// marshalled: keys are sorted, and what came from JSON always goes back.
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

// opencodeKeys are the variables in which opencode 1.18's catalogue of providers looks for a credential, but for those
// that other programs need too, such as GITHUB_TOKEN and the keys of clouds. (OPENCODE_AUTH_CONTENT is its file of
// logins, as a variable.)
func opencodeKeys() []string { return strings.Fields(opencodeKeysText) }

//go:embed opencode_keys.txt
var opencodeKeysText string

// opencodeProviders are the variables of the providers whose key is not in NAME_API_KEY.
var opencodeProviders = map[string][]string{
	"google": {"GOOGLE_GENERATIVE_AI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY"}, "zai": {"ZHIPU_API_KEY"},
	"moonshotai": {"MOONSHOT_API_KEY"}, "amazon-bedrock": {"AWS_BEARER_TOKEN_BEDROCK", "AWS_ACCESS_KEY_ID"},
}

// opencodeCredential looks for any login; settings may hold keys too, so there is never a plain no. The account goes by
// the provider in the model's name. The CLI prefers its logins, by provider in a file or a variable, to the environment.
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
		return login, Account{"opencode", AccountID(data)}
	}
	names := opencodeProviders[provider]
	if names == nil {
		names = []string{strings.ToUpper(strings.ReplaceAll(provider, "-", "_")) + "_API_KEY"}
	}
	_, secret := firstIn(env, names...)
	account := Account{provider, AccountID(provider, data)}
	if own := logins[provider]; own != nil {
		account.ID, secret = AccountID(provider, where), "" // a login's tokens change from day to day; the file stays
		var kept struct{ Type, Key, AccountID string }
		if json.Unmarshal(own, &kept) == nil {
			if secret = kept.Key; secret == "" && kept.AccountID != "" {
				account.ID = AccountID("account", kept.AccountID)
			}
		}
	}
	if secret != "" { // named as the provider's own CLI would, since both draw on one quota
		account.ID = AccountID("", secret)
	}
	return login, account
}
