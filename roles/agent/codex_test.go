package agent

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/superloop/superloop/roles/agent/class"
)

func TestCodexCommand(t *testing.T) {
	t.Parallel()
	base := request(t, "PROMPT")
	resume := func(r *Request) { r.Resume = &Session{ID: "t-1"} }
	for name, c := range map[string]struct {
		command, args []string
		mode          string
		ask           func(*Request)
		want          string
	}{
		"bare":              {want: "exec --json"},
		"of the original":   {command: []string{"codex", "exec"}, args: []string{"-m", "{model}", "-"}, ask: func(r *Request) { r.Model = "m" }, want: "exec --json -m m -"},
		"exec in args":      {args: []string{"exec", "-"}, want: "exec --json -"},
		"short exec":        {args: []string{"e", "-"}, want: "e --json -"},
		"flags before exec": {args: []string{"--search", "exec", "--json"}, want: "--search exec --json"},
		"all of it": {
			command: []string{"codex", "exec"}, args: []string{"-"},
			ask:  func(r *Request) { r.Model, r.Thinking, r.Permissions = "gpt", "standard", PermitWorkspace },
			want: `exec --json -c model_reasoning_effort="medium" --model=gpt --sandbox=workspace-write -`,
		},
		"read-only":           {ask: func(r *Request) { r.Permissions = PermitRead }, want: "exec --json --sandbox=read-only"},
		"full":                {ask: func(r *Request) { r.Permissions = PermitAll }, want: "exec --json --sandbox=danger-full-access"},
		"in a worktree":       {ask: func(r *Request) { r.Permissions, r.LoopDir = PermitWorkspace, "/main/loop" }, want: "exec --json --sandbox=workspace-write --add-dir=/main/loop"},
		"owner's sandbox":     {args: []string{"-s", "read-only"}, ask: func(r *Request) { r.Permissions = PermitAll }, want: "exec --json -s read-only"},
		"owner's setting":     {args: []string{"-c", "sandbox_mode=read-only"}, ask: func(r *Request) { r.Permissions = PermitAll }, want: "exec --json -c sandbox_mode=read-only"},
		"his in one word":     {args: []string{"--config=sandbox_mode=read-only"}, ask: func(r *Request) { r.Permissions = PermitAll }, want: "exec --json --config=sandbox_mode=read-only"},
		"owner's effort":      {args: []string{"-cmodel_reasoning_effort=low"}, ask: func(r *Request) { r.Thinking = "max" }, want: "exec --json -cmodel_reasoning_effort=low"},
		"another setting":     {args: []string{"-c", "x=1"}, ask: func(r *Request) { r.Thinking = "max" }, want: `exec --json -c model_reasoning_effort="xhigh" -c x=1`},
		"resume":              {ask: resume, want: "exec --json resume t-1 -"},
		"resume with a dash":  {args: []string{"exec", "--sandbox", "read-only", "-C", "{repo}", "-"}, ask: resume, want: "exec --json --sandbox read-only -C " + base.WorkDir + " resume t-1 -"},
		"resume after --":     {args: []string{"exec", "--", "-"}, ask: resume, want: "exec --json resume t-1 -"},
		"resume by argument":  {mode: PromptArg, ask: resume, want: "exec --json resume t-1 PROMPT"},
		"resume, placed":      {args: []string{"{prompt}", "--color=never"}, mode: PromptArg, ask: resume, want: "exec --json --color=never resume t-1 PROMPT"},
		"resume by file":      {args: []string{"Do {prompt_file}"}, mode: PromptFile, ask: resume, want: "exec --json resume t-1 Do " + base.PromptPath},
		"owner's resume":      {args: []string{"exec", "resume", "--last", "-"}, ask: resume, want: "exec --json resume --last -"},
		"a review":            {args: []string{"exec", "review", "-"}, want: "exec --json review -"},
		"another subcommand":  {args: []string{"review", "-"}, ask: func(r *Request) { r.Model, r.Permissions = "m", PermitAll }, want: "review -"},
		"fast":                {args: []string{"slow"}, ask: func(r *Request) { r.Fast, r.CLI.FastArgs = true, []string{"exec", "quick"} }, want: "exec --json quick"},
		"wrapper":             {command: []string{"npx", "codex"}, ask: func(r *Request) { r.CLI.Adapter = "codex" }, want: "codex exec --json"},
		"json of another age": {args: []string{"--experimental-json"}, want: "exec --experimental-json"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			req := base
			req.CLI = CLI{Command: []string{"codex"}, Args: c.args, PromptMode: c.mode}
			if c.command != nil {
				req.CLI.Command = c.command
			}
			command, args := slices.Clone(req.CLI.Command), slices.Clone(req.CLI.Args)
			if c.ask != nil {
				c.ask(&req)
			}
			got := build(t, req)
			if strings.Join(got.Argv[1:], " ") != c.want {
				t.Errorf("%s\nwant %s", strings.Join(got.Argv[1:], " "), c.want)
			}
			if !slices.Equal(command, req.CLI.Command) || !slices.Equal(args, req.CLI.Args) {
				t.Errorf("the request was changed: %q %q", req.CLI.Command, req.CLI.Args)
			}
		})
	}
	efforts := map[string]string{"none": "none", "minimal": "minimal", "low": "low", "standard": "medium", "high": "high", "max": "xhigh"}
	for _, level := range thinkingLevels {
		req := base
		req.CLI, req.Thinking = CLI{Command: []string{"codex"}}, level
		if c := build(t, req); c.Argv[4] != `model_reasoning_effort="`+efforts[level]+`"` {
			t.Errorf("%s: %q", level, c.Argv)
		}
	}
}

