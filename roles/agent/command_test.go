package agent

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// request is a complete Request in a directory of its own, with that prompt on
// disk.
func request(t *testing.T, prompt string) Request {
	t.Helper()
	dir := t.TempDir()
	req := Request{
		CLI:        CLI{Command: []string{"my-agent"}},
		PromptPath: filepath.Join(dir, "prompt.md"), LastMessageFile: filepath.Join(dir, "last.txt"),
		WorkDir: dir, Repo: dir, LoopDir: dir,
		Loop: "demo", RunID: "run-1", Role: "reviewer", Iteration: 3, Attempt: 2,
	}
	if err := os.WriteFile(req.PromptPath, []byte(prompt), 0o644); err != nil {
		t.Fatal(err)
	}
	return req
}

func build(t *testing.T, req Request, environ ...string) Command {
	t.Helper()
	c, err := For(req.CLI).Command(req, environ)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestArgv(t *testing.T) {
	t.Parallel()
	base := request(t, "PROMPT about {model}")
	cases := map[string]struct {
		cli             CLI
		fast            bool
		model, thinking string
		want            []string
		stdin           bool
	}{
		"plain":                  {cli: CLI{Command: []string{"a", "b"}, Args: []string{"c"}}, want: []string{"a", "b", "c"}, stdin: true},
		"no model is injected":   {cli: CLI{Command: []string{"./agent.sh"}}, model: "m", thinking: "high", want: []string{"./agent.sh"}, stdin: true},
		"nor looked for in npx":  {cli: CLI{Command: []string{"npx", "claude"}}, model: "m", want: []string{"npx", "claude"}, stdin: true},
		"model where it is said": {cli: CLI{Command: []string{"a"}, Args: []string{"--m={model}", "{thinking}"}}, model: "m", thinking: "low", want: []string{"a", "--m=m", "low"}, stdin: true},
		"fast": {
			cli: CLI{Command: []string{"a"}, Args: []string{"slow"}, FastArgs: []string{"quick"}}, fast: true,
			want: []string{"a", "quick"}, stdin: true,
		},
		"fast without fast args": {cli: CLI{Command: []string{"a"}, Args: []string{"slow"}}, fast: true, want: []string{"a", "slow"}, stdin: true},
		"fast with none":         {cli: CLI{Command: []string{"a"}, Args: []string{"slow"}, FastArgs: []string{}}, fast: true, want: []string{"a"}, stdin: true},
		"file":                   {cli: CLI{Command: []string{"a"}, Args: []string{"{prompt_file}"}, PromptMode: "file"}, want: []string{"a", base.PromptPath}},
		"arg appended":           {cli: CLI{Command: []string{"a"}, Args: []string{"-p"}, PromptMode: "arg"}, want: []string{"a", "-p", "PROMPT about {model}"}},
		"arg placed": {
			cli: CLI{Command: []string{"a"}, Args: []string{"-p", "{prompt}", "-x"}, PromptMode: "arg"}, model: "m",
			want: []string{"a", "-p", "PROMPT about {model}", "-x"},
		},
		"all placeholders": {
			cli: CLI{
				Command: []string{"{repo}/bin/a"},
				Args:    []string{"{last_message_file}", "{loop}{iteration}{role}", "{loop_dir}", "{unknown}", "{{model}}", "{}", "{", "{Model}"},
			}, model: "m",
			want: []string{base.WorkDir + "/bin/a", base.LastMessageFile, "demo3reviewer", base.LoopDir, "{unknown}", "{m}", "{}", "{", "{Model}"}, stdin: true,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			req := base
			req.CLI, req.Fast, req.Model, req.Thinking = c.cli, c.fast, c.model, c.thinking
			got := build(t, req)
			if !slices.Equal(got.Argv, c.want) {
				t.Errorf("argv %q\nwant %q", got.Argv, c.want)
			}
			if (got.Stdin == base.PromptPath) != c.stdin || (got.Stdin != "" && !c.stdin) {
				t.Errorf("stdin %q", got.Stdin)
			}
			if got.Dir != base.WorkDir {
				t.Errorf("dir %q", got.Dir)
			}
		})
	}
}

// Whatever the values hold, placeholders in them are never expanded, and the
// rest of the text stays as it is.
func TestPlaceholdersAreOnePass(t *testing.T) {
	t.Parallel()
	base := request(t, "")
	names := []string{"{repo}", "{prompt_file}", "{prompt}", "{last_message_file}", "{model}", "{loop}", "{iteration}", "{role}", "{loop_dir}", "{thinking}"}
	rapid.Check(t, func(rt *rapid.T) {
		piece := rapid.OneOf(rapid.SampledFrom(names), rapid.SampledFrom([]string{"{", "}", "{}", "{x}", "a", " ", "prompt", "$(id)", "%s"}))
		text := rapid.Custom(func(rt *rapid.T) string { return strings.Join(rapid.SliceOfN(piece, 1, 6).Draw(rt, "pieces"), "") })
		req := base
		req.Model, req.Loop, req.Role, req.Thinking = text.Draw(rt, "model"), text.Draw(rt, "loop"), text.Draw(rt, "role"), text.Draw(rt, "thinking")
		req.LoopDir = "/" + text.Draw(rt, "loop dir")
		prompt := text.Draw(rt, "prompt")
		value := map[string]string{
			"{repo}": req.WorkDir, "{prompt_file}": req.PromptPath, "{prompt}": prompt, "{last_message_file}": req.LastMessageFile,
			"{model}": req.Model, "{loop}": req.Loop, "{iteration}": "3", "{role}": req.Role, "{loop_dir}": req.LoopDir, "{thinking}": req.Thinking,
		}
		arg := text.Draw(rt, "arg")
		// The oracle reads the argument once from left to right.
		want := ""
		for rest := arg; rest != ""; {
			name := ""
			for _, n := range names {
				if strings.HasPrefix(rest, n) {
					name = n
				}
			}
			if name == "" {
				want, rest = want+rest[:1], rest[1:]
			} else {
				want, rest = want+value[name], rest[len(name):]
			}
		}
		if got := placeholders(req, prompt).Replace(arg); got != want {
			rt.Fatalf("%q became %q, want %q", arg, got, want)
		}
	})
}

