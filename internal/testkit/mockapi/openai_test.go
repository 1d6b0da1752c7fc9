package mockapi

import (
	"strings"
	"testing"
	"time"
)

const openaiTools = `[{"type":"function","name":"exec_command","parameters":{"properties":{"cmd":{"type":"string"}},"required":["cmd"]}},
 {"type":"custom","name":"apply_patch","format":{"type":"grammar"}},
 {"type":"namespace","name":"agents","tools":[{"type":"function","name":"spawn","parameters":{}}]},
 {"type":"web_search"}]`

func openaiAsk(stream, tools string) string {
	return `{"model":"gpt-x","stream":` + stream + `,"prompt_cache_key":"s-2","tools":` + tools + `,"input":[
 {"type":"message","role":"developer","content":[{"type":"input_text","text":"be good"}]},
 {"type":"message","role":"user","content":[{"type":"input_text","text":"do it"}]},
 {"type":"function_call","name":"exec_command","call_id":"c","arguments":"{}"},
 {"type":"function_call_output","call_id":"c","output":[{"type":"input_text","text":"done so"}]}]}`
}

func TestOpenAIStream(t *testing.T) {
	var call Call
	u := Usage{Input: 10, CacheRead: 20, CacheWrite: 30, Output: 40, Reasoning: 15}
	s := start(t, func(c Call) Reply {
		call = c
		return Reply{Thinking: "hm", Text: "I do.", Usage: u, Tools: []Tool{{Write: &File{"/w/a", "x\ny\n"}}, {Shell: "ls"}}}
	})
	events, err := readEvents(t, ask(t, s.URL()+"/v1/responses", openaiAsk("true", openaiTools)).Body)
	if err != nil {
		t.Fatal(err)
	}
	deltas := map[string]string{}
	var items []map[string]any
	for i, e := range events {
		same(t, "type and number", []any{e.data["type"], e.data["sequence_number"]}, []any{e.name, i})
		if d, ok := e.data["delta"].(string); ok {
			deltas[e.name] += d
		}
		if e.name == "response.output_item.added" {
			same(t, "index", e.data["output_index"], len(items))
		}
		if e.name == "response.output_item.done" {
			items = append(items, e.data["item"].(map[string]any))
		}
	}
	patch := "*** Begin Patch\n*** Add File: /w/a\n+x\n+y\n*** End Patch"
	same(t, "deltas", deltas, map[string]string{"response.output_text.delta": "I do.", "response.reasoning_summary_text.delta": "hm",
		"response.custom_tool_call_input.delta": patch, "response.function_call_arguments.delta": `{"cmd":"ls"}`})
	var kinds []any
	for _, it := range items {
		kinds = append(kinds, it["type"])
	}
	same(t, "items", kinds, []string{"reasoning", "message", "custom_tool_call", "function_call"})
	same(t, "patch", []any{items[2]["name"], items[2]["input"]}, []string{"apply_patch", patch})
	same(t, "command", []any{items[3]["name"], items[3]["arguments"], items[3]["call_id"]}, []string{"exec_command", `{"cmd":"ls"}`, "call_00000001_2"})
	first, last := events[0], events[len(events)-1]
	same(t, "ends", []any{first.name, at(t, first.data, "response", "status"), last.name, at(t, last.data, "response", "status"), len(at(t, last.data, "response", "output").([]any))},
		[]any{"response.created", "in_progress", "response.completed", "completed", 4})
	same(t, "usage", at(t, last.data, "response", "usage"), object{"input_tokens": 60, "input_tokens_details": object{"cached_tokens": 20, "cache_write_tokens": 30},
		"output_tokens": 40, "output_tokens_details": object{"reasoning_tokens": 15}, "total_tokens": 100})
	same(t, "call", []any{call.Model, call.Prompt, call.LastToolOutput, call.HasToolResult, call.Tools, call.Side, call.Session},
		[]any{"gpt-x", "do it", "done so", true, []string{"exec_command", "apply_patch", "spawn", "web_search"}, false, "s-2"})
	same(t, "told", one(t, s).Usage, u)
}

