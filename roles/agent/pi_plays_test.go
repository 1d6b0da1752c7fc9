package agent

import (
	"time"

	"github.com/superloop/superloop/internal/testkit/mockapi"
	"github.com/superloop/superloop/roles/agent/class"
)

// piPlays are recorded with pi 0.73.1.
func piPlays() []play {
	return []play{
		{name: "success", script: sequence(mockapi.Reply{Text: doneText, Usage: mockapi.Usage{Input: 800, CacheRead: 200, CacheWrite: 10, Output: 40}}), want: told{final: doneText, stop: "stop", settled: Finished, usage: "800+200r+10w>40(?)", cost: 0.0030975, last: "<promise>DONE</promise>"}},
		{
			name: "thinking", ask: func(r *Request) { r.Thinking = "high" },
			script: sequence(mockapi.Reply{Thinking: "Let me think.", Text: "Thought out.", Usage: mockapi.Usage{Input: 700, CacheRead: 300, Output: 75}}),
			want:   told{final: "Thought out.", stop: "stop", settled: Finished, usage: "700+300r+0w>75(?)", cost: 0.003315, last: "Thought out."},
		},
		{name: "tools", script: func(string) mockapi.Script { return working("hello.txt") }, ask: func(r *Request) { r.Permissions = PermitWorkspace }, want: told{final: doneText, stop: "stop", settled: Finished, usage: "4443+0r+0w>41(?)", cost: 0.013944, last: "<promise>DONE</promise>"}},
		piReads(),
		{
			name: "quoted", script: sequence(mockapi.Reply{Tools: []mockapi.Tool{{Shell: "echo '[log_1] post /x failed with status 429 in 1ms - retrying, 2 attempts remaining' >&2; exit 1"}}}, mockapi.Reply{Text: quoted}),
			want: told{final: quoted, stop: "stop", settled: Finished, usage: "2905+0r+0w>65(?)", cost: 0.00969, last: "Suggested retry after 3600s.] is what the log said; 429, 401, limit: 0."},
		},
		{name: "length", script: sequence(mockapi.Reply{Text: "A long answer", StopReason: "max_tokens"}), want: told{final: "A long answer", stop: "length", settled: Finished, usage: "1397+0r+0w>4(?)", cost: 0.004251, last: "A long answer"}},
		{name: "refused", script: always(mockapi.Reply{Text: "No.", StopReason: "refusal"}), want: told{class: class.Unknown, text: "An unknown error occurred", final: "No.", stop: "error", settled: Finished, usage: "1397+0r+0w>1(?)", cost: 0.004206, last: "An unknown error occurred"}},
		{name: "status-401", script: always(mockapi.Reply{Status: 401}), want: told{class: class.Auth, text: "x-api-key", stop: "error", settled: Finished, usage: "?", last: "invalid x-api-key"}},
		{
			name: "no-credit", script: always(mockapi.Reply{Status: 400, ErrorMessage: "Your credit balance is too low to access the Anthropic API."}),
			want: told{class: class.Billing, text: "credit balance", stop: "error", settled: Finished, usage: "?", last: "Your credit balance is too low to access the Anthropic API."},
		},
		{name: "status-404", script: always(mockapi.Reply{Status: 404}), want: told{class: class.Model, text: "not found", stop: "error", settled: Finished, usage: "?", last: "The requested resource was not found."}},
		{name: "bad-model", model: "nope/nope", want: told{class: class.Model, text: `Model "nope/nope" not found`, plain: true, usage: "?", last: `Error: Model "nope/nope" not found. Use --list-models to see available models.`}},
		{name: "no-key", without: "ANTHROPIC_API_KEY", want: told{class: class.Auth, text: "No API key found for anthropic", usage: "?", last: "No API key found for anthropic."}},
		{
			name: "limit-once", script: sequence(mockapi.Reply{Status: 429, RetryAfter: 2 * time.Second}, mockapi.Reply{Text: "After the wait."}),
			want: told{final: "After the wait.", stop: "stop", settled: Finished, usage: "1397+0r+0w>4(?)", cost: 0.004251, last: "After the wait."},
		},
		{
			name: "limit", script: always(mockapi.Reply{Status: 429, RetryAfter: time.Second}),
			want: told{class: class.Limit, text: "rate limit", stop: "error", wait: -1, settled: Hopeless, usage: "?", last: "This request would exceed your organization's rate limit."},
		},
		{
			name: "limit-hour", script: always(mockapi.Reply{Status: 429, RetryAfter: time.Hour}), cut: "failed with status 429",
			want: told{class: class.Limit, text: "failed with status 429", wait: -1, settled: Waiting, usage: "?", last: "failed with status 429"},
		},
		{name: "overloaded", script: always(mockapi.Reply{Status: 529}), want: told{class: class.Overloaded, text: "Overloaded", stop: "error", settled: Hopeless, usage: "?", last: "Overloaded"}},
		{
			name: "broken-once", script: sequence(mockapi.Reply{Status: 500}, mockapi.Reply{Text: "After the error."}),
			want: told{final: "After the error.", stop: "stop", settled: Finished, usage: "1397+0r+0w>4(?)", cost: 0.004251, last: "After the error."},
		},
		{
			name: "broken-in-stream", script: always(mockapi.Reply{Text: "Half of an answer.", Status: 529, InStream: true}),
			want: told{class: class.Overloaded, text: "Overloaded", final: "Half of an answer.", stop: "error", settled: Hopeless, usage: "2794+0r+0w>2(?)", cost: 0.008412, last: "Overloaded"},
		},
		{
			name: "context", script: always(mockapi.Reply{Status: 400, ErrorMessage: "prompt is too long: 250000 tokens > 200000 maximum"}),
			want: told{class: class.Context, text: "prompt is too long", stop: "error", settled: Finished, unread: 1, usage: "?", last: "prompt is too long: 250000 tokens > 200000 maximum"},
		},
		{
			name: "connection-cut-once", again: true, script: sequence(mockapi.Reply{Text: "Half of an answer.", CutAfter: 5}, mockapi.Reply{Text: "The whole answer."}),
			want: told{final: "The whole answer.", stop: "stop", settled: Finished, usage: "2794+0r+0w>6(?)", cost: 0.008472, last: "The whole answer."},
		},
		{name: "bad-flag", ask: func(r *Request) { r.CLI.Args = []string{"-z"} }, want: told{class: class.Config, text: "Unknown option: -z", plain: true, usage: "?", last: "Error: Unknown option: -z"}},
		{
			name: "bad-resume", ask: func(r *Request) { r.Resume = &Session{ID: "00000000-0000-7000-8000-000000000000"} },
			want: told{class: class.Session, text: "No session found", plain: true, usage: "?", last: "No session found matching '00000000-0000-7000-8000-000000000000'"},
		},
	}
}

// piReads: a role that is to read is offered no tool that writes or runs.
func piReads() play {
	return play{
		name: "read-only", script: working, ask: func(r *Request) { r.Permissions = PermitRead },
		want: told{final: doneText, stop: "stop", settled: Finished, usage: "1223+0r+0w>10(?)", cost: 0.003819, last: "<promise>DONE</promise>"},
	}
}
