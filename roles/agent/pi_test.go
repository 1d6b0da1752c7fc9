package agent

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/recovery/permit"
	"github.com/superloop/superloop/roles/agent/class"
)

func TestPiCommand(t *testing.T) {
	t.Parallel()
	base := request(t, "the prompt")
	for name, c := range map[string]struct {
		command, args []string
		ask           func(*Request)
		want          string
	}{
		"alone": {want: "pi --mode json"},
		"everything": {ask: func(r *Request) {
			r.Model, r.Thinking, r.Permissions, r.SessionID, r.Resume = "anthropic/x", "max", PermitAll, "new", &Session{ID: "old"}
		}, want: "pi --mode json --model anthropic/x --thinking xhigh --session old"},
		"no thinking": {ask: func(r *Request) { r.Thinking = "none" }, want: "pi --mode json --thinking off"},
		"standard":    {ask: func(r *Request) { r.Thinking = "standard" }, want: "pi --mode json --thinking medium"},
		"to read":     {ask: func(r *Request) { r.Permissions = PermitRead }, want: "pi --mode json --tools read,grep,find,ls --no-extensions"},
		"the owner's own": {args: strings.Fields("--mode text --model a --thinking low -t read -ne -c"), ask: func(r *Request) {
			r.Model, r.Thinking, r.Permissions, r.Resume = "b", "high", PermitRead, &Session{ID: "s"}
		}, want: "pi --mode text --model a --thinking low -t read -ne -c"},
		"a placed model": {args: []string{"--models", "{model}"}, ask: func(r *Request) { r.Model = "b" }, want: "pi --mode json --models b"},
		"other models":   {args: []string{"--models", "c"}, ask: func(r *Request) { r.Model = "b" }, want: "pi --mode json --model b --models c"},
		"prints":         {command: []string{"pi", "-p"}, want: "pi -p --mode json"}, // -p would take a word after it
	} {
		req := base
		if req.CLI = (CLI{Command: c.command, Args: c.args}); c.command == nil {
			req.CLI.Command = []string{"pi"}
		}
		if c.ask != nil {
			c.ask(&req)
		}
		if got := strings.Join(build(t, req).Argv, " "); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	req := base
	req.CLI.Command, req.Resume = []string{"pi"}, &Session{ID: "../x"}
	if _, err := (pi{}).Command(req, nil); err == nil || !strings.Contains(err.Error(), "session id") {
		t.Error(err)
	}
	req.Resume = nil
	c, err := (pi{}).Command(req, []string{"OPENAI_LOG=off", "ANTHROPIC_API_KEY=k", "CODEX_API_KEY=other"})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"PI_SKIP_VERSION_CHECK": "1", "PI_TELEMETRY": "0", "ANTHROPIC_LOG": "info", "OPENAI_LOG": "off", "ANTHROPIC_API_KEY": "k", "CODEX_API_KEY": ""} {
		if got := valueIn(c.Env, name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

// TestPiPrograms: pi installs, by a command that the repository names, what the repository names, whatever tools it has. So
// a role that is to read does not start then.
func TestPiPrograms(t *testing.T) {
	t.Parallel()
	req := request(t, "p")
	req.CLI.Command = []string{"pi"}
	path := filepath.Join(req.WorkDir, ".pi", "settings.json")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	for settings, refused := range map[string]bool{
		`{"theme": "dark", "compaction": {"enabled": false}}`: false, `{"packages": ["npm:x"]}`: true, `{"npmCommand": ["./x"]}`: true, `{`: true, `[]`: true,
	} {
		if err := os.WriteFile(path, []byte(settings), 0o600); err != nil {
			t.Fatal(err)
		}
		for permissions, may := range map[string]bool{PermitRead: !refused, PermitWorkspace: true, "": true} {
			req.Permissions = permissions
			if _, err := (pi{}).Command(req, nil); (err == nil) != may || err != nil && !strings.Contains(err.Error(), "mv "+text.Paste(path)) {
				t.Errorf("%s, %q: %v", settings, permissions, err)
			}
		}
	}
}

// TestPiIsNotAsked: superloop cannot judge what pi does, so a run that is to be judged does not begin.
func TestPiIsNotAsked(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{permit.Observe, permit.Enforce} {
		req := request(t, "p")
		req.CLI.Command, req.Asked = []string{"pi"}, mode
		_, err := Run(t.Context(), nil, req, Options{})
		if err == nil || !strings.Contains(err.Error(), "superloop cannot be asked by pi about its tools") {
			t.Errorf("%s: %v", mode, err)
		}
	}
	if slices.Contains(Askers(), "pi") {
		t.Error("pi is listed as one that can be asked")
	}
}

// TestPiClasses: what the CLI tells of a failure, by the libraries with which it reaches the providers.
func TestPiClasses(t *testing.T) {
	t.Parallel()
	for failure, want := range map[string]class.Class{
		`401 {"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"}}`: class.Auth,
		`403 Forbidden`: class.Auth,
		`400 {"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the API."}}`: class.Billing,
		`400 {"type":"error","error":{"type":"invalid_request_error","message":"max_tokens: must be positive"}}`:                      class.Request,
		`413 {"error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}`:                                     class.Context,
		`429 {"type":"error","error":{"type":"rate_limit_error","message":"x"}}`:                                                      class.Limit,
		`429 You exceeded your current quota, please check your plan and billing details.`:                                            class.Limit,
		`{"error":{"code":429,"message":"Resource has been exhausted","status":"RESOURCE_EXHAUSTED"}}`:                                class.Limit,
		`{"error":{"code":503,"message":"The model is overloaded.","status":"UNAVAILABLE"}}`:                                          class.Overloaded,
		`{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`:                                                 class.Overloaded,
		`Mistral API error (429): x`: class.Limit,
		`529 {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`: class.Overloaded,
		`500 status code (no body)`: class.Overloaded,
		`404 {"type":"error","error":{"type":"not_found_error","message":"model: x"}}`: class.Model,
		`You have hit your ChatGPT usage limit (plus plan). Try again in ~5 min.`:      class.Limit,
		`Connection error.`: class.Network, `terminated`: class.Network, `Request timed out.`: class.Network, `Anthropic stream ended before message_stop`: class.Network,
		`Throttling error: Too many tokens, please wait`: class.Limit, `Service unavailable: x`: class.Overloaded,
		`This model's maximum context length is 8192 tokens`: class.Context, `No API key for provider: x`: class.Auth, `aborted`: class.Unknown, `x`: class.Unknown, `{`: class.Unknown,
	} {
		if got, said := piClass(failure); got != want || said == "" {
			t.Errorf("%s: %s (%s), want %s", failure, got, said, want)
		}
	}
}

// TestPiTriesAgain: superloop lets the CLI try once more by itself, and takes over when it begins to do so a second time.
func TestPiTriesAgain(t *testing.T) {
	t.Parallel()
	s := pi{}.Stream(Request{})
	say := func(want Settled, lines ...string) {
		t.Helper()
		for _, line := range lines {
			s.Stdout([]byte(line + "\n"))
		}
		if got := s.Settled(); got != want {
			t.Errorf("settled %d, want %d", got, want)
		}
	}
	const failed = `{"type":"message_end","message":{"role":"assistant","content":[],"stopReason":"error","errorMessage":"529 {\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}"}}`
	say(Going, `{"type":"session","id":"s"}`, `{"type":"agent_start"}`, failed)
	say(Finished, `{"type":"agent_end"}`)
	say(Going, `{"type":"auto_retry_start","attempt":1}`, `{"type":"agent_start"}`, failed)
	say(Finished, `{"type":"agent_end"}`)
	say(Hopeless, `{"type":"auto_retry_start","attempt":2}`)
	if got := s.Finish(proc.Result{Ended: proc.Killed}); got.Class != class.Overloaded || got.Done || got.ErrorText != "Overloaded" {
		t.Errorf("%+v", got)
	}

	s = pi{}.Stream(Request{})
	const limit = `[log_1, request-id: "r"] post https://a/v1 failed with status 429 in 3ms - retrying, 2 attempts remaining`
	say(Going, `{"type":"session","id":"s"}`, `{"type":"agent_start"}`)
	s.Stderr([]byte(limit + "\n"))
	say(Waiting)
	s.Stderr([]byte(`[log_2, retryOf: log_1] post https://a/v1 succeeded with status 200 in 3ms` + "\n"))
	say(Going)
	s.Stderr([]byte(strings.Replace(limit, "429", "500", 1) + "\n")) // the CLI itself chooses how long it waits then
	say(Going)
	s.Stderr([]byte(limit + "\n"))
	say(Going, `{"type":"message_update"}`)
	s.Stderr([]byte(limit + "\n"))
	if got := s.Finish(proc.Result{Ended: proc.Killed}); got.Class != class.Limit || got.Limit == nil || got.Done {
		t.Errorf("%+v", got)
	}
}

func TestPiCredential(t *testing.T) {
	t.Parallel()
	home, work := t.TempDir(), t.TempDir()
	write := func(path, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	dir := filepath.Join(home, ".pi", "agent")
	for _, c := range []struct {
		what, model, args string
		files             map[string]string
		env               []string
		state             string
		want              Account
	}{
		{"nothing is known", "", "", nil, nil, LoginUnknown, Account{"pi", accountHere(dir)}},
		{"a key", "anthropic/x", "", nil, []string{"ANTHROPIC_API_KEY=k"}, LoginYes, Account{"anthropic", AccountID("", "k")}},
		{"a token goes before a key", "anthropic/x", "", nil, []string{"ANTHROPIC_API_KEY=k", "ANTHROPIC_OAUTH_TOKEN=t"}, LoginYes, Account{"anthropic", AccountID("", "t")}},
		{"a key of another", "openai/x", "", nil, []string{"ANTHROPIC_API_KEY=k"}, LoginUnknown, Account{"openai", accountHere("openai", dir, "")}},
		{"a model alone", "sonnet", "", nil, []string{"ANTHROPIC_API_KEY=k"}, LoginYes, Account{"pi", accountHere(dir)}},
		{"a provider by its flag", "sonnet", "--provider xai", nil, []string{"XAI_API_KEY=k"}, LoginYes, Account{"xai", AccountID("", "k")}},
		{"a key as a flag", "xai/x", "--api-key f", nil, []string{"XAI_API_KEY=k"}, LoginYes, Account{"xai", AccountID("", "f")}},
		{"the provider of the settings", "", "", map[string]string{"settings.json": `{"defaultProvider": "google"}`}, []string{"GEMINI_API_KEY=k"}, LoginYes, Account{"google", AccountID("", "k")}},
		{"a key in the file goes first", "openai/x", "", map[string]string{"auth.json": `{"openai": {"type": "api_key", "key": "f"}}`}, []string{"OPENAI_API_KEY=k"}, LoginYes, Account{"openai", AccountID("", "f")}},
		{"the name of a variable", "openai/x", "", map[string]string{"auth.json": `{"openai": {"type": "api_key", "key": "MINE"}}`}, []string{"MINE=k"}, LoginYes, Account{"openai", AccountID("", "k")}},
		{"a command", "openai/x", "", map[string]string{"auth.json": `{"openai": {"type": "api_key", "key": "!pass x"}}`}, []string{"OPENAI_API_KEY=k"}, LoginYes, Account{"openai", accountHere("openai", dir, "")}},
		{"a login with an account", "openai-codex/x", "", map[string]string{"auth.json": `{"openai-codex": {"type": "oauth", "access": "a", "accountId": "id"}}`}, nil, LoginYes, Account{"openai-codex", AccountID("account", "id")}},
		{"a login", "anthropic/x", "", map[string]string{"auth.json": `{"anthropic": {"type": "oauth", "access": "a"}}`}, []string{"ANTHROPIC_API_KEY=k"}, LoginYes, Account{"anthropic", accountHere("anthropic", dir, "")}},
		{"a provider of the owner's own", "mine/x", "", map[string]string{"models.json": `{"providers": {"mine": {"baseUrl": "http://a", "apiKey": "MINE"}}}`}, []string{"MINE=k"}, LoginYes, Account{"mine", AccountID("http://a", "k")}},
		{"another address", "openai/x", "", map[string]string{"models.json": `{"providers": {"openai": {"baseUrl": "http://a"}}}`}, []string{"OPENAI_API_KEY=k"}, LoginYes, Account{"openai", AccountID("http://a", "k")}},
		{"files that are broken", "openai/x", "", map[string]string{"models.json": `{`, "auth.json": `[]`, "settings.json": `7`}, []string{"OPENAI_API_KEY=k"}, LoginYes, Account{"openai", AccountID("", "k")}},
	} {
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		for name, text := range c.files {
			write(filepath.Join(dir, name), text)
		}
		req := Request{WorkDir: work, Model: c.model, CLI: CLI{Command: []string{"pi"}, Args: strings.Fields(c.args)}}
		login, account := piCredential(req, append([]string{"HOME=" + home}, c.env...))
		if login.State != c.state || account != c.want {
			t.Errorf("%s: %+v %+v, want %s %+v", c.what, login, account, c.state, c.want)
		}
		if strings.Contains(login.How, "=") {
			t.Errorf("%s: %q", c.what, login.How)
		}
	}
	write(filepath.Join(work, ".pi", "settings.json"), `{"defaultProvider": "groq"}`)
	write(filepath.Join(home, "else", "settings.json"), `{"defaultProvider": "google"}`)
	req := Request{WorkDir: work, CLI: CLI{Command: []string{"pi"}}}
	if _, account := piCredential(req, []string{"HOME=" + home, "PI_CODING_AGENT_DIR=" + filepath.Join(home, "else"), "GROQ_API_KEY=k"}); account != (Account{"groq", AccountID("", "k")}) {
		t.Errorf("%+v", account)
	}
}
