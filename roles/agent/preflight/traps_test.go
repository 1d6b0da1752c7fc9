package preflight

import (
	"os"
	"strings"
	"testing"

	"github.com/superloop/superloop/roles/agent"
)

func TestTraps(t *testing.T) {
	t.Parallel()
	const (
		claudeMay = `warn: claude may change nothing: nobody is there to be asked, so it refuses its own edits and ends well all the same; write "permissions": "workspace" in runners.claude, or "--permission-mode=acceptEdits" in its args (runners.claude.args)`
		codexMay  = `warn: codex may change nothing: nobody is there to be asked, so it refuses its own edits and ends well all the same; write "permissions": "workspace" in runners.codex, or "--sandbox=workspace-write" in its args (runners.codex.args)`
		geminiMay = `warn: gemini may change nothing: nobody is there to be asked, so it refuses its own edits and ends well all the same; write "permissions": "workspace" in runners.gemini, or "--approval-mode=auto_edit" in its args (runners.gemini.args)`
		asRoot    = `error: claude refuses to run without permission checks as root; run superloop as another user; or, if this machine is a sandbox that may be lost, write "env": {"IS_SANDBOX": "1"} in runners.claude (runners.claude.args[`
	)
	root := func(s *stage) { s.req.Root = true }
	for _, c := range []struct {
		name, command, args string
		set                 func(*stage)
		want                string
	}{
		{"claude as root", "claude", "-p --dangerously-skip-permissions", root, asRoot + "1])"},
		{"claude as root, the other way", "claude", "-p --permission-mode bypassPermissions", root, asRoot + "1])"},
		{"claude as root, the third way", "claude", "--permission-mode=bypassPermissions", root, asRoot + "0])"},
		{"claude as root, with checks", "claude", "--permission-mode=acceptEdits", root, ""},
		{"claude as root in a sandbox", "claude", "--dangerously-skip-permissions", func(s *stage) {
			s.req.Root, s.req.CLI.Env = true, map[string]string{"IS_SANDBOX": "1"}
		}, ""},
		{"claude as another", "claude", "--dangerously-skip-permissions", nil, ""},
		{"claude without permissions", "claude", "-p", nil, claudeMay},
		{"claude with its settings", "claude", "-p", func(s *stage) { s.write(".claude/settings.json", `{"permissions":{"allow":["Bash"]}}`) }, ""},
		{"claude with other settings", "claude", "-p", func(s *stage) { s.write(".claude/settings.json", `{"model":"opus"}`) }, claudeMay},
		{"claude with the project's settings", "claude", "-p", func(s *stage) { s.write("work/.claude/settings.json", `{"permissions":{}}`) }, ""},
		{"claude with settings elsewhere", "claude", "-p", func(s *stage) {
			s.req.CLI.Env = map[string]string{"CLAUDE_CONFIG_DIR": s.dir + "/c"}
			s.write("c/settings.json", `{"permissions":{}}`)
		}, ""},

		{"codex is well", "codex exec", "--sandbox=workspace-write -", nil, ""},
		{"codex without exec", "codex", "--sandbox=workspace-write", nil,
			`error: codex without exec wants a terminal to open its screen in; write "command": ["codex", "exec"] (runners.codex.command)`},
		{"codex by another name of exec", "codex e", "--sandbox=workspace-write", nil, ""},
		{"codex without a repository", "codex exec", "--sandbox=workspace-write", func(s *stage) { s.remove("work/.git") },
			`error: codex refuses to work outside a git repository, and DIR/work is in none; git init, or add "--skip-git-repo-check" to the args (runners.codex.args)`},
		{"codex with an empty .git", "codex exec", "--sandbox=workspace-write", func(s *stage) { s.remove("work/.git/HEAD") },
			`error: codex refuses to work outside a git repository, and DIR/work is in none; git init, or add "--skip-git-repo-check" to the args (runners.codex.args)`},
		{"codex without a repository, told so", "codex exec", "--sandbox=workspace-write --skip-git-repo-check", func(s *stage) { s.remove("work/.git") }, ""},
		{"codex without a repository and a sandbox", "codex exec", "--dangerously-bypass-approvals-and-sandbox", func(s *stage) { s.remove("work/.git") }, ""},
		{"codex in a linked work tree", "codex exec", "--sandbox=workspace-write", func(s *stage) { s.remove("work/.git"); s.write("work/.git", "gitdir: /x\n") }, ""},
		{"codex that may only read", "codex exec", "--json", nil, codexMay},
		{"codex by a setting", "codex exec", "-c sandbox_mode=workspace-write", nil, ""},
		{"codex by its file", "codex exec", "--json", func(s *stage) { s.write(".codex/config.toml", `sandbox_mode = "workspace-write"`) }, ""},
		{"codex with a dash and a file", "codex exec", "--sandbox=workspace-write -", func(s *stage) {
			s.req.CLI.PromptMode = agent.PromptFile
			s.req.CLI.Env = map[string]string{"P": "{prompt_file}"}
		}, `error: "-" makes codex read its prompt from standard input, which is empty with prompt_mode file; write "prompt_mode": "stdin", or take "-" out (runners.codex.args[1])`},
		{"codex with a prompt of its own", "codex exec", "--sandbox=workspace-write work!", nil,
			`warn: codex takes "work!" for its prompt, and what superloop asks only for an appendix to it; write "-" in its place, or nothing (runners.codex.args[1])`},
		{"codex with the prompt as an argument", "codex exec", "--sandbox=workspace-write", func(s *stage) { s.req.CLI.PromptMode = agent.PromptArg }, ""},
		{"codex with a session", "codex exec resume", "-c sandbox_mode=workspace-write 0195 -", nil, ""},
		{"codex with a dash for a picture", "codex exec", "--sandbox=workspace-write -i a.png -", nil,
			`error: -i takes the words after it as its values, and so the "-" that stands for standard input; write -iVALUE, in one word (runners.codex.args[1])`},
		{"codex without a sandbox here", "codex exec", "--sandbox=workspace-write", noSandbox,
			"error: codex cannot run a command in its sandbox here: exit code 1: bwrap: Creating new namespace failed"},
		{"codex that needs no sandbox", "codex exec", "--sandbox danger-full-access", noSandbox, ""},
		{"codex that needs no sandbox by a setting", "codex exec", `-c sandbox_mode="danger-full-access"`, noSandbox, ""},
		{"codex with another sandbox command", "codex exec", "--sandbox=workspace-write", func(s *stage) {
			s.write("bin/codex", strings.Replace(s.read("bin/codex"), `"sandbox -- true") ;;`, `"sandbox -- true") exit 2 ;;`, 1))
		}, ""},

		{"gemini that may do nothing", "gemini", "-m x", nil, geminiMay},
		{"gemini that may", "gemini", "-y", nil, ""},
		{"gemini with settings", "gemini", "-m x", func(s *stage) { s.write(".gemini/settings.json", `{"general":{"defaultApprovalMode":"auto_edit"}}`) }, ""},
		{"gemini -p PROMPT", "gemini", "--approval-mode=yolo -p", func(s *stage) { s.req.CLI.PromptMode = agent.PromptArg }, ""},
		{"gemini -p without one", "gemini", "--approval-mode=yolo -p", nil, "error: -p wants a value, and is the last word of the command; write -pVALUE, or take it out (runners.gemini.args[1])"},

		{"pi is well", "pi", "--model x=y --thinking high", nil, ""},
		{"pi with a joined value", "pi", "--model=x --thinking high", nil,
			"error: pi takes no notice of --model=x; write --model and x as two words (runners.pi.args[0])"},

		{"opencode is well", "opencode run", "--format json", nil, ""},
		{"opencode without run", "opencode", "--mini", nil,
			`error: opencode without run wants a terminal to open its screen in; write "command": ["opencode", "run"] (runners.opencode.command)`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			command := strings.Fields(c.command)
			s := newStage(t, command[0], command[0])
			s.req.CLI.Command, s.req.CLI.Args = command, strings.Fields(c.args)
			s.fake.profile.Help = helpOf(command[0])
			if c.set != nil {
				c.set(s)
			}
			rep := s.examine()
			got := strings.ReplaceAll(all(rep), s.dir, "DIR")
			if got != c.want && (c.want == "" || !strings.HasPrefix(got, c.want) || !strings.Contains(c.name, "sandbox here")) {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
			if rep.Unchecked != "" {
				t.Errorf("unchecked: %s", rep.Unchecked)
			}
		})
	}
}

func noSandbox(s *stage) {
	s.write("bin/codex", strings.Replace(s.read("bin/codex"), `"sandbox -- true") ;;`,
		`"sandbox -- true") echo "bwrap: Creating new namespace failed: ENOSPC" >&2; exit 1 ;;`, 1))
}

func (s *stage) remove(name string) {
	s.t.Helper()
	if err := os.RemoveAll(s.dir + "/" + name); err != nil {
		s.t.Fatal(err)
	}
}

// helpOf finds the subcommand as a careful adapter does.
func helpOf(cli string) func([]string) []string {
	return func(args []string) []string {
		var subs []string
		for _, a := range args {
			switch {
			case cli == "codex" && len(subs) == 0 && (a == "exec" || a == "e"), cli == "opencode" && a == "run":
				subs = append(subs, map[bool]string{true: "run", false: "exec"}[a == "run"])
			case cli == "codex" && len(subs) == 1 && a == "resume":
				subs = append(subs, a)
			}
		}
		return subs
	}
}
