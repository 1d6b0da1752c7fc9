package agent

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"

	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/recovery/permit"
)

// codexRequest are the parameters of all requests of the CLI.
type codexRequest struct {
	Thread       string            `json:"threadId"`
	Turn         string            `json:"turnId"`
	Conversation string            `json:"conversationId"` // of the older requests
	ItemID       string            `json:"itemId"`
	CallID       string            `json:"callId"`
	Kind         string            `json:"kind"`
	Command      json.RawMessage   `json:"command"` // a text; a list of words in the older request
	Dir          string            `json:"cwd"`
	Reason       *string           `json:"reason"`
	Additional   json.RawMessage   `json:"additionalPermissions"`
	GrantRoot    *string           `json:"grantRoot"`
	Network      *codexNetwork     `json:"networkApprovalContext"`
	Files        json.RawMessage   `json:"fileChanges"`
	Questions    []codexQuestion   `json:"questions"`
	Server       string            `json:"serverName"`
	Meta         codexElicitedMeta `json:"_meta"`
}

type (
	codexNetwork struct {
		Host     string `json:"host"`
		Protocol string `json:"protocol"`
	}
	codexQuestion struct {
		ID string `json:"id"`
	}
	codexElicitedMeta struct {
		Approval string          `json:"codex_approval_kind"`
		Tool     string          `json:"tool_name"`
		Params   json.RawMessage `json:"tool_params"`
	}
)

// codexReply makes the result of a request.
type codexReply func(a permit.Answer) any

func codexDecision(a permit.Answer) any {
	if a.Decision == permit.Allow {
		return map[string]string{"decision": "accept"}
	}
	return map[string]string{"decision": "decline"} // "cancel" would end the turn
}

// codexReview is the decision in the older requests.
func codexReview(a permit.Answer) any {
	if a.Decision == permit.Allow {
		return map[string]string{"decision": "approved"}
	}
	return map[string]any{"decision": map[string]any{"denied": map[string]string{"rejection": a.Message}}}
}

func codexElicited(a permit.Answer) any {
	if a.Decision == permit.Allow {
		return map[string]any{"action": "accept", "content": struct{}{}, "_meta": nil}
	}
	return map[string]any{"action": "decline", "content": nil, "_meta": nil}
}

// request answers a request of the CLI, at once or from a goroutine.
func (c *codexClient) request(m codexMessage) {
	id := string(m.ID)
	if first := id[0]; first != '"' && first != '-' && (first < '0' || first > '9') {
		c.Fail("codex asked for something without an id, so nobody can answer it")
		return
	}
	fail := func(code int, why string) { c.send(id, "error", map[string]any{"code": code, "message": why}) }
	var q codexRequest
	if len(m.Params) > 0 && json.Unmarshal(m.Params, &q) != nil {
		fail(-32602, "superloop cannot read the parameters")
		return
	}
	if q.Thread == "" {
		q.Thread = q.Conversation
	}
	r, reply, key := c.asked(m, q)
	switch {
	case reply == nil:
		fail(-32601, "superloop does not support "+text.Line(m.Method, 64))
		return
	case r.Kind == "":
		c.send(id, "result", reply(permit.Answer{Decision: permit.Deny}))
		return
	case !c.enforce: // the item is judged; without superloop nobody would have been asked
		c.send(id, "result", reply(permit.Answer{Decision: permit.Deny, Message: codexNobody}))
		return
	}
	ctx, cancel := context.WithCancel(c.ctx)
	c.mu.Lock()
	_, twice := c.open[id]
	if !twice {
		c.open[id] = cancel
	}
	c.mu.Unlock()
	if twice {
		cancel()
		fail(-32600, "this request is being answered already")
		return
	}
	c.running.Go(func() {
		a := c.Ask(ctx, c.of(q.Thread, r))
		c.mu.Lock()
		delete(c.open, id)
		gone := ctx.Err() != nil
		if !gone && a.Decision == permit.Allow && key != "" {
			c.allowed[key] = true
		}
		c.mu.Unlock()
		cancel()
		if gone {
			return
		}
		if a.Decision != permit.Allow && a.Message != "" && key != "" && q.Turn != "" {
			c.tell(q, r, a.Message)
		}
		c.send(id, "result", reply(a))
	})
}

// tell says to the agent why something is refused, as a message of the user: an answer has no place for a reason. It is sent
// before the answer, so that the agent reads both at once.
func (c *codexClient) tell(q codexRequest, r permit.Request, reason string) {
	said := fmt.Sprintf("superloop refused %s: %s", text.Line(cmp.Or(r.Command, strings.Join(r.Paths, ", "), r.Host, r.Tool), 200), reason)
	c.call(`"`+codexTold+`"`, "turn/steer", map[string]any{"threadId": q.Thread, "expectedTurnId": q.Turn, "input": []any{map[string]string{"type": "text", "text": said}}})
}

