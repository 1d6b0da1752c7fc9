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

	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/internal/testkit"
	"github.com/superloop/superloop/recovery/permit"
)

// codexTalk is the superloop of a test: it keeps what the client sends, asks and says of a breach.
type codexTalk struct {
	mu     sync.Mutex
	sent   []string
	asked  []permit.Request
	failed string
	answer permit.Ask
	client *codexClient
}

// talkToCodex begins a conversation in which the CLI has a sandbox of its own.
func talkToCodex(t testing.TB, mode string, answer permit.Ask) *codexTalk {
	k := &codexTalk{answer: answer}
	k.client = codex{}.Converse(Request{CLI: CLI{Command: []string{"codex"}}, Asked: mode, Permissions: PermitWorkspace}, Conversation{Prompt: "Write the files", Hold: time.Minute,
		Send: func(data []byte) {
			k.mu.Lock()
			defer k.mu.Unlock()
			k.sent = append(k.sent, string(data))
		},
		Fail: func(reason string) {
			k.mu.Lock()
			defer k.mu.Unlock()
			if k.failed == "" {
				k.failed = reason
			}
		},
		Ask: func(ctx context.Context, r permit.Request) permit.Answer {
			k.mu.Lock()
			k.asked = append(k.asked, r)
			k.mu.Unlock()
			if k.answer == nil {
				return permit.Answer{Decision: permit.Allow}
			}
			return k.answer(ctx, r)
		}}).(*codexClient)
	k.client.Begin()
	t.Cleanup(k.client.End)
	return k
}

func (k *codexTalk) said(lines ...string) {
	for _, l := range lines {
		k.client.Stdout([]byte(l + "\n"))
	}
}

// greet goes on until the turn has begun.
func (k *codexTalk) greet() *codexTalk {
	k.said(`{"id":1,"result":{}}`, `{"id":4,"result":{"config":{}}}`, `{"id":2,"result":{"thread":{"id":"t"},"approvalPolicy":"untrusted","approvalsReviewer":"user","sandbox":{"type":"workspaceWrite"}}}`)
	return k
}

