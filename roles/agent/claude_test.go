package agent

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// headless are the flags that every command of claude gets.
var headless = []string{"--print", "--output-format=stream-json", "--verbose"}

func TestClaudeCommand(t *testing.T) {
	t.Parallel()
	const id = "11111111-2222-4333-8444-555555555555"
	base := request(t, "p")
	for name, c := range map[string]struct {
		command, args []string
		ask           func(*Request)
		want          []string
	}{
		"bare":            {want: headless},
		"of the original": {args: []string{"-p"}, want: []string{headless[1], headless[2], "-p"}},
		"long print":      {command: []string{"claude", "--print"}, args: []string{"--verbose"}, want: []string{"--print", headless[1], "--verbose"}},
		"text":            {args: []string{"--output-format", "text"}, want: []string{"--print", "--output-format", "text"}},
		"json":            {args: []string{"-p", "--output-format=json"}, want: []string{"-p", "--output-format=json"}},
		"owner's stream":  {args: []string{"-p", "--output-format=stream-json"}, want: []string{"--verbose", "-p", "--output-format=stream-json"}},
		"after --":        {args: []string{"--", "-p"}, want: append(slices.Clone(headless), "--", "-p")},
		"model":           {ask: func(r *Request) { r.Model = "opus" }, want: append(slices.Clone(headless), "--model=opus")},
		"a model that looks like a placeholder": {
			ask: func(r *Request) { r.Model = "{role}" }, want: append(slices.Clone(headless), "--model={role}"),
		},
		"model by the owner":    {args: []string{"--model", "haiku"}, ask: func(r *Request) { r.Model = "opus" }, want: append(slices.Clone(headless), "--model", "haiku")},
		"model placed by him":   {args: []string{"--settings={model}"}, ask: func(r *Request) { r.Model = "opus" }, want: append(slices.Clone(headless), "--settings=opus")},
		"read-only":             {ask: func(r *Request) { r.Permissions = PermitRead }, want: append(slices.Clone(headless), "--tools=Read,Grep,Glob")},
		"workspace":             {ask: func(r *Request) { r.Permissions = PermitWorkspace }, want: append(slices.Clone(headless), "--permission-mode=acceptEdits", "--allowedTools=Bash,Edit,Write,NotebookEdit")},
		"workspace in worktree": {ask: func(r *Request) { r.Permissions, r.LoopDir = PermitWorkspace, "/main/loop" }, want: append(slices.Clone(headless), "--permission-mode=acceptEdits", "--allowedTools=Bash,Edit,Write,NotebookEdit", "--add-dir=/main/loop")},
		"full":                  {ask: func(r *Request) { r.Permissions = PermitAll }, want: append(slices.Clone(headless), "--dangerously-skip-permissions")},
		"owner's permissions":   {args: []string{"--allowed-tools", "Bash(git *)"}, ask: func(r *Request) { r.Permissions = PermitAll }, want: append(slices.Clone(headless), "--allowed-tools", "Bash(git *)")},
		"new session":           {ask: func(r *Request) { r.SessionID = id }, want: append(slices.Clone(headless), "--session-id="+id)},
		"resume":                {ask: func(r *Request) { r.SessionID, r.Resume = id, &Session{ID: "s-1"} }, want: append(slices.Clone(headless), "--resume=s-1")},
		"owner's session":       {args: []string{"-c"}, ask: func(r *Request) { r.SessionID = id }, want: append(slices.Clone(headless), "-c")},
		"budget":                {ask: func(r *Request) { r.MaxCostUSD = 0.25 }, want: append(slices.Clone(headless), "--max-budget-usd=0.25")},
		"a tiny budget":         {ask: func(r *Request) { r.MaxCostUSD = 1e-7 }, want: append(slices.Clone(headless), "--max-budget-usd=0.0000001")},
		"owner's budget":        {args: []string{"--max-budget-usd=9"}, ask: func(r *Request) { r.MaxCostUSD = 0.25 }, want: append(slices.Clone(headless), "--max-budget-usd=9")},
		"wrapper":               {command: []string{"npx", "claude"}, ask: func(r *Request) { r.CLI.Adapter = "claude" }, want: append([]string{"claude"}, headless...)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			req := base
			req.CLI = CLI{Command: []string{"claude"}, Args: c.args}
			if c.command != nil {
				req.CLI.Command = c.command
			}
			if c.ask != nil {
				c.ask(&req)
			}
			got := build(t, req)
			if !slices.Equal(got.Argv[1:], c.want) || got.Stdin != req.PromptPath {
				t.Errorf("%q from %s\nwant %q", got.Argv[1:], got.Stdin, c.want)
			}
		})
	}
	for _, bad := range []string{"", "-x", "--resume", "a b", "{repo}", "a/b", strings.Repeat("x", 201)} {
		for _, command := range []string{"claude", "codex"} {
			req := base
			req.CLI, req.Resume = CLI{Command: []string{command}}, &Session{ID: bad}
			if c, err := For(req.CLI).Command(req, nil); err == nil || !strings.Contains(err.Error(), "session id") {
				t.Errorf("%s resumes %q: %q, %v", command, bad, c.Argv, err)
			}
		}
	}
}

