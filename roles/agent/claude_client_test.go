package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/superloop/superloop/recovery/permit"
)

// talker is a client under test: it collects what is sent, and answers by a function.
type talker struct {
	Client
	mu    sync.Mutex
	sent  []map[string]any
	fails []string
	asked []permit.Request
	more  chan struct{}
}

func talking(mode string, ask permit.Ask) *talker {
	t := &talker{more: make(chan struct{}, 1000)}
	t.Client = claude{}.Converse(Request{Asked: mode}, Conversation{Prompt: "do \"it\"\n", Hold: time.Minute,
		Ask: func(ctx context.Context, r permit.Request) permit.Answer {
			t.mu.Lock()
			t.asked = append(t.asked, r)
			t.mu.Unlock()
			return ask(ctx, r)
		},
		Send: func(data []byte) {
			t.mu.Lock()
			defer t.mu.Unlock()
			for line := range bytes.Lines(data) {
				var m map[string]any
				if err := json.Unmarshal(line, &m); err != nil {
					t.fails = append(t.fails, fmt.Sprintf("sent %q: %v", line, err))
				}
				t.sent = append(t.sent, m)
				t.more <- struct{}{}
			}
		},
		Fail: func(reason string) {
			t.mu.Lock()
			defer t.mu.Unlock()
			t.fails = append(t.fails, reason)
		}})
	return t
}

func (t *talker) says(line string) { t.Stdout([]byte(line + "\n")) }

