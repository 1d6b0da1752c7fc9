package agent

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/roles/agent/class"
)

func TestOpencodeCommand(t *testing.T) {
	t.Parallel()
	base := request(t, "the prompt")
	const title = "--title=superloop demo reviewer 3"
	cases := map[string]struct {
		command, args []string
		ask           func(*Request)
		want          []string
	}{
		"alone":            {command: []string{"opencode"}, want: []string{"opencode", "run", "--format=json", title}},
		"run":              {command: []string{"opencode", "run"}, want: []string{"opencode", "run", "--format=json", title}},
		"run in args":      {command: []string{"opencode"}, args: []string{"run", "--pure"}, want: []string{"opencode", "run", "--format=json", title, "--pure"}},
		"flags before run": {command: []string{"opencode", "--pure"}, args: []string{"--log-level", "INFO", "run", "-f", "a"}, want: []string{"opencode", "--pure", "--log-level", "INFO", "run", "--format=json", title, "-f", "a"}},
		"an agent run":     {command: []string{"opencode"}, args: []string{"--agent", "run"}, want: []string{"opencode", "run", "--format=json", title, "--agent", "run"}},
		"everything": {command: []string{"/opt/bin/opencode"}, ask: func(r *Request) {
			r.Model, r.Thinking, r.Permissions, r.SessionID = "openai/gpt-5", "standard", PermitAll, "x"
		}, want: []string{"/opt/bin/opencode", "run", "--format=json", "--model=openai/gpt-5", "--variant=medium", title, "--auto"}},
		"most":           {command: []string{"opencode"}, ask: func(r *Request) { r.Model, r.Thinking = "openai/gpt-5", "max" }, want: []string{"opencode", "run", "--format=json", "--model=openai/gpt-5", "--variant=high", title}},
		"most of claude": {command: []string{"opencode"}, ask: func(r *Request) { r.Model, r.Thinking = "anthropic/claude-sonnet-4-5", "max" }, want: []string{"opencode", "run", "--format=json", "--model=anthropic/claude-sonnet-4-5", "--variant=max", title}},
		"resume":         {command: []string{"opencode"}, ask: func(r *Request) { r.Resume = &Session{ID: "ses_1"} }, want: []string{"opencode", "run", "--format=json", "--session=ses_1"}},
		"the owner's own": {command: []string{"opencode", "run", "--format", "default"}, args: []string{"-c", "--variant=low", "-m", "a/b", "--yolo"}, ask: func(r *Request) {
			r.Model, r.Thinking, r.Permissions, r.Resume = "c/d", "high", PermitAll, &Session{ID: "s"}
		}, want: []string{"opencode", "run", "--format", "default", "-c", "--variant=low", "-m", "a/b", "--yolo"}},
		"a wrapper":         {command: []string{"npx", "opencode-ai"}, ask: func(r *Request) { r.CLI.Adapter = "opencode" }, want: []string{"npx", "opencode-ai", "run", "--format=json", title}},
		"in a container":    {command: []string{"docker", "run", "image", "opencode", "run"}, ask: func(r *Request) { r.CLI.Adapter = "opencode" }, want: []string{"docker", "run", "image", "opencode", "run", "--format=json", title}},
		"a fast request":    {command: []string{"opencode"}, args: []string{"slow"}, ask: func(r *Request) { r.Fast, r.CLI.FastArgs = true, []string{"run", "--agent", "quick"} }, want: []string{"opencode", "run", "--format=json", title, "--agent", "quick"}},
		"a prompt as words": {command: []string{"opencode"}, args: []string{"run"}, ask: func(r *Request) { r.CLI.PromptMode = PromptArg }, want: []string{"opencode", "run", "--format=json", title, "the prompt"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			req := base
			req.CLI = CLI{Command: c.command, Args: c.args}
			if c.ask != nil {
				c.ask(&req)
			}
			before := slices.Concat(req.CLI.Command, req.args())
			if got := build(t, req); !slices.Equal(got.Argv, c.want) {
				t.Errorf("argv %q\nwant %q", got.Argv, c.want)
			}
			if !slices.Equal(slices.Concat(req.CLI.Command, req.args()), before) {
				t.Error("the request was changed")
			}
		})
	}
}

func TestOpencodeRefusesABadRequest(t *testing.T) {
	t.Parallel()
	req := request(t, "p")
	req.CLI.Command, req.Permissions = []string{"opencode"}, "some"
	if _, err := (opencode{}).Command(req, nil); err == nil || !strings.Contains(err.Error(), "read-only") {
		t.Errorf("%v", err)
	}
	req.Permissions = PermitRead
	if _, err := (opencode{}).Command(req, []string{"OPENCODE_CONFIG_CONTENT={ // a comment\n}"}); err == nil || !strings.Contains(err.Error(), "OPENCODE_CONFIG_CONTENT") {
		t.Errorf("%v", err)
	}
}

