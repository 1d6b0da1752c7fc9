package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/recovery/permit"
)

const (
	claudeHook  = "pre"   // superloop's id of the hook that claude calls before each tool
	claudeFirst = "i1"    // the id of superloop's only request
	maxAsked    = 1 << 16 // bounds how many uses of tools are remembered that have no result yet
	hookMargin  = time.Minute
)

// claudeUnasked is what the CLI says to the agent if there is nobody whom it could ask.
const claudeUnasked = "This tool needs a permission, and nobody can be asked for it here."

// claudeClient speaks claude's control protocol: it is asked by a PreToolUse hook about each use of a tool, also those of
// sub-agents, and by can_use_tool about what the hook has left undecided. If the hook fails, the CLI refuses
// (onFailure). A hook that is called when standard input is closed fails open, in release 2.1.330 at least, so Stdout
// ends a run in which a tool has worked that nobody allowed.
type claudeClient struct {
	Conversation
	enforce bool
	ctx     context.Context
	stop    context.CancelFunc
	running sync.WaitGroup
	lines   wireLines

	mu    sync.Mutex
	open  map[string]context.CancelFunc // the requests that are being answered, by their id as JSON
	asked map[string]verdictOf          // by the id of the use of a tool, until its result comes
}

// verdictOf is what the client has answered about a use of a tool.
type verdictOf struct {
	allowed bool
	input   []byte
}

func (c claude) Converse(req Request, with Conversation) Client {
	out := &claudeClient{Conversation: with, enforce: req.Asked == permit.Enforce, open: map[string]context.CancelFunc{}, asked: map[string]verdictOf{}}
	if out.enforce && req.Resume == nil {
		out.Prompt = remembered(req, "CLAUDE.md", out.Prompt)
	}
	out.ctx, out.stop = context.WithCancel(context.Background())
	return out
}

func (c *claudeClient) Begin() {
	c.Send(fmt.Appendf(nil, `{"type":"control_request","request_id":%q,"request":{"subtype":"initialize","hooks":{"PreToolUse":[{"matcher":"*","hookCallbackIds":[%q],"timeout":%d,"onFailure":"block"}]}}}`+"\n",
		claudeFirst, claudeHook, int((c.Hold+hookMargin)/time.Second)))
	prompt, _ := json.Marshal(c.Prompt) // a string can always be written
	c.Send(fmt.Appendf(nil, `{"type":"user","message":{"role":"user","content":[{"type":"text","text":%s}]}}`+"\n", prompt))
}

func (c *claudeClient) End() {
	c.stop()
	c.running.Wait()
}

func (c *claudeClient) Stdout(p []byte) {
	c.lines.cut(p, c.message, func() {
		c.Fail(fmt.Sprintf("the CLI printed a line of more than %d MiB, in which it may have asked for something", maxWire>>20))
	})
}

// claudeMessage is a line of claude's output, as far as the client needs it.
type claudeMessage struct {
	Type      string          `json:"type"`
	RequestID json.RawMessage `json:"request_id"`
	Request   struct {
		Subtype    string          `json:"subtype"`
		CallbackID string          `json:"callback_id"`
		Tool       string          `json:"tool_name"`
		Input      json.RawMessage `json:"input"`
		ToolUse    string          `json:"tool_use_id"`
		Agent      string          `json:"agent_id"`
	} `json:"request"`
	Response struct {
		Subtype   string          `json:"subtype"`
		RequestID json.RawMessage `json:"request_id"`
		Error     string          `json:"error"`
	} `json:"response"`
	Message struct {
		Content json.RawMessage `json:"content"`
	} `json:"message"`
}

// claudeCall is the input of the hook.
type claudeCall struct {
	Event   string          `json:"hook_event_name"`
	Tool    string          `json:"tool_name"`
	Input   json.RawMessage `json:"tool_input"`
	ToolUse string          `json:"tool_use_id"`
	Session string          `json:"session_id"`
	Dir     string          `json:"cwd"`
	Agent   string          `json:"agent_id"`
}

func (c *claudeClient) message(line []byte) {
	var m claudeMessage
	if json.Unmarshal(line, &m) != nil {
		if bytes.Contains(line, []byte(`"control_`)) {
			c.Fail("the CLI printed a line of its control protocol that cannot be read")
		}
		return
	}
	switch m.Type {
	case "control_request":
		c.request(m)
	case "control_cancel_request":
		c.mu.Lock()
		if cancel := c.open[string(m.RequestID)]; cancel != nil {
			cancel()
		}
		c.mu.Unlock()
	case "control_response":
		if string(m.Response.RequestID) == `"`+claudeFirst+`"` && m.Response.Subtype != "success" {
			c.Fail("the CLI refuses to ask before it uses tools: " + text.Line(m.Response.Error, maxErrorText))
		}
	case "user":
		c.results(m.Message.Content)
	}
}