// answers waits for the next n lines, and returns the last one.
func (t *talker) answers(n int) string {
	for range n {
		<-t.more
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if n == 0 {
		return ""
	}
	b, _ := json.Marshal(t.sent[len(t.sent)-1])
	return string(b)
}

func hookLine(id, use, tool, input string) string {
	return fmt.Sprintf(`{"type":"control_request","request_id":%s,"request":{"subtype":"hook_callback","callback_id":"pre","input":{"hook_event_name":"PreToolUse","tool_name":%q,"tool_input":%s,"tool_use_id":%q,"session_id":"s","cwd":"/w"},"tool_use_id":%q}}`, id, tool, input, use, use)
}

func resultLine(use string, failed bool) string {
	return fmt.Sprintf(`{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":%q,"is_error":%v}]},"session_id":"s"}`, use, failed)
}

func decides(d permit.Decision) permit.Ask {
	return func(context.Context, permit.Request) permit.Answer {
		return permit.Answer{Decision: d, Message: "no: <it>"}
	}
}

// What the client says, byte for byte, to what the CLI asks.
func TestClaudeClient(t *testing.T) {
	t.Parallel()
	const input = `{"command":"a \u003c b","description":"<>"}`
	for name, c := range map[string]struct {
		mode string
		ask  permit.Ask
		says string
		want string
	}{
		"allow":                  {permit.Enforce, decides(permit.Allow), hookLine(`"x"`, "u", "Bash", input), `{"response":{"request_id":"x","response":{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow","updatedInput":{"command":"a \u003c b","description":"\u003c\u003e"}}},"subtype":"success"},"type":"control_response"}`},
		"deny":                   {permit.Enforce, decides(permit.Deny), hookLine(`"x"`, "u", "Bash", input), `{"response":{"request_id":"x","response":{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"no: \u003cit\u003e"}},"subtype":"success"},"type":"control_response"}`},
		"an id that is 0":        {permit.Enforce, decides(permit.Deny), hookLine(`0`, "u", "Bash", input), `{"response":{"request_id":0,"response":{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"no: \u003cit\u003e"}},"subtype":"success"},"type":"control_response"}`},
		"leave":                  {permit.Observe, decides(permit.Leave), hookLine(`"x"`, "u", "Bash", input), `{"response":{"request_id":"x","response":{},"subtype":"success"},"type":"control_response"}`},
		"no decision is none":    {permit.Enforce, decides(""), hookLine(`"x"`, "u", "Bash", input), `{"response":{"request_id":"x","response":{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"no: \u003cit\u003e"}},"subtype":"success"},"type":"control_response"}`},
		"asked as without stdio": {permit.Observe, decides(permit.Allow), `{"type":"control_request","request_id":"x","request":{"subtype":"can_use_tool","tool_name":"Bash","input":{},"tool_use_id":"u"}}`, `{"response":{"request_id":"x","response":{"behavior":"deny","message":"` + claudeUnasked + `"},"subtype":"success"},"type":"control_response"}`},
		"the second line":        {permit.Enforce, decides(permit.Allow), `{"type":"control_request","request_id":"x","request":{"subtype":"can_use_tool","tool_name":"Bash","input":{"command":"ls"},"permission_suggestions":[{"type":"addRules"}],"tool_use_id":"u"}}`, `{"response":{"request_id":"x","response":{"behavior":"allow","updatedInput":{"command":"ls"}},"subtype":"success"},"type":"control_response"}`},
		"unknown":                {permit.Enforce, decides(permit.Allow), `{"type":"control_request","request_id":"x","request":{"subtype":"request_user_dialog"}}`, `{"response":{"error":"superloop does not support request_user_dialog","request_id":"x","subtype":"error"},"type":"control_response"}`},
		"another hook":           {permit.Enforce, decides(permit.Allow), strings.Replace(hookLine(`"x"`, "u", "Bash", input), "PreToolUse", "PostToolUse", 1), `{"response":{"error":"superloop knows no such hook","request_id":"x","subtype":"error"},"type":"control_response"}`},
	} {
		k := talking(c.mode, c.ask)
		k.says(c.says)
		if got := k.answers(1); got != c.want || len(k.fails) > 0 {
			t.Errorf("%s: %s, not %s; %q", name, got, c.want, k.fails)
		}
		k.End()
	}
	k := talking(permit.Enforce, decides(permit.Deny))
	k.Begin()
	k.answers(2)
	hooks, _ := json.Marshal(k.sent[0])
	if !strings.Contains(string(hooks), `"hooks":{"PreToolUse":[{"hookCallbackIds":["pre"],"matcher":"*","onFailure":"block","timeout":120}]}`) || !strings.Contains(fmt.Sprint(k.sent[1]), "do \"it\"\n") {
		t.Errorf("%s %v", hooks, k.sent[1])
	}
	k.End()
}

// A run in which a tool worked that nobody allowed is ended.
func TestClaudeClientFindsWhatWasNotAsked(t *testing.T) {
	t.Parallel()
	const first = `{"type":"control_response","response":{"subtype":"error","request_id":"i1","error":"no hooks here"}}`
	for name, c := range map[string]struct {
		mode  string
		ask   permit.Ask
		says  []string
		waits int
		fails string
	}{
		"allowed":       {permit.Enforce, decides(permit.Allow), []string{hookLine(`"x"`, "u", "Bash", "{}"), resultLine("u", false)}, 1, ""},
		"refused":       {permit.Enforce, decides(permit.Deny), []string{hookLine(`"x"`, "u", "Bash", "{}"), resultLine("u", true)}, 1, ""},
		"disobeyed":     {permit.Enforce, decides(permit.Deny), []string{hookLine(`"x"`, "u", "Bash", "{}"), resultLine("u", false)}, 1, "although it was refused"},
		"not asked":     {permit.Enforce, decides(permit.Allow), []string{resultLine("u", false)}, 0, "without asking"},
		"twice":         {permit.Enforce, decides(permit.Allow), []string{hookLine(`"x"`, "u", "Bash", "{}"), resultLine("u", false), resultLine("u", false)}, 1, "without asking"},
		"not known":     {permit.Enforce, decides(permit.Allow), []string{resultLine("u", true)}, 0, ""},
		"observed":      {permit.Observe, decides(permit.Leave), []string{resultLine("u", false)}, 0, ""},
		"no hook":       {permit.Enforce, decides(permit.Allow), []string{first}, 0, "refuses to ask"},
		"no id":         {permit.Enforce, decides(permit.Allow), []string{`{"type":"control_request","request":{"subtype":"can_use_tool"}}`}, 0, "without an id"},
		"no JSON":       {permit.Enforce, decides(permit.Allow), []string{`{"type":"control_request","request_id":`}, 0, "cannot be read"},
		"a text of one": {permit.Enforce, decides(permit.Allow), []string{`{"type":"user","message":{"content":"tool_result"}}`, `not JSON`, ``}, 0, ""},
	} {
		k := talking(c.mode, c.ask)
		for i, line := range c.says {
			k.says(line)
			if i == 0 {
				k.answers(c.waits)
			}
		}
		k.End()
		if got := strings.Join(k.fails, "; "); (got == "") != (c.fails == "") || !strings.Contains(got, c.fails) {
			t.Errorf("%s: %q, not %q", name, got, c.fails)
		}
	}
}

// A request that the CLI gives up, or that is open when it ends, gets no answer.
func TestClaudeClientSupersedes(t *testing.T) {
	t.Parallel()
	ended := make(chan struct{}, 3)
	k := talking(permit.Enforce, func(ctx context.Context, r permit.Request) permit.Answer {
		<-ctx.Done()
		ended <- struct{}{}
		return permit.Answer{Decision: permit.Allow}
	})
	k.says(hookLine(`"x"`, "u", "Bash", "{}"))
	k.says(hookLine(`7`, "v", "Bash", "{}"))
	k.says(hookLine(`"x"`, "w", "Bash", "{}")) // the id of one that is open
	if got := k.answers(1); !strings.Contains(got, "being answered already") {
		t.Error(got)
	}
	k.says(`{"type":"control_cancel_request","request_id":"x"}`)
	<-ended
	k.says(`{"type":"control_cancel_request","request_id":"nobody's"}`)
	k.End()
	<-ended
	if len(k.sent) != 1 || len(k.fails) > 0 {
		t.Errorf("%v %q", k.sent, k.fails)
	}
}

// Inputs are read as the CLI reads them.
func TestClaudeRequest(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ tool, input, want string }{
		{"Bash", `{"command":"ls","description":"d","timeout":5,"run_in_background":true}`, "command ls [] "},
		{"Bash", `{"command":"rm x","Command":"ls"}`, "other  [] "},
		{"Bash", `{"Command":"ls"}`, "other  [] "},
		{"Bash", `{"command":"ls","dangerouslyDisableSandbox":true}`, "other  [] "},
		{"Bash", `{"command":["ls"]}`, "other  [] "},
		{"Bash", `{"command":null}`, "other  [] "},
		{"Bash", `[]`, "other  [] "},
		{"Bash", ``, "other  [] "},
		{"bash", `{"command":"ls"}`, "other  [] "},
		{"Write", `{"file_path":"/a","content":"x"}`, "write  [/a] "},
		{"Write", `{"File_path":"/a","file_path":"/b"}`, "write  [/b] "},
		{"Edit", `{"file_path":7}`, "other  [] "},
		{"NotebookEdit", `{"notebook_path":"n"}`, "write  [n] "},
		{"Grep", `{"pattern":"/etc","path":"/a"}`, "read  [/a] "},
		{"Grep", `{"pattern":"x"}`, "read  [] "},
		{"Glob", `{"pattern":"**/*.go"}`, "read  [] "},
		{"Glob", `{"pattern":"sub/*.go","path":"/a"}`, "read  [/a /a/sub] "},
		{"Glob", `{"pattern":"/home/u/.ssh/*","path":"/a"}`, "read  [/a /home/u/.ssh/] "},
		{"Glob", `{"pattern":"../../x*"}`, "read  [../../] "},
		{"Glob", `{"pattern":"*/../../x"}`, "other  [] "},
		{"WebFetch", `{"url":"https://a.b:443/x"}`, "fetch  [] a.b"},
		{"WebFetch", `{"url":"https://u:p@a.b/"}`, "fetch  [] "},
		{"WebFetch", `{"url":"file:///etc/passwd"}`, "fetch  [] "},
		{"WebSearch", `{"query":"x"}`, "fetch  [] "},
		{"mcp__a__b", `{}`, "mcp  [] "},
		{"Agent", `{"prompt":"x"}`, "internal  [] "},
		{"AskUserQuestion", `{}`, "question  [] "},
		{"CronCreate", `{}`, "other  [] "},
		{"ExitPlanMode", `{}`, "other  [] "},
	} {
		r := claudeRequest(claudeCall{Tool: c.tool, Input: json.RawMessage(c.input), Dir: "/w"})
		if got := fmt.Sprint(r.Kind, " ", r.Command, " ", r.Paths, " ", r.Host); got != c.want || !r.Exact || r.Tool != c.tool || string(r.Input) != c.input {
			t.Errorf("%s %s: %q, not %q", c.tool, c.input, got, c.want)
		}
	}
}

