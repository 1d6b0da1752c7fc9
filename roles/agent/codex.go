package agent

import (
	"cmp"
	"path/filepath"
	"slices"
	"strings"

	"github.com/superloop/superloop/internal/manifest"
)

// codex is the adapter of the Codex CLI in headless mode: `codex exec` with its stream of JSON lines on standard
// output. If the CLI is to ask about its tools, it is `codex app-server`.
type codex struct{}

func (codex) Name() string                { return "codex" }
func (codex) Matches(program string) bool { return program == "codex" }

// codexOther are the subcommands besides exec. codexTurns are subcommands that may also follow exec. superloop does not
// change a command that has one of codexOther.
var (
	codexOther = strings.Fields(`agents review login logout mcp mcp-server plugin app-server remote-control completion update doctor sandbox
		debug apply a resume queue archive delete unarchive fork cloud exec-server features help proto`)
	codexTurns = []string{"resume", "fork", "review", "help"}
	// codexPermits and codexPermitKeys are the permission flags and settings. If the owner has set one of them,
	// Request.Permissions adds nothing.
	codexPermits    = "--sandbox -s --full-auto --dangerously-bypass-approvals-and-sandbox --yolo --approve-for-me"
	codexPermitKeys = []string{"sandbox_mode", "sandbox_permissions", "permission_profile", "default_permissions", "permissions"}
	codexEfforts    = [...]string{"none", "minimal", "low", "medium", "high", "xhigh"} // for each of thinkingLevels
)

// codexLine is the owner's command line, split up. superloop's flags go after before, a session to resume after args.
type codexLine struct {
	before, args []string
	prompt       []string // the words that are the prompt or placeholders for it
	own          bool     // the command names another subcommand, or the owner's own session
	noExec       bool     // the command is no exec at all
}

func (codex) line(req Request) codexLine {
	words := append([]string{""}, req.words()...)
	if len(req.CLI.Command) > 0 {
		words[0] = req.CLI.Command[0]
	}
	at := slices.IndexFunc(words[1:], func(w string) bool { return w == "exec" || w == "e" }) + 1
	if at == 0 {
		if containsAny(words[1:], codexOther) {
			return codexLine{before: words, own: true, noExec: true}
		}
		at = len(req.CLI.Command)
		words = slices.Insert(words, at, "exec")
	}
	line := codexLine{before: words[:at+1], own: containsAny(words[at+1:], codexTurns)}
	for _, w := range words[at+1:] {
		if !line.own && (w == "-" || !strings.HasPrefix(w, "-") && (holdsPrompt(w) || strings.Contains(w, "{prompt_file}"))) {
			line.prompt = append(line.prompt, w)
		} else {
			line.args = append(line.args, w)
		}
	}
	return line
}

func containsAny(words, of []string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return slices.Contains(of, w) })
}

func (c codex) Command(req Request, environ []string) (Command, error) {
	line := c.line(req)
	if req.Asked != "" && len(req.CLI.Command) > 0 {
		return c.asking(req, environ)
	}
	if len(req.CLI.Command) == 0 || line.noExec {
		return assemble(req, environ, nil, nil)
	}
	b := flagsFor(req)
	b.add("--json --experimental-json", "--json")
	if level := thinkingLevel(req.Thinking); level >= 0 && !codexSets(b.words, "model_reasoning_effort") {
		b.flags = append(b.flags, "-c", `model_reasoning_effort="`+codexEfforts[level]+`"`)
	}
	b.model()
	if !codexSets(b.words, codexPermitKeys...) {
		b.permit(codexPermits, map[string][]string{
			PermitRead: {"--sandbox=read-only"}, PermitWorkspace: {"--sandbox=workspace-write"}, PermitAll: {"--sandbox=danger-full-access"},
		})
	}
	args := line.args
	switch {
	case line.own:
	case req.Resume == nil:
		args = append(args, line.prompt...)
	default:
		b.err = checkSession(req.Resume.ID)
		// "codex exec resume" accepts few of the flags of exec, so all flags come before the word resume.
		args = append(slices.DeleteFunc(args, func(w string) bool { return w == "--" }), "resume", req.Resume.ID)
		args = append(args, line.prompt...)
		if len(line.prompt) == 0 && req.CLI.stdin() {
			args = append(args, "-")
		}
	}
	b.CLI.Command, b.CLI.Args, b.CLI.FastArgs = line.before, args, nil
	return b.command(environ, defaults(passed(req, environ), map[string]string{"RUST_LOG": codexLog}))
}

