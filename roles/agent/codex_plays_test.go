package agent

import (
	"regexp"
	"strings"
	"time"

	"github.com/superloop/superloop/internal/testkit/mockapi"
	"github.com/superloop/superloop/roles/agent/class"
)

// codexQuote is all that an agent may say and see of limits without having met
// one.
const codexQuote = "{\"type\":\"turn.failed\",\"error\":{\"message\":\"You\u2019ve hit your usage limit.\"}}\n" +
	"{\"type\":\"error\",\"message\":\"exceeded retry limit, last status: 429\"}\nYou\u2019ve hit your usage limit. Try again at 3:33 PM."

// codexAgents lets a sub-agent work and waits for it.
func codexAgents(string) mockapi.Script {
	used := mockapi.Usage{Input: 1000, CacheRead: 200, CacheWrite: 50, Output: 93, Reasoning: 20}
	return func(c mockapi.Call) mockapi.Reply {
		switch id := agentID.FindString(c.LastToolOutput); {
		case strings.Contains(c.Prompt, "Work on a part."):
			return mockapi.Reply{Text: "A part is done. <promise>PART</promise>", Usage: used}
		case strings.Contains(c.Prompt, "subagent_notification"):
			return mockapi.Reply{Text: doneText, Usage: used}
		case !c.HasToolResult:
			return mockapi.Reply{Text: "I split the work.", Tools: []mockapi.Tool{named("spawn_agent", map[string]any{"message": "Work on a part."})}, Usage: used}
		case strings.Contains(c.LastToolOutput, "agent_id"):
			return mockapi.Reply{Tools: []mockapi.Tool{named("wait_agent", map[string]any{"targets": []string{id}, "timeout_ms": 20000})}, Usage: used}
		}
		return mockapi.Reply{Text: doneText, Usage: used}
	}
}

