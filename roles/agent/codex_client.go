package agent

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/recovery/permit"
)

// The ids of superloop's own requests. That a message to the agent has come too late, codexTold, changes nothing.
const (
	codexHello  = "1" // initialize
	codexThread = "2" // thread/start or thread/resume
	codexTurn   = "3" // turn/start
	codexConfig = "4" // config/read
	codexTold   = "told"
)

// codexUnboxed is what the name of a tool ends with if it would work outside of the CLI's own sandbox.
const codexUnboxed = " outside of codex's sandbox"

// codexClient speaks JSON-RPC with `codex app-server`. To enforce, approvalPolicy "untrusted" makes the CLI ask before each
// command and each change of files, and each MCP server is set to ask. What does not ask is shut off (codexShut); if the
// CLI uses a tool all the same that nobody allowed, Stdout ends the run. To observe, the policy is "never", as it is in
// `codex exec`, and the client judges the items as they begin.
type codexClient struct {
	Conversation
	enforce bool
	start   codexBegin
	ctx     context.Context
	stop    context.CancelFunc
	running sync.WaitGroup
	lines   wireLines

	thread  string               // the id of the conversation
	boxed   bool                 // commands run in the CLI's own sandbox
	items   map[string]codexItem // the uses of tools that have begun, by thread and id
	leaves  map[string]bool      // the model's calls, by thread and id: whether one asks to leave the sandbox
	scripts map[string]bool      // the threads with scripts of the code mode: whether one speaks of leaving the sandbox

	mu      sync.Mutex
	open    map[string]context.CancelFunc // the requests that are being answered, by their id as JSON
	allowed map[string]bool               // the items that may run, by thread and id
}

// codexBegin is what a thread begins with.
type codexBegin struct {
	Thread    string         `json:"threadId,omitempty"`
	Policy    string         `json:"approvalPolicy"`
	Reviewer  string         `json:"approvalsReviewer"`
	Sandbox   string         `json:"sandbox,omitempty"`
	Model     string         `json:"model,omitempty"`
	Config    map[string]any `json:"config,omitempty"`
	RawEvents bool           `json:"experimentalRawEvents,omitempty"`
}

func (c codex) Converse(req Request, with Conversation) Client {
	out := &codexClient{Conversation: with, enforce: req.Asked == permit.Enforce, items: map[string]codexItem{}, leaves: map[string]bool{}, scripts: map[string]bool{},
		open: map[string]context.CancelFunc{}, allowed: map[string]bool{}, start: codexBegin{Policy: "never", Reviewer: "user"}}
	out.ctx, out.stop = context.WithCancel(context.Background())
	b := flagsFor(req)
	if !hasFlag(b.words, strings.Fields(codexPermits)...) && !codexSets(b.words, codexPermitKeys...) {
		out.start.Sandbox = codexSandbox[req.Permissions]
	}
	if !hasFlag(b.words, "--model", "-m") && !codexSets(b.words, "model") {
		out.start.Model = req.Model
	}
	if out.enforce {
		out.Prompt = remembered(req, "AGENTS.md", out.Prompt)
		out.start.Policy, out.start.RawEvents = "untrusted", true
	} else if req.Resume != nil {
		out.start.Thread = req.Resume.ID
	}
	return out
}

func (c *codexClient) Begin() {
	c.call(codexHello, "initialize", map[string]any{"clientInfo": map[string]string{"name": "superloop", "title": "superloop", "version": "1"},
		"capabilities": map[string]bool{"experimentalApi": true, "requestAttestation": false}})
}

func (c *codexClient) End() {
	c.stop()
	c.running.Wait()
}

func (c *codexClient) Stdout(p []byte) {
	c.lines.cut(p, c.message, func() {
		c.Fail(fmt.Sprintf("codex printed a line of more than %d MiB, in which it may have asked for something", maxWire>>20))
	})
}

// send sends a message whose id and rest are given. The id is JSON already; "" is none.
func (c *codexClient) send(id, key string, value any, more ...any) {
	var b bytes.Buffer
	b.WriteByte('{')
	if id != "" {
		b.WriteString(`"id":` + id + `,`)
	}
	for pair := append([]any{key, value}, more...); len(pair) > 0; pair = pair[2:] {
		data, err := json.Marshal(pair[1])
		if err != nil {
			c.Fail("superloop cannot write to codex: " + err.Error())
			return
		}
		fmt.Fprintf(&b, "%q:%s", pair[0], data)
		if len(pair) > 2 {
			b.WriteByte(',')
		}
	}
	b.WriteString("}\n")
	c.Send(b.Bytes())
}

