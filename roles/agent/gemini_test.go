package agent

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/roles/agent/class"
)

func TestGeminiCommand(t *testing.T) {
	t.Parallel()
	base := request(t, "the prompt")
	const id = "11111111-2222-4333-8444-555555555555"
	cases := map[string]struct {
		command, args []string
		ask           func(*Request)
		want          []string
		file          string
	}{
		"alone":      {command: []string{"gemini"}, want: []string{"gemini", "--output-format=stream-json"}},
		"everything": {command: []string{"/opt/bin/gemini"}, ask: func(r *Request) { r.Model, r.SessionID, r.Permissions = "gemini-2.5-pro", id, PermitWorkspace }, want: []string{"/opt/bin/gemini", "--output-format=stream-json", "--model=gemini-2.5-pro", "--approval-mode=yolo", "--session-id=" + id}},
		"full":       {command: []string{"gemini-cli"}, ask: func(r *Request) { r.Permissions = PermitAll }, want: []string{"gemini-cli", "--output-format=stream-json", "--approval-mode=yolo"}},
		"read-only":  {command: []string{"gemini"}, ask: func(r *Request) { r.Permissions = PermitRead }, want: []string{"gemini", "--output-format=stream-json", "--approval-mode=default", "--policy=" + base.PromptPath + ".policy.toml"}, file: base.PromptPath + ".policy.toml"},
		"resume": {command: []string{"gemini"}, ask: func(r *Request) { r.SessionID, r.Resume = id, &Session{ID: "old"} },
			want: []string{"gemini", "--output-format=stream-json", "--resume=old"}},
		"the owner's own": {command: []string{"gemini", "-o", "json"}, args: []string{"-y", "-r", "latest", "-m", "flash"}, ask: func(r *Request) {
			r.Permissions, r.SessionID, r.Model = PermitRead, id, "pro"
		}, want: []string{"gemini", "-o", "json", "-y", "-r", "latest", "-m", "flash"}},
		"the owner's own, joined": {command: []string{"gemini"}, args: []string{"-ojson", "--approval-mode=default", "--session-id=x", "--model={model}"}, ask: func(r *Request) {
			r.Permissions, r.SessionID, r.Model = PermitAll, id, "pro"
		}, want: []string{"gemini", "-ojson", "--approval-mode=default", "--session-id=x", "--model=pro"}},
		"a wrapper": {command: []string{"npx", "@google/gemini-cli"}, ask: func(r *Request) { r.CLI.Adapter = "gemini" }, want: []string{"npx", "@google/gemini-cli", "--output-format=stream-json"}},
		"a loop elsewhere": {command: []string{"gemini"}, ask: func(r *Request) { r.LoopDir, r.LastMessageFile = "/loops/one", "/loops/one/last.txt" },
			want: []string{"gemini", "--output-format=stream-json", "--include-directories=/loops/one"}},
		"files in two places": {command: []string{"gemini"}, ask: func(r *Request) { r.LoopDir, r.LastMessageFile = "/loops/one", "/state/last.txt" },
			want: []string{"gemini", "--output-format=stream-json", "--include-directories=/loops/one", "--include-directories=/state"}},
		"a comma": {command: []string{"gemini"}, ask: func(r *Request) { r.LoopDir = "/loops/a,b" }, want: []string{"gemini", "--output-format=stream-json"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			req := base
			req.CLI = CLI{Command: c.command, Args: c.args}
			if c.ask != nil {
				c.ask(&req)
			}
			got := build(t, req)
			if !slices.Equal(got.Argv, c.want) {
				t.Errorf("argv %q\nwant %q", got.Argv, c.want)
			}
			if got.File != c.file || (got.FileText == "") != (c.file == "") {
				t.Errorf("file %q holds %q", got.File, got.FileText)
			}
			if got.Stdin != base.PromptPath {
				t.Errorf("stdin %q", got.Stdin)
			}
		})
	}
}

