package agent

import (
	"strings"
	"time"

	"github.com/superloop/superloop/internal/testkit/mockapi"
	"github.com/superloop/superloop/roles/agent/class"
)

const (
	doneText = "Both are done.\n<promise>DONE</promise>"
	// quoted is what an agent may print of limits without having met one.
	quoted = "[API Error: You have exhausted your daily quota on this model.\nSuggested retry after 3600s.] is what the log said; 429, 401, limit: 0."
)

func sequence(replies ...mockapi.Reply) func(string) mockapi.Script {
	return func(string) mockapi.Script { return mockapi.Sequence(replies...) }
}

func always(r mockapi.Reply) func(string) mockapi.Script {
	return func(string) mockapi.Script { return mockapi.Always(r) }
}

// working writes the file, runs a command, and says that both are done.
func working(file string) mockapi.Script {
	return mockapi.Sequence(
		mockapi.Reply{Text: "I write the file.", Tools: []mockapi.Tool{{Write: &mockapi.File{Path: file, Content: "hello\n"}}}},
		mockapi.Reply{Text: "Now a command.", Tools: []mockapi.Tool{{Shell: "echo made > made.txt; echo ok"}}},
		mockapi.Reply{Text: doneText},
	)
}

// googleSays is an error in Google's form.
func googleSays(status int, body string) mockapi.Reply {
	return mockapi.Reply{Status: status, ErrorBody: strings.ReplaceAll(body, "\n", "")}
}

