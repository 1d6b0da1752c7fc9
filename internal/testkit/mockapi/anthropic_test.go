package mockapi

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

const anthropicBody = `{"model":"claude-x","stream":%STREAM%,"max_tokens":9,
 "messages":[
  {"role":"user","content":[{"type":"text","text":"<system-reminder>not the user</system-reminder>"},{"type":"text","text":"do it"}]},
  {"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"Bash","input":{}}]},
  {"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","is_error":true,"content":[{"type":"text","text":"no such"},{"type":"text","text":"file"}]}]}],
 "tools":[{"name":"Write","input_schema":{"properties":{"file_path":{"type":"string"},"content":{"type":"string"}},"required":["file_path","content"]}},
  {"name":"Bash","input_schema":{"properties":{"command":{"type":"string"},"description":{"type":"string"}},"required":["command"]}},
  {"type":"web_search_20250305","name":"web_search"}],
 "metadata":{"user_id":"{\"session_id\":\"s-1\"}"}}`

func anthropicAsk(stream string) string { return strings.ReplaceAll(anthropicBody, "%STREAM%", stream) }

func TestAnthropicStream(t *testing.T) {
	var call Call
	u := Usage{Input: 11, CacheRead: 22, CacheWrite: 33, Output: 44, Reasoning: 5}
	s := start(t, func(c Call) Reply {
		call = c
		return Reply{Thinking: "I think so.", Text: strings.Repeat("a \u00e4\u20ac word ", 20), Usage: u,
			Tools: []Tool{{Write: &File{"/w/a.txt", "x\n"}}, {Shell: "make test"}}}
	})
	res := ask(t, s.URL()+"/v1/messages?beta=true", anthropicAsk("true"))
	same(t, "content type", res.Header.Get("Content-Type"), "text/event-stream; charset=utf-8")
	events, err := readEvents(t, res.Body)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	text, thinking, inputs := "", "", map[any]string{}
	starts := map[any]any{}
	for _, e := range events {
		same(t, "type of an event", e.data["type"], e.name)
		if len(names) == 0 || names[len(names)-1] != e.name {
			names = append(names, e.name)
		}
		switch e.name {
		case "content_block_start":
			starts[e.data["index"]] = at(t, e.data, "content_block", "type")
		case "content_block_delta":
			d := e.data["delta"].(map[string]any)
			switch d["type"] {
			case "text_delta":
				text += d["text"].(string)
			case "thinking_delta":
				thinking += d["thinking"].(string)
			case "input_json_delta":
				inputs[e.data["index"]] += d["partial_json"].(string)
			}
		}
	}
	block := "content_block_start content_block_delta content_block_stop "
	same(t, "order", strings.Join(names, " "), "message_start ping "+strings.Repeat(block, 4)+"message_delta message_stop")
	same(t, "blocks", []any{starts[0.0], starts[1.0], starts[2.0], starts[3.0]}, []string{"thinking", "text", "tool_use", "tool_use"})
	same(t, "text", text, strings.Repeat("a \u00e4\u20ac word ", 20))
	same(t, "thinking", thinking, "I think so.")
	same(t, "write", inputs[2.0], `{"content":"x\n","file_path":"/w/a.txt"}`)
	same(t, "shell", inputs[3.0], `{"command":"make test"}`)
	begin, end := events[0].data, events[len(events)-2].data
	same(t, "usage at the start", []any{at(t, begin, "message", "usage", "input_tokens"), at(t, begin, "message", "usage", "output_tokens")}, []int{11, 1})
	same(t, "usage at the end", end["usage"], object{"input_tokens": 11, "cache_read_input_tokens": 22, "cache_creation_input_tokens": 33, "output_tokens": 44})
	same(t, "stop", at(t, end, "delta", "stop_reason"), "tool_use")
	same(t, "call", []any{call.N, call.Turn, call.Model, call.Prompt, call.LastToolOutput, call.HasToolResult, call.Tools, call.Side, call.Session, call.Stream},
		[]any{1, 1, "claude-x", "do it", "no such\nfile", true, []string{"Write", "Bash", "web_search"}, false, "s-1", true})
	u.Reasoning = 0 // this API does not tell it
	same(t, "record", one(t, s), Record{N: 1, API: Anthropic, Path: "/v1/messages", Model: "claude-x", Session: "s-1", Tools: call.Tools,
		Status: 200, Outcome: Told, Usage: u})
}

