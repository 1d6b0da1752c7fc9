package preflight

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/superloop/superloop/internal/door"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/roles/agent"
)

// traps looks for settings with which a run fails at once or does nothing, although every flag is valid. All of these
// have occurred in practice.
func (e *Examiner) traps(ctx context.Context, l line, words []word, s *subject, r Request, rep *Report) {
	t := trap{l, s, words, rep}
	t.reached()
	switch s.adapter.Name() {
	case "claude":
		t.claude(r.Root)
	case "codex":
		t.codex(r.WorkDir)
		e.sandbox(ctx, t)
	case "gemini":
		t.permitted([]string{"--approval-mode", "-y", "--yolo", "--allowed-tools", "--policy"}, "--approval-mode=auto_edit",
			[]string{filepath.Join(cmp.Or(t.env("GEMINI_CLI_HOME"), t.env("HOME")), ".gemini", "settings.json"), r.WorkDir + "/.gemini/settings.json"}, "allowed", "coreTools", "pprovalMode")
	case "opencode":
		t.subcommand("run")
	case "pi":
		t.joined()
	}
}

type trap struct {
	line
	*subject
	words []word
	rep   *Report
}

func (t trap) add(s Severity, flag, fix, message string) { t.rep.add(s, t.pointer(flag), fix, message) }

// env returns the value of a variable in the agent's environment, in which each variable occurs once.
func (l line) env(name string) string {
	i := slices.IndexFunc(l.Env, func(v string) bool { return strings.HasPrefix(v, name+"=") })
	if i < 0 {
		return ""
	}
	return l.Env[i][len(name)+1:]
}

// reached checks whether the CLI gets the prompt as a prompt.
func (t trap) reached() {
	if t.cli.PromptMode != agent.PromptFile {
		return
	}
	at := t.at + ".prompt_mode"
	holds := func(s string) bool { return strings.Contains(s, t.promptFile) }
	if !slices.ContainsFunc(t.Argv, holds) && !slices.ContainsFunc(t.Env, holds) {
		t.rep.add(Error, at, `write "prompt_mode": "stdin", or {prompt_file} where the program expects the path`,
			"prompt_mode is file, but nothing holds {prompt_file}: the agent never learns its prompt")
	}
	if t.unchecked == "" && slices.ContainsFunc(free(t.words), func(w word) bool { return w.text == t.promptFile }) {
		t.rep.add(Warn, at, `write "prompt_mode": "stdin", and take {prompt_file} out`,
			t.adapter.Name()+" takes the path of the prompt for the prompt itself, and does not read the file")
	}
}

// subcommand checks that the command has one of the subcommands without which the CLI opens its screen.
func (t trap) subcommand(names ...string) {
	if slices.ContainsFunc(t.words, func(w word) bool { return slices.Contains(names, w.text) }) {
		return
	}
	t.rep.add(t.severity, t.at+".command", `write "command": ["`+t.Argv[0]+`", "`+names[0]+`"]`,
		t.adapter.Name()+" without "+names[0]+" wants a terminal to open its screen in")
}

// joined finds values in the same word as their flag, which pi takes for a flag of an extension's, and so for none.
func (t trap) joined() {
	for _, w := range t.words {
		if flag, value, ok := strings.Cut(w.text, "="); ok && w.flag == flag && w.known && w.taker < 0 {
			t.add(t.severity, flag, "write "+flag+" and "+value+" as two words", "pi takes no notice of "+w.text)
		}
	}
}

func (t trap) claude(root bool) {
	flag := ""
	if valueOf(t.words, "--permission-mode") == "bypassPermissions" {
		flag = "--permission-mode"
	}
	if has(t.words, "--dangerously-skip-permissions") {
		flag = "--dangerously-skip-permissions"
	}
	if flag != "" && root && t.env("IS_SANDBOX") != "1" {
		t.add(t.severity, flag, `run superloop as another user; or, if this machine is a sandbox that may be lost, write "env": {"IS_SANDBOX": "1"} in `+t.at,
			"claude refuses to run without permission checks as root")
	}
	t.permitted([]string{"--permission-mode", "--dangerously-skip-permissions", "--allowedTools", "--allowed-tools", "--tools",
		"--permission-prompt-tool", "--settings"}, "--permission-mode=acceptEdits",
		[]string{t.configDir("CLAUDE_CONFIG_DIR", ".claude") + "/settings.json", t.Dir + "/.claude/settings.json", t.Dir + "/.claude/settings.local.json"},
		`"permissions"`)
}