// results looks whether a tool has worked that superloop was not asked about, or has refused.
func (c *claudeClient) results(content json.RawMessage) {
	var blocks []struct {
		Type    string `json:"type"`
		ToolUse string `json:"tool_use_id"`
		Failed  bool   `json:"is_error"`
	}
	if json.Unmarshal(content, &blocks) != nil {
		return // a text
	}
	for _, b := range blocks {
		if b.Type != "tool_result" {
			continue
		}
		c.mu.Lock()
		v, known := c.asked[b.ToolUse]
		delete(c.asked, b.ToolUse)
		c.mu.Unlock()
		switch {
		case !c.enforce || b.Failed || v.allowed:
		case known:
			c.Fail(fmt.Sprintf("the CLI ran the tool of %s although it was refused", text.Line(b.ToolUse, 64)))
		default:
			c.Fail(fmt.Sprintf("the CLI ran the tool of %s without asking", text.Line(b.ToolUse, 64)))
		}
	}
}

func (c *claudeClient) request(m claudeMessage) {
	id := m.RequestID
	if len(id) == 0 || id[0] == '{' || id[0] == '[' || string(id) == "null" {
		c.Fail("the CLI asked for something without an id, so nobody can answer it")
		return
	}
	fail := func(why string) {
		reason, _ := json.Marshal(why)
		c.Send(fmt.Appendf(nil, `{"type":"control_response","response":{"subtype":"error","request_id":%s,"error":%s}}`+"\n", id, reason))
	}
	var call claudeCall
	switch m.Request.Subtype {
	case "hook_callback":
		if json.Unmarshal(m.Request.Input, &call) != nil || m.Request.CallbackID != claudeHook || call.Event != "PreToolUse" || call.Tool == "" {
			fail("superloop knows no such hook") // onFailure makes that a refusal
			return
		}
	case "can_use_tool":
		call = claudeCall{Tool: m.Request.Tool, Input: m.Request.Input, ToolUse: m.Request.ToolUse, Agent: m.Request.Agent}
	default:
		fail("superloop does not support " + text.Line(m.Request.Subtype, 64))
		return
	}
	ctx, cancel := context.WithCancel(c.ctx)
	c.mu.Lock()
	_, twice := c.open[string(id)]
	if !twice {
		c.open[string(id)] = cancel
	}
	c.mu.Unlock()
	if twice {
		cancel()
		fail("this request is being answered already")
		return
	}
	c.running.Go(func() {
		answer := c.answer(ctx, call, m.Request.Subtype == "can_use_tool")
		c.mu.Lock()
		delete(c.open, string(id))
		gone := ctx.Err() != nil
		c.mu.Unlock()
		cancel()
		if !gone {
			c.Send(fmt.Appendf(nil, `{"type":"control_response","response":{"subtype":"success","request_id":%s,"response":%s}}`+"\n", id, answer))
		}
	})
}

// answer returns the response to a request, as JSON. second says that the hook has left it undecided, or that the CLI asks
// once more about what the hook has allowed.
func (c *claudeClient) answer(ctx context.Context, call claudeCall, second bool) []byte {
	c.mu.Lock()
	before, decided := c.asked[call.ToolUse]
	c.mu.Unlock()
	var a permit.Answer
	switch {
	case second && !c.enforce:
		a = permit.Answer{Decision: permit.Deny, Message: claudeUnasked}
	case second && decided && bytes.Equal(before.input, call.Input):
		if a.Decision = permit.Deny; before.allowed {
			a.Decision = permit.Allow
		}
	default:
		a = c.Ask(ctx, claudeRequest(call))
	}
	if a.Decision == permit.Leave && !second {
		return []byte(`{}`)
	}
	if a.Decision != permit.Allow {
		a.Decision = permit.Deny
	}
	c.mu.Lock()
	if len(c.asked) < maxAsked { // beyond it every result counts as unasked
		c.asked[call.ToolUse] = verdictOf{a.Decision == permit.Allow, slices.Clone(call.Input)}
	}
	c.mu.Unlock()
	reason, _ := json.Marshal(a.Message)
	input := call.Input
	if len(input) == 0 || input[0] != '{' {
		input = []byte("{}")
	}
	switch {
	case second && a.Decision == permit.Allow:
		return fmt.Appendf(nil, `{"behavior":"allow","updatedInput":%s}`, input)
	case second:
		return fmt.Appendf(nil, `{"behavior":"deny","message":%s}`, reason)
	case a.Decision == permit.Allow:
		return fmt.Appendf(nil, `{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow","updatedInput":%s}}`, input)
	}
	return fmt.Appendf(nil, `{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":%s}}`, reason)
}