func (c *codexClient) call(id, method string, params any) {
	c.send(id, "method", method, "params", params)
}

// codexMessage is a line of the CLI's output: a request has an id and a method, a notice only a method, an answer only an
// id. An id may be 0.
type codexMessage struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Message string `json:"message"`
	} `json:"error"`
}

func (c *codexClient) message(line []byte) {
	var m codexMessage
	if json.Unmarshal(line, &m) != nil {
		if bytes.Contains(line, []byte(`"method"`)) {
			c.Fail("codex printed a line of its protocol that cannot be read")
		}
		return
	}
	switch {
	case m.Method != "" && len(m.ID) > 0:
		c.request(m)
	case m.Method != "":
		c.notice(m)
	case len(m.ID) > 0:
		c.answered(m)
	}
}

// answered goes on with the conversation when the CLI has answered. That a thread or a turn cannot begin is for the Stream.
func (c *codexClient) answered(m codexMessage) {
	id := string(m.ID)
	if m.Error != nil && (id == codexHello || id == codexConfig) {
		c.Fail("codex refuses to ask before it uses tools: " + text.Line(m.Error.Message, maxErrorText))
	}
	if m.Error != nil {
		return
	}
	switch id {
	case codexHello:
		c.send("", "method", "initialized")
		if c.enforce {
			c.call(codexConfig, "config/read", struct{}{})
		} else {
			c.begin()
		}
	case codexConfig:
		if err := c.servers(m.Result); err != nil {
			c.Fail("the settings of codex cannot be read, so its MCP servers cannot be made to ask: " + err.Error())
			return
		}
		c.begin()
	case codexThread:
		c.began(m.Result)
	}
}

func (c *codexClient) begin() {
	method := "thread/start"
	if c.start.Thread != "" {
		method = "thread/resume"
	}
	c.call(codexThread, method, c.start)
}

// servers makes each MCP server ask. Otherwise tools that call themselves harmless run without a question.
func (c *codexClient) servers(result json.RawMessage) error {
	var settings struct {
		Config struct {
			Servers map[string]struct {
				Tools map[string]json.RawMessage `json:"tools"`
			} `json:"mcp_servers"`
		} `json:"config"`
	}
	if err := text.Decode(result, &settings); err != nil {
		return err
	}
	servers := map[string]any{}
	for name, s := range settings.Config.Servers {
		server := map[string]any{"default_tools_approval_mode": "prompt"}
		tools := map[string]any{}
		for tool := range s.Tools {
			tools[tool] = map[string]string{"approval_mode": "prompt"}
		}
		if len(tools) > 0 {
			server["tools"] = tools
		}
		servers[name] = server
	}
	if len(servers) > 0 {
		c.start.Config = map[string]any{"mcp_servers": servers}
	}
	return nil
}

// began begins the turn, if the CLI is going to ask.
func (c *codexClient) began(result json.RawMessage) {
	var r struct {
		Thread struct {
			ID string `json:"id"`
		} `json:"thread"`
		Policy   json.RawMessage `json:"approvalPolicy"`
		Reviewer string          `json:"approvalsReviewer"`
		Sandbox  struct {
			Type string `json:"type"`
		} `json:"sandbox"`
	}
	if json.Unmarshal(result, &r) != nil || r.Thread.ID == "" {
		c.Fail("codex began no conversation that superloop can read")
		return
	}
	if c.enforce && (string(r.Policy) != `"untrusted"` || r.Reviewer != "user") {
		c.Fail(fmt.Sprintf("codex refuses to ask before it uses tools: its approval policy is %s, its reviewer %s", text.Line(string(r.Policy), 64), text.Line(r.Reviewer, 64)))
		return
	}
	c.thread, c.boxed = r.Thread.ID, r.Sandbox.Type != "dangerFullAccess"
	c.call(codexTurn, "turn/start", map[string]any{"threadId": c.thread, "input": []any{map[string]string{"type": "text", "text": c.Prompt}}})
}

// codexNotice are the parameters of all notices and requests, as far as the client needs them.
type codexNotice struct {
	Thread    string          `json:"threadId"`
	ItemID    string          `json:"itemId"`
	Item      json.RawMessage `json:"item"`
	RequestID json.RawMessage `json:"requestId"`
	Stdin     string          `json:"stdin"`
	Changes   json.RawMessage `json:"changes"`
}