// Whatever a CLI prints, in pieces of any size, the client does not crash, sends only JSON, and never allows what nobody
// has allowed.
func FuzzClaudeClient(f *testing.F) {
	f.Add([]byte(hookLine(`"x"`, "u", "Bash", `{"command":"ls"}`)+"\n"+resultLine("u", true)+"\n"), 7)
	f.Add([]byte(hookLine(`0`, "u", "Write", `{"file_path":"a"}`)+"\n"), 1)
	f.Add([]byte(`{"type":"control_request","request_id":0,"request":{"subtype":"can_use_tool","tool_name":"Bash","input":{"command":"ls"}}}`+"\n"), 1000)
	f.Add([]byte(`{"type":"control_request","request_id":{},"request":{"subtype":"elicitation"}}`+"\n\n\r\n{\n"), 3)
	f.Add([]byte(`{"type":"control_cancel_request","request_id":"x"}`+"\n"), 2)
	f.Add([]byte(hookLine(`"\u2028"`, "u", "Bash", `{"command":"`+strings.Repeat("x", 5<<20)+`"}`)+"\n"), 1<<20)
	f.Fuzz(func(t *testing.T, data []byte, piece int) {
		k := talking(permit.Enforce, decides(permit.Deny))
		k.more = make(chan struct{}, 1<<20)
		piece = max(1, piece&0xfffff, len(data)/10000)
		for len(data) > 0 {
			n := min(piece, len(data))
			k.Stdout(data[:n])
			data = data[n:]
		}
		k.End()
		for _, m := range k.sent {
			b, _ := json.Marshal(m)
			if bytes.Contains(b, []byte(`"allow"`)) && bytes.Contains(b, []byte(`"permissionDecision":"allow"`)) || m == nil {
				t.Fatalf("sent %s", b)
			}
			if r, ok := m["response"].(map[string]any); !ok || r["request_id"] == nil {
				t.Fatalf("an answer without an id: %s", b)
			}
		}
		for _, why := range k.fails {
			if strings.HasPrefix(why, "sent ") {
				t.Fatal(why)
			}
		}
	})
}