// last waits until n messages were sent, and returns the last.
func (k *codexTalk) last(t testing.TB, n int) string {
	t.Helper()
	for range 2000 {
		k.mu.Lock()
		sent := slices.Clone(k.sent)
		k.mu.Unlock()
		if len(sent) >= n {
			return strings.TrimSpace(sent[n-1])
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatalf("only %d messages were sent, %q", len(k.sent), k.sent)
	return ""
}

// TestCodexRecorded plays a recording of the CLI, and compares the answers with those recorded, byte by byte.
func TestCodexRecorded(t *testing.T) {
	t.Parallel()
	file, err := os.ReadFile(filepath.Join("testdata", "codex.rpc.txt"))
	if err != nil {
		t.Fatal(err)
	}
	k := talkToCodex(t, permit.Enforce, func(_ context.Context, r permit.Request) permit.Answer {
		if strings.Contains(r.Command, "FORBIDDEN") {
			return permit.Answer{Decision: permit.Deny, Message: "no"}
		}
		return permit.Answer{Decision: permit.Allow}
	})
	var want []string
	stream := codex{}.Stream(Request{CLI: CLI{Command: []string{"codex"}}, Asked: permit.Enforce})
	first, _, _ := strings.Cut(string(file), `> {"id": 4`)
	for line := range strings.Lines(first) {
		if ours, ok := strings.CutPrefix(line, "> "); ok {
			var b bytes.Buffer
			if err := json.Compact(&b, []byte(ours)); err != nil {
				t.Fatal(err)
			}
			if strings.Contains(ours, `"decision"`) {
				if strings.Contains(ours, "decline") {
					want = append(want, `{"id":"told","method":"turn/steer","params":{"expectedTurnId":"01a1fbf8-57fe-7811-a528-0fc44ae41a08",`+
						`"input":[{"text":"superloop refused echo FORBIDDEN \u003e forbidden.txt: no","type":"text"}],"threadId":"01a1fbf8-555e-7422-9c82-762e487be91d"}}`)
				}
				want = append(want, b.String())
				k.last(t, 5+len(want)) // before the CLI goes on
			}
			continue
		}
		line = strings.TrimPrefix(line, "< ")
		if strings.Contains(line, `"id":2,`) {
			k.said(`{"id":4,"result":{"config":{"mcp_servers":{"a.b":{"command":"x","tools":{"look":{"approval_mode":"approve"}}}}}}}`)
		}
		if strings.Contains(line, `"item/started"`) && strings.Contains(line, "commandExecution") { // of the model's calls the recording has none
			id := line[strings.Index(line, "call_"):][:len("call_mock001_0")]
			k.said(`{"method":"rawResponseItem/completed","params":{"threadId":"01a1fbf8-555e-7422-9c82-762e487be91d","item":{"type":"function_call","call_id":"` + id + `","arguments":"{\"cmd\":\"x\"}"}}}`)
		}
		k.client.Stdout([]byte(line))
		stream.Stdout([]byte(line))
	}
	got := stream.Finish(proc.Result{Ended: proc.Exited})
	if got.Class != "" || !got.Done || got.FinalMessage != "Finished.\n<promise>DONE</promise>" || got.SessionID != "01a1fbf8-555e-7422-9c82-762e487be91d" || got.Denied != 1 || usageWord(got.Usage) != "3600+900r+0w>240(60)" {
		t.Errorf("%+v, usage %s", got, usageWord(got.Usage))
	}
	begin := []string{
		`{"id":1,"method":"initialize","params":{"capabilities":{"experimentalApi":true,"requestAttestation":false},"clientInfo":{"name":"superloop","title":"superloop","version":"1"}}}`,
		`{"method":"initialized"}`, `{"id":4,"method":"config/read","params":{}}`,
		`{"id":2,"method":"thread/start","params":{"approvalPolicy":"untrusted","approvalsReviewer":"user","sandbox":"workspace-write",` +
			`"config":{"mcp_servers":{"a.b":{"default_tools_approval_mode":"prompt","tools":{"look":{"approval_mode":"prompt"}}}}},"experimentalRawEvents":true}}`,
		`{"id":3,"method":"turn/start","params":{"input":[{"text":"Write the files","type":"text"}],"threadId":"01a1fbf8-555e-7422-9c82-762e487be91d"}}`,
	}
	if got, want := strings.Join(k.sent, ""), strings.Join(append(begin, want...), "\n")+"\n"; got != want {
		t.Errorf("sent\n%s\nwant\n%s", got, want)
	}
	if k.failed != "" || len(k.asked) != 2 {
		t.Fatalf("%q, %+v", k.failed, k.asked)
	}
	want0 := permit.Request{Kind: permit.Command, Tool: "commandExecution", Exact: true, Dir: "/rig/work", Session: "01a1fbf8-555e-7422-9c82-762e487be91d", ToolUse: "call_mock001_0",
		Command: "mkdir -p .superloop/loops/demo && echo ok > .superloop/loops/demo/allowed.txt",
		Input:   []byte("/bin/bash -lc 'mkdir -p .superloop/loops/demo && echo ok > .superloop/loops/demo/allowed.txt'")}
	if a, b := inJSON(k.asked[0]), inJSON(want0); a != b {
		t.Errorf("asked %s\nwant %s", a, b)
	}
}

func inJSON(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(data)
}

// TestCodexInstructions: the CLI reads no AGENTS.md of a repository whose settings it does not trust, so it is in the prompt.
func TestCodexInstructions(t *testing.T) {
	t.Parallel()
	req := request(t, "PROMPT")
	write(t, filepath.Join(req.WorkDir, "AGENTS.md"), "Use tabs.")
	for mode, want := range map[string]string{permit.Enforce: "AGENTS.md of this repository says:\n\nUse tabs.\n\nDo it.", permit.Observe: "Do it."} {
		req.Asked = mode
		if got := (codex{}).Converse(req, Conversation{Prompt: "Do it."}).(*codexClient).Prompt; got != want {
			t.Errorf("%s: %q", mode, got)
		}
	}
}

// codexStarted is the notice that an item begins, codexCalled the model's call, codexWants the request for a command.
func codexStarted(item string) string {
	return `{"method":"item/started","params":{"threadId":"t","item":` + item + `}}`
}

func codexCalled(id, arguments string) string {
	return fmt.Sprintf(`{"method":"rawResponseItem/completed","params":{"threadId":"t","item":{"type":"function_call","call_id":%q,"arguments":%q}}}`, id, arguments)
}

func codexWants(command, more string) string {
	return fmt.Sprintf(`{"id":"x","method":"item/commandExecution/requestApproval","params":{"kind":"command","threadId":"t","itemId":"i","cwd":"/w","command":%q%s}}`, command, more)
}

// TestCodexRequests: every request is answered, with what the protocol has for it, and what is asked says what would happen.
func TestCodexRequests(t *testing.T) {
	t.Parallel()
	plainCall := codexCalled("i", `{"cmd":"x"}`)
	const accepted, declined = `{"id":"x","result":{"decision":"accept"}}`, `{"id":"x","result":{"decision":"decline"}}`
	script := func(text string) string {
		return `{"method":"rawResponseItem/completed","params":{"threadId":"t","item":{"type":"custom_tool_call","call_id":"j","input":` + inJSON(text) + `}}}`
	}
	patch := codexStarted(`{"type":"fileChange","id":"i","changes":[{"path":"/w/a","kind":{"type":"update","move_path":"/w/b"},"diff":""}]}`)
	poke := codexStarted(`{"type":"mcpToolCall","id":"i","server":"m","tool":"poke","arguments":{"x": 1}}`)
	elicit := func(tool, params string) string {
		return `{"id":"x","method":"mcpServer/elicitation/request","params":{"threadId":"t","serverName":"m","mode":"form","_meta":{"codex_approval_kind":"mcp_tool_call","tool_name":"` + tool + `","tool_params":` + params + `}}}`
	}
	for name, c := range map[string]struct {
		before []string
		ask    string
		kind   permit.Kind
		tool   string
		word   string // the command, the paths or the host
		exact  bool
		deny   bool
		want   string
	}{
		"a command":          {[]string{plainCall}, codexWants("/bin/bash -lc 'go test ./...'", ""), permit.Command, "commandExecution", "go test ./...", true, false, accepted},
		"denied":             {[]string{plainCall}, codexWants("/bin/bash -lc ls", ""), permit.Command, "commandExecution", "ls", true, true, declined},
		"no shell":           {[]string{plainCall}, codexWants("git status", ""), permit.Command, "commandExecution", "git status", true, false, accepted},
		"another shell":      {[]string{plainCall}, codexWants("/w/bash -lc ls", ""), permit.Command, "commandExecution", "/w/bash -lc ls", true, false, accepted},
		"another flag":       {[]string{plainCall}, codexWants("/bin/bash -c ls", ""), permit.Command, "commandExecution", "/bin/bash -c ls", true, false, accepted},
		"a word more":        {[]string{plainCall}, codexWants("/bin/bash -lc ls x", ""), permit.Command, "commandExecution", "/bin/bash -lc ls x", true, false, accepted},
		"no words":           {[]string{plainCall}, codexWants("/bin/bash -lc $(x)", ""), permit.Command, "commandExecution", "/bin/bash -lc $(x)", false, false, accepted},
		"escalated":          {[]string{codexCalled("i", `{"cmd":"x","sandbox_permissions":"require_escalated"}`)}, codexWants("ls", ""), permit.Command, "commandExecution" + codexUnboxed, "ls", false, false, accepted},
		"default by name":    {[]string{codexCalled("i", `{"cmd":"x","sandbox_permissions":"use_default"}`)}, codexWants("ls", ""), permit.Command, "commandExecution", "ls", true, false, accepted},
		"broken arguments":   {[]string{codexCalled("i", `{"cmd`)}, codexWants("ls", ""), permit.Command, "commandExecution" + codexUnboxed, "ls", false, false, accepted},
		"nobody knows":       {nil, codexWants("ls", ""), permit.Command, "commandExecution" + codexUnboxed, "ls", false, false, accepted},
		"a reason":           {[]string{plainCall}, codexWants("ls", `,"reason":"again?"`), permit.Command, "commandExecution" + codexUnboxed, "ls", false, false, accepted},
		"more permissions":   {[]string{plainCall}, codexWants("ls", `,"additionalPermissions":{"network":{}}`), permit.Command, "commandExecution" + codexUnboxed, "ls", false, false, accepted},
		"a script":           {[]string{script("tools.exec_command({cmd: 'ls'})")}, codexWants("ls", ""), permit.Command, "commandExecution", "ls", true, false, accepted},
		"a script, out":      {[]string{script("x({sandbox_permissions: y})")}, codexWants("ls", ""), permit.Command, "commandExecution" + codexUnboxed, "ls", false, false, accepted},
		"input":              {nil, codexWants("ls", `,"kind":"writeStdin"`), permit.Other, "item/commandExecution/requestApproval", "", true, false, accepted},
		"no command":         {nil, `{"id":"x","method":"item/commandExecution/requestApproval","params":{"threadId":"t","itemId":"i","command":null}}`, permit.Other, "item/commandExecution/requestApproval", "", true, false, accepted},
		"the network":        {nil, codexWants("curl x", `,"networkApprovalContext":{"host":"example.com:443","protocol":"https"}`), permit.Fetch, "item/commandExecution/requestApproval", "example.com", true, true, declined},
		"a change":           {[]string{patch}, `{"id":"x","method":"item/fileChange/requestApproval","params":{"threadId":"t","itemId":"i"}}`, permit.Write, "fileChange", "/w/a /w/b", true, false, accepted},
		"a change of it":     {[]string{patch, `{"method":"item/fileChange/patchUpdated","params":{"threadId":"t","itemId":"i","changes":[{"path":"/w/c","kind":{"type":"add"},"diff":""}]}}`}, `{"id":"x","method":"item/fileChange/requestApproval","params":{"threadId":"t","itemId":"i"}}`, permit.Write, "fileChange", "/w/c", true, false, accepted},
		"an unknown change":  {nil, `{"id":"x","method":"item/fileChange/requestApproval","params":{"threadId":"t","itemId":"i"}}`, permit.Other, "item/fileChange/requestApproval", "", true, true, declined},
		"a whole directory":  {[]string{patch}, `{"id":"x","method":"item/fileChange/requestApproval","params":{"threadId":"t","itemId":"i","grantRoot":"/"}}`, permit.Other, "fileChange", "/w/a /w/b", true, true, declined},
		"permissions":        {nil, `{"id":"x","method":"item/permissions/requestApproval","params":{"threadId":"t","itemId":"i","permissions":{"network":{}}}}`, "", "", "", false, false, `{"id":"x","result":{"permissions":{},"scope":"turn"}}`},
		"a question":         {nil, `{"id":"x","method":"item/tool/requestUserInput","params":{"threadId":"t","questions":[{"id":"q"}]}}`, permit.Question, "item/tool/requestUserInput", "", true, true, `{"id":"x","result":{"answers":{"q":{"answers":["no"]}}}}`},
		"an MCP tool":        {[]string{poke}, elicit("poke", `{"x":1}`), permit.MCP, "mcp__m__poke", "", true, false, `{"id":"x","result":{"_meta":null,"action":"accept","content":{}}}`},
		"an MCP tool, no":    {[]string{poke}, elicit("poke", `{"x":1}`), permit.MCP, "mcp__m__poke", "", true, true, `{"id":"x","result":{"_meta":null,"action":"decline","content":null}}`},
		"other arguments":    {[]string{poke}, elicit("poke", `{"x":2}`), permit.Question, "mcpServer/elicitation/request", "", true, false, `{"id":"x","result":{"_meta":null,"action":"decline","content":null}}`},
		"the server asks":    {[]string{poke}, `{"id":"x","method":"mcpServer/elicitation/request","params":{"threadId":"t","serverName":"m","_meta":null}}`, permit.Question, "mcpServer/elicitation/request", "", true, false, `{"id":"x","result":{"_meta":null,"action":"decline","content":null}}`},
		"older command":      {nil, `{"id":"x","method":"execCommandApproval","params":{"conversationId":"t","callId":"i","command":["/bin/sh","-lc","ls"],"cwd":"/w","reason":null}}`, permit.Command, "execCommandApproval", "ls", true, false, `{"id":"x","result":{"decision":"approved"}}`},
		"older words":        {nil, `{"id":"x","method":"execCommandApproval","params":{"conversationId":"t","callId":"i","command":["ls"],"cwd":"/w"}}`, permit.Other, "execCommandApproval", "", true, true, `{"id":"x","result":{"decision":{"denied":{"rejection":"no"}}}}`},
		"older change":       {nil, `{"id":"x","method":"applyPatchApproval","params":{"conversationId":"t","callId":"i","fileChanges":{"/w/a":{"type":"update","move_path":"/w/b"}}}}`, permit.Write, "applyPatchApproval", "/w/a /w/b", true, false, `{"id":"x","result":{"decision":"approved"}}`},
		"an unknown request": {nil, `{"id":"x","method":"item/tool/call","params":{"tool":"y"}}`, "", "", "", false, false, `{"id":"x","error":{"code":-32601,"message":"superloop does not support item/tool/call"}}`},
		"no parameters":      {nil, `{"id":"x","method":"attestation/generate"}`, "", "", "", false, false, `{"id":"x","error":{"code":-32601,"message":"superloop does not support attestation/generate"}}`},
		"other parameters":   {nil, `{"id":"x","method":"item/fileChange/requestApproval","params":{"threadId":7}}`, "", "", "", false, false, `{"id":"x","error":{"code":-32602,"message":"superloop cannot read the parameters"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := talkToCodex(t, permit.Enforce, func(context.Context, permit.Request) permit.Answer {
				if c.deny {
					return permit.Answer{Decision: permit.Deny, Message: "no"}
				}
				return permit.Answer{Decision: permit.Allow}
			}).greet()
			n := len(k.sent)
			k.said(append(c.before, c.ask)...)
			if got := k.last(t, n+1); got != c.want {
				t.Errorf("%s\nwant %s", got, c.want)
			}
			k.client.End()
			if k.failed != "" || len(k.sent) != n+1 {
				t.Errorf("%q, sent %q", k.failed, k.sent)
			}
			if c.kind == "" {
				if len(k.asked) > 0 {
					t.Errorf("asked %+v", k.asked)
				}
				return
			}
			if len(k.asked) != 1 {
				t.Fatalf("asked %+v", k.asked)
			}
			r := k.asked[0]
			if word := r.Command + strings.Join(r.Paths, " ") + r.Host; r.Kind != c.kind || r.Tool != c.tool || word != c.word || r.Exact != c.exact || len(r.Input) == 0 || r.Session != "t" {
				t.Errorf("%+v, %q", r, word)
			}
		})
	}
}

// TestCodexTold: the agent is told why something is refused, before it reads the refusal.
func TestCodexTold(t *testing.T) {
	t.Parallel()
	k := talkToCodex(t, permit.Enforce, func(context.Context, permit.Request) permit.Answer {
		return permit.Answer{Decision: permit.Deny, Message: "the pattern \"git push *\" of deny fits it"}
	}).greet()
	n := len(k.sent)
	k.said(codexWants("/bin/bash -lc 'git push'", `,"turnId":"u"`))
	k.last(t, n+2)
	want := `{"id":"told","method":"turn/steer","params":{"expectedTurnId":"u","input":[{"text":"superloop refused git push: the pattern \"git push *\" of deny fits it","type":"text"}],"threadId":"t"}}` +
		"\n" + `{"id":"x","result":{"decision":"decline"}}` + "\n"
	if got := strings.Join(k.sent[n:], ""); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

// TestCodexIDs: an id may be 0, negative or a text of any length. One that nobody can answer ends the run.
func TestCodexIDs(t *testing.T) {
	t.Parallel()
	for _, id := range []string{`0`, `-1`, `""`, `"a\"b"`, `9007199254740993`, inJSON(strings.Repeat("x", 1<<16))} {
		k := talkToCodex(t, permit.Enforce, nil).greet()
		n := len(k.sent)
		k.said(strings.Replace(codexWants("ls", ""), `"x"`, id, 1))
		if got := k.last(t, n+1); got != `{"id":`+id+`,"result":{"decision":"accept"}}` {
			t.Errorf("%s: %s", id, got)
		}
	}
	for _, id := range []string{`null`, `{}`, `[1]`, `true`} {
		k := talkToCodex(t, permit.Enforce, nil).greet()
		n := len(k.sent)
		k.said(strings.Replace(codexWants("ls", ""), `"x"`, id, 1))
		if k.failed == "" || len(k.sent) > n || len(k.asked) > 0 {
			t.Errorf("%s: %q, %q", id, k.failed, k.sent[n:])
		}
	}
}

// TestCodexSuperseded: a question that the CLI has resolved by itself, or that is open at the end, is answered by nobody.
func TestCodexSuperseded(t *testing.T) {
	t.Parallel()
	ended := make(chan struct{})
	k := talkToCodex(t, permit.Enforce, func(ctx context.Context, _ permit.Request) permit.Answer {
		<-ctx.Done()
		ended <- struct{}{}
		return permit.Answer{Decision: permit.Allow} // too late, and a lie
	}).greet()
	n := len(k.sent)
	k.said(strings.Replace(codexWants("ls", ""), `"x"`, "0", 1), `{"method":"serverRequest/resolved","params":{"threadId":"t","requestId":0}}`)
	<-ended
	k.said(codexWants("ls", ""), codexWants("ls", ""))
	if got := k.last(t, n+1); !strings.Contains(got, "being answered already") {
		t.Error(got)
	}
	go k.client.End()
	<-ended
	k.client.End()
	if len(k.sent) != n+1 || len(k.client.allowed) > 0 {
		t.Errorf("sent %q, allowed %v", k.sent[n:], k.client.allowed)
	}
}

// TestCodexUnasked: what runs without having been allowed ends the run, and so does a CLI that does not ask.
func TestCodexUnasked(t *testing.T) {
	t.Parallel()
	done := func(item string) string {
		return `{"method":"item/completed","params":{"threadId":"t","item":` + item + `}}`
	}
	for name, c := range map[string]struct {
		lines []string
		want  string
	}{
		"a command begins":  {[]string{codexStarted(`{"type":"commandExecution","id":"i","command":"ls","processId":"7","source":"unifiedExecStartup"}`)}, "ran without asking: ls"},
		"a command ended":   {[]string{done(`{"type":"commandExecution","id":"i","command":"ls","status":"completed"}`)}, "ran without asking: ls"},
		"a command failed":  {[]string{done(`{"type":"commandExecution","id":"i","command":"ls","processId":"7","status":"failed"}`)}, "ran without asking: ls"},
		"never started":     {[]string{codexStarted(`{"type":"commandExecution","id":"i","command":"ls","source":"agent"}`), done(`{"type":"commandExecution","id":"i","command":"ls","status":"failed"}`)}, ""},
		"declined":          {[]string{done(`{"type":"commandExecution","id":"i","command":"ls","status":"declined"}`)}, ""},
		"a change":          {[]string{done(`{"type":"fileChange","id":"i","status":"completed"}`)}, "ran without asking: fileChange"},
		"a refused change":  {[]string{done(`{"type":"fileChange","id":"i","status":"failed"}`)}, ""},
		"an MCP tool":       {[]string{done(`{"type":"mcpToolCall","id":"i","server":"m","tool":"look","status":"completed"}`)}, "ran without asking: mcp__m__look"},
		"resources, listed": {[]string{done(`{"type":"mcpToolCall","id":"i","server":"codex","tool":"list_mcp_resources","status":"completed"}`)}, ""},
		"an image":          {[]string{codexStarted(`{"type":"imageView","id":"i","path":"/etc/x"}`)}, "ran without asking: imageView"},
		"a search":          {[]string{codexStarted(`{"type":"webSearch","id":"i"}`)}, "ran without asking: webSearch"},
		"unknown":           {[]string{codexStarted(`{"type":"newThing","id":"i"}`)}, "ran without asking: newThing"},
		"a thought":         {[]string{codexStarted(`{"type":"reasoning","id":"i"}`)}, ""},
		"input":             {[]string{`{"method":"item/commandExecution/terminalInteraction","params":{"threadId":"t","itemId":"i","stdin":"y\n"}}`}, "wrote to a running program"},
		"a look":            {[]string{`{"method":"item/commandExecution/terminalInteraction","params":{"threadId":"t","itemId":"i","stdin":""}}`}, ""},
		"another policy":    {[]string{`{"id":2,"result":{"thread":{"id":"t"},"approvalPolicy":"never","approvalsReviewer":"user"}}`}, "its approval policy is"},
		"another reviewer":  {[]string{`{"id":2,"result":{"thread":{"id":"t"},"approvalPolicy":"untrusted","approvalsReviewer":"auto_review"}}`}, "its reviewer auto_review"},
		"no thread":         {[]string{`{"id":2,"result":{}}`}, "began no conversation"},
		"no settings":       {[]string{`{"id":4,"error":{"code":1,"message":"no such method"}}`}, "no such method"},
		"broken":            {[]string{`{"id":1,"method":"item/fileChange/requestApproval"`}, "cannot be read"},
		"noise":             {[]string{`npm warn something`, ``, `[]`, `{}`, `null`}, ""},
		"a strange item":    {[]string{`{"method":"item/started","params":{"threadId":"t","item":{"type":5}}}`}, "cannot be read"},
		"a sub-agent":       {[]string{strings.Replace(codexWants("ls", ""), `"threadId":"t"`, `"threadId":"u"`, 1), codexStarted(`{"type":"commandExecution","id":"i","command":"ls","processId":"7"}`)}, "ran without asking: ls"},
		"a late change": {[]string{codexStarted(`{"type":"fileChange","id":"i","changes":[{"path":"/w/a","kind":{"type":"add"},"diff":""}]}`), `{"id":"x","method":"item/fileChange/requestApproval","params":{"threadId":"t","itemId":"i"}}`,
			`{"method":"item/fileChange/patchUpdated","params":{"threadId":"t","itemId":"i","changes":[{"path":"/w/.git/config","kind":{"type":"add"},"diff":""}]}}`}, "changed what it had asked for"},
		"too long a line": {[]string{`{"id":1,"method":"` + strings.Repeat("x", maxWire)}, "more than"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := talkToCodex(t, permit.Enforce, nil).greet()
			k.said(c.lines...)
			if k.client.End(); c.want == "" && k.failed != "" || !strings.Contains(k.failed, c.want) {
				t.Errorf("%q, want %q", k.failed, c.want)
			}
			watched := talkToCodex(t, permit.Observe, func(context.Context, permit.Request) permit.Answer { return permit.Answer{Decision: permit.Leave} }).greet()
			watched.said(c.lines...)
			if watched.client.End(); strings.Contains(watched.failed, "without asking") {
				t.Errorf("while it was observed: %q", watched.failed)
			}
		})
	}
}

// TestCodexLong: a command of 5 MB is asked about whole, however its line is cut, and so is what follows it.
func TestCodexLong(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("long ", 1<<20)
	for _, piece := range []int{0, 4096, 65537} {
		k := talkToCodex(t, permit.Enforce, nil).greet()
		n := len(k.sent)
		testkit.Pieces([]byte(codexWants("/bin/bash -lc '"+long+"'", "")+"\n"+strings.Replace(codexWants("ls", ""), `"x"`, "0", 1)+"\n"), piece, k.client.Stdout)
		k.last(t, n+2)
		k.client.End()
		asked := map[string]bool{}
		for _, r := range k.asked {
			asked[r.Command] = true
		}
		if k.failed != "" || len(k.asked) != 2 || !asked[long] || !asked["ls"] {
			t.Errorf("in pieces of %d: %q, %d requests", piece, k.failed, len(k.asked))
		}
	}
}

// FuzzCodexClient: whatever the CLI prints, however it is cut, the client approves nothing that nobody allowed, and the Stream learns
// the same.
func FuzzCodexClient(f *testing.F) {
	file, err := os.ReadFile(filepath.Join("testdata", "codex.rpc.txt"))
	if err != nil {
		f.Fatal(err)
	}
	var told bytes.Buffer
	for line := range bytes.Lines(file) {
		if line, ok := bytes.CutPrefix(line, []byte("< ")); ok {
			told.Write(line)
		}
	}
	f.Add(told.Bytes(), byte(100))
	f.Add([]byte(codexWants("/bin/bash -lc ls", "")+"\n"+strings.Replace(codexWants("ls", ""), `"x"`, "0", 1)+"\n"), byte(1))
	f.Add([]byte(`{"id":0,"method":"item/fileChange/requestApproval","params":{"threadId":"t","itemId":"i"}}`+"\n"+`{"method":"serverRequest/resolved","params":{"requestId":0}}`), byte(7))
	f.Fuzz(func(t *testing.T, stdout []byte, piece byte) {
		k := talkToCodex(t, permit.Enforce, func(context.Context, permit.Request) permit.Answer {
			return permit.Answer{Decision: permit.Deny, Message: "no"}
		}).greet()
		testkit.Pieces(stdout, int(piece), k.client.Stdout)
		k.client.End()
		for _, sent := range k.sent {
			var m map[string]any
			if err := json.Unmarshal([]byte(sent), &m); err != nil || strings.Count(sent, "\n") != 1 {
				t.Errorf("%v: %.200q", err, sent)
			}
			if strings.Contains(sent, `"decision":"accept"`) || strings.Contains(sent, `"approved"`) || strings.Contains(sent, `"action":"accept"`) {
				t.Errorf("approved: %.200q", sent)
			}
		}
		if len(k.client.allowed) > 0 {
			t.Errorf("allowed %v", k.client.allowed)
		}
		learned := func(n int) string {
			s := codex{}.Stream(Request{CLI: CLI{Command: []string{"codex"}, Env: map[string]string{"TZ": "UTC"}}, Asked: permit.Enforce})
			testkit.Pieces(stdout, n, s.Stdout)
			return show(s, proc.Result{Ended: proc.Exited, LastOutput: time.Unix(1_800_000_000, 0).UTC()})
		}
		if whole, cut := learned(0), learned(int(piece)); whole != cut {
			t.Errorf("learned\n%s\nin pieces of %d\n%s", whole, piece, cut)
		}
	})
}
