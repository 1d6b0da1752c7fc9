package agent

import (
	"slices"
	"strings"
)

// codex is the Codex CLI. It runs headless, as `codex exec`, with its stream of
// JSON lines on standard output.
type codex struct{}

func (codex) Name() string                { return "codex" }
func (codex) Matches(program string) bool { return program == "codex" }

// codexOther are the subcommands besides exec: a command that uses one is taken
// as it is. Those that stand after exec too are codexTurns.
var (
	codexOther = strings.Fields(`agents review login logout mcp mcp-server plugin app-server remote-control completion update doctor sandbox
		debug apply a resume queue archive delete unarchive fork cloud exec-server features help proto`)
	codexTurns = []string{"resume", "fork", "review", "help"}
	// codexPermits are the owner's own flags on permissions, codexPermitKeys the
	// settings; any of them, and Request.Permissions adds none.
	codexPermits    = "--sandbox -s --full-auto --dangerously-bypass-approvals-and-sandbox --yolo --approve-for-me"
	codexPermitKeys = []string{"sandbox_mode", "sandbox_permissions", "permission_profile", "default_permissions", "permissions"}
	codexEfforts    = [...]string{"none", "minimal", "low", "medium", "high", "xhigh"} // by thinkingLevels
)

// codexLine is the owner's command line, parted: our flags go behind before,
// where they are exec's, and a session to resume goes behind args.
type codexLine struct {
	before, args []string
	prompt       []string // the words that are the prompt, or stand for it
	own          bool     // another subcommand, or a session of the owner's choice
	foreign      bool     // no exec at all
}

func (codex) line(req Request) codexLine {
	words := append([]string{""}, req.words()...)
	if len(req.CLI.Command) > 0 {
		words[0] = req.CLI.Command[0]
	}
	at := slices.IndexFunc(words[1:], func(w string) bool { return w == "exec" || w == "e" }) + 1
	if at == 0 {
		if containsAny(words[1:], codexOther) {
			return codexLine{before: words, own: true, foreign: true}
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
	if len(req.CLI.Command) == 0 || line.foreign {
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
		// What exec takes, resume mostly does not; before it all is taken.
		args = append(slices.DeleteFunc(args, func(w string) bool { return w == "--" }), "resume", req.Resume.ID)
		args = append(args, line.prompt...)
		if len(line.prompt) == 0 && req.CLI.stdin() {
			args = append(args, "-")
		}
	}
	b.CLI.Command, b.CLI.Args, b.CLI.FastArgs = line.before, args, nil
	return b.command(environ, nil)
}

// codexSets reports whether the owner sets one of the keys by -c key=value.
func codexSets(words []string, keys ...string) bool {
	for i, w := range words {
		value, ok := flagValue(words[i:i+1], "-c", "--config")
		if ok && value == "" && i+1 < len(words) {
			value = words[i+1]
		}
		key, _, _ := strings.Cut(value, "=")
		if ok && slices.Contains(keys, strings.TrimSpace(key)) {
			return true
		}
		if w == "--" {
			break
		}
	}
	return false
}
