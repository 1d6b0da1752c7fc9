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
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/recovery/permit"
)

var acpAgents = []acpAgent{opencodeACP, geminiACP, qwenACP, copilotACP}

// acpTalk is the superloop of a test: it keeps what the client sends, asks and says of a breach.
type acpTalk struct {
	mu     sync.Mutex
	sent   []string
	asked  []permit.Request
	failed string
	client *acpClient
}

func talkACP(t testing.TB, a acpAgent, mode string, answer permit.Ask) *acpTalk {
	k := &acpTalk{}
	k.client = a.converse(Request{WorkDir: "/w", Asked: mode}, Conversation{Prompt: "Write the files", Hold: time.Minute,
		Send: func(data []byte) {
			k.mu.Lock()
			defer k.mu.Unlock()
			k.sent = append(k.sent, strings.TrimSpace(string(data)))
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
			return answer(ctx, r)
		}})
	k.client.Begin()
	t.Cleanup(k.client.End)
	return k
}

func (k *acpTalk) said(lines ...string) *acpTalk {
	for _, l := range lines {
		k.client.Stdout([]byte(l + "\n"))
	}
	return k
}

// greet goes on until the prompt was sent.
func (k *acpTalk) greet() *acpTalk {
	return k.said(`{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1}}`, `{"jsonrpc":"2.0","id":2,"result":{"sessionId":"s","modes":{"currentModeId":"default"}}}`)
}

// wait waits until the condition holds, which it looks at under the lock.
func (k *acpTalk) wait(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for range 4000 {
		k.mu.Lock()
		ok := holds()
		k.mu.Unlock()
		if ok {
			return
		}
		<-time.After(5 * time.Millisecond)
	}
	t.Fatalf("%s did not come: %q, failed %q", what, k.sent, k.failed)
}

func (k *acpTalk) last(t testing.TB, n int) string {
	t.Helper()
	k.wait(t, fmt.Sprintf("message %d", n), func() bool { return len(k.sent) >= n })
	return k.sent[n-1]
}

// forbids refuses what has a word in it.
func forbids(word string) permit.Ask {
	return func(_ context.Context, r permit.Request) permit.Answer {
		if strings.Contains(r.Command, word) || slices.Contains(r.Paths, word) {
			return permit.Answer{Decision: permit.Deny, Message: "no " + word}
		}
		return permit.Answer{Decision: permit.Allow}
	}
}

// TestACPRecorded plays recordings of the CLIs, and compares the answers with those recorded.
func TestACPRecorded(t *testing.T) {
	t.Parallel()
	for _, a := range acpAgents {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			file, err := os.ReadFile(filepath.Join("testdata", "acp", a.name+".rpc.txt"))
			if err != nil {
				t.Fatal(err)
			}
			k := talkACP(t, a, permit.Enforce, forbids("FORBIDDEN"))
			stream := adapterFor(t, a.name).Stream(Request{Asked: permit.Enforce})
			first, _, _ := strings.Cut(string(file), `> {"jsonrpc":"2.0","id":4`)
			var want []string
			for line := range strings.Lines(first) {
				if ours, ok := strings.CutPrefix(strings.TrimSpace(line), "> "); ok {
					if strings.Contains(ours, `"outcome"`) {
						want = append(want, ours)
						k.last(t, 3+len(want)) // before the CLI goes on
					}
					continue
				}
				line = strings.Replace(strings.TrimPrefix(line, "< "), `"id":3,`, `"id":10,`, 1) // superloop's number of the prompt
				k.client.Stdout([]byte(line))
				stream.Stdout([]byte(line))
			}
			if k.failed != "" || len(k.asked) != 2 || len(want) != 2 {
				t.Fatalf("%q, %+v", k.failed, k.asked)
			}
			for i, w := range want {
				var theirs, ours any
				if json.Unmarshal([]byte(w), &theirs) != nil || json.Unmarshal([]byte(k.sent[3+i]), &ours) != nil || marshalled(theirs) != marshalled(ours) {
					t.Errorf("answered %s\nwant %s", k.sent[3+i], w)
				}
			}
			if r := k.asked[0]; r.Kind != permit.Command || r.Command != "mkdir -p .superloop/loops/demo && echo ok > .superloop/loops/demo/allowed.txt" || r.Exact != (a.name != "gemini") || r.ToolUse == "" || r.Session == "" {
				t.Errorf("%+v", r)
			}
			more := strings.Count(first, `"error":{"code":-32601`) // to what superloop does not support
			told := k.last(t, 6+more)
			if !strings.Contains(told, "session/prompt") || !strings.Contains(told, "superloop refused echo FORBIDDEN \\u003e forbidden.txt: no FORBIDDEN") {
				t.Errorf("%s", told)
			}
			for _, line := range []string{`{"jsonrpc":"2.0","id":11,"result":{"stopReason":"end_turn"}}`, `{"jsonrpc":"2.0","id":"done","error":{"code":-32601,"message":"?"}}`} {
				if stream.Settled() != Going {
					t.Error("the stream is over too early")
				}
				k.said(line)
				stream.Stdout([]byte(line + "\n"))
			}
			if done := k.last(t, 7+more); !strings.Contains(done, `"id":"done"`) || stream.Settled() != Finished {
				t.Error(done)
			}
			if got := stream.Finish(proc.Result{Ended: proc.Exited}); got.Class != "" || !got.Done || got.SessionID == "" || got.FinalMessage == "" {
				t.Errorf("%+v", got)
			}
		})
	}
}