// claudeKinds are the tools of claude that superloop knows, with the input that holds their path. A tool that is not here,
// such as one that plans a later turn or opens another work tree, is permit.Other.
var claudeKinds = map[string]struct {
	kind permit.Kind
	path string
}{
	"Edit": {permit.Write, "file_path"}, "MultiEdit": {permit.Write, "file_path"}, "Write": {permit.Write, "file_path"}, "NotebookEdit": {permit.Write, "notebook_path"},
	"Read": {permit.Read, "file_path"}, "NotebookRead": {permit.Read, "notebook_path"}, "Grep": {permit.Read, "path"}, "Glob": {permit.Read, "path"}, "LS": {permit.Read, "path"},
	"WebFetch": {permit.Fetch, ""}, "WebSearch": {permit.Fetch, ""}, "AskUserQuestion": {permit.Question, ""},
	"Task": {permit.Internal, ""}, "Agent": {permit.Internal, ""}, "TodoWrite": {permit.Internal, ""}, "TaskCreate": {permit.Internal, ""}, "TaskGet": {permit.Internal, ""},
	"TaskList": {permit.Internal, ""}, "TaskUpdate": {permit.Internal, ""}, "TaskOutput": {permit.Internal, ""}, "TaskStop": {permit.Internal, ""}, "BashOutput": {permit.Internal, ""},
	"KillShell": {permit.Internal, ""}, "KillBash": {permit.Internal, ""}, "ToolSearch": {permit.Internal, ""}, "ReportFindings": {permit.Internal, ""}, "ListAgents": {permit.Internal, ""},
}

// claudeShell are the inputs of the tool Bash that change nothing but what the command is. With any other, such as the one
// that leaves the CLI's sandbox, it is a tool that superloop does not know.
var claudeShell = []string{"command", "description", "timeout", "run_in_background"}

// claudeRequest translates a use of a tool. The names of inputs are compared exactly, as the CLI does, and not as
// encoding/json compares them with fields, without regard to case.
func claudeRequest(call claudeCall) permit.Request {
	r := permit.Request{Kind: permit.Other, Tool: call.Tool, Input: call.Input, Exact: true, Dir: call.Dir, Session: call.Session, ToolUse: call.ToolUse, Agent: call.Agent}
	var in map[string]json.RawMessage
	if json.Unmarshal(call.Input, &in) != nil || in == nil {
		return r
	}
	word := func(key string) (s string, ok bool) {
		raw, there := in[key]
		return s, there && json.Unmarshal(raw, &s) == nil && len(raw) > 0 && raw[0] == '"'
	}
	if strings.HasPrefix(call.Tool, "mcp__") {
		r.Kind = permit.MCP
		return r
	}
	if call.Tool == "Bash" {
		for key := range in {
			if !slices.Contains(claudeShell, key) {
				return r
			}
		}
		if command, ok := word("command"); ok {
			r.Kind, r.Command = permit.Command, command
		}
		return r
	}
	known, ok := claudeKinds[call.Tool]
	if !ok {
		return r
	}
	if known.path != "" {
		name, ok := word(known.path)
		if _, there := in[known.path]; there && !ok {
			return r // no text: nobody knows what the CLI makes of it
		}
		if ok {
			r.Paths = []string{name}
		}
	}
	if pattern, ok := word("pattern"); ok && call.Tool == "Glob" {
		if r.Paths, ok = globPaths(pattern, r.Paths); !ok {
			return r
		}
	}
	if call.Tool == "WebFetch" {
		if address, ok := word("url"); ok {
			r.Host = hostOf(address)
		}
	}
	r.Kind = known.kind
	return r
}

// globBase returns the part of a pattern before its first wildcard, cut at a slash.
func globBase(pattern string) string {
	if i := strings.IndexAny(pattern, "*?[{"); i >= 0 {
		return pattern[:strings.LastIndexByte(pattern[:i], '/')+1]
	}
	return pattern
}