func geminiPlays() []play {
	const empty = "0+0r+?w>0(0)"
	return []play{
		{name: "success", script: sequence(mockapi.Reply{Text: doneText}), want: told{final: doneText, stop: "success", settled: Finished, usage: "8336+0r+?w>10(0)", last: "<promise>DONE</promise>"}},
		{
			name: "thinking", script: sequence(mockapi.Reply{Thinking: "Let me think.", Text: "Thought out.", Usage: mockapi.Usage{Input: 700, CacheRead: 300, Output: 75, Reasoning: 25}}),
			want: told{final: "Thought out.", stop: "success", settled: Finished, usage: "700+300r+?w>75(25)", last: "Thought out."},
		},
		{
			name: "tools", script: working, ask: func(r *Request) { r.Permissions = PermitWorkspace },
			want: told{final: doneText, stop: "success", settled: Finished, usage: "37180+0r+?w>56(0)", last: "<promise>DONE</promise>"},
		},
		{
			name: "denied", ask: func(r *Request) { r.Permissions = PermitRead },
			script: func(file string) mockapi.Script {
				write := mockapi.Tool{Name: "write_file", Input: []byte(`{"file_path":"` + file + `","content":"hello"}`)}
				return mockapi.Sequence(
					mockapi.Reply{Text: "I plan.", Tools: []mockapi.Tool{{Name: "enter_plan_mode", Input: []byte(`{"reason":"to write"}`)}}},
					mockapi.Reply{Text: "I write.", Tools: []mockapi.Tool{write}},
					mockapi.Reply{Text: "Again.", Tools: []mockapi.Tool{write}},
					mockapi.Reply{Text: doneText},
				)
			},
			want: told{final: doneText, stop: "success", denied: 2, settled: Finished, usage: "35606+0r+?w>70(0)", last: "<promise>DONE</promise>"},
		},
		escapePlay(),
		{
			name: "quoted", ask: func(r *Request) { r.Permissions = PermitAll },
			script: sequence(
				mockapi.Reply{Tools: []mockapi.Tool{{Shell: "echo 'Error when talking to Gemini API, status: 429, Suggested retry after 3600s' >&2; exit 1"}}},
				mockapi.Reply{Text: quoted},
			),
			want: told{final: quoted, stop: "success", settled: Finished, usage: "24700+0r+?w>64(0)", last: "Suggested retry after 3600s.] is what the log said; 429, 401, limit: 0."},
		},
		{name: "status-401", script: always(mockapi.Reply{Status: 401}), want: told{class: class.Auth, text: "invalid authentication credentials", stop: "error", settled: Finished, usage: empty, last: "[API Error: {\"error\":{\"code\":401,\"message\":\"Request had invalid authentication credentials.\",\"status\":\"UNAUTHENTICATED\"}}]"}},
		{
			name: "bad-key", script: always(googleSays(400, `{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT",
"details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"API_KEY_INVALID","domain":"googleapis.com"}]}}`)),
			want: told{class: class.Auth, text: "API key not valid", stop: "error", settled: Finished, usage: empty, last: "[API Error: {\"error\":{\"code\":400,\"message\":\"API key not valid. Please pass a valid API key.\",\"status\":\"INVALID_ARGUMENT\",\"details\":[{\"@type\":\"type.googleapis.com/google.rpc.ErrorInfo\",\"reason\":\"API..."},
		},
		{name: "status-403", script: always(mockapi.Reply{Status: 403}), want: told{class: class.Auth, text: "does not have permission", stop: "error", settled: Finished, usage: empty, last: "[API Error: {\"error\":{\"code\":403,\"message\":\"The caller does not have permission.\",\"status\":\"PERMISSION_DENIED\"}}]"}},
		{
			name: "bad-model", script: always(googleSays(404, `{"error":{"code":404,"message":"models/nope is not found for API version v1beta, or is not supported for generateContent.","status":"NOT_FOUND"}}`)),
			want: told{class: class.Model, text: "models/nope is not found", stop: "error", settled: Finished, usage: empty, last: "[API Error: models/nope is not found for API version v1beta, or is not supported for generateContent.]"},
		},
		{
			name: "context", script: always(googleSays(400, `{"error":{"code":400,"message":"The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).","status":"INVALID_ARGUMENT"}}`)),
			want: told{class: class.Context, text: "exceeds the maximum number of tokens", stop: "error", settled: Finished, usage: empty, last: "[API Error: {\"error\":{\"code\":400,\"message\":\"The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).\",\"status\":\"INVALID_ARGUMENT\"}}]"},
		},
		{
			name: "limit-once", script: sequence(mockapi.Reply{Status: 429, RetryAfter: 2 * time.Second}, mockapi.Reply{Text: "After the wait."}),
			want: told{final: "After the wait.", stop: "success", settled: Finished, usage: "8347+0r+?w>4(0)", last: "After the wait."},
		},
		{
			name: "limit-hour", script: always(mockapi.Reply{Status: 429, RetryAfter: time.Hour}),
			want: told{class: class.Limit, text: "Suggested retry after 3600s", stop: "error", wait: time.Hour, settled: Finished, usage: empty, last: "[API Error: Resource has been exhausted (e.g. check quota). Suggested retry after 3600s.] Please wait and try again later. To increase your limits, request a quota increase through AI Studio, or sw..."},
		},
		{
			name: "limit-retry-in", script: always(googleSays(429, `{"error":{"code":429,"message":"You exceeded your current quota.\nPlease retry in 1802.5s.","status":"RESOURCE_EXHAUSTED"}}`)),
			want: told{class: class.Limit, text: "retry in 1802.5s", stop: "error", wait: 1802500 * time.Millisecond, settled: Finished, usage: empty, last: "[API Error: You exceeded your current quota. Please retry in 1802.5s.] Please wait and try again later. To increase your limits, request a quota increase through AI Studio, or switch to another /au..."},
		},
		{
			name: "limit-day", script: always(googleSays(429, `{"error":{"code":429,"message":"You exceeded your current quota, please check your plan and billing details.","status":"RESOURCE_EXHAUSTED",
"details":[{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaId":"GenerateRequestsPerDayPerProjectPerModel-FreeTier","quotaValue":"20"}]}]}}`)),
			want: told{class: class.Limit, text: "exhausted your daily quota", stop: "error", wait: -1, window: "daily", settled: Finished, usage: empty, last: "[API Error: You have exhausted your daily quota on this model.] Please wait and try again later. To increase your limits, request a quota increase through AI Studio, or switch to another /auth method"},
		},
		{
			name: "no-quota", script: always(googleSays(429, `{"error":{"code":429,"message":"Quota exceeded for metric: generativelanguage.googleapis.com/generate_content_free_tier_requests, limit: 0, model: gemini-2.5-pro","status":"RESOURCE_EXHAUSTED"}}`)),
			want: told{class: class.Billing, text: "limit: 0", stop: "error", settled: Finished, usage: empty, last: "[API Error: Quota exceeded for metric: generativelanguage.googleapis.com/generate_content_free_tier_requests, limit: 0, model: gemini-2.5-pro] Please wait and try again later. To increase your limi..."},
		},
		{
			name: "broken-once", script: sequence(mockapi.Reply{Status: 500}, mockapi.Reply{Text: "After the error."}),
			want: told{final: "After the error.", stop: "success", settled: Finished, usage: "8347+0r+?w>4(0)", last: "After the error."},
		},
		{
			name: "overloaded", script: always(mockapi.Reply{Status: 503}), cut: "Attempt 2 failed",
			want: told{class: class.Overloaded, text: "Attempt 2 failed with status 503", usage: "?", last: "Attempt 2 failed with status 503. Retrying with backoff... _ApiError: {\"error\":{\"code\":503,\"message\":\"The model is overloaded. Please try again later.\",\"status\":\"UNAVAILABLE\"}}"},
		},
		{
			name: "error-in-stream", script: always(mockapi.Reply{Text: "Half of an answer", Status: 500, InStream: true}),
			want: told{class: class.Network, text: "without a finish reason", final: strings.Repeat("Half of an answer", 4), stop: "error", settled: Finished, usage: "33388+0r+?w>0(0)", last: "Model stream ended without a finish reason."},
		},
		{
			name: "connection-cut", script: always(mockapi.Reply{Text: "Half of an answer that is long enough to come in several events.", CutAfter: 2}),
			want: told{class: class.Network, text: "terminated", stop: "error", settled: Finished, final: "Half of an answer that i", usage: "?", last: "[API Error: terminated]"},
		},
		{
			name: "empty", script: always(mockapi.Reply{}),
			want: told{class: class.Overloaded, text: "empty response", stop: "error", settled: Finished, usage: "33505+0r+?w>4(0)", last: "The model returned an empty response with no text or thoughts. This may be a transient API issue; please try again."},
		},
		{
			name: "blocked", script: always(mockapi.Reply{StopReason: "SAFETY"}),
			want: told{class: class.Refused, text: "safety settings", stop: "error", settled: Finished, usage: "33388+0r+?w>4(0)", last: "The model response was blocked due to safety settings."},
		},
		{name: "no-key", ask: func(r *Request) { r.CLI.Env = map[string]string{"GEMINI_API_KEY": ""} }, want: told{class: class.Auth, text: "GEMINI_API_KEY", plain: true, usage: "?", last: "Update your environment and try again (no reload needed if using .env)!"}},
		{name: "bad-flag", ask: func(r *Request) { r.CLI.Args = []string{"--nonsense"} }, want: told{class: class.Config, text: "Unknown argument: nonsense", plain: true, usage: "?", last: "-h, --help Show help [boolean]"}},
		{
			name: "bad-resume", ask: func(r *Request) { r.Resume = &Session{ID: "11111111-2222-4333-8444-555555555555"} },
			want: told{class: class.Session, text: "Error resuming session", plain: true, usage: "?", last: "Use --list-sessions to see available sessions, then use --resume {number}, --resume {uuid}, or --resume latest."},
		},
		{
			name: "untrusted", ask: func(r *Request) { r.CLI.Env = map[string]string{"GEMINI_CLI_TRUST_WORKSPACE": "no"} },
			want: told{class: class.Config, text: "not running in a trusted directory", plain: true, usage: "?", last: "Gemini CLI is not running in a trusted directory. To proceed, either use `--skip-trust`, set the `GEMINI_CLI_TRUST_WORKSPACE=true` environment variable, or trust this directory in interactive mode...."},
		},
		{
			name: "killed", script: always(mockapi.Reply{Text: "It has begun, and it goes on and on.", Hang: mockapi.HangMidStream}), cut: "It has",
			want: told{class: class.NoResult, final: "It has begun, and it goe", usage: "?", last: "It has begun, and it goe"},
		},
	}
}

// escapePlay: a model that wants to gets free of every approval mode.
func escapePlay() play {
	return play{
		name: "escaped", ask: func(r *Request) { r.Permissions = PermitRead },
		script: func(file string) mockapi.Script {
			tool := func(name, input string) []mockapi.Tool {
				return []mockapi.Tool{{Name: name, Input: []byte(input)}}
			}
			return mockapi.Sequence(
				mockapi.Reply{Tools: tool("enter_plan_mode", `{"reason":"to get out"}`)},
				mockapi.Reply{Tools: tool("write_file", `{"file_path":"p.md","content":"# The plan"}`)},
				mockapi.Reply{Text: "Out.", Tools: tool("exit_plan_mode", `{"plan_filename":"p.md"}`)},
				mockapi.Reply{Delay: time.Second, Tools: tool("write_file", `{"file_path":"`+file+`","content":"free"}`)}, // a model needs a second
				mockapi.Reply{Text: doneText},
			)
		},
		want: told{class: class.Config, text: "left its read-only mode", stop: "read-only", usage: "?", settled: Hopeless, last: "exit_plan_mode"},
	}
}