// The CLI does not read the memory of the repository with the repository's settings shut out, so the client hands it over.
func TestClaudeClientHandsOverTheMemory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "CLAUDE.md"), []byte("Use tabs."), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		req  Request
		want bool
	}{{Request{Asked: permit.Enforce, WorkDir: dir}, true}, {Request{Asked: permit.Observe, WorkDir: dir}, false}, {Request{Asked: permit.Enforce, WorkDir: dir, Resume: &Session{ID: "x"}}, false},
		{Request{Asked: permit.Enforce, WorkDir: t.TempDir()}, false}} {
		k := claude{}.Converse(c.req, Conversation{Prompt: "the task"}).(*claudeClient)
		if got := strings.Contains(k.Prompt, "Use tabs."); got != c.want || !strings.HasSuffix(k.Prompt, "the task") {
			t.Errorf("%+v: %q", c.req, k.Prompt)
		}
		k.End()
	}
}

// With permissions the command line asks, takes no settings of the repository where that is enforced, and refuses flags
// that would switch it off.
func TestClaudeAsks(t *testing.T) {
	t.Parallel()
	req := func(mode string, args ...string) Request {
		return Request{CLI: CLI{Command: []string{"claude"}, Args: args}, Asked: mode, Permissions: PermitAll, PromptPath: "/p", LastMessageFile: "/l", WorkDir: "/w", Repo: "/w", LoopDir: "/w/l",
			Loop: "l", RunID: "r", Role: "tester", Iteration: 1, Attempt: 1}
	}
	for _, c := range []struct {
		mode      string
		has, lack string
	}{
		{permit.Enforce, "--input-format=stream-json --permission-prompt-tool=stdio --setting-sources=user --strict-mcp-config --permission-mode=default --output-format=stream-json --verbose", "--dangerously-skip-permissions"},
		{permit.Observe, "--input-format=stream-json --permission-prompt-tool=stdio --dangerously-skip-permissions", "--setting-sources=user --strict-mcp-config"},
		{"", "--dangerously-skip-permissions", "--input-format=stream-json"},
	} {
		cmd, err := claude{}.Command(req(c.mode, "-p"), nil)
		if err != nil {
			t.Fatal(err)
		}
		for word := range strings.FieldsSeq(c.has) {
			if !slices.Contains(cmd.Argv, word) {
				t.Errorf("%q: %s is missing in %q", c.mode, word, cmd.Argv)
			}
		}
		for word := range strings.FieldsSeq(c.lack) {
			if slices.Contains(cmd.Argv, word) {
				t.Errorf("%q: %s is in %q", c.mode, word, cmd.Argv)
			}
		}
		if (cmd.Stdin == "") != (c.mode != "") {
			t.Errorf("%q: standard input is %q", c.mode, cmd.Stdin)
		}
	}
	for _, args := range [][]string{{"--permission-prompt-tool=x"}, {"--setting-sources", "project"}, {"--output-format=json"}, {"--input-format=text"}, {"{prompt}"}} {
		if _, err := (claude{}).Command(req(permit.Enforce, args...), nil); err == nil || !strings.Contains(err.Error(), permit.Enforce) {
			t.Errorf("%q: %v", args, err)
		}
	}
	r := req(permit.Enforce)
	r.CLI.PromptMode = PromptArg
	if _, err := (claude{}).Command(r, nil); err == nil {
		t.Error("the prompt can be an argument")
	}
	// Another CLI is not started at all.
	r = req(permit.Enforce)
	r.CLI.Command = []string{"own"}
	_, err := Run(t.Context(), nil, r, Options{Ask: decides(permit.Allow)})
	if err == nil || !strings.Contains(err.Error(), "only by claude, codex") {
		t.Errorf("%v", err)
	}
}