func TestGeminiEnvironment(t *testing.T) {
	t.Parallel()
	req := request(t, "p")
	req.CLI.Command = []string{"gemini"}
	has := func(environ []string, own map[string]string, want ...string) {
		t.Helper()
		req.CLI.Env = own
		got := build(t, req, environ...).Env
		for _, w := range want {
			if !slices.Contains(got, w) {
				t.Errorf("no %s in %q", w, got)
			}
		}
	}
	has(nil, nil, "GEMINI_CLI_NO_RELAUNCH=true", "GEMINI_CLI_TRUST_WORKSPACE=true")
	has([]string{"GEMINI_CLI_TRUST_WORKSPACE=false"}, nil, "GEMINI_CLI_NO_RELAUNCH=true", "GEMINI_CLI_TRUST_WORKSPACE=false")
	has([]string{"GEMINI_CLI_TRUST_WORKSPACE=false"}, map[string]string{"GEMINI_CLI_TRUST_WORKSPACE": "maybe"}, "GEMINI_CLI_TRUST_WORKSPACE=maybe")
	// What does not come through to the agent is no reason to leave a default out.
	req.CLI.PassEnv = []string{}
	has([]string{"GEMINI_CLI_TRUST_WORKSPACE=false"}, nil, "GEMINI_CLI_TRUST_WORKSPACE=true")
}

