package agent

import (
	"path/filepath"
	"time"

	"github.com/superloop/superloop/internal/testkit/mockapi"
	"github.com/superloop/superloop/roles/agent/class"
)

// unpriced is a model that no catalogue knows, in the settings of the CLI.
const unpriced = `{"provider": {"anthropic": {"models": {"mock-1": {"name": "Mock", "tool_call": true, "limit": {"context": 100000, "output": 8000}}}}}}`

func opencodePlays() []play {
	return []play{
		{name: "success", script: sequence(mockapi.Reply{Text: doneText, Usage: mockapi.Usage{Input: 800, CacheRead: 200, CacheWrite: 10, Output: 40}}), want: told{final: doneText, stop: "stop", usage: "800+200r+10w>40(0)", cost: 0.0030975, last: "<promise>DONE</promise>"}},
		{
			name: "thinking", ask: func(r *Request) { r.Thinking = "high" },
			script: sequence(mockapi.Reply{Thinking: "Let me think.", Text: "Thought out.", Usage: mockapi.Usage{Input: 700, CacheRead: 300, Output: 75}}),
			want:   told{final: "Thought out.", stop: "stop", usage: "700+300r+0w>75(0)", cost: 0.003315, last: "Thought out."},
		},
		{
			name: "tools", script: working, ask: func(r *Request) { r.Permissions = PermitWorkspace },
			want: told{final: doneText, stop: "stop", usage: "23269+0r+0w>56(0)", cost: 0.070647, last: "<promise>DONE</promise>"},
		},
		{
			name: "unpriced", model: "anthropic/mock-1", script: working,
			ask:  func(r *Request) { r.CLI.Env = map[string]string{"OPENCODE_CONFIG_CONTENT": unpriced} },
			want: told{final: doneText, stop: "stop", usage: "23257+0r+0w>56(0)", last: "<promise>DONE</promise>"},
		},
		deniedPlay(),
		{
			name: "asked", script: working,
			ask: func(r *Request) {
				r.CLI.Env = map[string]string{"OPENCODE_PERMISSION": `{"edit": "ask", "bash": "ask"}`}
			},
			want: told{class: class.NoResult, text: "The user rejected permission", final: "I write the file.", stop: "tool-calls", denied: 1, usage: "7663+0r+0w>30(0)", cost: 0.023439, last: "write"},
		},
		{
			name: "quoted", ask: func(r *Request) { r.Permissions = PermitAll },
			script: sequence(
				mockapi.Reply{Tools: []mockapi.Tool{{Shell: "echo 'timestamp=0 level=ERROR run=0 message=\"stream error\" error.error=\"AI_APICallError: rate limit\"' >&2; exit 1"}}},
				mockapi.Reply{Text: quoted},
			),
			want: told{final: quoted, stop: "stop", usage: "15445+0r+0w>70(0)", cost: 0.047385, last: "Suggested retry after 3600s.] is what the log said; 429, 401, limit: 0."},
		},
		{name: "length", script: sequence(mockapi.Reply{Text: "A long answer", StopReason: "max_tokens"}), want: told{final: "A long answer", stop: "length", usage: "7663+0r+0w>4(0)", cost: 0.023049, last: "A long answer"}},
		{name: "refused", script: always(mockapi.Reply{Text: "No.", StopReason: "refusal"}), want: told{class: class.Refused, text: "content filter", final: "No.", stop: "ContentFilterError", settled: Finished, usage: "7663+0r+0w>1(0)", cost: 0.023004, last: "The response was blocked by the provider's content filter"}},
		{name: "status-401", script: always(mockapi.Reply{Status: 401}), want: told{class: class.Auth, text: "x-api-key", stop: "APIError", settled: Finished, usage: "?", last: "invalid x-api-key"}},
		{name: "status-403", script: always(mockapi.Reply{Status: 403}), want: told{class: class.Auth, text: "permission", stop: "APIError", settled: Finished, usage: "?", last: "Your API key does not have permission to use the specified resource."}},
		{
			name: "no-credit", script: always(mockapi.Reply{Status: 400, ErrorMessage: "Your credit balance is too low to access the Anthropic API."}),
			want: told{class: class.Billing, text: "credit balance", stop: "APIError", settled: Finished, usage: "?", last: "Your credit balance is too low to access the Anthropic API."},
		},
		{name: "status-404", script: always(mockapi.Reply{Status: 404}), want: told{class: class.Model, text: "not found", stop: "APIError", settled: Finished, usage: "?", last: "The requested resource was not found."}},
		{name: "bad-model", model: "anthropic/nope", script: sequence(mockapi.Reply{}), want: told{class: class.Model, text: "Model not found: anthropic/nope", stop: "UnknownError", settled: Finished, usage: "?", last: "Unexpected server error. Check server logs for details."}},
		{name: "no-key", without: "ANTHROPIC_API_KEY", want: told{class: class.Auth, text: "API key is missing", stop: "ProviderAuthError", settled: Finished, usage: "?", last: "Anthropic API key is missing. Pass it using the 'apiKey' parameter or the ANTHROPIC_API_KEY environment variable."}},
		{
			name: "limit-once", script: sequence(mockapi.Reply{Status: 429, RetryAfter: 2 * time.Second}, mockapi.Reply{Text: "After the wait."}),
			want: told{final: "After the wait.", stop: "stop", usage: "7663+0r+0w>4(0)", cost: 0.023049, last: "After the wait."},
		},
		{
			name: "limit", script: always(mockapi.Reply{Status: 429, RetryAfter: time.Second}),
			want: told{class: class.Limit, text: "rate limit", stop: "APIError", wait: time.Second, settled: Finished, usage: "?", last: "This request would exceed your organization's rate limit."},
		},
		{
			name: "limit-hour", script: always(mockapi.Reply{Status: 429, RetryAfter: time.Hour}), cut: "AI_APICallError",
			want: told{class: class.Limit, text: "rate limit", plain: true, settled: Waiting, usage: "?", last: "AI_APICallError: This request would exceed your organization's rate limit."},
		},
		{
			name: "overloaded", script: always(mockapi.Reply{Status: 529}), cut: "AI_APICallError",
			want: told{class: class.Overloaded, text: "Overloaded", plain: true, settled: Waiting, usage: "?", last: "AI_APICallError: Overloaded"},
		},
		{
			name: "broken-once", script: sequence(mockapi.Reply{Status: 500}, mockapi.Reply{Text: "After the error."}),
			want: told{final: "After the error.", stop: "stop", usage: "7663+0r+0w>4(0)", cost: 0.023049, last: "After the error."},
		},
		{
			name: "compacted", model: "anthropic/mock-1",
			ask: func(r *Request) { r.CLI.Env = map[string]string{"OPENCODE_CONFIG_CONTENT": unpriced} },
			script: sequence(
				mockapi.Reply{Text: "I look.", Tools: []mockapi.Tool{{Shell: "echo ok"}}, Usage: mockapi.Usage{Input: 99000, Output: 10}},
				mockapi.Reply{Text: doneText, Usage: mockapi.Usage{Input: 2000, Output: 20}},
			),
			want: told{final: doneText, stop: "stop", usage: "101590+0r+0w>33(0)", last: "<promise>DONE</promise>"},
		},
		{
			name: "context", script: always(mockapi.Reply{Status: 400, ErrorMessage: "prompt is too long: 250000 tokens > 200000 maximum"}),
			want: told{class: class.Context, text: "prompt is too long", stop: "ContextOverflowError", settled: Hopeless, usage: "?", last: "prompt is too long: 250000 tokens > 200000 maximum"},
		},
		{
			name: "connection-cut-once", script: sequence(mockapi.Reply{Text: "Half of an answer.", CutAfter: 5}, mockapi.Reply{Text: "The whole answer."}),
			want: told{final: "The whole answer.", stop: "stop", usage: "7663+0r+0w>5(0)", cost: 0.023064, last: "The whole answer."},
		},
		{name: "bad-flag", ask: func(r *Request) { r.CLI.Args = []string{"--no-such-flag"} }, want: told{class: class.Config, text: "does not take one of its arguments", plain: true, usage: "?", last: "[boolean] [default: false]"}},
		{
			name: "bad-resume", ask: func(r *Request) { r.Resume = &Session{ID: "ses_00000000000000000000000000"} },
			want: told{class: class.Session, text: "Session not found", plain: true, usage: "?", last: "Error: Session not found"},
		},
		{
			name: "bad-settings", ask: func(r *Request) {
				r.CLI.Env = map[string]string{"OPENCODE_CONFIG_CONTENT": `{"nonsense": true, "model": 5}`}
			},
			want: told{class: class.Config, text: "Configuration is invalid", plain: true, usage: "?", last: "↳ Expected string | undefined, got 5 model"},
		},
	}
}

// deniedPlay: a read-only role is offered no tool that changes anything, and of
// what it may read some files are left out.
func deniedPlay() play {
	return play{
		name: "denied", ask: func(r *Request) { r.Permissions = PermitRead },
		script: func(file string) mockapi.Script {
			read := func(path string) []mockapi.Tool {
				return []mockapi.Tool{{Name: "read", Input: []byte(`{"filePath":"` + path + `"}`)}}
			}
			return mockapi.Sequence(
				mockapi.Reply{Text: "The secrets.", Tools: read(filepath.Join(filepath.Dir(file), ".env"))},
				mockapi.Reply{Text: "The system.", Tools: read("/etc/hostname")},
				mockapi.Reply{Text: doneText},
			)
		},
		want: told{final: doneText, stop: "stop", denied: 2, usage: "15015+0r+0w>43(0)", cost: 0.04569, last: "<promise>DONE</promise>"},
	}
}