func TestClaudeEnvironment(t *testing.T) {
	t.Parallel()
	req := request(t, "p")
	req.CLI.Command = []string{"claude"}
	levels := map[string][2]string{
		"none": {"0", "low"}, "minimal": {"1024", "low"}, "low": {"4096", "low"}, "standard": {"10000", "medium"}, "high": {"20000", "high"}, "max": {"32000", "max"},
	}
	for _, level := range thinkingLevels {
		req := req
		req.Thinking = level
		want := levels[level]
		c := build(t, req, "MAX_THINKING_TOKENS=7", "CLAUDE_CODE_EFFORT_LEVEL=max")
		if valueIn(c.Env, "MAX_THINKING_TOKENS") != want[0] || valueIn(c.Env, "CLAUDE_CODE_EFFORT_LEVEL") != want[1] {
			t.Errorf("%s: %q", level, c.Env)
		}
		req.CLI.Env = map[string]string{"MAX_THINKING_TOKENS": "5"}
		req.CLI.Args = []string{"--effort", "xhigh"}
		if c := build(t, req); valueIn(c.Env, "MAX_THINKING_TOKENS") != "5" || valueIn(c.Env, "CLAUDE_CODE_EFFORT_LEVEL") != "" {
			t.Errorf("%s: the owner does not win: %q", level, c.Env)
		}
	}
	c := build(t, req)
	for name, want := range map[string]string{
		"DISABLE_AUTOUPDATER": "1", "CLAUDE_CODE_MAX_RETRIES": "2", "API_TIMEOUT_MS": "300000", "MAX_THINKING_TOKENS": "", "IS_SANDBOX": "",
	} {
		if got := valueIn(c.Env, name); got != want {
			t.Errorf("%s=%s, want %s", name, got, want)
		}
		if got := valueIn(build(t, req, name+"=mine").Env, name); got != "mine" {
			t.Errorf("%s of the owner's environment became %s", name, got)
		}
	}
	// Only a run as root that may do everything says that it is in a sandbox.
	for _, permissions := range []string{"", PermitRead, PermitWorkspace, PermitAll} {
		for _, root := range []bool{true, false} {
			req.Permissions = permissions
			got := claude{}.environment(req, nil, nil, root)["IS_SANDBOX"]
			if (got == "1") != (root && permissions == PermitAll) {
				t.Errorf("%q as root %v: %q", permissions, root, got)
			}
		}
	}
}

func TestClaudeReset(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 22, 0, 30, 0, time.UTC)
	for text, want := range map[string]string{
		"Claude AI usage limit reached|1795256627":       "2026-11-21T10:23:47Z",
		"You've hit your limit · resets 10:23am (UTC)":   "2026-11-22T10:24:00Z",
		"You've hit your limit · resets 11pm (UTC)":      "2026-11-21T23:01:00Z",
		"5-hour limit reached, resets 3am (Asia/Tokyo)":  "2026-11-22T18:01:00Z",
		"Weekly limit reached, resets Nov 25, 9am (UTC)": "2026-11-25T09:01:00Z",
		"Weekly limit, resets Jan 2 at 12:30am (UTC)":    "2027-01-02T00:31:00Z",
		"resets 13:00am (UTC)":                           "",
		"resets Feb 30, 9am (UTC)":                       "",
		"resets 9am (No/Where)":                          "",
		"API Error: Request rejected (429)":              "",
	} {
		got := ""
		if at := resetIn(text, now, time.Local); !at.IsZero() {
			got = at.UTC().Format(time.RFC3339)
		}
		if got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
	if at := resetIn("resets 11pm (UTC)", time.Time{}, time.Local); !at.IsZero() {
		t.Errorf("a time of day without a day: %v", at)
	}
}

