package preflight

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/superloop/superloop/roles/agent"
)

// fake is an adapter of which a test says what it knows.
type fake struct {
	agent.Adapter // generic
	name          string
	profile       agent.Profile
	adds          []string
}

func (f fake) Name() string                { return f.name }
func (f fake) Matches(program string) bool { return strings.HasPrefix(program, f.name) }
func (f fake) Profile() agent.Profile      { return f.profile }

func credential(state, how string) func(agent.Request, []string) (agent.Login, agent.Account) {
	return func(agent.Request, []string) (agent.Login, agent.Account) {
		return agent.Login{State: state, How: how}, agent.Account{}
	}
}

func (f fake) Command(req agent.Request, environ []string) (agent.Command, error) {
	if req.Thinking == "bad" {
		return agent.Command{}, fmt.Errorf("unknown thinking %q", req.Thinking)
	}
	adds := slices.Clone(f.adds)
	if req.Resume != nil {
		adds = append([]string{"resume", req.Resume.ID}, adds...)
	}
	if req.SessionID != "" {
		adds = append(adds, "--session-id="+req.SessionID)
	}
	req.CLI.Args = slices.Concat(adds, req.CLI.Args)
	if req.CLI.FastArgs != nil {
		req.CLI.FastArgs = slices.Concat(adds, req.CLI.FastArgs)
	}
	return f.Adapter.Command(req, environ)
}

// stage is a directory with programs in it, and the request of a test.
type stage struct {
	t    *testing.T
	dir  string
	req  Request
	fake fake
}

// newStage has a CLI of that name, which prints a recorded help and counts how
// often it is started.
func newStage(t *testing.T, name, help string) *stage {
	t.Helper()
	dir := t.TempDir()
	s := &stage{t: t, dir: dir}
	s.fake = fake{Adapter: agent.For(agent.CLI{Adapter: "generic"}), name: name, profile: agent.Profile{
		Login: name + " login", Replaced: map[string]string{"--full-auto": "--sandbox=workspace-write"},
		Help:       func([]string) []string { return nil },
		Credential: credential(agent.LoginYes, "a test"),
	}}
	helps, err := filepath.Abs("testdata/help")
	if err != nil {
		t.Fatal(err)
	}
	s.write("bin/"+name, `#!/bin/sh
echo "$@" >> "$0.calls"
case "$*" in
--version) echo "`+name+`-cli 1.2.3" ;;
"exec resume --help") cat "`+helps+`/codex-exec-resume.txt" ;;
"exec --help") cat "`+helps+`/codex-exec.txt" ;;
"run --help") cat "`+helps+`/opencode-run.txt" >&2 ;;
--help) cat "`+helps+`/`+help+`.txt" ;;
"sandbox -- true") ;;
*) echo worked >> "$0.worked"; exit 1 ;;
esac
`)
	s.write("work/.git/HEAD", "")
	s.write("prompt.md", "Do what the plan says.\n")
	s.req = Request{Runner: name, CLI: agent.CLI{Command: []string{name}}, Turns: []Turn{{Role: "implementer"}},
		Environ: []string{"PATH=" + dir + "/bin:" + os.Getenv("PATH"), "HOME=" + dir}, WorkDir: dir + "/work", Prompt: dir + "/prompt.md"}
	return s
}

func (s *stage) write(name, text string) {
	s.t.Helper()
	path := filepath.Join(s.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		s.t.Fatal(err)
	}
	// A process that another test forks meanwhile would hold the file open for
	// writing, and the system does not start a program that is being written.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stage) read(name string) string {
	data, _ := os.ReadFile(filepath.Join(s.dir, name))
	return string(data)
}

func (s *stage) examine() Report {
	s.t.Helper()
	s.req.Adapter = s.fake
	e := &Examiner{}
	rep := e.Examine(context.Background(), s.req)
	s.sound(rep)
	return rep
}

// sound checks what holds of each report.
func (s *stage) sound(rep Report) {
	s.t.Helper()
	text, err := json.Marshal(rep)
	if err != nil || strings.Contains(string(text), "null") {
		s.t.Errorf("%s %v", text, err)
	}
	for _, f := range rep.Findings {
		if f.Message == "" || f.Severity != Note && f.Fix == "" {
			s.t.Errorf("%+v says nothing, or not what to do", f)
		}
	}
	if worked := s.read("bin/" + s.fake.name + ".worked"); worked != "" {
		s.t.Errorf("the CLI began to work: %s", s.read("bin/"+s.fake.name+".calls"))
	}
}

func all(rep Report) string {
	var lines []string
	for _, f := range rep.Findings {
		lines = append(lines, string(f.Severity)+": "+f.String())
	}
	return strings.Join(lines, "\n")
}