func TestEnvironmentIsExact(t *testing.T) {
	t.Parallel()
	req := request(t, "p")
	req.Repo, req.Model = "/the/repo", "m"
	req.CLI.Env = map[string]string{"FOO": "{role} of {model}", "SUPERLOOP_ROLE": "king", "SUPERLOOP_EXTRA": "kept"}
	got := build(t, req,
		"HOME=/home/a", "ANTHROPIC_API_KEY=secret", "PWD=/elsewhere", "FOO=old", "DUP=1", "DUP=2", "EMPTY=", "EQ=a=b",
		"SUPERLOOP_TEST_FAULT=x", "SUPERLOOP_MARK=outer", "SUPERLOOP_LOOP=outer", "SUPERLOOP_SPAWNER=1", "nonsense", "=odd").Env
	want := []string{
		"ANTHROPIC_API_KEY=secret", "DUP=2", "EMPTY=", "EQ=a=b", "FOO=reviewer of m", "HOME=/home/a", "PWD=" + req.WorkDir,
		"SUPERLOOP_ATTEMPT=2", "SUPERLOOP_EXTRA=kept", "SUPERLOOP_ITERATION=3", "SUPERLOOP_LAST_MESSAGE_FILE=" + req.LastMessageFile,
		"SUPERLOOP_LOOP=demo", "SUPERLOOP_LOOP_DIR=" + req.LoopDir, "SUPERLOOP_MARK=run-1", "SUPERLOOP_MODEL=m",
		"SUPERLOOP_REPO=/the/repo", "SUPERLOOP_ROLE=reviewer", "SUPERLOOP_RUN_ID=run-1",
	}
	if !slices.Equal(got, want) {
		t.Errorf("environment\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestCommandRefuses(t *testing.T) {
	t.Parallel()
	huge := strings.Repeat("x", maxArg+1)
	cases := map[string]struct {
		prompt string
		spoil  func(*Request)
		want   string
	}{
		"prompt mode":      {"p", func(r *Request) { r.CLI.PromptMode = "pipe" }, "unknown prompt_mode"},
		"empty program":    {"p", func(r *Request) { r.CLI.Command = []string{"{model}"} }, "name is empty"},
		"thinking":         {"p", func(r *Request) { r.Thinking = "hard" }, "none, minimal, low, standard, high, max"},
		"relative path":    {"p", func(r *Request) { r.WorkDir = "repo" }, "working directory"},
		"no run id":        {"p", func(r *Request) { r.RunID = "" }, "run id"},
		"iteration zero":   {"p", func(r *Request) { r.Iteration = 0 }, "count from 1"},
		"huge prompt":      {huge, func(r *Request) { r.CLI.PromptMode = "arg" }, `prompt_mode to "stdin" or "file"`},
		"huge argument":    {strings.Repeat("x", maxArg), func(r *Request) { r.CLI.Args = []string{"-p={prompt}"} }, `prompt_mode to "stdin" or "file"`},
		"huge environment": {strings.Repeat("x", maxArg), func(r *Request) { r.CLI.Env = map[string]string{"P": "{prompt}"} }, "P in the environment"},
		"NUL in prompt":    {"a\x00b", func(r *Request) { r.CLI.PromptMode = "arg" }, "NUL"},
		"NUL in value":     {"p", func(r *Request) { r.CLI.Env = map[string]string{"A": "\x00"} }, "value of A"},
		"bad name":         {"p", func(r *Request) { r.CLI.Env = map[string]string{"A=B": "c"} }, "A=B"},
		"no prompt file":   {"p", func(r *Request) { r.PromptPath += "x"; r.CLI.PromptMode = "arg" }, "reading the prompt"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			req := request(t, c.prompt)
			c.spoil(&req)
			if _, err := (generic{}).Command(req, nil); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
	// The longest prompt that fits is taken.
	req := request(t, strings.Repeat("x", maxArg))
	req.CLI.PromptMode = "arg"
	if c := build(t, req); len(c.Argv[1]) != maxArg {
		t.Errorf("%d bytes", len(c.Argv[1]))
	}
}

func TestFor(t *testing.T) {
	t.Parallel()
	for program, want := range map[string]string{
		"claude": "claude", "/usr/local/bin/claude-code": "claude", "codex": "codex", "./codex": "codex",
		"sh": "generic", "/opt/claude/run.sh": "generic", "npx": "generic", "myclaude": "generic", "claude-wrapper": "generic",
		"codex-nightly": "generic", "": "generic",
	} {
		if got := For(CLI{Command: []string{program}}).Name(); got != want {
			t.Errorf("%s: %s, want %s", program, got, want)
		}
	}
	if got := For(CLI{Command: []string{"./claude-wrapper"}, Adapter: "claude"}).Name(); got != "claude" {
		t.Errorf("the adapter that the owner names is not taken, but %s", got)
	}
}