const acpOptions = `"options":[{"optionId":"always","kind":"allow_always"},{"optionId":"y1","kind":"allow_once"},{"optionId":"y2","kind":"allow_once"},{"optionId":"never","kind":"reject_always"},{"optionId":"n","kind":"reject_once"}]`

func acpWants(id, call, more string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"session/request_permission","params":{"sessionId":"s",` + acpOptions + `,"toolCall":{"toolCallId":"` + call + `"` + more + `}}}`
}

func acpShows(call, more string) string {
	return `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"tool_call","toolCallId":"` + call + `"` + more + `}}}`
}

// TestACPAnswers: every request is answered, under its own id, with the first option of its kind and never one that is
// remembered.
func TestACPAnswers(t *testing.T) {
	t.Parallel()
	const runs, bad = `,"title":"bash","kind":"execute","status":"in_progress","rawInput":{"command":"ls"}`, `,"title":"bash","kind":"execute","status":"in_progress","rawInput":{"command":"bad"}`
	for request, want := range map[string]string{
		acpWants("0", "a", `,"rawInput":{"command":"ls"}`):                       `{"jsonrpc":"2.0","id":0,"result":{"outcome":{"optionId":"y1","outcome":"selected"}}}`,
		acpWants(`"x"`, "b", `,"rawInput":{"command":"bad"}`):                    `{"jsonrpc":"2.0","id":"x","result":{"outcome":{"optionId":"n","outcome":"selected"}}}`,
		`{"id":5,"method":"fs/write_text_file","params":{}}`:                     `{"jsonrpc":"2.0","id":5,"error":{"code":-32601,"message":"superloop does not support fs/write_text_file"}}`,
		`{"id":6,"method":"session/request_permission"}`:                         `{"jsonrpc":"2.0","id":6,"error":{"code":-32602,"message":"superloop cannot read the parameters"}}`,
		`{"id":-7,"method":"terminal/create","params":{"a":1}}`:                  `{"jsonrpc":"2.0","id":-7,"error":{"code":-32601,"message":"superloop does not support terminal/create"}}`,
		strings.ReplaceAll(acpWants("8", "a", ""), "allow_once", "allow_always"): `{"jsonrpc":"2.0","id":8,"result":{"outcome":{"optionId":"n","outcome":"selected"}}}`,
		strings.ReplaceAll(acpWants("9", "b", ""), "reject_once", "x"):           `{"jsonrpc":"2.0","id":9,"result":{"outcome":{"outcome":"cancelled"}}}`,
	} {
		k := talkACP(t, opencodeACP, permit.Enforce, forbids("bad")).greet().said(acpShows("a", runs), acpShows("b", bad), request)
		if got := k.last(t, 4); got != want || k.failed != "" {
			t.Errorf("%s: answered %s, want %s; %s", request, got, want, k.failed)
		}
	}
	// A question of 5 MB is judged whole.
	huge := strings.Repeat("x", 5<<20)
	k := talkACP(t, opencodeACP, permit.Enforce, forbids("bad")).greet().said(acpShows("c", `,"title":"bash","status":"in_progress","rawInput":{"command":"ls `+huge+` bad"}`), acpWants("0", "c", ""))
	if got := k.last(t, 4); !strings.Contains(got, `"optionId":"n"`) || len(k.asked[0].Input) < len(huge) {
		t.Error(text.Cut(got, 200))
	}
	for _, request := range []string{`{"id":null,"method":"x"}`, `{"id":{},"method":"x"}`, `{"method":"x","id":`} {
		if k := talkACP(t, opencodeACP, permit.Enforce, forbids("bad")).greet().said(request); k.failed == "" {
			t.Errorf("%s did not end the run", request)
		}
	}
}

// TestACPUnasked: a tool that works without a question is judged by the policy alone, and ends the run if that does not let
// it; one that was refused ends it in any case.
func TestACPUnasked(t *testing.T) {
	t.Parallel()
	human := func(ctx context.Context, r permit.Request) permit.Answer {
		if r.Command == "good" {
			return permit.Answer{Decision: permit.Allow}
		}
		<-ctx.Done() // an operator thinks, until nobody waits any more
		return permit.Answer{Decision: permit.Deny}
	}
	call := func(command, status, more string) string {
		return acpShows("c", `,"title":"bash","kind":"execute","status":"`+status+`","rawInput":{"command":"`+command+`"}`+more)
	}
	for name, c := range map[string]struct {
		lines []string
		ends  bool
	}{
		"begins":            {[]string{call("evil", "in_progress", "")}, false}, // its question is still to come
		"has output":        {[]string{call("evil", "in_progress", `,"content":[{"type":"content"}]`)}, true},
		"is done":           {[]string{call("evil", "completed", "")}, true},
		"has failed":        {[]string{call("evil", "failed", "")}, false},
		"may":               {[]string{call("good", "completed", ""), call("good", "completed", "")}, false},
		"did not wait":      {[]string{call("evil", "in_progress", ""), acpWants("1", "c", ""), call("evil", "completed", "")}, true},
		"before the prompt": {nil, false},
	} {
		k := talkACP(t, opencodeACP, permit.Enforce, human)
		if name == "before the prompt" {
			k.said(call("evil", "completed", ""))
		}
		k.greet().said(c.lines...)
		k.client.End()
		if (k.failed != "") != c.ends {
			t.Errorf("%s: failed %q", name, k.failed)
		}
	}
	k := talkACP(t, geminiACP, permit.Enforce, human).greet().said(acpShows("c", `,"title":"evil","kind":"execute","status":"in_progress"`))
	k.wait(t, "the end", func() bool { return strings.Contains(k.failed, "gemini ran without asking: evil") })
	k = talkACP(t, geminiACP, permit.Enforce, human).greet().said(`{"method":"session/update","params":{"update":{"sessionUpdate":"current_mode_update","currentModeId":"yolo"}}}`)
	if !strings.Contains(k.failed, "left the mode") {
		t.Errorf("%q", k.failed)
	}
}

// TestACPTurnIsOver: what is still being answered when the turn ends is answered as cancelled, and never allowed; after a
// refusal opencode drops what it was asked with it.
func TestACPTurnIsOver(t *testing.T) {
	t.Parallel()
	k := talkACP(t, opencodeACP, permit.Enforce, func(ctx context.Context, r permit.Request) permit.Answer {
		if r.Command == "bad" {
			return permit.Answer{Decision: permit.Deny, Message: "why"}
		}
		<-ctx.Done()
		return permit.Answer{Decision: permit.Allow}
	})
	shows := func(id, command string) string {
		return acpShows(id, `,"title":"bash","status":"in_progress","rawInput":{"command":"`+command+`"}`)
	}
	k.greet().said(shows("a", "held"), shows("b", "bad"), acpWants("0", "a", ""), acpWants("1", "b", ""))
	k.last(t, 4)
	k.said(shows("c", "fine"), acpWants("2", "c", ""))
	if got := k.last(t, 5); !strings.Contains(got, `"id":2,"result":{"outcome":{"optionId":"n"`) {
		t.Error(got)
	}
	k.said(`{"id":10,"result":{"stopReason":"end_turn"}}`)
	k.wait(t, "the answer", func() bool {
		return slices.Contains(k.sent, `{"jsonrpc":"2.0","id":0,"result":{"outcome":{"outcome":"cancelled"}}}`)
	})
	if all := strings.Join(k.sent, "\n"); !strings.Contains(all, "superloop refused bad: why") || !strings.Contains(all, "call it again") || strings.Contains(all, `"y1"`) {
		t.Error(all)
	}
	k.said(`{"id":11,"result":{"stopReason":"end_turn"}}`)
	if got := k.sent[len(k.sent)-1]; !strings.Contains(got, "_superloop/done") {
		t.Error(got)
	}
}

// TestACPObserved: everything is judged and nothing is changed; what the CLI itself asks about is answered as without
// superloop.
func TestACPObserved(t *testing.T) {
	t.Parallel()
	leave := func(context.Context, permit.Request) permit.Answer { return permit.Answer{Decision: permit.Leave} }
	k := talkACP(t, opencodeACP, permit.Observe, leave).greet().said(acpShows("c", `,"title":"bash","status":"in_progress","rawInput":{"command":"evil"}`), acpShows("c", `,"status":"completed"`), acpWants("0", "c", ""))
	if got := k.last(t, 4); !strings.Contains(got, `"optionId":"n"`) {
		t.Error(got)
	}
	k.client.End()
	if k.failed != "" || len(k.asked) != 1 || k.asked[0].Command != "evil" {
		t.Errorf("%q %+v", k.failed, k.asked)
	}
}

// TestACPTools: what is asked says what would happen, as far as it is certain.
func TestACPTools(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		agent    acpAgent
		call     string
		question string
		want     string
	}{
		{opencodeACP, `{"title":"bash","status":"in_progress","rawInput":{"command":"ls","workdir":"sub","cwd":"/w"}}`, `{"rawInput":{"command":"ls"}}`, `command ls /w/sub [] true`},
		{opencodeACP, `{"title":"bash","status":"in_progress","rawInput":{"command":"ls"}}`, `{"rawInput":{"command":"rm"}}`, `other   [] true`},
		{opencodeACP, `{"title":"bash","status":"in_progress","rawInput":{"command":"ls","Command":"rm"}}`, `{}`, `other   [] true`},
		{opencodeACP, `{"title":"bash","status":"pending","rawInput":{"cwd":"/w"}}`, `{"kind":"execute","rawInput":{"command":"ls"}}`, `command ls  [] true`},
		{opencodeACP, `{"title":"bash","status":"in_progress","rawInput":{"command":"ls","workdir":7}}`, `{}`, `other   [] true`},
		{opencodeACP, `{"title":"read","status":"in_progress","rawInput":{"filePath":"/x"}}`, `{}`, `read  /w [/x] true`},
		{opencodeACP, `{"title":"read","status":"in_progress"}`, `{}`, `other  /w [] true`},
		{opencodeACP, `{"title":"glob","status":"in_progress","rawInput":{"pattern":"/etc/*"}}`, `{}`, `read  /w [/etc/] true`},
		{opencodeACP, `{"title":"glob","status":"in_progress","rawInput":{"pattern":"*/../x"}}`, `{}`, `other  /w [] true`},
		{opencodeACP, `{"title":"apply_patch","status":"in_progress","rawInput":{"patchText":"x"}}`, `{"locations":[{"path":"/w/b"},{"path":"/w/a"}]}`, `write  /w [/w/a /w/b] true`},
		{opencodeACP, `{"title":"apply_patch","status":"in_progress","rawInput":{"patchText":"x"}}`, `{}`, `other  /w [] true`},
		{opencodeACP, `{"title":"webfetch","status":"in_progress","rawInput":{"url":"https://a.example/x"}}`, `{}`, `fetch a.example /w [] true`},
		{opencodeACP, `{"title":"docs_search","status":"in_progress","rawInput":{"q":"x"}}`, `{}`, `mcp  /w [] true`},
		{opencodeACP, `{"title":"skill","status":"in_progress","rawInput":{"name":"x"}}`, `{}`, `other  /w [] true`},
		{geminiACP, `{}`, `{"kind":"execute","title":"ls"}`, `command ls /w [] false`},
		{geminiACP, `{}`, `{"kind":"edit","title":"Writing to a","content":[{"type":"diff","path":"/w/a","newText":"x"}],"locations":[{"path":"/w/a"}]}`, `write  /w [/w/a] true`},
		{geminiACP, `{}`, `{"kind":"edit","title":"?"}`, `other  /w [] false`},
		{geminiACP, `{}`, `{"kind":"read","title":"a","locations":[{"path":"/w/a"}]}`, `read  /w [/w/a] true`},
		{geminiACP, `{}`, `{"kind":"search","title":"'*'"}`, `read  /w [] false`},
		{geminiACP, `{}`, `{"kind":"fetch","title":"x"}`, `fetch  /w [] false`},
	} {
		var call, question acpCall
		if json.Unmarshal([]byte(c.call), &call) != nil || json.Unmarshal([]byte(c.question), &question) != nil {
			t.Fatal(c)
		}
		r := c.agent.translate(acpCall{}.with(call), question, "/w")
		dir := r.Dir
		if r.Kind == permit.Other && strings.Contains(c.call, `"bash"`) {
			dir = ""
		}
		if got := fmt.Sprint(r.Kind, " ", r.Command+r.Host, " ", dir, " ", r.Paths, " ", r.Exact); got != c.want {
			t.Errorf("%s %s:\n%s\nwant\n%s", c.call, c.question, got, c.want)
		}
	}
}

// acpSaid is what a CLI says in its recording.
func acpSaid(t testing.TB, name string) []byte {
	t.Helper()
	file, err := os.ReadFile(filepath.Join("testdata", "acp", name+".rpc.txt"))
	if err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	for line := range strings.Lines(string(file)) {
		if line, ok := strings.CutPrefix(line, "< "); ok {
			said.WriteString(line)
		}
	}
	return []byte(said.String())
}

// FuzzACP: whatever a CLI prints, however it is cut, nothing crashes, and nothing is allowed by a judge who allows
// nothing.
func FuzzACP(f *testing.F) {
	for i, a := range acpAgents {
		f.Add(acpSaid(f, a.name), byte(7), byte(i))
	}
	f.Add([]byte(acpWants("0", "a", "")+"\n"+acpWants(`"x"`, "a", "")+"\n"+acpWants("0", "a", "")+"\n{\"id\":"), byte(1), byte(0))
	f.Fuzz(func(t *testing.T, said []byte, piece, which byte) {
		a := acpAgents[int(which)%len(acpAgents)]
		a.starts = true // so that no question waits for its tool's input
		k := talkACP(t, a, permit.Enforce, func(context.Context, permit.Request) permit.Answer {
			return permit.Answer{Decision: permit.Deny, Message: "no"}
		})
		k.greet()
		testkit.Pieces(said, int(piece), k.client.Stdout)
		k.client.End()
		refusals := map[string]bool{}
		for line := range bytes.SplitSeq(said, []byte("\n")) {
			var m acpMessage
			var q acpQuestion
			if json.Unmarshal(line, &m) == nil && json.Unmarshal(m.Params, &q) == nil {
				refusals[string(m.ID)+" "+q.option("reject_once")] = true
			}
		}
		for _, sent := range k.sent {
			var m struct {
				ID     json.RawMessage
				Result struct {
					Outcome struct{ OptionID string }
				}
			}
			if err := json.Unmarshal([]byte(sent), &m); err != nil {
				t.Fatalf("sent %q: %v", sent, err)
			}
			if id := m.Result.Outcome.OptionID; id != "" && !refusals[string(m.ID)+" "+id] {
				t.Errorf("nobody has allowed it, and sent was %s", sent)
			}
		}
		s := adapterFor(t, a.name).Stream(Request{Asked: permit.Enforce})
		testkit.Pieces(said, int(piece), s.Stdout)
		got := s.Finish(proc.Result{Ended: proc.Exited})
		if len(got.ErrorText) > maxErrorText || got.Done && !got.Structured {
			t.Errorf("%+v", got)
		}
	})
}

// TestACPCommands: the settings with which a CLI asks win over those of the owner and of the repository, a flag that cannot be
// kept is an error, and a repository with plugins is one too.
func TestACPCommands(t *testing.T) {
	t.Parallel()
	req := request(t, "PROMPT")
	req.Asked, req.Permissions, req.Model, req.Thinking = permit.Enforce, PermitWorkspace, "a/b", "high"
	environ := []string{"OPENCODE_PERMISSION=x", "GEMINI_CLI_TRUST_WORKSPACE=true"}
	req.CLI = CLI{Command: []string{"opencode", "--pure"}, Args: []string{"run", "--auto", "--agent=own", "--log-level", "WARN"},
		Env: map[string]string{"OPENCODE_CONFIG_CONTENT": `{"agent":{"own":{"prompt":"p","permission":{"bash":"allow"}}}}`, "OPENCODE_PERMISSION": "y", "OPENCODE_PURE": ""}}
	c, err := opencode{}.Command(req, environ)
	if err != nil || strings.Join(c.Argv, " ") != "opencode --pure acp --log-level WARN" || c.Stdin != "" {
		t.Fatalf("%q %v", c.Argv, err)
	}
	var settings struct {
		Agent        map[string]map[string]any `json:"agent"`
		DefaultAgent string                    `json:"default_agent"`
		Formatter    any                       `json:"formatter"`
	}
	if err := json.Unmarshal([]byte(valueIn(c.Env, "OPENCODE_CONFIG_CONTENT")), &settings); err != nil {
		t.Fatal(err)
	}
	own := settings.Agent["own"]
	rights, _ := own["permission"].(map[string]any)
	if settings.DefaultAgent != "own" || own["prompt"] != "p" || own["model"] != "a/b" || own["variant"] != "high" || rights["bash"] != "ask" || rights["*"] != "ask" || rights["task"] != "deny" || settings.Formatter != false {
		t.Errorf("%+v", settings)
	}
	if valueIn(c.Env, "OPENCODE_PERMISSION") != "" || valueIn(c.Env, "OPENCODE_PURE") != "1" || valueIn(c.Env, "OPENCODE_DISABLE_PROJECT_CONFIG") != "1" || valueIn(c.Env, "OPENCODE_SERVER_PASSWORD") == "" {
		t.Errorf("%q", c.Env)
	}
	observed := req
	observed.Asked, observed.CLI.Env = permit.Observe, nil
	if c, err := (opencode{}).Command(observed, nil); err != nil || strings.Contains(valueIn(c.Env, "OPENCODE_CONFIG_CONTENT"), "ask") || !strings.Contains(valueIn(c.Env, "OPENCODE_PERMISSION"), `"doom_loop":"allow"`) {
		t.Errorf("%q %v", c.Env, err)
	}
	for _, name := range []string{".opencode/plugin/a.js", ".opencode/plugins/a.ts", "opencode.json", ".opencode/opencode.jsonc"} {
		file := filepath.Join(req.WorkDir, name)
		write(t, file, `{"\u0070lugin": ["./x.js"]}`)
		if _, err := (opencode{}).Command(req, environ); err == nil || !strings.Contains(err.Error(), "mv ") {
			t.Errorf("%s: %v", name, err)
		}
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
	req.CLI = CLI{Command: []string{"gemini"}, Args: []string{"--yolo", "-o", "text", "--include-directories", "/x"}, Env: map[string]string{"GEMINI_CLI_TRUST_WORKSPACE": "true"}}
	c, err = gemini{}.Command(req, environ)
	if argv := strings.Join(c.Argv, " "); err != nil || !strings.HasPrefix(argv, "gemini --acp --model=a/b --approval-mode=default --admin-policy="+c.File) || strings.Contains(argv, "yolo") || !strings.HasSuffix(argv, "--include-directories /x") {
		t.Errorf("%q %v", c.Argv, err)
	}
	if valueIn(c.Env, "GEMINI_CLI_TRUST_WORKSPACE") != "false" || !strings.Contains(c.FileText, "ask_user") || !strings.Contains(c.FileText, "invoke_agent") || strings.Contains(c.FileText, "write_file") {
		t.Errorf("%q %s", c.Env, c.FileText)
	}
	req.Permissions = PermitRead
	if c, _ := (gemini{}).Command(req, environ); !strings.Contains(c.FileText, "write_file") {
		t.Error(c.FileText)
	}
	for _, a := range []Adapter{opencode{}, gemini{}, qwen{}, copilot{}} {
		req.CLI = CLI{Command: []string{a.Name()}, Args: []string{"--no-such-flag"}}
		if _, err := a.Command(req, nil); err == nil || !strings.Contains(err.Error(), "--no-such-flag") {
			t.Error(err)
		}
		req.CLI = CLI{Command: []string{a.Name()}, PromptMode: PromptArg}
		if _, err := a.Command(req, nil); err == nil || !strings.Contains(err.Error(), "prompt_mode") {
			t.Error(err)
		}
	}
}