func TestWholeReport(t *testing.T) {
	t.Parallel()
	s := newStage(t, "codex", "codex")
	s.fake.adds = []string{"--json", "-c", `model="x"`}
	s.fake.profile.ChoosesSession = true
	s.fake.profile.Hidden = []string{"--session-id"}
	s.fake.profile.Help = func(args []string) []string {
		if slices.Contains(args, "resume") {
			return []string{"exec", "resume"}
		}
		return []string{"exec"}
	}
	s.req.CLI = agent.CLI{Command: []string{"codex", "exec"}, Args: []string{"--output-last-message={last_message_file}", "--full-auto", "-"},
		FastArgs: []string{"--sandbox=read-only", "-"}, Env: map[string]string{"OPENAI_API_KEY": "sk-very-secret-indeed"}}
	s.req.Turns = []Turn{{Role: "planner"}, {Role: "implementer"}, {Role: "reviewer", Resume: true}}
	rep := s.examine()
	// "codex exec" knows --sandbox, "codex exec resume" does not.
	want := `error: codex 1.2.3 does not know --full-auto; write --sandbox=workspace-write instead (runners.codex.args[1])
error: codex 1.2.3 does not know --sandbox after "exec resume"; take it out, or see what it knows: codex exec resume --help (runners.codex.fast_args[0])`
	if got := all(rep); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if rep.Verdict != Error || rep.Version != "codex-cli 1.2.3" || rep.Path != s.dir+"/bin/codex" || rep.File != (File{Kind: "script", Interpreter: "/bin/sh"}) ||
		rep.Adapter != "codex" || rep.Program != "codex" || rep.Login != (agent.Login{State: "yes", How: "a test"}) || rep.Unchecked != "" || len(rep.Roles) != 3 {
		t.Errorf("%+v", rep)
	}
	flags := fmt.Sprint(rep.Flags)
	for _, f := range []string{"{--json known }", "{-c known }", "{--session-id known }", "{--output-last-message known runners.codex.args[0]}",
		"{--full-auto unknown runners.codex.args[1]}", "{--sandbox unknown runners.codex.fast_args[0]}"} {
		if !strings.Contains(flags, f) {
			t.Errorf("no %s in %s", f, flags)
		}
	}
	if len(rep.Flags) != 6 {
		t.Errorf("%v", rep.Flags)
	}
	// Each question was asked once, whatever the number of roles and lines.
	calls := strings.Split(strings.TrimSpace(s.read("bin/codex.calls")), "\n")
	slices.Sort(calls)
	if got := strings.Join(calls, "|"); got != "--version|exec --help|exec resume --help|sandbox -- true" {
		t.Errorf("it was asked %s", got)
	}
	if len(rep.Commands) != 4 || strings.Join(rep.Commands[0].For, ",") != "planner,implementer,reviewer" || strings.Join(rep.Commands[2].For, ",") != "reviewer (resumed)" ||
		strings.Join(rep.Commands[0].Argv, " ") != `codex exec --json -c model="x" --session-id={session} --output-last-message={last_message_file} --full-auto -` {
		t.Errorf("%+v", rep.Commands)
	}
	if text, _ := json.Marshal(rep); strings.Contains(string(text), "very-secret") {
		t.Errorf("a secret is shown: %s", text)
	}
}

func TestAnswersAreShared(t *testing.T) {
	t.Parallel()
	s := newStage(t, "claude", "claude")
	e := &Examiner{}
	for _, name := range []string{"a", "b"} {
		s.req.Runner, s.req.Adapter, s.req.CLI.Args = name, s.fake, []string{"--print", "--permission-mode=plan"}
		s.sound(e.Examine(context.Background(), s.req))
	}
	if got := s.read("bin/claude.calls"); got != "--version\n--help\n" {
		t.Errorf("asked %q", got)
	}
}