func TestGeminiErrors(t *testing.T) {
	t.Parallel()
	exit := func(code int) proc.Result { return proc.Result{Ended: proc.Exited, Code: code} }
	nested := `[API Error: {"error":{"message":"{\n  \"error\": {\n    \"code\": 429,\n    \"message\": \"You exceeded your current quota. Please retry in 12.5s.\",\n    \"status\": \"RESOURCE_EXHAUSTED\",\n    \"details\": [{\"@type\": \"type.googleapis.com/google.rpc.RetryInfo\", \"retryDelay\": \"36s\"}]\n  }\n}\n","code":429,"status":"Too Many Requests"}}]`
	cases := map[string]struct {
		kind, text, stderr string
		end                proc.Result
		want               geminiFound
	}{
		"silent 401":             {end: exit(145), want: geminiFound{class: class.Auth}},
		"silent 400":             {end: exit(144), want: geminiFound{class: class.Request}},
		"silent 404":             {end: exit(148), want: geminiFound{class: class.Model}},
		"silent 429":             {end: exit(173), want: geminiFound{class: class.Limit}},
		"silent 503":             {end: exit(503 % 256), want: geminiFound{class: class.Overloaded}},
		"silent 1":               {end: exit(1), want: geminiFound{class: class.Unknown}},
		"a signal is no status":  {end: proc.Result{Ended: proc.Killed, Code: 145}, want: geminiFound{class: class.Unknown}},
		"the text wins":          {text: "[API Error: The model is overloaded. Please try again later.]", end: exit(145), want: geminiFound{class: class.Overloaded}},
		"type wins":              {kind: "FatalTurnLimitedError", text: "quota exceeded", end: exit(53), want: geminiFound{class: class.Turns}},
		"a tool's text is none":  {kind: "FatalToolExecutionError", text: "Error executing tool x: quota exceeded, retry in 5s", end: exit(54), want: geminiFound{class: class.Unknown}},
		"nested":                 {text: nested, end: exit(173), want: geminiFound{class: class.Limit, wait: 36 * time.Second, says: "You exceeded your current quota. Please retry in 12.5s."}},
		"reset of a cloud quota": {text: "[API Error: You have exhausted your capacity on this model. Your quota will reset after 13h19m1s.]", end: exit(173), want: geminiFound{class: class.Limit, wait: 13*time.Hour + 19*time.Minute + time.Second}},
		"no free quota":          {text: "Quota exceeded for metric: x, limit: 0\nPlease retry in 30s.", want: geminiFound{class: class.Billing, wait: 30 * time.Second}},
		"a small quota":          {text: "Quota exceeded for metric: x, limit: 0.5", want: geminiFound{class: class.Limit}},
		"quota by its id": {
			text: `[API Error: {"error":{"code":429,"message":"Too many.","details":[{"violations":[{"quotaId":"GenerateRequestsPerMinute"}]}]}}]`,
			want: geminiFound{class: class.Limit, kind: "GenerateRequestsPerMinute", says: "Too many."},
		},
		"a disabled service": {text: `[API Error: {"error":{"code":403,"message":"Off.","details":[{"reason":"SERVICE_DISABLED"}]}}]`, want: geminiFound{class: class.Auth, says: "Off."}},
		"no credits":         {text: `[API Error: {"error":{"code":429,"message":"No.","details":[{"reason":"INSUFFICIENT_G1_CREDITS_BALANCE"}]}}]`, want: geminiFound{class: class.Billing, says: "No."}},
		"reported": {
			text: "[API Error: Something odd.]", end: exit(1),
			stderr: "Error when talking to Gemini API Full report available at: /tmp/a.json TerminalQuotaError: Something odd.\n    at x (file:///y:1:2) {\n  cause: {\n    code: 503\n  },\n  retryDelayMs: 90000,\n  status: 429\n}\n",
			want:   geminiFound{class: class.Limit, wait: 90 * time.Second},
		},
		"reported by name": {text: "[API Error: Odd.]", stderr: "noise\nError when talking to Gemini API Full report available at: /tmp/a.json ModelNotFoundError: Odd.\n", want: geminiFound{class: class.Model}},
		"only the last report": {
			text: "[API Error: Odd.]", end: exit(1),
			stderr: "Error when talking to Gemini API Full report available at: /a.json E: x\n  status: 429\n}\nError when talking to Gemini API Full report available at: /b.json E: y\n  status: 500\n}\n",
			want:   geminiFound{class: class.Overloaded},
		},
		"a report within a line": {text: "[API Error: Odd.]", stderr: "Error executing tool: Error when talking to Gemini API x.json TerminalQuotaError: y\n", want: geminiFound{class: class.Unknown}},
	}
	for name, c := range cases {
		if got := geminiError(c.kind, c.text, c.stderr, c.end); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// Success is only what the last event calls one, and only when none before it
// says that the turn was ended early.
func TestGeminiEnds(t *testing.T) {
	t.Parallel()
	init := `{"type":"init","session_id":"s","model":"auto"}` + "\n"
	ok := `{"type":"result","status":"success","stats":{"total_tokens":30,"input_tokens":10,"output_tokens":15,"cached":4,"models":{"small":{"total_tokens":9,"input_tokens":8},"big":{"total_tokens":21,"input_tokens":2}}}}` + "\n"
	for name, c := range map[string]struct {
		stream string
		end    proc.Result
		done   bool
		class  class.Class
		model  string
		usage  string
	}{
		"success":           {stream: init + ok, done: true, model: "big", usage: "6+4r+?w>20(5)"},
		"no result, exit 0": {stream: init, class: class.NoResult, model: "auto", usage: "?"},
		"error, exit 0":     {stream: init + `{"type":"result","status":"error"}`, class: class.Unknown, model: "auto", usage: "?"},
		"turns":             {stream: init + `{"type":"error","severity":"error","message":"Maximum session turns exceeded"}` + "\n" + ok, class: class.Turns, model: "big", usage: "6+4r+?w>20(5)"},
		"a loop":            {stream: init + `{"type":"error","severity":"warning","message":"Loop detected, stopping execution"}` + "\n" + ok, class: class.Unknown, model: "big", usage: "6+4r+?w>20(5)"},
		"a warning":         {stream: init + `{"type":"error","severity":"warning","message":"Agent execution blocked: 429"}` + "\n" + ok, done: true, model: "big", usage: "6+4r+?w>20(5)"},
		"only half a total": {stream: init + `{"type":"result","status":"success","stats":{"total_tokens":30,"output_tokens":15}}`, done: true, model: "auto", usage: "?+?r+?w>15(?)"},
		"odd counts":        {stream: init + `{"type":"result","status":"success","stats":{"total_tokens":5,"input_tokens":"7","output_tokens":9,"cached":-3,"input":8}}`, done: true, model: "auto", usage: "8+?r+?w>9(?)"},
	} {
		s := gemini{}.Stream(Request{}).(*geminiStream)
		s.Stdout([]byte(c.stream))
		got := s.Finish(c.end)
		if got.Done != c.done || got.Class != c.class || got.Model != c.model || usageWord(got.Usage) != c.usage {
			t.Errorf("%s: done %t, %q, %q, %s", name, got.Done, got.Class, got.Model, usageWord(got.Usage))
		}
	}
}

// A limit's end counts from the time in the event, else from the last output.
func TestGeminiLimitWithoutATime(t *testing.T) {
	t.Parallel()
	last := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	s := gemini{}.Stream(Request{}).(*geminiStream)
	s.Stdout([]byte(`{"type":"result","status":"error","error":{"type":"unknown","message":"Suggested retry after 3600s."}}`))
	if got := s.Finish(proc.Result{Ended: proc.Exited, Code: 173, LastOutput: last}); got.Limit == nil || !got.Limit.ResetsAt.Equal(last.Add(time.Hour)) {
		t.Errorf("%+v", got.Limit)
	}
}

func TestGeminiLogin(t *testing.T) {
	t.Parallel()
	file := func(home, name, text string) {
		t.Helper()
		path := filepath.Join(home, ".gemini", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	chosen := func(method string) string { return `{"security":{"auth":{"selectedType":"` + method + `"}}}` }
	for name, c := range map[string]struct {
		files map[string]string
		env   []string
		state string
		how   string
	}{
		"nothing":                 {state: LoginNo, how: "settings.json"},
		"a key":                   {env: []string{"GEMINI_API_KEY=k"}, state: LoginYes, how: "GEMINI_API_KEY"},
		"an empty key":            {env: []string{"GEMINI_API_KEY="}, state: LoginNo},
		"a key in a file":         {files: map[string]string{".env": "GEMINI_API_KEY=k"}, state: LoginUnknown, how: ".env"},
		"another endpoint":        {env: []string{"GEMINI_API_KEY=k", "GOOGLE_GEMINI_BASE_URL=http://x"}, state: LoginNo, how: "selectedType"},
		"chosen, another one":     {files: map[string]string{"settings.json": chosen("gemini-api-key")}, env: []string{"GEMINI_API_KEY=k", "GOOGLE_GEMINI_BASE_URL=http://x"}, state: LoginYes},
		"chosen without a key":    {files: map[string]string{"settings.json": chosen("gemini-api-key")}, state: LoginUnknown, how: "keychain"},
		"logged in at Google":     {files: map[string]string{"settings.json": chosen("oauth-personal"), "oauth_creds.json": "{}"}, env: []string{"GEMINI_API_KEY=k"}, state: LoginYes, how: "oauth_creds.json"},
		"not logged in at Google": {files: map[string]string{"settings.json": chosen("oauth-personal")}, env: []string{"GEMINI_API_KEY=k"}, state: LoginNo, how: "oauth_creds.json"},
		"old settings":            {files: map[string]string{"settings.json": `{"selectedAuthType":"oauth-personal"}`, "oauth_creds.json": "{}"}, state: LoginYes},
		"Vertex without a place":  {env: []string{"GOOGLE_GENAI_USE_VERTEXAI=true"}, state: LoginNo},
		"Vertex with a key":       {env: []string{"GOOGLE_GENAI_USE_VERTEXAI=true", "GOOGLE_API_KEY=k"}, state: LoginYes},
		"Vertex on a machine":     {env: []string{"GOOGLE_GENAI_USE_VERTEXAI=true", "GOOGLE_CLOUD_PROJECT=p", "GOOGLE_CLOUD_LOCATION=l"}, state: LoginUnknown},
		"something new":           {files: map[string]string{"settings.json": chosen("magic")}, state: LoginUnknown, how: "magic"},
	} {
		home := t.TempDir()
		for f, text := range c.files {
			file(home, f, text)
		}
		got := loginOf("gemini", append([]string{"HOME=" + home}, c.env...))
		if got.State != c.state || !strings.Contains(got.How, c.how) || got.How == "" || strings.Contains(got.How, "=k") {
			t.Errorf("%s: %+v, want %s, %q", name, got, c.state, c.how)
		}
	}
}

func TestGeminiAccount(t *testing.T) {
	t.Parallel()
	one, two := t.TempDir(), t.TempDir()
	account := func(env ...string) Account {
		req := request(t, "p")
		req.CLI.Command = []string{"gemini"}
		return AccountOf(req, env)
	}
	same := func(what string, a, b Account, want bool) {
		t.Helper()
		if a.Provider != "google" || b.Provider != "google" || a.ID == "" || (a == b) != want {
			t.Errorf("%s: %+v and %+v", what, a, b)
		}
	}
	same("one key in two homes", account("HOME="+one, "GEMINI_API_KEY=k"), account("HOME="+two, "GEMINI_API_KEY=k"), true)
	same("two keys", account("HOME="+one, "GEMINI_API_KEY=k"), account("HOME="+one, "GEMINI_API_KEY=l"), false)
	same("two endpoints", account("HOME="+one, "GEMINI_API_KEY=k"), account("HOME="+one, "GEMINI_API_KEY=k", "GOOGLE_GEMINI_BASE_URL=http://x"), false)
	same("two homes", account("HOME="+one), account("HOME="+two), false)
	for _, home := range []string{one, two} {
		for name, text := range map[string]string{"settings.json": `{"security":{"auth":{"selectedType":"oauth-personal"}}}`, "google_accounts.json": `{"active":"a@example.org","old":[]}`} {
			if err := os.MkdirAll(filepath.Join(home, ".gemini"), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(home, ".gemini", name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	same("one operator in two homes", account("HOME="+one), account("HOME="+two), true)
}

// A role that may only read and gets free has failed, whatever it says then.
func TestGeminiEscape(t *testing.T) {
	t.Parallel()
	use := func(tool, id, path string) string {
		return `{"type":"tool_use","tool_name":"` + tool + `","tool_id":"` + id + `","parameters":{"file_path":"` + path + `"}}` + "\n"
	}
	result := func(id, status string) string {
		return `{"type":"tool_result","tool_id":"` + id + `","status":"` + status + `"}` + "\n"
	}
	const done = `{"type":"result","status":"success"}`
	for name, c := range map[string]struct {
		permissions, stream string
		escaped             string
	}{
		"free":              {PermitRead, use("exit_plan_mode", "1", "") + result("1", "success"), "exit_plan_mode"},
		"free and done":     {PermitRead, use("exit_plan_mode", "1", "") + use("read_file", "2", "/repo/a") + result("2", "success") + result("1", "success") + done, "exit_plan_mode"},
		"refused":           {PermitRead, use("exit_plan_mode", "1", "") + result("1", "error") + done, ""},
		"another tool":      {PermitRead, use("exit_plan_mode", "1", "") + use("read_file", "2", "/repo/a") + result("2", "success"), ""},
		"free from nothing": {PermitWorkspace, use("exit_plan_mode", "1", "") + use("write_file", "2", "/repo/a") + result("1", "success") + result("2", "success") + done, ""},
		"written":           {PermitRead, use("write_file", "1", "/repo/sub/a.go") + result("1", "success"), "wrote /repo/sub/a.go"},
		"replaced":          {PermitRead, use("replace", "1", "/repo/a.go") + result("1", "success"), "wrote /repo/a.go"},
		"a plan":            {PermitRead, use("write_file", "1", "plan.md") + use("write_file", "2", "/home/user/.gemini/tmp/repo/1/plans/p.md") + result("1", "success") + result("2", "success") + done, ""},
	} {
		s := gemini{}.Stream(Request{Permissions: c.permissions, WorkDir: "/repo"})
		s.Stdout([]byte(c.stream + "\n"))
		settled := s.Settled()
		got := s.Finish(proc.Result{Ended: proc.Exited})
		failed := settled == Hopeless && got.Class == class.Config && !got.Done && strings.Contains(got.ErrorText, "--policy")
		if failed != (c.escaped != "") || !strings.Contains(got.ErrorText, c.escaped) {
			t.Errorf("%s: settled %d, %+v", name, settled, got)
		}
	}
}

func TestGeminiDenied(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind, message string
		want          bool
	}{
		{"policy_violation", "Tool execution denied by policy.", true},
		{"tool_not_registered", `Tool "write_file" not found. Did you mean one of: "read_file"?`, true},
		{"tool_not_registered", `Tool "frobnicate" not found.`, false},
		{"unhandled_exception", `Tool execution for "Shell" requires user confirmation, which is not supported in non-interactive mode.`, true},
		{"unhandled_exception", "x", false},
		{"invalid_tool_params", "Access denied: plan path (/a) must be within the designated plans directory (/b).", true},
		{"invalid_tool_params", "params must have required property", false},
		{"permission_denied", "EACCES", false}, {"", "", false},
	} {
		if geminiDenied(c.kind, c.message) != c.want {
			t.Errorf("%s %q", c.kind, c.message)
		}
	}
}