// permissions are those that the environment of a command carries, as opencode
// merges them: OPENCODE_PERMISSION for all agents, then those of the agent.
func permissions(t *testing.T, env []string, agent string) (all, own map[string]any, settings map[string]any) {
	t.Helper()
	if text := valueIn(env, "OPENCODE_PERMISSION"); text != "" {
		if err := json.Unmarshal([]byte(text), &all); err != nil {
			t.Fatal(err)
		}
	}
	if text := valueIn(env, opencodeContentVariable); text != "" {
		if err := json.Unmarshal([]byte(text), &settings); err != nil {
			t.Fatal(err)
		}
		own, _ = object(object(settings, "agent"), agent)["permission"].(map[string]any)
	}
	return all, own, settings
}

func TestOpencodePermissions(t *testing.T) {
	t.Parallel()
	req := request(t, "p")
	req.CLI.Command = []string{"opencode"}
	req.LoopDir, req.LastMessageFile = "/loops/one", "/loops/one/last.txt"
	if all, _, settings := permissions(t, build(t, req).Env, "build"); all != nil || settings != nil {
		t.Errorf("without permissions: %v, %v", all, settings)
	}

	req.Permissions = PermitWorkspace
	all, _, settings := permissions(t, build(t, req).Env, "build")
	if outer := object(all, "external_directory"); len(all) != 1 || settings != nil || outer["*"] != "deny" || outer["/loops/one/*"] != "allow" || len(outer) != 2 {
		t.Errorf("the workspace: %v, %v", all, settings)
	}
	req.Permissions = PermitAll
	if all, _, settings := permissions(t, build(t, req).Env, "build"); all != nil || settings != nil {
		t.Errorf("full: %v, %v", all, settings)
	}

	req.Permissions = PermitRead
	command := build(t, req)
	all, own, settings := permissions(t, command.Env, "build")
	for what, p := range map[string]map[string]any{"all": all, "the agent": own} {
		if p["*"] != "deny" || p["edit"] != "deny" || p["bash"] != "deny" || p["task"] != "deny" || p["glob"] != "allow" || object(p, "read")["*.env"] != "deny" {
			t.Errorf("%s: %v", what, p)
		}
	}
	if settings["default_agent"] != "build" {
		t.Errorf("another agent may be chosen: %v", settings)
	}
	// The last rule that matches counts, so that "*" must be the first.
	if text := valueIn(command.Env, "OPENCODE_PERMISSION"); !strings.HasPrefix(text, `{"*":"deny",`) || !strings.Contains(text, `"read":{"*":"allow","*.env":"deny"`) {
		t.Errorf("the order of the rules: %s", text)
	}
	if slices.Contains(command.Argv, "--auto") {
		t.Errorf("%q", command.Argv)
	}

	// The owner's agent is the one that is held, and their settings stay.
	req.CLI.Args = []string{"run", "--agent", "critic"}
	environ := []string{`OPENCODE_CONFIG_CONTENT={"model":"a/b","agent":{"critic":{"prompt":"{role}","permission":{"edit":"allow"}}}}`}
	_, own, settings = permissions(t, build(t, req, environ...).Env, "critic")
	if own["edit"] != "deny" || settings["model"] != "a/b" || settings["default_agent"] != "critic" || object(object(settings, "agent"), "critic")["prompt"] != "{role}" {
		t.Errorf("%v", settings)
	}
	req.CLI.Env = map[string]string{"OPENCODE_CONFIG_CONTENT": `{"username":"{role}"}`}
	_, own, settings = permissions(t, build(t, req, environ...).Env, "critic")
	if own["edit"] != "deny" || settings["username"] != "reviewer" || settings["model"] != nil || req.CLI.Env["OPENCODE_CONFIG_CONTENT"] != `{"username":"{role}"}` {
		t.Errorf("%v", settings)
	}
	// Whoever says it all themselves is left alone.
	req.CLI.Env = map[string]string{"OPENCODE_PERMISSION": `{"edit":"allow"}`}
	if all, own, settings := permissions(t, build(t, req).Env, "critic"); all["edit"] != "allow" || own != nil || settings != nil {
		t.Errorf("%v, %v", all, settings)
	}
}