// codexLog is the filter of the CLI's log on standard error: its own default, and the lines about retries. Before the CLI
// sleeps as long as a provider asks, up to hours, only such a line says for how long.
const codexLog = "error,codex_core::responses_retry=warn"

// codexSets reports whether the owner sets one of the keys by -c key=value.
func codexSets(words []string, keys ...string) bool {
	return slices.ContainsFunc(flagValues(words, "-c", "--config"), func(set string) bool {
		key, _, _ := strings.Cut(set, "=")
		return slices.Contains(keys, strings.TrimSpace(key))
	})
}

func (codex) Profile() Profile {
	return Profile{
		Keys:   []string{"OPENAI_API_KEY", "CODEX_API_KEY", "CODEX_ACCESS_TOKEN", "AWS_BEARER_TOKEN_BEDROCK"},
		Login:  "codex login",
		Help:   codexHelp,
		Hidden: []string{"--yolo", "--experimental-json"}, // flags of release 0.169.0
		Replaced: map[string]string{
			"--full-auto": "--sandbox=workspace-write", "-a": `-c approval_policy="never"`, "--ask-for-approval": `-c approval_policy="never"`,
			"--search": `-c web_search="live"`, "--reasoning-effort": `-c model_reasoning_effort="high"`,
			"--approval-mode": "--sandbox=workspace-write", "-q": "exec", "--quiet": "exec",
		},
		Credential: codexCredential,
	}
}

// codexHelp returns the subcommands of a command line, because each level of subcommands has flags of its own.
func codexHelp(args []string) []string {
	at := slices.IndexFunc(args, func(w string) bool { return w == "exec" || w == "e" })
	if at < 0 {
		return nil
	}
	for _, w := range args[at+1:] {
		if w == "--" {
			break
		}
		if w == "resume" || w == "fork" || w == "review" {
			return []string{"exec", w}
		}
	}
	return []string{"exec"}
}

func codexHome(env []string) string { return homeIn(env, "CODEX_HOME", ".codex") }

// codexCredential looks for the CLI's credential. The settings say which provider the CLI uses and which variable holds
// its key. Otherwise the CLI uses CODEX_API_KEY or its own login.
func codexCredential(_ Request, env []string) (Login, Account) {
	settings := map[string]string{}                                                      // values by dotted path
	list, _ := manifest.TOML(readSettings(filepath.Join(codexHome(env), "config.toml"))) // like the CLI, use nothing of a broken file
	for _, s := range list {
		settings[s.Path] = s.Plain()
	}
	name, url, variable, own := cmp.Or(settings["model_provider"], "openai"), settings["openai_base_url"], "", true
	if name != "openai" {
		table := "model_providers." + name + "."
		url, variable, own = settings[table+"base_url"], settings[table+"env_key"], settings[table+"requires_openai_auth"] == "true"
	}
	type login struct {
		Key    string `json:"OPENAI_API_KEY"`
		Tokens struct {
			Access  string `json:"access_token"`
			Refresh string `json:"refresh_token"`
			Account string `json:"account_id"`
		} `json:"tokens"`
	}
	var kept login
	path := filepath.Join(codexHome(env), "auth.json")
	if !readJSON(path, &kept) {
		kept = login{}
	}
	account := Account{"gateway", accountHere(url, codexHome(env), name)}
	if url == "" && name == "openai" || hostIn(url, ".openai.com") {
		account.Provider = "openai"
	}
	// The tokens of a login change, but the account does not.
	if id := cmp.Or(valueIn(env, "CODEX_API_KEY"), kept.Tokens.Account, kept.Key); variable != "" {
		account.ID = AccountID(url, valueIn(env, variable))
	} else if id != "" {
		account.ID = AccountID(url, id)
	}
	other, _ := firstIn(env, "OPENAI_API_KEY", "CODEX_ACCESS_TOKEN")
	store := settings["cli_auth_credentials_store"]
	return decide([]loginRule{
		{variable != "" && valueIn(env, variable) != "", LoginYes, variable},
		{variable != "", LoginNo, "the provider " + name + " takes its key from " + variable + ", which is not set"},
		{!own, LoginUnknown, "the provider " + name + " names no key"},
		{valueIn(env, "CODEX_API_KEY") != "", LoginYes, "CODEX_API_KEY"},
		{kept.Key != "" || kept.Tokens.Access+kept.Tokens.Refresh != "", LoginYes, path},
		{other != "", LoginUnknown, other + " is set, which not every release takes for itself; CODEX_API_KEY or a login is"},
		{store != "" && store != "file", LoginUnknown, "a login may be in the system's keychain"},
		{true, LoginNo, "CODEX_API_KEY is not set, and there is no login in " + path},
	}), account
}