// TestOpenAICodeMode: codex offers its newer models one tool that takes a
// program, as an item of the input.
func TestOpenAICodeMode(t *testing.T) {
	body := `{"model":"gpt-y","stream":false,"input":[{"type":"additional_tools","role":"developer","tools":[{"type":"namespace","name":"functions","tools":[
 {"type":"custom","name":"exec","description":"Run JavaScript.\ndeclare const tools: { apply_patch(input: string): Promise<unknown>; };\ndeclare const tools: { exec_command(args: {\n  cmd: string;"}]}]},
 {"type":"message","role":"user","content":"hello"}]}`
	var call Call
	s := start(t, func(c Call) Reply {
		call = c
		return Reply{Tools: []Tool{{Shell: `echo "hi"`}, {Write: &File{"/w/a", "x\n"}}, {Write: &File{"/w/b", "no end"}}}}
	})
	m := decode(t, ask(t, s.URL()+"/v1/responses", body))
	same(t, "tools", []any{call.Tools, call.Side, call.HasToolResult, call.Prompt}, []any{[]string{"exec", "exec.apply_patch", "exec.exec_command"}, false, false, "hello"})
	for i, want := range []string{
		"const r = await tools.exec_command({cmd: \"echo \\\"hi\\\"\"});\ntext(r.output);",
		`text(await tools.apply_patch("*** Begin Patch\n*** Add File: /w/a\n+x\n*** End Patch"));`,
		"const r = await tools.exec_command({cmd: \"mkdir -p /w \\u0026\\u0026 printf %s 'no end' \\u003e /w/b\"});\ntext(r.output);",
	} {
		it := at(t, m, "output", i).(map[string]any)
		same(t, "call", []any{it["type"], it["name"], it["namespace"], it["input"]}, []string{"custom_tool_call", "exec", "functions", want})
	}
}

func TestOpenAIErrors(t *testing.T) {
	resets := time.Now().Add(time.Hour)
	for _, c := range []struct {
		reply      Reply
		kind, code any
	}{
		{Reply{Status: 400}, "invalid_request_error", "invalid_request_error"},
		{Reply{Status: 401}, "invalid_request_error", "invalid_api_key"},
		{Reply{Status: 404}, "invalid_request_error", "model_not_found"},
		{Reply{Status: 429, RetryAfter: 3 * time.Second}, "rate_limit_exceeded", "rate_limit_exceeded"},
		{Reply{Status: 429, ErrorType: "insufficient_quota"}, "insufficient_quota", "insufficient_quota"},
		{Limit(OpenAI, resets), "usage_limit_reached", "usage_limit_reached"},
		{Reply{Status: 500}, "server_error", "server_error"},
		{Reply{Status: 503}, "server_is_overloaded", "server_is_overloaded"},
	} {
		s := start(t, Always(c.reply))
		res := ask(t, s.URL()+"/v1/responses", openaiAsk("true", openaiTools))
		m := decode(t, res)
		same(t, "error", []any{res.StatusCode, at(t, m, "error", "type"), at(t, m, "error", "code")}, []any{c.reply.Status, c.kind, c.code})
		if c.kind == "usage_limit_reached" {
			same(t, "reset", at(t, m, "error", "resets_at"), resets.Unix())
		}
	}
	s := start(t, Always(Reply{InStream: true, ErrorType: "rate_limit_exceeded", ErrorMessage: "slow down"}))
	events, err := readEvents(t, ask(t, s.URL()+"/v1/responses", openaiAsk("true", openaiTools)).Body)
	if err != nil {
		t.Fatal(err)
	}
	last := events[len(events)-1]
	same(t, "failed", []any{last.name, at(t, last.data, "response", "status"), at(t, last.data, "response", "error", "code"), at(t, last.data, "response", "error", "message")},
		[]string{"response.failed", "failed", "rate_limit_exceeded", "slow down"})
}

func TestOpenAIIncomplete(t *testing.T) {
	s := start(t, Always(Reply{Text: "cut off", StopReason: "incomplete"}))
	events, err := readEvents(t, ask(t, s.URL()+"/v1/responses", strings.ReplaceAll(openaiAsk("true", "[]"), `"s-2"`, `""`)).Body)
	if err != nil {
		t.Fatal(err)
	}
	last := events[len(events)-1]
	same(t, "incomplete", []any{last.name, at(t, last.data, "response", "incomplete_details", "reason")}, []string{"response.incomplete", "max_output_tokens"})
	if r := one(t, s); !r.Side || r.Session != "" || r.Usage.CacheWrite != 0 {
		t.Errorf("a request without tools and session: %+v", r)
	}
}