func TestExamine(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, cli string
		set       func(*stage)
		want      string // of the findings, one a line: an empty one is none
		unchecked string
		calls     string
	}{
		{"all is well", "claude", func(s *stage) { s.req.CLI.Args = []string{"-p", "--permission-mode=plan"} }, "", "", "--version\n--help\n"},
		{"unknown, with a near one", "claude", func(s *stage) {
			s.req.CLI.Args = []string{"--allow-tools=x"}
			s.req.CLI.Env = map[string]string{"IS": "1"}
		},
			"error: claude 1.2.3 does not know --allow-tools; did you mean --allowed-tools? (runners.claude.args[0])", "", ""},
		{"unknown, with nothing near", "tool", func(s *stage) { s.req.CLI.Command = []string{"tool", "--zzzzzzzzzz"} },
			"error: tool 1.2.3 does not know --zzzzzzzzzz; take it out, or see what it knows: tool --help (runners.tool.command[1])", "", ""},
		{"unknown, added by the adapter", "tool", func(s *stage) { s.fake.adds = []string{"--new-thing"} },
			`error: tool 1.2.3 does not know --new-thing, which superloop adds to the command; update tool, or set "adapter": "generic" in runners.tool and write all flags there`, "", ""},
		{"hidden", "tool", func(s *stage) {
			s.fake.profile.Hidden = []string{"--max-turns"}
			s.req.CLI.Args = []string{"--max-turns", "3"}
		}, "", "", ""},
		{"a value is wanted", "tool", func(s *stage) { s.req.CLI.Args = []string{"--model"} },
			"error: --model wants a value, and is the last word of the command; write --model=VALUE, or take it out (runners.tool.args[0])", "", ""},
		{"the prompt is a value of a list", "tool", func(s *stage) {
			s.req.CLI.Args, s.req.CLI.PromptMode = []string{"--allowedTools", "Bash"}, agent.PromptArg
		}, "error: --allowedTools takes the words after it as its values, and so the prompt; write --allowedTools=VALUE, in one word (runners.tool.args[0])", "", ""},
		{"the prompt is an optional value", "tool", func(s *stage) { s.req.CLI.Args, s.req.CLI.PromptMode = []string{"--debug"}, agent.PromptArg },
			"error: --debug takes the words after it as its values, and so the prompt; write --debug=VALUE, in one word (runners.tool.args[0])", "", ""},
		{"the prompt is an argument", "tool", func(s *stage) {
			s.req.CLI.Args, s.req.CLI.PromptMode = []string{"--allowedTools=Bash", "-p"}, agent.PromptArg
		}, "", "", ""},
		{"after -- all is prompt", "tool", func(s *stage) { s.req.CLI.Args = []string{"--", "--bogus"} }, "", "", "--version\n"},
		{"no prompt", "tool", func(s *stage) { s.req.CLI.PromptMode = agent.PromptFile },
			`error: prompt_mode is file, but nothing holds {prompt_file}: the agent never learns its prompt; write "prompt_mode": "stdin", or {prompt_file} where the program expects the path (runners.tool.prompt_mode)`, "", ""},
		{"the path as the prompt", "tool", func(s *stage) {
			s.req.CLI.Args, s.req.CLI.PromptMode = []string{"--verbose", "{prompt_file}"}, agent.PromptFile
		}, `warn: tool takes the path of the prompt for the prompt itself, and does not read the file; write "prompt_mode": "stdin", and take {prompt_file} out (runners.tool.prompt_mode)`, "", ""},
		{"the path in the environment", "tool", func(s *stage) {
			s.req.CLI.Env, s.req.CLI.PromptMode = map[string]string{"P": "{prompt_file}"}, agent.PromptFile
		}, "", "", ""},
		{"no login", "tool", func(s *stage) {
			s.fake.profile.Credential = func(_ agent.Request, env []string) (agent.Login, agent.Account) {
				return agent.Login{State: agent.LoginNo, How: fmt.Sprint("KEY=", slices.Contains(env, "KEY=x"))}, agent.Account{}
			}
			s.req.CLI.Env = map[string]string{"KEY": "x"}
		}, "error: tool has no login: KEY=true; log in: tool login", "", ""},
		{"perhaps a login", "tool", func(s *stage) {
			s.fake.profile.Credential = credential(agent.LoginUnknown, "keychain")
		}, "", "", ""},
		{"no command line", "tool", func(s *stage) { s.req.Turns = []Turn{{Role: "planner", Thinking: "bad"}} },
			`error: no command line can be made for the planner: unknown thinking "bad"; superloop validate (runners.tool)`, "", "none"},
		{"a spare runner", "tool", func(s *stage) { s.req.Spare, s.req.Turns, s.req.CLI.Args = true, nil, []string{"--model"} },
			"warn: --model wants a value, and is the last word of the command; write --model=VALUE, or take it out (runners.tool.args[0])", "", ""},
		{"a program of which nothing is known", "tool", func(s *stage) { s.fake.profile = agent.Profile{} }, "", "nothing is known of tool (adapter tool), so it is not asked", "none"},
		{"a wrapper by its adapter", "tool", func(s *stage) {
			s.write("bin/npx", s.read("bin/tool"))
			s.req.CLI = agent.CLI{Command: []string{"npx", "tool", "--zzz"}}
		}, "", "npx is not tool itself, and would answer for itself", "none"},
		{"a wrapper that runs it elsewhere", "claude", func(s *stage) {
			s.write("bin/ssh", s.read("bin/claude"))
			s.fake.profile.Credential = credential(agent.LoginNo, "none")
			s.req.Root = true
			s.req.CLI = agent.CLI{Command: []string{"ssh", "host", "claude"}, Args: []string{"--dangerously-skip-permissions"}}
		}, `warn: claude has no login: none; log in: claude login
warn: claude refuses to run without permission checks as root; run superloop as another user; or, if this machine is a sandbox that may be lost, write "env": {"IS_SANDBOX": "1"} in runners.claude (runners.claude.args[0])`,
			"ssh is not claude itself, and would answer for itself", "none"},
		{"a link to the program", "tool", func(s *stage) {
			if err := os.Symlink(s.dir+"/bin/tool", s.dir+"/bin/short"); err != nil {
				s.t.Fatal(err)
			}
			s.req.CLI = agent.CLI{Command: []string{"short", "--model"}}
		}, "error: --model wants a value, and is the last word of the command; write --model=VALUE, or take it out (runners.tool.command[1])", "", ""},
		{"a script that is deaf", "tool", func(s *stage) { s.write("bin/tool", "#!/bin/sh\necho >> \"$0.worked\"\nexec claude -p < x\n") }, "",
			"the script tool takes no notice of its arguments, and would begin to work", "none"},
		{"a wrapper that answers for itself", "tool", func(s *stage) {
			s.write("bin/tool-safe", `#!/bin/sh
case $1 in --version) echo 9.9.9;; *) printf 'Options:\n  --help  this\n';; esac
`)
			s.req.CLI = agent.CLI{Command: []string{"tool-safe"}, Args: []string{"--model=x"}}
		}, "warn: tool 9.9.9 does not know --model; take it out, or see what it knows: tool-safe --help (runners.tool.args[0])", "", "none"},
		{"no help", "tool", func(s *stage) {
			s.write("bin/tool", `#!/bin/sh
case $1 in --version) echo 1;; *) echo "no such thing" >&2; exit 64;; esac
`)
			s.req.CLI.Args = []string{"--model=x"}
		}, "note: flags are not checked: tool --help gave no help: exit code 64: no such thing", "tool --help gave no help: exit code 64: no such thing", "none"},
		{"an empty help", "tool", func(s *stage) {
			s.write("bin/tool", "#!/bin/sh\n[ \"$1\" = --version ] && echo 1\ntrue\n")
			s.req.CLI.Args = []string{"--model=x"}
		}, "note: flags are not checked: tool --help lists no flag", "tool --help lists no flag", "none"},
		{"it fails", "tool", func(s *stage) {
			s.write("bin/tool", "#!/bin/sh\necho \"$@\" \"\x1b[1mneeds node 22\x1b[0m\" >&2; exit 3\n")
		},
			"error: BIN/tool does not work: exit code 3: --version needs node 22; try it by hand: BIN/tool --version (runners.tool.command)", "it did not even tell its version", "none"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, c.cli, "claude")
			c.set(s)
			rep := s.examine()
			if got := strings.ReplaceAll(all(rep), s.dir+"/bin", "BIN"); got != c.want && !strings.HasPrefix(c.name, "unknown, with a near") || !strings.Contains(got, c.want) {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
			if rep.Unchecked != c.unchecked {
				t.Errorf("unchecked: %q, want %q", rep.Unchecked, c.unchecked)
			}
			if calls := s.read("bin/" + c.cli + ".calls"); c.calls != "" && calls != strings.TrimPrefix(c.calls, "none") {
				t.Errorf("it was started with %q, want %q", calls, c.calls)
			}
			if want := map[bool]Severity{true: Fine, false: Severity(strings.SplitN(c.want, ":", 2)[0])}[c.want == "" || strings.HasPrefix(c.want, "note")]; rep.Verdict != want {
				t.Errorf("verdict %s, want %s", rep.Verdict, want)
			}
		})
	}
}

func TestPatience(t *testing.T) {
	t.Parallel()
	s := newStage(t, "tool", "claude")
	s.write("bin/tool", "#!/bin/sh\necho \"$@\" >> \"$0.calls\"\nexec sleep 1000\n")
	s.req.Adapter = s.fake
	e := &Examiner{bound: 2 * time.Second}
	rep := e.Examine(context.Background(), s.req)
	want := "warn: " + s.dir + "/bin/tool does not tell its version: no answer within 2s; try it by hand: " + s.dir + "/bin/tool --version (runners.tool.command)"
	if got := all(rep); got != want || rep.Unchecked == "" || s.read("bin/tool.calls") != "--version\n" {
		t.Errorf("%s\n%+v", got, rep)
	}
	if e.bound = 0; e.patience(s.fake) != 20*time.Second || e.patience(fake{name: "opencode"}) != time.Minute {
		t.Error("the bounds are not those that are promised")
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	before := s.read("bin/tool.calls")
	(&Examiner{}).Examine(ctx, s.req)
	if calls := s.read("bin/tool.calls"); calls != before {
		t.Errorf("after its context has ended it was started: %q", calls)
	}
}