var agentID = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]{27}`)

func codexPlays() []play {
	const codexOnce, codexTwice = "1000+200r+50w>93(20)", "2000+400r+100w>186(40)"
	used := mockapi.Usage{Input: 1000, CacheRead: 200, CacheWrite: 50, Output: 93, Reasoning: 20}
	says := func(text string) mockapi.Reply { return mockapi.Reply{Text: text, Usage: used} }
	good := func(usage string) told {
		return told{final: doneText, usage: usage, settled: Finished, last: "<promise>DONE</promise>"}
	}
	fails := func(failure class.Class, text string) told {
		return told{class: failure, text: text, usage: "?", settled: Finished, last: "?"}
	}
	limit := fails(class.Limit, "hit your usage limit")
	limit.wait = 2 * time.Hour
	distant := limit
	distant.wait = 30 * time.Hour
	unknown := fails(class.Limit, "429")
	unknown.wait = -1
	later := fails(class.Limit, "try again later")
	later.wait = -1
	soon := fails(class.Limit, "try again in 7")
	soon.wait = 7 * time.Second
	context := fails(class.Context, "ran out of room")
	context.usage = "0+0r+0w>0(0)"
	works := func(r *Request) { r.Permissions = PermitWorkspace }
	args := func(args ...string) func(*Request) { return func(r *Request) { r.CLI.Args = args } }
	// impatient is for what the CLI repeats: without more repetitions than one.
	halfway := func(w told) told {
		w.final = "Half"
		return w
	}
	impatient := args("-c", "model_providers.mock.request_max_retries=1", "-c", "model_providers.mock.stream_max_retries=1")
	refused := func(fields map[string]any) func(string) mockapi.Script {
		return always(mockapi.Reply{Status: 429, ErrorType: "usage_limit_reached", ErrorMessage: "The usage limit has been reached", ErrorFields: fields})
	}
	return []play{
		{name: "success", script: sequence(says(doneText)), want: good(codexOnce)},
		{
			name: "tools", ask: works, want: good(codexTwice),
			script: func(file string) mockapi.Script {
				return mockapi.Sequence(
					mockapi.Reply{Thinking: "Let me think.", Text: "I write the file.", Tools: []mockapi.Tool{{Shell: "echo hello > hello.txt; echo ok"}}, Usage: used},
					says(doneText))
			},
		},
		{
			name: "read-only", ask: func(r *Request) { r.Permissions = PermitRead }, want: good(codexTwice),
			script: sequence(mockapi.Reply{Text: "I write the file.", Tools: []mockapi.Tool{{Shell: "touch denied.txt"}}, Usage: used}, says(doneText)),
		},
		{name: "agents", model: "gpt-5.2-codex", script: codexAgents, ask: works, want: good("4000+800r+200w>372(80)")},
		{
			name: "quoted", ask: func(r *Request) { r.Permissions = PermitAll },
			script: sequence(
				mockapi.Reply{Text: codexQuote, Tools: []mockapi.Tool{{Shell: "cat <<'EOF'\n" + codexQuote + "\nEOF\nexit 1"}}, Usage: used},
				says(codexQuote)),
			want: told{final: codexQuote, usage: codexTwice, settled: Finished, last: "You\u2019ve hit your usage limit. Try again at 3:33 PM."},
		},
		{name: "limit-once", script: sequence(mockapi.Reply{Status: 429, RetryAfter: time.Second}, says(doneText)), want: good(codexOnce)},
		{name: "cut-once", script: sequence(mockapi.Reply{Text: "Half an answer that is long enough for several events.", CutAfter: 3}, says(doneText)), want: good(codexOnce)},
		{
			name: "usage-limit", want: limit,
			script: func(string) mockapi.Script {
				return mockapi.Always(mockapi.Limit(mockapi.OpenAI, time.Now().Add(2*time.Hour)))
			},
		},
		{
			name: "usage-limit-team", want: distant,
			script: func(file string) mockapi.Script {
				return refused(map[string]any{"plan_type": "team", "resets_at": time.Now().Add(30 * time.Hour).Unix()})(file)
			},
		},
		{name: "usage-limit-free", script: refused(map[string]any{"plan_type": "free"}), want: later},
		{name: "limit", ask: impatient, script: always(mockapi.Reply{Status: 429, RetryAfter: time.Second}), want: unknown},
		{
			name: "limit-in-stream", ask: impatient, want: halfway(soon),
			script: always(mockapi.Reply{Text: "Half", Status: 429, InStream: true, ErrorType: "rate_limit_exceeded", ErrorMessage: "Rate limit reached for m. Please try again in 7s."}),
		},
		{
			name: "limit-hour", script: always(mockapi.Reply{Status: 429, RetryAfter: time.Hour}),
			want: told{class: class.Limit, text: "last status: 429", usage: "?", wait: time.Hour, settled: Hopeless, last: "?"},
		},
		{
			name: "killed-waiting", script: always(mockapi.Reply{Status: 429, RetryAfter: time.Hour}), cut: "Reconnecting",
			want: told{class: class.Limit, text: "last status: 429", usage: "?", wait: -1, last: "?"},
		},
		{name: "overloaded", ask: impatient, script: always(mockapi.Reply{Status: 503}), want: fails(class.Overloaded, "?")},
		{name: "server-error", ask: impatient, script: always(mockapi.Reply{Status: 500}), want: fails(class.Overloaded, "high demand")},
		{name: "error-in-stream", ask: impatient, script: always(mockapi.Reply{Text: "Half", Status: 500, InStream: true}), want: halfway(fails(class.Overloaded, "stream disconnected"))},
		{name: "bad-key", script: always(mockapi.Reply{Status: 401}), want: told{class: class.Auth, text: "unexpected status 401 Unauthorized: Incorrect API key provided., url", usage: "?", settled: Hopeless, last: "?"}},
		{name: "bad-key-final", ask: impatient, script: always(mockapi.Reply{Status: 401}), want: fails(class.Auth, "401")},
		{name: "bad-model", script: refusal(404, "model_not_found", "The model `nope` does not exist or you do not have access to it."), want: fails(class.Model, "does not exist")},
		{name: "bad-request", script: refusal(400, "invalid_request_error", "no"), want: fails(class.Request, "invalid_request_error")},
		{name: "too-long", script: always(mockapi.Reply{Status: 400, InStream: true, ErrorType: "context_length_exceeded", ErrorMessage: "Your input exceeds the context window."}), want: context},
		{name: "no-quota", script: refusal(429, "insufficient_quota", "You exceeded your current quota, please check your plan and billing details."), want: fails(class.Billing, "Quota exceeded")},
		{name: "refused", script: always(mockapi.Reply{Status: 400, InStream: true, ErrorType: "invalid_prompt", ErrorMessage: "Invalid prompt: we think this violates policy"}), want: fails(class.Refused, "Invalid prompt")},
		{
			name: "unreachable", ask: args("-c", `model_providers.mock.base_url="http://127.0.0.1:9/v1"`), cut: "waiting for network",
			want: told{class: class.Network, text: "waiting for network", usage: "?", last: "?"},
		},
		{
			name: "killed", ask: func(r *Request) { r.Permissions = PermitAll }, cut: "until",
			script: sequence(mockapi.Reply{Text: "I wait for it.", Tools: []mockapi.Tool{{Shell: "until [ -e never.txt ]; do sleep 0.1; done"}}, Usage: used}, mockapi.Reply{Hang: mockapi.HangBeforeHeaders}),
			want:   told{class: class.NoResult, final: "I wait for it.", usage: codexOnce, last: "?"},
		},
		{name: "no-key", without: "OPENAI_API_KEY", want: fails(class.Auth, "Missing environment variable")},
		{name: "bad-flag", ask: args("--full-auto"), want: told{class: class.Config, text: "unexpected argument '--full-auto'", plain: true, usage: "?", last: "?"}},
		{name: "bad-setting", ask: args("-c", "sandbox_mode=nonsense"), want: told{class: class.Config, text: "unknown variant", plain: true, usage: "?", last: "?"}},
		{name: "bad-resume", ask: func(r *Request) { r.Resume = &Session{ID: "11111111-2222-4333-8444-555555555555"} }, want: told{class: class.Session, text: "no rollout found", plain: true, usage: "?", last: "?"}},
	}
}
