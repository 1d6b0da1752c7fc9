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
	codexOther = []string{
		"agents", "review", "login", "logout", "mcp", "mcp-server", "plugin", "app-server", "remote-control", "completion", "update",
		"doctor", "sandbox", "debug", "apply", "a", "resume", "queue", "archive", "delete", "unarchive", "fork", "cloud", "exec-server",
		"features", "help", "proto",
	}
	codexTurns = []string{"resume", "fork", "review", "help"}
	// codexPermits are the owner's own flags on permissions, codexPermitKeys the
	// settings; any of them, and Request.Permissions adds none.
	codexPermits    = []string{"--sandbox", "-s", "--full-auto", "--dangerously-bypass-approvals-and-sandbox", "--yolo", "--approve-for-me"}
	codexPermitKeys = []string{"sandbox_mode", "sandbox_permissions", "permission_profile", "default_permissions", "permissions"}
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
		at = len(req.CLI.Command) - 1
		if slices.ContainsFunc(words[1:], func(w string) bool { return slices.Contains(codexOther, w) }) {
			return codexLine{before: words, own: true, foreign: true}
		}
		words = slices.Insert(words, at+1, "exec")
		at++
	}
	line := codexLine{before: words[:at+1]}
	line.own = slices.ContainsFunc(words[at+1:], func(w string) bool { return slices.Contains(codexTurns, w) })
	for _, w := range words[at+1:] {
		if !line.own && (w == "-" || !strings.HasPrefix(w, "-") && (holdsPrompt(w) || strings.Contains(w, "{prompt_file}"))) {
			line.prompt = append(line.prompt, w)
			continue
		}
		line.args = append(line.args, w)
	}
	return line
}

func (c codex) Command(req Request, environ []string) (Command, error) {
	if len(req.CLI.Command) == 0 {
		return assemble(req, environ, nil, nil)
	}
	line := c.line(req)
	if line.foreign {
		return assemble(req, environ, nil, nil)
	}
	words := req.words()
	var flags []string
	if !hasFlag(words, "--json", "--experimental-json") {
		flags = append(flags, "--json")
	}
	if level := thinkingLevel(req.Thinking); level >= 0 && !codexSets(words, "model_reasoning_effort") {
		effort := [...]string{"none", "minimal", "low", "medium", "high", "xhigh"}[level]
		flags = append(flags, "-c", `model_reasoning_effort="`+effort+`"`)
	}
	flags = append(flags, modelFlag(req)...)
	flags = append(flags, c.permissions(req, words)...)
	args := line.args
	switch {
	case line.own:
	case req.Resume == nil:
		args = append(args, line.prompt...)
	default:
		if err := checkSession(req.Resume.ID); err != nil {
			return Command{}, err
		}
		// What exec takes, resume mostly does not; before it all is taken.
		args = append(slices.DeleteFunc(args, func(w string) bool { return w == "--" }), "resume", req.Resume.ID)
		args = append(args, line.prompt...)
		if len(line.prompt) == 0 && (req.CLI.PromptMode == "" || req.CLI.PromptMode == PromptStdin) {
			args = append(args, "-")
		}
	}
	req.CLI.Command, req.CLI.Args, req.CLI.FastArgs = line.before, args, nil
	return assemble(req, environ, flags, nil)
}

// permissions keep the loop's own directory writable where the agent runs in a
// worktree that does not hold it: there it leaves what its role has to write.
func (codex) permissions(req Request, words []string) []string {
	if hasFlag(words, codexPermits...) || codexSets(words, codexPermitKeys...) {
		return nil
	}
	switch req.Permissions {
	case PermitRead:
		return []string{"--sandbox=read-only"}
	case PermitWorkspace:
		flags := []string{"--sandbox=workspace-write"}
		if !inside(req.LoopDir, req.WorkDir) {
			flags = append(flags, "--add-dir="+req.LoopDir)
		}
		return flags
	case PermitAll:
		return []string{"--sandbox=danger-full-access"}
	}
	return nil
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

// resumes reports whether the thread may have had runs before this one.
func (c codex) resumes(req Request) bool { return req.Resume != nil || c.line(req).own }