func TestCodexReset(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 14, 0, 30, 0, time.UTC)
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"or try again at May 18th, 2033 3:33 AM.":          "2033-05-18T03:34:00Z",
		"or try again at Nov 22nd, 2026 9:34 AM.":          "2026-11-22T09:35:00Z",
		"try again at Dec 3rd, 2026 12:00 PM.":             "2026-12-03T12:01:00Z",
		"Try again at Jan 1st 9:00 AM":                     "2027-01-01T09:01:00Z",
		"try again at 3:33 PM.":                            "2026-11-21T15:34:00Z",
		"try again at 2:00 PM.":                            "2026-11-21T14:01:00Z",
		"try again at 12:05 AM.":                           "2026-11-22T00:06:00Z", // said just before midnight
		"try again at 15:33":                               "2026-11-21T15:34:00Z",
		"try again in 5 minutes.":                          "2026-11-21T14:05:30Z",
		"or try again in 1 day 2 hours 3 minutes.":         "2026-11-22T16:03:30Z",
		"try again in 2 days, and 1 hour":                  "2026-11-23T15:00:30Z",
		"Please try again in 1.5s.":                        "2026-11-21T14:00:31Z",
		"Please try again in 300ms":                        "2026-11-21T14:00:30Z",
		"or try again later.":                              "",
		"try again at 13:00 PM":                            "",
		"try again at Foo 3rd, 2026 9:00 AM":               "",
		"try again at Feb 30th, 2027 9:00 AM":              "",
		"try again in 5 parsecs":                           "",
		"try again in 99999999999999999999999999999 weeks": "",
		"": "",
	} {
		got := ""
		if at := resetIn(text, now, time.UTC); !at.IsZero() {
			got = at.UTC().Format(time.RFC3339)
		}
		if got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
	if got := resetIn("try again at 3:33 PM", now, berlin).UTC().Format(time.RFC3339); got != "2026-11-21T14:34:00Z" {
		t.Errorf("in Berlin: %s", got)
	}
	if at := resetIn("try again at 3:33 PM", time.Time{}, time.UTC); !at.IsZero() {
		t.Errorf("a time of day without a day: %v", at)
	}
	req := Request{CLI: CLI{Env: map[string]string{"TZ": "Europe/Berlin"}}}
	if zoneOf(req).String() != "Europe/Berlin" || zoneOf(Request{}) != time.Local {
		t.Errorf("%v %v", zoneOf(req), zoneOf(Request{}))
	}
}