func TestOpencodeErrors(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		failure opencodeFailure
		class   class.Class
		kind    string
	}{
		"429":                {failure: opencodeFailure{name: "APIError", status: 429, text: "Too many"}, class: class.Limit},
		"429, no money":      {failure: opencodeFailure{name: "APIError", status: 429, body: `{"error":{"type":"insufficient_quota","code":"insufficient_quota"}}`}, class: class.Billing},
		"429, free tier":     {failure: opencodeFailure{name: "APIError", status: 429, body: `{"type":"error","error":{"type":"FreeUsageLimitError","message":"x"}}`}, class: class.Limit, kind: "FreeUsageLimitError"},
		"429, subscription":  {failure: opencodeFailure{name: "APIError", status: 429, body: `{"type":"error","error":{"type":"GoUsageLimitError"},"metadata":{"limitName":"weekly"}}`}, class: class.Limit, kind: "weekly"},
		"402":                {failure: opencodeFailure{name: "APIError", status: 402}, class: class.Billing},
		"400":                {failure: opencodeFailure{name: "APIError", status: 400, text: "The request is broken."}, class: class.Request},
		"400, Google's key":  {failure: opencodeFailure{name: "APIError", status: 400, text: "API key not valid. Please pass a valid API key."}, class: class.Auth},
		"400, its length":    {failure: opencodeFailure{name: "APIError", status: 400, body: `{"error":{"code":"context_length_exceeded","type":"invalid_request_error"}}`}, class: class.Context},
		"529":                {failure: opencodeFailure{name: "APIError", status: 529}, class: class.Overloaded},
		"no connection":      {failure: opencodeFailure{name: "APIError", retryable: true, text: "Connection reset by server"}, class: class.Network},
		"no status":          {failure: opencodeFailure{name: "APIError", text: "?"}, class: class.Unknown},
		"in the stream":      {failure: opencodeFailure{name: "UnknownError", text: `{"message":"Internal error encountered.","type":"server_error","code":null}`}, class: class.Overloaded},
		"a limit in it":      {failure: opencodeFailure{name: "UnknownError", text: `{"type":"error","error":{"type":"rate_limit_error"}}`}, class: class.Limit},
		"unknown":            {failure: opencodeFailure{name: "UnknownError", text: "rate limit"}, class: class.Unknown},
		"no login":           {failure: opencodeFailure{name: "ProviderAuthError"}, class: class.Auth},
		"too long":           {failure: opencodeFailure{name: "ContextOverflowError"}, class: class.Context},
		"its answer":         {failure: opencodeFailure{name: "MessageOutputLengthError"}, class: class.Unknown},
		"stopped":            {failure: opencodeFailure{name: "MessageAbortedError"}, class: class.NoResult},
		"numbers for a code": {failure: opencodeFailure{name: "UnknownError", text: `{"error":{"code":429}}`}, class: class.Unknown},
	} {
		if got := c.failure.class(); got != c.class || c.failure.provider().limit() != c.kind {
			t.Errorf("%s: %q %q, want %q %q", name, got, c.failure.provider().limit(), c.class, c.kind)
		}
	}
	for text, want := range map[string]class.Class{
		"ProviderModelNotFoundError: Model not found: mock/nope.":                                                                                class.Model,
		"ProviderModelNotFoundError: Model not found: anthropic/claude-sonnet-4-5. Did you mean: claude-sonnet-4-5, claude-sonnet-4-5-20250929?": class.Auth,
		"ProviderModelNotFoundError: Model not found: anthropic/claude-sonet-4-5. Did you mean: claude-sonnet-4-5?":                              class.Model,
		"ConfigInvalidError: x": class.Config,
		"TypeError: rate limit": class.Unknown,
	} {
		if got := opencodeCause(text); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

// Headers tell when a limit ends, in every way that providers have for it.
func TestResetOf(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)
	unix := func(d time.Duration) string { return marshalled(at.Add(d).Unix()) }
	for name, c := range map[string]struct {
		headers map[string]string
		want    time.Duration // 0: not told
	}{
		"nothing":        {},
		"seconds":        {map[string]string{"Retry-After": "3600"}, time.Hour},
		"fractions":      {map[string]string{"retry-after": "1.5"}, 1500 * time.Millisecond},
		"milliseconds":   {map[string]string{"retry-after-ms": "2500", "retry-after": "9"}, 2500 * time.Millisecond},
		"a date":         {map[string]string{"retry-after": at.Add(2 * time.Hour).Format(http.TimeFormat)}, 2 * time.Hour},
		"a date gone":    {map[string]string{"retry-after": at.Add(-time.Hour).Format(http.TimeFormat)}, 0},
		"unix":           {map[string]string{"x-ratelimit-reset": unix(time.Minute)}, time.Minute},
		"unix ms":        {map[string]string{"X-RateLimit-Reset": unix(time.Minute) + "000"}, time.Minute},
		"subscription":   {map[string]string{"anthropic-ratelimit-unified-reset": unix(5 * time.Hour)}, 5 * time.Hour},
		"windows":        {map[string]string{"x-ratelimit-reset-requests": "6m0s", "x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-tokens": "1h", "x-ratelimit-remaining-tokens": "500"}, 6 * time.Minute},
		"RFC 3339":       {map[string]string{"anthropic-ratelimit-tokens-reset": at.Add(time.Minute).Format(time.RFC3339)}, time.Minute},
		"nonsense":       {map[string]string{"retry-after": "soon", "x-ratelimit-reset": "NaN"}, 0},
		"never":          {map[string]string{"retry-after": "99999999"}, 0},
		"infinity":       {map[string]string{"retry-after": "+Inf"}, 0},
		"negative":       {map[string]string{"retry-after": "-5"}, 0},
		"nonsense in ms": {map[string]string{"retry-after-ms": "1e300"}, 0},
	} {
		headers := http.Header{}
		for k, v := range c.headers {
			headers.Set(k, v)
		}
		got := resetOf(headers, at)
		if c.want == 0 && !got.IsZero() || c.want != 0 && !got.Equal(at.Add(c.want)) {
			t.Errorf("%s: %v, want %v later", name, got, c.want)
		}
		if !resetOf(headers, time.Time{}).IsZero() {
			t.Errorf("%s: a time without a time to count from", name)
		}
	}
}