func TestClaudeLogin(t *testing.T) {
	t.Parallel()
	write := func(home, name, text string) {
		path := filepath.Join(home, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		files      map[string]string
		env        []string
		state, how string
	}{
		"nothing":        {state: LoginNo, how: "neither"},
		"key":            {env: []string{"ANTHROPIC_API_KEY=sk"}, state: LoginYes, how: "ANTHROPIC_API_KEY"},
		"empty key":      {env: []string{"ANTHROPIC_API_KEY="}, state: LoginNo},
		"token":          {env: []string{"CLAUDE_CODE_OAUTH_TOKEN=sk"}, state: LoginYes, how: "CLAUDE_CODE_OAUTH_TOKEN"},
		"bedrock":        {env: []string{"CLAUDE_CODE_USE_BEDROCK=1"}, state: LoginUnknown, how: "CLAUDE_CODE_USE_BEDROCK"},
		"bedrock off":    {env: []string{"CLAUDE_CODE_USE_BEDROCK=0"}, state: LoginNo},
		"login":          {files: map[string]string{".claude/.credentials.json": `{"claudeAiOauth":{"accessToken":"a","refreshToken":"r","expiresAt":1}}`}, state: LoginYes, how: ".credentials.json"},
		"login over":     {files: map[string]string{".claude/.credentials.json": `{"claudeAiOauth":{"accessToken":"a","expiresAt":1}}`}, state: LoginNo, how: "1970-01-01"},
		"empty login":    {files: map[string]string{".claude/.credentials.json": `{}`}, state: LoginNo},
		"broken login":   {files: map[string]string{".claude/.credentials.json": `{"claudeAiOauth":{"access`}, state: LoginNo},
		"console":        {files: map[string]string{".claude.json": `{"primaryApiKey":"sk"}`}, state: LoginYes, how: ".claude.json"},
		"helper":         {files: map[string]string{".claude/settings.json": `{"apiKeyHelper":"pass show key"}`}, state: LoginYes, how: "apiKeyHelper"},
		"own directory":  {files: map[string]string{"cfg/.credentials.json": `{"claudeAiOauth":{"refreshToken":"r"}}`}, env: []string{"CLAUDE_CONFIG_DIR={home}/cfg"}, state: LoginYes, how: "cfg"},
		"elsewhere then": {files: map[string]string{".claude/.credentials.json": `{"claudeAiOauth":{"refreshToken":"r"}}`}, env: []string{"CLAUDE_CONFIG_DIR={home}/cfg"}, state: LoginNo},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			home := t.TempDir()
			for name, text := range c.files {
				write(home, name, text)
			}
			env := []string{"HOME=" + home}
			for _, e := range c.env {
				env = append(env, strings.ReplaceAll(e, "{home}", home))
			}
			got := loginOf("claude", env)
			if got.State != c.state || !strings.Contains(got.How, c.how) || got.How == "" {
				t.Errorf("%+v, want %s by %s", got, c.state, c.how)
			}
		})
	}
}

func TestClaudeAccount(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	of := func(env ...string) Account { return accountOf("claude", append([]string{"HOME=" + home}, env...)) }
	key := of("ANTHROPIC_API_KEY=sk-secret")
	if key.Provider != "anthropic" || key != of("ANTHROPIC_API_KEY=sk-secret", "OTHER=1") || strings.Contains(key.ID, "secret") {
		t.Errorf("%+v", key)
	}
	seen := map[Account]string{key: "key"}
	for name, env := range map[string][]string{
		"another key": {"ANTHROPIC_API_KEY=sk-other"}, "no key": nil, "token": {"CLAUDE_CODE_OAUTH_TOKEN=x"},
		"gateway":           {"ANTHROPIC_API_KEY=sk-secret", "ANTHROPIC_BASE_URL=http://127.0.0.1:1"},
		"not quite the one": {"ANTHROPIC_API_KEY=sk-secret", "ANTHROPIC_BASE_URL=https://evilanthropic.com"},
		"bedrock":           {"CLAUDE_CODE_USE_BEDROCK=1", "AWS_REGION=eu"}, "bedrock elsewhere": {"CLAUDE_CODE_USE_BEDROCK=1", "AWS_REGION=us"},
		"vertex": {"CLAUDE_CODE_USE_VERTEX=true"},
	} {
		got := of(env...)
		if other, ok := seen[got]; ok {
			t.Errorf("%s and %s are one account: %+v", name, other, got)
		}
		seen[got] = name
		want := map[string]string{"gateway": "gateway", "not quite the one": "gateway", "bedrock": "bedrock", "bedrock elsewhere": "bedrock", "vertex": "vertex"}[name]
		if want == "" {
			want = "anthropic"
		}
		if got.Provider != want || len(strings.TrimPrefix(got.ID, ours)) != 12 || got.Everywhere() != (name != "no key") {
			t.Errorf("%s: %+v", name, got)
		}
	}
	// A login is one account, whatever its tokens are.
	if err := os.WriteFile(filepath.Join(home, ".claude.json"), []byte(`{"oauthAccount":{"accountUuid":"u-1"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := of(); got == key || seen[got] != "" || strings.Contains(got.ID, "u-1") {
		t.Errorf("%+v", got)
	}
}