// codexNobody is what the agent is told if nobody can be asked.
const codexNobody = "This needs a permission, and nobody can be asked for it here."

// asked translates a request of the CLI. key is that of the item which may run if the answer is Allow. A request without a
// kind is refused without a question; without a reply it is one that superloop does not know.
func (c *codexClient) asked(m codexMessage, q codexRequest) (r permit.Request, reply codexReply, key string) {
	key = q.Thread + " " + q.ItemID
	it, begun := c.items[key]
	r = permit.Request{Kind: permit.Other, Tool: m.Method, Input: bytes.Clone(m.Params), Exact: true, Dir: q.Dir, ToolUse: q.ItemID}
	switch m.Method {
	case "item/commandExecution/requestApproval":
		return c.command(r, q), codexDecision, key + map[bool]string{true: codexStdin}[q.Kind == "writeStdin"]
	case "item/fileChange/requestApproval":
		if begun && it.Type == "fileChange" {
			r, _ = it.request()
			it.asked = true
			c.items[key] = it
		}
		if q.GrantRoot != nil { // it asks for more than this change
			r.Kind = permit.Other
		}
		return r, codexDecision, key
	case "item/permissions/requestApproval":
		return permit.Request{}, func(permit.Answer) any { return map[string]any{"permissions": struct{}{}, "scope": "turn"} }, ""
	case "item/tool/requestUserInput":
		r.Kind = permit.Question
		return r, func(a permit.Answer) any {
			answers := map[string]any{}
			for _, question := range q.Questions {
				answers[question.ID] = map[string][]string{"answers": {a.Message}}
			}
			return map[string]any{"answers": answers}
		}, ""
	case "mcpServer/elicitation/request":
		if k := c.tool(q); k != "" {
			r, _ = c.items[k].request()
			return r, codexElicited, k
		}
		r.Kind = permit.Question // of the server itself
		return r, func(permit.Answer) any { return codexElicited(permit.Answer{}) }, ""
	case "execCommandApproval":
		var words []string
		if json.Unmarshal(q.Command, &words) == nil && len(words) == 3 && codexShell(words[0]) && words[1] == "-lc" {
			r.Kind, r.Command = permit.Command, words[2]
			r.Exact = q.Reason == nil
		}
		return r, codexReview, q.Thread + " " + q.CallID
	case "applyPatchApproval":
		var files map[string]struct {
			Move string `json:"move_path"`
		}
		if json.Unmarshal(q.Files, &files) == nil && q.GrantRoot == nil {
			r.Kind = permit.Write
			for name, f := range files {
				if r.Paths = append(r.Paths, name); f.Move != "" {
					r.Paths = append(r.Paths, f.Move)
				}
			}
		}
		return r, codexReview, q.Thread + " " + q.CallID
	}
	return r, nil, ""
}

// command translates a request to run a command. Only one without a reason is a plain command: with one the CLI, or the
// model, wants more than that, such as a second try outside of the sandbox.
func (c *codexClient) command(r permit.Request, q codexRequest) permit.Request {
	var words string
	switch {
	case q.Network != nil:
		r.Kind, r.Host = permit.Fetch, q.Network.Host
		if host, _, err := net.SplitHostPort(r.Host); err == nil {
			r.Host = host
		}
		return r
	case q.Kind != "" && q.Kind != "command", json.Unmarshal(q.Command, &words) != nil, words == "":
		return r
	}
	r = codexCommand(words, q.Dir, q.ItemID)
	if more := len(q.Additional) > 0 && string(q.Additional) != "null"; more || q.Reason != nil || c.may(q.Thread, q.ItemID) || c.unboxed(q.Thread, q.ItemID) {
		r.Exact = false
		r.Tool += codexUnboxed
	}
	return r
}

// tool finds the use of an MCP tool that the CLI asks about, of which the request names only tool and arguments; "" is none.
// A use is found once.
func (c *codexClient) tool(q codexRequest) string {
	for _, k := range slices.Sorted(maps.Keys(c.items)) {
		it := c.items[k]
		if q.Meta.Approval == "mcp_tool_call" && it.Type == "mcpToolCall" && k == q.Thread+" "+it.ID && it.Server == q.Server && it.Tool == q.Meta.Tool &&
			!it.asked && sameJSON(it.Arguments, q.Meta.Params) {
			it.asked = true
			c.items[k] = it
			return k
		}
	}
	return ""
}

// sameJSON reports whether two texts are the same value. Nothing is the same as null.
func sameJSON(a, b json.RawMessage) bool {
	var x, y any
	if len(a) > 0 && json.Unmarshal(a, &x) != nil || len(b) > 0 && json.Unmarshal(b, &y) != nil {
		return false
	}
	p, _ := json.Marshal(x) // what was read can be written
	q, _ := json.Marshal(y)
	return bytes.Equal(p, q)
}
