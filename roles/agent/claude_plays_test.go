package agent

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/superloop/superloop/internal/testkit/mockapi"
	"github.com/superloop/superloop/roles/agent/class"
)

// sonnet has a list price in every release of claude, so the cost of a play is
// known: 3 dollars for a million of input, 15 for output, 0.30 for what is read
// from the cache and 3.75 for what is written to it.
const sonnet = "claude-sonnet-4-5"

// used is the usage of most answers; claude-sonnet-4-5 takes 0.0046425 for it.
func used() mockapi.Usage {
	return mockapi.Usage{Input: 1000, CacheRead: 200, CacheWrite: 50, Output: 93}
}

const (
	once  = "1000+200r+50w>93(?)"
	twice = "2000+400r+100w>186(?)"
	none  = "0+0r+0w>0(?)"

	onceUSD = 0.0046425
)

// claudeQuote is all that an agent may say and see of limits without having met
// one.
const claudeQuote = `{"type":"rate_limit_event","rate_limit_info":{"status":"rejected","resetsAt":4102444800}}
{"type":"result","subtype":"success","is_error":true,"api_error_status":429}
API Error: Request rejected (429). You've hit your usage limit. 529 overloaded_error authentication_failed`

func says(text string) mockapi.Reply { return mockapi.Reply{Text: text, Usage: used()} }

func named(name string, input any) mockapi.Tool {
	text, err := json.Marshal(input)
	if err != nil {
		panic(err)
	}
	return mockapi.Tool{Name: name, Input: text}
}

func refusal(status int, kind, message string) func(string) mockapi.Script {
	return always(mockapi.Reply{Status: status, ErrorType: kind, ErrorMessage: message})
}

// claudeAgents lets two sub-agents work, one of them on a smaller model.
func claudeAgents(string) mockapi.Script {
	return func(c mockapi.Call) mockapi.Reply {
		name := "Task"
		if slices.Contains(c.Tools, "Agent") {
			name = "Agent"
		}
		sub := func(model string) mockapi.Tool {
			in := map[string]any{"description": "part", "prompt": "Work on a part.", "subagent_type": "general-purpose", "run_in_background": false}
			if model != "" {
				in["model"] = model
			}
			return named(name, in)
		}
		switch {
		case strings.Contains(c.Prompt, "Work on a part."):
			return says("A part is done. <promise>PART</promise>")
		case c.HasToolResult:
			return says(doneText)
		}
		return mockapi.Reply{Text: "I split the work.", Tools: []mockapi.Tool{sub(""), sub("haiku")}, Usage: used()}
	}
}

