package mockapi

import (
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func jsonTool(name, schema string) offer {
	o := offer{name: name, kind: takesJSON}
	if err := json.Unmarshal([]byte(schema), &o.schema.v); err != nil {
		panic(err)
	}
	return o
}

const command = `{"properties":{"command":{"type":"string"}}}`

func TestChoose(t *testing.T) {
	claude := []offer{jsonTool("Bash", command), jsonTool("Write", `{"properties":{"file_path":{},"content":{}}}`)}
	opencode := []offer{jsonTool("bash", `{"properties":{"command":{"type":"string"},"description":{"type":"string"}},"required":["command","description"]}`),
		jsonTool("write", `{"properties":{"filePath":{"type":"string"},"content":{"type":"string"}}}`)}
	oldCodex := []offer{jsonTool("shell", `{"properties":{"command":{"type":"array"},"workdir":{"type":["string","null"]}},"required":["command"]}`),
		jsonTool("apply_patch", `{"properties":{"input":{"type":"string"}}}`)}
	local := []offer{{name: "local_shell", kind: localShell}}
	for _, c := range []struct {
		what        string
		tool        Tool
		offers      []offer
		name, input string
	}{
		{"claude writes", Tool{Write: &File{"/a", "x"}}, claude, "Write", `{"content":"x","file_path":"/a"}`},
		{"claude runs", Tool{Shell: "ls"}, claude, "Bash", `{"command":"ls"}`},
		{"opencode writes", Tool{Write: &File{"/a", "x"}}, opencode, "write", `{"content":"x","filePath":"/a"}`},
		{"opencode runs", Tool{Shell: "ls"}, opencode, "bash", `{"command":"ls","description":"as the task asks"}`},
		{"patch as a function", Tool{Write: &File{"/a", "x\n"}}, oldCodex, "apply_patch", `{"input":"*** Begin Patch\n*** Add File: /a\n+x\n*** End Patch"}`},
		{"no patch without a line end", Tool{Write: &File{"/d/a", "it's"}}, oldCodex, "shell", `{"command":["bash","-lc","mkdir -p /d \u0026\u0026 printf %s 'it'\\''s' \u003e /d/a"]}`},
		{"words", Tool{Shell: "ls"}, oldCodex, "shell", `{"command":["bash","-lc","ls"]}`},
		{"built in", Tool{Shell: "ls"}, local, "local_shell", `{"command":["bash","-lc","ls"],"env":{},"type":"exec"}`},
		{"by name", Tool{Name: "Bash", Input: json.RawMessage(`{"command":"x"}`)}, claude, "Bash", `{"command":"x"}`},
		{"text by name", Tool{Name: "exec", Input: json.RawMessage(`"1+1"`)}, []offer{{name: "exec", kind: takesText}}, "exec", `1+1`},
	} {
		got, err := choose(c.tool, c.offers)
		if err != nil || got.name != c.name || got.input != c.input {
			t.Errorf("%s: %s %s, %v", c.what, got.name, got.input, err)
		}
	}
	for what, c := range map[string]struct {
		tool   Tool
		offers []offer
	}{
		"not text":    {Tool{Name: "exec", Input: json.RawMessage(`{}`)}, []offer{{name: "exec", kind: takesText}}},
		"provider's":  {Tool{Name: "web_search"}, []offer{{name: "web_search", kind: provider}}},
		"odd schema":  {Tool{Write: &File{"/a", "x"}}, []offer{jsonTool("Write", `{"properties":{"where":{},"what":{}}}`)}},
		"no property": {Tool{Shell: "ls"}, []offer{jsonTool("Bash", `"none"`)}},
		"nothing":     {Tool{Shell: "ls"}, nil},
	} {
		if got, err := choose(c.tool, c.offers); err == nil {
			t.Errorf("%s: chose %+v", what, got)
		}
	}
}

// TestPieces: nothing is lost or reordered, and no character is cut.
func TestPieces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text, limit := rapid.String().Draw(t, "text"), rapid.IntRange(1, 20).Draw(t, "limit")
		list := pieces(text, limit)
		if strings.Join(list, "") != text || len(list) > limit {
			t.Fatalf("%d pieces: %q", len(list), list)
		}
		for _, p := range list {
			if p == "" || strings.ToValidUTF8(p, "") != strings.ToValidUTF8(text, "")[:0]+strings.ToValidUTF8(p, "") || !json.Valid([]byte(inJSON(p))) {
				t.Fatalf("a piece %q", p)
			}
		}
	})
}

// TestUsageAs: what is told has the same sums, and only kinds that the API
// knows.
func TestUsageAs(t *testing.T) {
	n := rapid.Int64Range(0, 1<<40)
	rapid.Check(t, func(t *rapid.T) {
		u := Usage{n.Draw(t, "input"), n.Draw(t, "read"), n.Draw(t, "write"), n.Draw(t, "output"), n.Draw(t, "reasoning")}
		for _, api := range []API{Anthropic, OpenAI, Gemini} {
			v := u.as(api)
			if v.prompt() != u.prompt() || v.Output != u.Output || v.Reasoning > v.Output || v.as(api) != v {
				t.Fatalf("%s: %+v became %+v", api, u, v)
			}
			if api == Anthropic && v.Reasoning != 0 || api == Gemini && v.CacheWrite != 0 {
				t.Fatalf("%s tells %+v", api, v)
			}
		}
	})
}

func TestDerivedUsage(t *testing.T) {
	m := meter{}
	body := func(n int) Call { return Call{API: Anthropic, Session: "s", Body: make([]byte, n)} }
	a := answer{Reply: Reply{Text: strings.Repeat("x", 9), Thinking: "xxxxx"}, calls: []toolCall{{input: "{}"}}}
	for i, c := range []struct {
		call Call
		want Usage
	}{
		{body(400), Usage{Input: 50, CacheWrite: 50, Output: 5, Reasoning: 2}},
		{body(401), Usage{Input: 1, CacheRead: 100, Output: 5, Reasoning: 2}},
		{body(80), Usage{Input: 0, CacheRead: 20, Output: 5, Reasoning: 2}}, // after a compaction
		{Call{API: OpenAI, Session: "s", Body: make([]byte, 8)}, Usage{Input: 1, CacheWrite: 1, Output: 5, Reasoning: 2}},
		{Call{API: Gemini, Session: "s", Body: make([]byte, 8)}, Usage{Input: 2, Output: 5, Reasoning: 2}},
		{Call{API: Anthropic, Session: "s", Side: true, Body: make([]byte, 8)}, Usage{Input: 2, Output: 5, Reasoning: 2}},
	} {
		if got := m.measure(c.call, a); got != c.want {
			t.Errorf("%d: %+v, want %+v", i, got, c.want)
		}
	}
	if got := m.measure(Call{}, answer{}); got.Output != 1 {
		t.Errorf("an empty answer costs %+v", got)
	}
}