func TestAnthropicWhole(t *testing.T) {
	s := start(t, Always(Reply{Text: "well", StopReason: "max_tokens", Usage: Usage{Input: 1, Output: 2}, Model: "other"}))
	m := decode(t, ask(t, s.URL()+"/v1/messages", anthropicAsk("false")))
	same(t, "content", m["content"], []object{{"type": "text", "text": "well"}})
	same(t, "rest", []any{m["type"], m["role"], m["model"], m["stop_reason"], at(t, m, "usage", "output_tokens")}, []any{"message", "assistant", "other", "max_tokens", 2})
}

func TestAnthropicErrors(t *testing.T) {
	for status, kind := range map[int]string{400: "invalid_request_error", 401: "authentication_error", 403: "permission_error", 404: "not_found_error",
		413: "request_too_large", 429: "rate_limit_error", 500: "api_error", 529: "overloaded_error"} {
		s := start(t, Always(Reply{Status: status, RetryAfter: 1500 * time.Millisecond}))
		res := ask(t, s.URL()+"/v1/messages", anthropicAsk("true"))
		same(t, "status", res.StatusCode, status)
		same(t, "retry-after", res.Header.Get("Retry-After"), "2")
		m := decode(t, res)
		same(t, "body", []any{m["type"], at(t, m, "error", "type"), at(t, m, "error", "message") != ""}, []any{"error", kind, true})
		r := one(t, s)
		same(t, "record", []any{r.Status, r.Outcome, r.Usage}, []any{status, Failed, Usage{}})
	}
}

func TestAnthropicErrorInTheStream(t *testing.T) {
	s := start(t, Always(Reply{InStream: true, ErrorType: "overloaded_error", ErrorMessage: "Overloaded", Text: "begun", Usage: Usage{Input: 7, Output: 9}}))
	events, err := readEvents(t, ask(t, s.URL()+"/v1/messages", anthropicAsk("true")).Body)
	if err != nil {
		t.Fatal(err)
	}
	last := events[len(events)-1]
	same(t, "last event", []any{last.name, last.data["type"], at(t, last.data, "error", "type"), at(t, last.data, "error", "message")},
		[]string{"error", "error", "overloaded_error", "Overloaded"})
	r := one(t, s)
	same(t, "record", []any{r.Status, r.Outcome, r.Usage}, []any{200, Failed, Usage{}})
}

func TestAnthropicWindow(t *testing.T) {
	resets := time.Now().Add(time.Hour)
	s := start(t, Sequence(
		Reply{Text: "hi", Header: Window{Status: "allowed_warning", Claim: "seven_day", ResetsAt: resets, Utilization: 0.91}.Header()},
		Limit(Anthropic, resets)))
	warned := ask(t, s.URL()+"/v1/messages", anthropicAsk("true"))
	refused := ask(t, s.URL()+"/v1/messages", anthropicAsk("true"))
	const p = "Anthropic-Ratelimit-Unified-"
	for _, c := range []struct {
		res        *http.Response
		name, want string
	}{
		{warned, "Status", "allowed"}, {warned, "Representative-Claim", "seven_day"}, {warned, "7d-Utilization", "0.91"},
		{warned, "7d-Surpassed-Threshold", "0.91"}, {refused, "Status", "rejected"}, {refused, "5h-Status", "rejected"},
		{refused, "Representative-Claim", "five_hour"}, {refused, "5h-Surpassed-Threshold", ""},
	} {
		same(t, c.name, c.res.Header.Get(p+c.name), c.want)
	}
	same(t, "reset", refused.Header.Get(p+"Reset"), refused.Header.Get(p+"5h-Reset"))
	same(t, "status", []int{warned.StatusCode, refused.StatusCode}, []int{200, 429})
}