func claudePlays() []play {
	fails := func(failure class.Class, text, last string) told {
		return told{class: failure, text: text, stop: "stop_sequence", usage: none, settled: Finished, last: last}
	}
	good := func(usage string, usd float64) told {
		return told{final: doneText, stop: "end_turn", usage: usage, cost: usd, settled: Finished, last: "<promise>DONE</promise>"}
	}
	env := func(pairs ...string) func(*Request) {
		return func(r *Request) {
			r.CLI.Env = map[string]string{}
			for i := 0; i < len(pairs); i += 2 {
				r.CLI.Env[pairs[i]] = pairs[i+1]
			}
		}
	}
	subscription := env("ANTHROPIC_API_KEY", "", "CLAUDE_CODE_OAUTH_TOKEN", mockapi.Key)
	args := func(args ...string) func(*Request) { return func(r *Request) { r.CLI.Args = args } }
	denied := good(twice, 2*onceUSD)
	denied.denied = 2
	halfway := fails(class.Overloaded, "?", "?")
	halfway.final = "Half"
	return []play{
		{name: "success", script: sequence(says(doneText)), want: good(once, onceUSD)},
		{
			name: "thinking", script: sequence(mockapi.Reply{Thinking: "Let me think.", Text: doneText, Usage: used()}), ask: func(r *Request) { r.Thinking = "high" },
			want: good(once, onceUSD),
		},
		{
			name: "tools", ask: func(r *Request) { r.Permissions = PermitWorkspace },
			script: func(file string) mockapi.Script {
				return mockapi.Sequence(
					mockapi.Reply{Text: "I write the file.", Tools: []mockapi.Tool{{Write: &mockapi.File{Path: file, Content: "hello\n"}}, {Shell: "echo made > made.txt; echo ok"}}, Usage: used()},
					says(doneText))
			},
			want: good(twice, 2*onceUSD),
		},
		{
			name: "denied",
			script: func(file string) mockapi.Script {
				return mockapi.Sequence(
					mockapi.Reply{Text: "I write the file.", Tools: []mockapi.Tool{{Write: &mockapi.File{Path: file + ".denied", Content: "hello\n"}}, {Shell: "touch made.txt"}}, Usage: used()},
					says(doneText))
			},
			want: denied,
		},
		{name: "agents", script: claudeAgents, ask: func(r *Request) { r.Permissions = PermitAll }, want: good("4000+800r+200w>372(?)", 3*onceUSD+0.0015475)},
		{
			name: "background", ask: func(r *Request) { r.Permissions = PermitWorkspace },
			script: sequence(
				mockapi.Reply{Text: "I start it.", Tools: []mockapi.Tool{named("Bash", map[string]any{"command": "sleep 3; echo ok", "description": "wait", "run_in_background": true})}, Usage: used()},
				says("It runs."), says(doneText)),
			want: good("3000+600r+150w>279(?)", 3*onceUSD),
		},
		{
			name: "quoted", ask: func(r *Request) { r.Permissions = PermitAll },
			script: sequence(
				mockapi.Reply{Text: claudeQuote, Tools: []mockapi.Tool{{Shell: "cat <<'EOF'\n" + claudeQuote + "\nEOF\nexit 1"}}, Usage: used()},
				says(claudeQuote)),
			want: told{final: claudeQuote, stop: "end_turn", usage: twice, cost: 2 * onceUSD, settled: Finished, last: "API Error: Request rejected (429). You've hit your usage limit. 529 overloaded_error authentication_failed"},
		},
		{name: "limit-once", script: sequence(mockapi.Reply{Status: 429, RetryAfter: time.Second}, says(doneText)), want: good(once, onceUSD)},
		{name: "cut-once", script: sequence(mockapi.Reply{Text: strings.Repeat("Half an answer. ", 20), CutAfter: 4}, says(doneText)), want: good(once, onceUSD)},
		{name: "error-in-stream", script: always(mockapi.Reply{Text: "Half", Status: 529, InStream: true, Usage: used()}), want: halfway},
		{
			name: "warning", ask: subscription, want: good(once, onceUSD),
			script: func(string) mockapi.Script {
				r := says(doneText)
				r.Header = mockapi.Window{Status: "allowed_warning", Claim: "five_hour", ResetsAt: time.Now().Add(time.Hour), Utilization: 0.92}.Header()
				return mockapi.Sequence(r)
			},
		},
		{
			name: "subscription-limit", ask: subscription,
			script: func(string) mockapi.Script {
				return mockapi.Always(mockapi.Limit(mockapi.Anthropic, time.Now().Add(2*time.Hour)))
			},
			want: told{class: class.Limit, text: "limit", stop: "stop_sequence", usage: none, wait: 2 * time.Hour, window: "five_hour", settled: Finished, last: "?"},
		},
		{
			name: "limit", script: always(mockapi.Reply{Status: 429, RetryAfter: time.Second}),
			want: told{class: class.Limit, text: "429", stop: "stop_sequence", usage: none, wait: -1, settled: Finished, last: "?"},
		},
		{
			name: "limit-hour", script: always(mockapi.Reply{Status: 429, RetryAfter: time.Hour}),
			want: told{class: class.Limit, text: "429", stop: "stop_sequence", usage: none, wait: -1, settled: Finished, last: "?"},
		},
		{name: "overloaded", script: always(mockapi.Reply{Status: 529}), want: fails(class.Overloaded, "529", "?")},
		{name: "server-error", script: always(mockapi.Reply{Status: 500}), want: fails(class.Overloaded, "500", "?")},
		{name: "bad-key", script: always(mockapi.Reply{Status: 401}), want: told{class: class.Auth, text: "authentication_failed (401)", usage: "?", settled: Hopeless, last: "?"}},
		{name: "bad-login", script: always(mockapi.Reply{Status: 401}), ask: subscription, want: told{class: class.Auth, text: "authentication_failed (401)", usage: "?", settled: Hopeless, last: "?"}},
		{name: "forbidden", script: refusal(403, "permission_error", "OAuth token does not meet scope requirement"), want: fails(class.Auth, "403", "?")},
		{name: "bad-model", script: refusal(404, "not_found_error", "model: nope"), want: fails(class.Model, "model", "?")},
		{name: "bad-request", script: refusal(400, "invalid_request_error", "messages.0: no"), want: fails(class.Request, "400", "?")},
		{name: "too-long", script: refusal(400, "invalid_request_error", "prompt is too long: 250000 tokens > 200000 maximum"), want: fails(class.Context, "Prompt is too long", "?")},
		{name: "no-credit", script: refusal(400, "invalid_request_error", "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade or purchase credits."), want: fails(class.Billing, "Credit balance", "?")},
		{
			name: "refused", script: sequence(mockapi.Reply{Text: "I cannot.", StopReason: "refusal", Usage: used()}),
			want: told{class: class.Refused, text: "API Error", final: "I cannot.", stop: "refusal", usage: once, cost: onceUSD, settled: Finished, last: "?"},
		},
		{
			name: "unreachable", ask: env("ANTHROPIC_BASE_URL", "http://127.0.0.1:9", "CLAUDE_CODE_MAX_RETRIES", "1"),
			want: fails(class.Network, "API Error", "?"),
		},
		{
			name: "timeout", script: always(mockapi.Reply{Hang: mockapi.HangBeforeHeaders}), ask: env("API_TIMEOUT_MS", "1000", "CLAUDE_CODE_MAX_RETRIES", "1"),
			want: fails(class.Network, "timed out", "?"),
		},
		{
			name: "turns", ask: args("--max-turns=1", "--allowedTools=Bash"),
			script: sequence(mockapi.Reply{Text: "One more.", Tools: []mockapi.Tool{{Shell: "true"}}, Usage: used()}),
			want:   told{class: class.Turns, text: "maximum number of turns", final: "One more.", stop: "tool_use", usage: once, cost: onceUSD, settled: Finished, last: "?"},
		},
		{
			name: "budget", ask: func(r *Request) { r.MaxCostUSD, r.Permissions = 0.001, PermitAll },
			script: sequence(mockapi.Reply{Text: "One more.", Tools: []mockapi.Tool{{Shell: "true"}}, Usage: used()}),
			want:   told{class: class.Budget, text: "maximum budget", final: "One more.", stop: "tool_use", usage: once, cost: onceUSD, settled: Finished, last: "?"},
		},
		{
			name: "killed", ask: func(r *Request) { r.Permissions = PermitAll }, cut: "Bash: until",
			script: sequence(mockapi.Reply{Text: "I wait for it.", Tools: []mockapi.Tool{{Shell: "until [ -e never.txt ]; do sleep 0.1; done"}}, Usage: used()}, mockapi.Reply{Hang: mockapi.HangBeforeHeaders}),
			want:   told{class: class.NoResult, final: "I wait for it.", usage: once, last: "?"},
		},
		{
			name: "killed-waiting", script: always(mockapi.Reply{Status: 429, RetryAfter: 40 * time.Second}), cut: "retry 1 of",
			want: told{class: class.Limit, text: "rate_limit (429)", usage: "?", wait: -1, last: "?"},
		},
		{name: "no-key", ask: env("ANTHROPIC_API_KEY", ""), want: fails(class.Auth, "Not logged in", "?")},
		{name: "bad-flag", ask: args("--nonsense"), want: told{class: class.Config, text: "unknown option", plain: true, usage: "?", last: "?"}},
		{name: "bad-value", ask: args("--permission-mode=nonsense"), want: told{class: class.Config, text: "is invalid", plain: true, usage: "?", last: "?"}},
		{name: "bad-settings", ask: args("--settings=/nowhere.json"), want: told{class: class.Config, text: "Settings file not found", plain: true, usage: "?", last: "?"}},
		{
			name: "bad-resume", ask: func(r *Request) { r.Resume = &Session{ID: "11111111-2222-4333-8444-555555555555"} },
			want: told{class: class.Session, text: "No conversation found", usage: none, settled: Finished, last: "?"},
		},
		{name: "text", ask: args("--output-format=text"), script: sequence(says(doneText)), want: told{plain: true, usage: "?", last: "<promise>DONE</promise>"}},
		{name: "json", ask: args("--output-format=json"), script: sequence(says(doneText)), want: good(once, onceUSD)},
	}
}

// nextClaude is release 2.1.329. It tells the reasoning, asks a model again that
// refused, and has another haiku; and an answer that broke off counts with what
// it told by then.
const nextClaude = "next-"

func nextClaudeWants(p *play) {
	switch p.name {
	case "agents":
		p.want.cost = 0.01408225
	case "error-in-stream":
		p.want.usage, p.want.cost = "4000+800r+200w>4(?)", 0.01305
	case "refused":
		p.want.usage, p.want.cost = twice, 2*onceUSD
	}
}