// No answer without a tool call is the last for sure: a summary of the
// conversation ends in the same way.
func TestOpencodeSteps(t *testing.T) {
	t.Parallel()
	step := func(id, reason, cost string) string {
		return `{"type":"step_finish","sessionID":"s","part":{"id":"` + id + `","reason":"` + reason + `","cost":` + cost + `,"tokens":{"input":10,"output":4,"reasoning":1,"cache":{"read":3,"write":2}}}}` + "\n"
	}
	start := `{"type":"step_start","sessionID":"s"}` + "\n"
	overflow := `{"type":"error","sessionID":"s","error":{"name":"ContextOverflowError","data":{"message":"too long"}}}` + "\n"
	exited, killed := proc.Result{Ended: proc.Exited}, proc.Result{Ended: proc.Killed}
	for name, c := range map[string]struct {
		stream  string
		end     proc.Result
		done    bool
		class   class.Class
		usage   string
		cost    float64
		settled Settled
	}{
		"one":                 {stream: start + step("1", "stop", "0.5"), end: exited, done: true, usage: "10+3r+2w>5(1)", cost: 0.5},
		"two":                 {stream: start + step("1", "tool-calls", "0.5") + start + step("2", "stop", "0.25"), end: exited, done: true, usage: "20+6r+4w>10(2)", cost: 0.75},
		"told twice":          {stream: start + step("1", "stop", "0.5") + step("1", "stop", "0.5"), end: exited, done: true, usage: "10+3r+2w>5(1)", cost: 0.5},
		"one without a price": {stream: start + step("1", "tool-calls", "0.5") + start + step("2", "stop", "0"), end: exited, done: true, usage: "20+6r+4w>10(2)"},
		"killed after a stop": {stream: start + step("1", "stop", "0.5"), end: killed, class: class.NoResult, usage: "10+3r+2w>5(1)", cost: 0.5},
		"ended at a tool":     {stream: start + step("1", "tool-calls", "0.5"), end: exited, class: class.NoResult, usage: "10+3r+2w>5(1)", cost: 0.5},
		"a new step":          {stream: start + step("1", "stop", "0.5") + start, end: exited, class: class.NoResult, usage: "10+3r+2w>5(1)", cost: 0.5},
		"too long, cured":     {stream: start + overflow + start + step("1", "stop", "0.5"), end: exited, done: true, usage: "10+3r+2w>5(1)", cost: 0.5},
		"too long, once":      {stream: start + overflow, end: exited, class: class.Context, usage: "?"},
		"too long for ever":   {stream: start + overflow + start + overflow, end: killed, class: class.Context, usage: "?", settled: Hopeless},
	} {
		s := opencode{}.Stream(Request{}).(*opencodeStream)
		s.Stdout([]byte(c.stream))
		settled := s.Settled()
		got := s.Finish(c.end)
		cost := 0.0
		if got.CostUSD != nil {
			cost = *got.CostUSD
		}
		if got.Done != c.done || got.Class != c.class || usageWord(got.Usage) != c.usage || cost != c.cost || (got.CostUSD != nil) != (c.cost > 0) || settled != c.settled {
			t.Errorf("%s: done %t, %q, %s, %v, settled %d", name, got.Done, got.Class, usageWord(got.Usage), cost, settled)
		}
	}
}

func TestOpencodeDenied(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"The user rejected permission to use this specific tool call.":                                                             true,
		"The user has specified a rule which prevents you from using this specific tool call. Here are some of the relevant rules": true,
		"Model tried to call unavailable tool 'bash'. Available tools: glob, read.":                                                true,
		"Model tried to call unavailable tool 'frobnicate'. Available tools: glob, read.":                                          false,
		"": false, "permission denied: /etc/shadow": false,
	} {
		if opencodeDenied(text) != want {
			t.Errorf("%q: %t", text, !want)
		}
	}
}