func (c *codexClient) notice(m codexMessage) {
	var n codexNotice
	if json.Unmarshal(m.Params, &n) != nil {
		n = codexNotice{}
	}
	switch m.Method {
	case "serverRequest/resolved": // also after superloop's own answer
		c.mu.Lock()
		if cancel := c.open[string(n.RequestID)]; cancel != nil {
			cancel()
		}
		c.mu.Unlock()
	case "item/started", "item/completed":
		var it codexItem
		if json.Unmarshal(n.Item, &it) != nil {
			c.Fail("codex printed an item that cannot be read")
			return
		}
		c.item(n.Thread, it, m.Method == "item/completed")
	case "rawResponseItem/completed":
		c.raw(n)
	case "item/fileChange/patchUpdated":
		key := n.Thread + " " + n.ItemID
		if it, ok := c.items[key]; ok {
			if it.asked && !sameJSON(it.Changes, n.Changes) {
				c.Fail("codex changed what it had asked for")
			}
			it.Changes = n.Changes
			c.items[key] = it
		}
	case "item/commandExecution/terminalInteraction":
		if c.enforce && n.Stdin != "" && !c.may(n.Thread, n.ItemID+codexStdin) {
			c.Fail("codex wrote to a running program without asking")
		}
	}
}

// codexStdin is what the key of an item ends with if it is about the input of a running program.
const codexStdin = "\x00stdin"

func (c *codexClient) may(thread, id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.allowed[thread+" "+id]
}

// item keeps what begins, because a request names only the id of its item. It looks whether something runs, or has run, that nobody
// allowed.
func (c *codexClient) item(thread string, it codexItem, done bool) {
	r, uses := it.request()
	if !uses {
		return
	}
	key := thread + " " + it.ID
	switch {
	case !c.enforce && !done:
		c.running.Go(func() { c.Ask(c.ctx, c.of(thread, r)) }) // the answer is Leave
		return
	case !c.enforce:
		return
	case !done && len(c.items) < maxAsked: // beyond it nothing is known of an item, so nothing is allowed
		c.items[key] = it
	case done:
		defer func() {
			delete(c.items, key)
			delete(c.leaves, key)
			c.mu.Lock()
			delete(c.allowed, key)
			delete(c.allowed, key+codexStdin)
			c.mu.Unlock()
		}()
	}
	if r.Kind == permit.Internal || c.may(thread, it.ID) {
		return
	}
	ran := true
	switch it.Type {
	case "commandExecution":
		ran = it.ProcessID != nil && it.Source != "unifiedExecInteraction" || done && it.Status == "completed"
	case "fileChange", "mcpToolCall":
		ran = done && it.Status == "completed"
	}
	if ran {
		c.Fail("codex ran without asking: " + text.Line(cmp.Or(it.Command, r.Tool), 200))
	}
}

// raw reads the model's own call, which says more than the request does: whether a command is to leave the sandbox.
func (c *codexClient) raw(n codexNotice) {
	var call struct {
		Type      string `json:"type"`
		CallID    string `json:"call_id"`
		Arguments string `json:"arguments"`
		Input     string `json:"input"`
	}
	if json.Unmarshal(n.Item, &call) != nil {
		return
	}
	switch {
	case call.Type == "function_call" && len(c.leaves) < maxAsked:
		c.leaves[n.Thread+" "+call.CallID] = codexLeaves(call.Arguments)
	case call.Type == "function_call_output":
		delete(c.leaves, n.Thread+" "+call.CallID)
	case call.Type == "custom_tool_call":
		c.scripts[n.Thread] = c.scripts[n.Thread] || codexHints(call.Input)
	}
}

// unboxed reports whether a command would leave the CLI's sandbox, or nobody knows.
func (c *codexClient) unboxed(thread, id string) bool {
	leaves, known := c.leaves[thread+" "+id]
	speaks, scripts := c.scripts[thread]
	switch {
	case !c.boxed:
		return false
	case known:
		return leaves
	}
	return !scripts || speaks
}

// of completes a request.
func (c *codexClient) of(thread string, r permit.Request) permit.Request {
	r.Session = c.thread
	if thread != c.thread {
		r.Agent = thread
	}
	return r
}