func TestCodexClass(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]class.Class{
		"You\u2019ve hit your usage limit. Upgrade to Pro (https://x.y) or try again at 3:33 PM.":                                           class.Limit,
		"You've hit your usage limit for gpt-x. Try again later.":                                                                           class.Limit,
		"exceeded retry limit, last status: 429 Too Many Requests":                                                                          class.Limit,
		"Reconnecting... 1/5 (exceeded retry limit, last status: 429 Too Many Requests)":                                                    class.Limit,
		"rate limit exceeded: Rate limit reached for m. Please try again in 1.3s.":                                                          class.Limit,
		"stream disconnected before completion: Rate limit reached for m.":                                                                  class.Limit,
		"Quota exceeded. Check your plan and billing details.":                                                                              class.Billing,
		"Your workspace is out of credits. Add credits to continue.":                                                                        class.Billing,
		"To use Codex with your ChatGPT plan, upgrade to Plus: https://chatgpt.com/explore/plus.":                                           class.Billing,
		"unexpected status 402 Payment Required: no, url: http://x":                                                                         class.Billing,
		"Selected model is at capacity. Please try a different model.":                                                                      class.Overloaded,
		"We\u2019re currently experiencing high demand, which may cause temporary errors.":                                                  class.Overloaded,
		"exceeded retry limit, last status: 503 Service Unavailable":                                                                        class.Overloaded,
		"unexpected status 401 Unauthorized: Incorrect API key provided, url: http://x":                                                     class.Auth,
		"unexpected status 403 Forbidden: no":                                                                                               class.Auth,
		"Missing environment variable: `OPENAI_API_KEY`.":                                                                                   class.Auth,
		"Your access token could not be refreshed because your refresh token was revoked. Please log out and sign in again.":                class.Auth,
		"Codex ran out of room in the model's context window. Start a new thread or clear earlier history before retrying.":                 class.Context,
		"The model `nope` does not exist or you do not have access to it.":                                                                  class.Model,
		`{"error":{"type":"invalid_request_error","message":"The 'nope' model is not supported when using Codex with a ChatGPT account."}}`: class.Model,
		`{"error":{"type":"invalid_request_error","code":"invalid_request_error","message":"bad request thing"}}`:                           class.Request,
		`{"error":{"message":"something new"}}`:                                                                                             class.Request,
		"unexpected status 400 Bad Request: no":                                                                                             class.Request,
		"unexpected status 404 Not Found: {}, url: http://x/responses":                                                                      class.Config,
		"Invalid prompt: we think this violates policy":                                                                                     class.Refused,
		"This content was flagged": class.Refused,
		"Reconnecting... waiting for network (Connection failed: error sending request)":                      class.Network,
		"stream disconnected before completion: idle timeout waiting for SSE":                                 class.Network,
		"stream disconnected before completion: Transport error: network error: error decoding response body": class.Network,
		"budget reached": class.Budget,
		"something else": class.Unknown, "": class.None,
	} {
		if got := codexClass(text); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

func TestCodexLogin(t *testing.T) {
	t.Parallel()
	const own = "model_provider = \"mine\" # which\n[model_providers.mine]\nbase_url = 'http://127.0.0.1:1/v1'\nenv_key = \"MY_KEY\"\n"
	for name, c := range map[string]struct {
		files      map[string]string
		env        []string
		state, how string
		provider   string
	}{
		"nothing":        {state: LoginNo, how: "codex/auth.json", provider: "openai"},
		"key":            {env: []string{"CODEX_API_KEY=k"}, state: LoginYes, how: "CODEX_API_KEY", provider: "openai"},
		"older key":      {env: []string{"OPENAI_API_KEY=k"}, state: LoginUnknown, how: "CODEX_API_KEY", provider: "openai"},
		"kept key":       {files: map[string]string{"auth.json": `{"OPENAI_API_KEY":"k"}`}, state: LoginYes, how: "auth.json", provider: "openai"},
		"kept login":     {files: map[string]string{"auth.json": `{"OPENAI_API_KEY":null,"tokens":{"access_token":"a","account_id":"acc"}}`}, state: LoginYes, how: "auth.json", provider: "openai"},
		"empty login":    {files: map[string]string{"auth.json": `{"OPENAI_API_KEY":null}`}, state: LoginNo, provider: "openai"},
		"own provider":   {files: map[string]string{"config.toml": own}, env: []string{"MY_KEY=k"}, state: LoginYes, how: "MY_KEY", provider: "gateway"},
		"without key":    {files: map[string]string{"config.toml": own}, env: []string{"CODEX_API_KEY=k"}, state: LoginNo, how: "MY_KEY", provider: "gateway"},
		"keyless":        {files: map[string]string{"config.toml": "model_provider = \"local\"\n[model_providers.local]\nbase_url = \"http://127.0.0.1:2\"\n"}, state: LoginUnknown, how: "local", provider: "gateway"},
		"other address":  {files: map[string]string{"config.toml": "openai_base_url = \"https://eu.api.openai.com/v1\"\n"}, env: []string{"CODEX_API_KEY=k"}, state: LoginYes, provider: "openai"},
		"keychain":       {files: map[string]string{"config.toml": "cli_auth_credentials_store = \"keyring\"\n"}, state: LoginUnknown, how: "keychain", provider: "openai"},
		"broken setting": {files: map[string]string{"config.toml": "model_provider = \"\"\"\nmine\n\"\"\"\n= =\n[\nx"}, env: []string{"CODEX_API_KEY=k"}, state: LoginYes, provider: "openai"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			home := t.TempDir()
			for name, text := range c.files {
				path := filepath.Join(home, ".codex", name)
				if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			env := append([]string{"HOME=" + home}, c.env...)
			if got := loginOf("codex", env); got.State != c.state || !strings.Contains(got.How, c.how) || got.How == "" {
				t.Errorf("%+v, want %s by %s", got, c.state, c.how)
			}
			a := accountOf("codex", env)
			if a.Provider != c.provider || len(strings.TrimPrefix(a.ID, ours)) != 12 {
				t.Errorf("%+v", a)
			}
			if b := accountOf("codex", append(env, "CODEX_HOME="+t.TempDir(), "CODEX_API_KEY=another")); a == b {
				t.Errorf("two logins are one account %+v", a)
			}
		})
	}
}

func TestCodexHelp(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"": "", "exec --json -": "exec", "-a never e -": "exec", "exec --json resume t-1 -": "exec resume",
		"exec review": "exec review", "exec -- resume": "exec", "login": "",
	} {
		if got := strings.Join(codexHelp(strings.Fields(line)), " "); got != want {
			t.Errorf("%s: %s, want %s", line, got, want)
		}
	}
}
