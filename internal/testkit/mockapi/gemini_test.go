package mockapi

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

const geminiBody = `{"contents":[{"role":"user","parts":[{"text":"context"},{"text":"do it"}]},
 {"role":"model","parts":[{"functionCall":{"name":"read_file","args":{}}}]},
 {"role":"user","parts":[{"functionResponse":{"name":"read_file","response":{"output":"line one"}}}]}],
 "tools":[{"functionDeclarations":[
  {"name":"write_file","parametersJsonSchema":{"type":"object","properties":{"file_path":{"type":"string"},"content":{"type":"string"}},"required":["file_path","content"]}},
  {"name":"run_shell_command","parameters":{"type":"OBJECT","properties":{"command":{"type":"STRING"},"is_background":{"type":"BOOLEAN"}},"required":["command","is_background"]}}]}]}`

const geminiPath = "/v1beta/models/gemini-x:"

func TestGeminiStream(t *testing.T) {
	var call Call
	s := start(t, func(c Call) Reply {
		call = c
		return Reply{Thinking: "hm", Text: "I write and I run.", Usage: Usage{Input: 100, CacheRead: 30, CacheWrite: 5, Output: 50, Reasoning: 20},
			Tools: []Tool{{Write: &File{"/w/a", "x"}}, {Shell: "ls"}}}
	})
	events, err := readEvents(t, ask(t, s.URL()+geminiPath+"streamGenerateContent?alt=sse", geminiBody).Body)
	if err != nil {
		t.Fatal(err)
	}
	text, thoughts := "", ""
	var calls []any
	for _, e := range events {
		part := at(t, e.data, "candidates", 0, "content", "parts", 0).(map[string]any)
		switch {
		case part["functionCall"] != nil:
			calls = append(calls, []any{at(t, part, "functionCall", "name"), at(t, part, "functionCall", "args")})
		case part["thought"] == true:
			thoughts += part["text"].(string)
		default:
			text += part["text"].(string)
		}
		same(t, "prompt in every chunk", at(t, e.data, "usageMetadata", "promptTokenCount"), 135)
	}
	same(t, "text", []string{text, thoughts}, []string{"I write and I run.", "hm"})
	same(t, "calls", calls, []any{[]any{"write_file", object{"file_path": "/w/a", "content": "x"}},
		[]any{"run_shell_command", object{"command": "ls", "is_background": false}}})
	last := events[len(events)-1].data
	u := last["usageMetadata"].(map[string]any)
	same(t, "usage", []any{u["promptTokenCount"], u["cachedContentTokenCount"], u["candidatesTokenCount"], u["thoughtsTokenCount"], u["totalTokenCount"]}, []int{135, 30, 30, 20, 185})
	same(t, "end", []any{at(t, last, "candidates", 0, "finishReason"), last["modelVersion"]}, []string{"STOP", "gemini-x"})
	same(t, "call", []any{call.Model, call.Prompt, call.LastToolOutput, call.HasToolResult, call.Tools, call.Stream},
		[]any{"gemini-x", "do it", "line one", true, []string{"write_file", "run_shell_command"}, true})
	same(t, "told", one(t, s).Usage, Usage{Input: 105, CacheRead: 30, Output: 50, Reasoning: 20})
}

func TestGeminiWholeAndInPieces(t *testing.T) {
	s := start(t, Always(Reply{Text: strings.Repeat("word ", 30)}))
	m := decode(t, ask(t, s.URL()+geminiPath+"generateContent", geminiBody))
	same(t, "text", at(t, m, "candidates", 0, "content", "parts", 0, "text"), strings.Repeat("word ", 30))
	same(t, "finish", at(t, m, "candidates", 0, "finishReason"), "STOP")
	events, err := readEvents(t, ask(t, s.URL()+geminiPath+"streamGenerateContent", geminiBody).Body)
	if err != nil || len(events) < 3 {
		t.Fatalf("%d chunks, %v", len(events), err)
	}
	for _, r := range s.Calls() {
		if r.Outcome != Told || r.Usage.Output != tokens(150) {
			t.Errorf("%+v", r)
		}
	}
}

func TestGeminiErrors(t *testing.T) {
	for status, word := range map[int]string{400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND",
		429: "RESOURCE_EXHAUSTED", 500: "INTERNAL", 503: "UNAVAILABLE"} {
		s := start(t, Always(Reply{Status: status, RetryAfter: 90 * time.Second}))
		res := ask(t, s.URL()+geminiPath+"streamGenerateContent?alt=sse", geminiBody)
		m := decode(t, res)
		same(t, "error", []any{res.StatusCode, at(t, m, "error", "code"), at(t, m, "error", "status"), res.Header.Get("Retry-After")}, []any{status, status, word, ""})
		same(t, "retry", at(t, m, "error", "details", 0), object{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "90s"})
	}
	s := start(t, Always(Reply{InStream: true, Status: 503, Text: "begun"}))
	events, err := readEvents(t, ask(t, s.URL()+geminiPath+"streamGenerateContent?alt=sse", geminiBody).Body)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "in the stream", at(t, events[len(events)-1].data, "error", "status"), "UNAVAILABLE")
}

// TestGeminiSideRequest: the CLI asks a small model for a route, as JSON.
func TestGeminiSideRequest(t *testing.T) {
	s := start(t, Sequence(Reply{Text: "main"}))
	body := `{"contents":[{"role":"user","parts":[{"text":"which?"}]}],"generationConfig":{"responseJsonSchema":{"type":"OBJECT",
 "properties":{"why":{"type":"STRING"},"score":{"type":"INTEGER"},"of":{"enum":["a","b"]},"list":{"type":"array"}},"required":["why","score","of"]}}}`
	m := decode(t, ask(t, s.URL()+geminiPath+"generateContent", body))
	var answer map[string]any
	if err := json.Unmarshal([]byte(at(t, m, "candidates", 0, "content", "parts", 0, "text").(string)), &answer); err != nil {
		t.Fatal(err)
	}
	same(t, "answer", answer, object{"why": "as the task asks", "score": 1, "of": "a"})
	if r := one(t, s); !r.Side || r.Usage.Input != tokens(len(body)) {
		t.Errorf("%+v", r)
	}
}