func (t trap) codex(dir string) {
	t.subcommand(codexVerbs...)
	bypass := has(t.words, "--dangerously-bypass-approvals-and-sandbox", "--yolo")
	if !has(t.words, "--skip-git-repo-check") && !bypass && !inGit(dir) {
		t.rep.add(t.severity, t.at+".args", `git init, or add "--skip-git-repo-check" to the args`, "codex refuses to work outside a git repository, and "+dir+" is in none")
	}
	stdin := t.cli.PromptMode == "" || t.cli.PromptMode == agent.PromptStdin
	if t.unchecked == "" {
		for i, w := range free(t.words) {
			session := i == 0 && slices.ContainsFunc(t.words, func(w word) bool { return w.sub && w.text == "resume" })
			switch {
			case w.text == t.prompt && t.prompt != "", session && w.text != "-", slices.Contains(codexVerbs, w.text):
			case w.text == "-" && !stdin:
				t.add(t.severity, "-", `write "prompt_mode": "stdin", or take "-" out`,
					`"-" makes codex read its prompt from standard input, which is empty with prompt_mode `+t.cli.PromptMode)
			case w.text != "-" && stdin && w.level > 0:
				t.add(Warn, w.text, `write "-" in its place, or nothing`,
					`codex takes "`+text.Line(w.text, 40)+`" for its prompt, and what superloop asks only for an appendix to it`)
			}
		}
	}
	if has(t.words, "--approve-for-me", "--profile", "-p") || t.setting("sandbox_mode") != "" || t.setting("default_permissions") != "" {
		return
	}
	t.permitted([]string{"-s", "--sandbox", "--full-auto", "--dangerously-bypass-approvals-and-sandbox", "--yolo"}, "--sandbox=workspace-write",
		[]string{t.configDir("CODEX_HOME", ".codex") + "/config.toml"}, "sandbox_mode", "default_permissions", "trust_level")
}

// codexVerbs are the subcommands of codex that need no terminal.
var codexVerbs = []string{"exec", "e", "review"}

// setting returns the value that -c gives to a key of codex's configuration; "" if there is none.
func (t trap) setting(key string) string {
	found := ""
	for _, w := range t.words {
		if w.flag != "-c" && w.flag != "--config" {
			continue
		}
		if name, value, ok := strings.Cut(w.value, "="); ok && strings.TrimSpace(name) == key {
			found = strings.Trim(value, ` "'`)
		}
	}
	return found
}

// sandbox lets codex run "true" in its sandbox, unless the command line switches the sandbox off. Where the system does
// not allow a sandbox (no user namespaces, no Landlock), each command of the agent fails, and codex still ends with
// exit code 0.
func (e *Examiner) sandbox(ctx context.Context, t trap) {
	mode := cmp.Or(valueOf(t.words, "-s", "--sandbox"), t.setting("sandbox_mode"))
	if t.unchecked != "" || mode == "danger-full-access" || has(t.words, "--dangerously-bypass-approvals-and-sandbox", "--yolo") {
		return
	}
	said := e.ask(ctx, t.subject, t.line, false, "sandbox", "--", "true")
	// Exit code 2 is a usage error: other releases of codex have another subcommand for the sandbox.
	if c := said.code(); c <= 0 || c == 2 || ctx.Err() != nil {
		return
	}
	t.rep.add(t.severity, "", "allow user namespaces on this machine (docker: --security-opt seccomp=unconfined); or, if the machine is a sandbox itself, --sandbox=danger-full-access",
		"codex cannot run a command in its sandbox here: "+said.why())
}

// permitted checks whether the command line or a settings file gives the CLI permissions to edit and run. In headless
// mode nobody answers its permission questions, so without them it would refuse each edit and still exit with 0.
func (t trap) permitted(flags []string, advice string, files []string, words ...string) {
	if has(t.words, flags...) {
		return
	}
	for _, file := range files {
		text, _, err := door.Ends(file, maxSaid, 0)
		if err == nil && slices.ContainsFunc(words, func(w string) bool { return strings.Contains(text, w) }) {
			return
		}
	}
	t.rep.add(Warn, t.at+".args", `write "permissions": "workspace" in `+t.at+`, or "`+advice+`" in its args`,
		t.adapter.Name()+" may change nothing: nobody is there to be asked, so it refuses its own edits and ends well all the same")
}

func (l line) configDir(variable, below string) string {
	return cmp.Or(l.env(variable), filepath.Join(l.env("HOME"), below))
}

// inGit reports whether dir is in a git work tree. An empty .git directory does not count, and neither does it for
// codex.
func inGit(dir string) bool {
	dot := filepath.Join(dir, ".git")
	if info, err := os.Stat(dot); err == nil && info.Mode().IsRegular() {
		return true
	}
	if _, err := os.Stat(filepath.Join(dot, "HEAD")); err == nil {
		return true
	}
	return dir != filepath.Dir(dir) && inGit(filepath.Dir(dir))
}
