package agent

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/recovery/permit"
)

// acpAgent is what differs between the CLIs that speak the Agent Client Protocol (version 1).
type acpAgent struct {
	name string // of the CLI, for messages
	mode string // the session's mode in which the CLI asks; "" leaves the mode as it is
	// translate translates a use of a tool: what the CLI has shown of it, and its question, if there is one. work is the
	// directory of the session.
	translate func(call, question acpCall, work string) permit.Request
	// drops says that a refusal ends the turn, and with it the other uses of tools of the same answer of the model.
	drops bool
	// starts says that a use of a tool with the status in_progress works already. Otherwise in_progress may come before the
	// question, and a use works when it has output.
	starts bool
}

// The ids of superloop's own requests. That of a prompt is its number, from acpPrompt.
const (
	acpHello  = 1 // initialize
	acpNew    = 2 // session/new or session/load
	acpMode   = 3 // session/set_mode
	acpPrompt = 10
	// acpDone is the id of a request that no agent knows. It is sent when there is nothing more to do, and its answer, an
	// error, tells the Stream so.
	acpDone = "done"
)

// maxTold is the most prompts by which the reasons of refusals are told in one run.
const maxTold = 100

// acpClient speaks JSON-RPC 2.0 with a CLI that is an agent of the Agent Client Protocol. It offers the CLI neither files nor
// terminals, so the CLI's own tools do the work, and answers each session/request_permission by the kind of an option,
// allow_once or reject_once. A use of a tool that the CLI did not ask about is judged when it shows; if it may not be, Stdout
// ends the run. The protocol has no place for the reason of a refusal: when the turn has ended, it is the next prompt.
type acpClient struct {
	Conversation
	acpAgent
	enforce bool
	accept  bool   // without superloop the CLI would not ask, or be told yes
	resume  string // the session to load; "" begins a new one
	work    string
	ctx     context.Context
	stop    context.CancelFunc
	running sync.WaitGroup
	lines   wireLines

	session string
	prompts int // that were sent

	mu      sync.Mutex
	uses    map[string]*acpUse            // the uses of tools in this turn, by their ids
	open    map[string]context.CancelFunc // the requests that are being answered, by their id as JSON
	refused []string                      // what the agent is to be told when the turn has ended
}

func (a acpAgent) converse(req Request, with Conversation) *acpClient {
	c := &acpClient{Conversation: with, acpAgent: a, enforce: req.Asked == permit.Enforce, work: req.WorkDir, accept: accepts(req),
		uses: map[string]*acpUse{}, open: map[string]context.CancelFunc{}}
	c.ctx, c.stop = context.WithCancel(context.Background())
	if c.enforce { // an older session may hold rights
		return c
	}
	if c.mode = ""; req.Resume != nil {
		c.resume = req.Resume.ID
	}
	return c
}

func (c *acpClient) Begin() {
	c.call(acpHello, "initialize", map[string]any{"protocolVersion": 1, "clientInfo": map[string]string{"name": "superloop", "title": "superloop", "version": "1"},
		"clientCapabilities": map[string]any{"fs": map[string]bool{"readTextFile": false, "writeTextFile": false}, "terminal": false}})
}

func (c *acpClient) End() {
	c.stop()
	c.running.Wait()
}

func (c *acpClient) Stdout(p []byte) {
	c.lines.cut(p, c.message, func() {
		c.Fail(fmt.Sprintf("%s printed a line of more than %d MiB, in which it may have asked for something", c.name, maxWire>>20))
	})
}

// send sends a message of the protocol.
func (c *acpClient) send(message any) {
	data, err := json.Marshal(message)
	if err != nil {
		c.Fail("superloop cannot write to " + c.name + ": " + err.Error())
		return
	}
	c.Send(append(data, '\n'))
}

// acpOut is a message to the CLI.
type acpOut struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Method  string          `json:"method,omitempty"`
	Params  any             `json:"params,omitempty"`
	Result  any             `json:"result,omitempty"`
	Error   any             `json:"error,omitempty"`
}

func (c *acpClient) call(id any, method string, params any) {
	data, _ := json.Marshal(id) // a number or a word
	c.send(acpOut{Version: "2.0", ID: data, Method: method, Params: params})
}

func (c *acpClient) fail(id json.RawMessage, code int, why string) {
	c.send(acpOut{Version: "2.0", ID: id, Error: map[string]any{"code": code, "message": why}})
}

// acpMessage is a line of the CLI's output: a request has an id and a method, a notice only a method, an answer only an
// id. An id may be 0.
type acpMessage struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Message string `json:"message"`
	} `json:"error"`
}

func (c *acpClient) message(line []byte) {
	var m acpMessage
	if json.Unmarshal(line, &m) != nil {
		if bytes.Contains(line, []byte(`"method"`)) {
			c.Fail(c.name + " printed a line of its protocol that cannot be read")
		}
		return
	}
	switch {
	case m.Method != "" && len(m.ID) > 0:
		c.request(m)
	case m.Method == "session/update":
		c.update(m.Params)
	case m.Method == "" && len(m.ID) > 0:
		c.answered(m)
	}
}

// answered goes on with the conversation when the CLI has answered. That a session or a turn fails is for the Stream.
func (c *acpClient) answered(m acpMessage) {
	var id int
	if json.Unmarshal(m.ID, &id) != nil {
		return
	}
	if m.Error != nil {
		if id == acpHello || id == acpMode {
			c.Fail(c.name + " refuses to ask before it uses tools: " + text.Line(m.Error.Message, maxErrorText))
		} else {
			c.done()
		}
		return
	}
	switch id {
	case acpHello:
		var hello struct {
			Version int `json:"protocolVersion"`
		}
		if json.Unmarshal(m.Result, &hello) != nil || hello.Version != 1 {
			c.Fail(fmt.Sprintf("%s speaks version %d of the Agent Client Protocol, and superloop version 1", c.name, hello.Version))
			return
		}
		params := map[string]any{"cwd": c.work, "mcpServers": []any{}}
		if c.resume != "" {
			params["sessionId"] = c.resume
			c.call(acpNew, "session/load", params)
		} else {
			c.call(acpNew, "session/new", params)
		}
	case acpNew:
		c.began(m.Result)
	case acpMode:
		c.prompt(c.Prompt)
	case acpPrompt + c.prompts - 1:
		c.turned()
	}
}

// began sends the prompt, if the CLI is going to ask.
func (c *acpClient) began(result json.RawMessage) {
	var r struct {
		ID    string `json:"sessionId"`
		Modes struct {
			Current string `json:"currentModeId"`
		} `json:"modes"`
	}
	_ = json.Unmarshal(result, &r) // without an id it is refused
	if c.session = cmp.Or(r.ID, c.resume); c.session == "" {
		c.Fail(c.name + " began no session that superloop can read")
		return
	}
	if c.mode != "" && c.mode != r.Modes.Current {
		c.call(acpMode, "session/set_mode", map[string]string{"sessionId": c.session, "modeId": c.mode})
		return
	}
	c.prompt(c.Prompt)
}

func (c *acpClient) prompt(words string) {
	c.prompts++
	c.call(acpPrompt+c.prompts-1, "session/prompt", map[string]any{"sessionId": c.session, "prompt": []any{map[string]string{"type": "text", "text": words}}})
}

func (c *acpClient) done() { c.call(acpDone, "_superloop/done", struct{}{}) }

// turned goes on when a turn has ended: the agent is told what was refused in it, or the conversation is over. What is still
// being answered is no longer wanted.
func (c *acpClient) turned() {
	c.mu.Lock()
	for _, cancel := range c.open {
		cancel()
	}
	told := c.refused
	c.refused = nil
	clear(c.uses)
	c.mu.Unlock()
	if len(told) == 0 || c.prompts > maxTold {
		c.done()
		return
	}
	slices.Sort(told)
	more := ""
	if c.drops {
		more = "\nWhatever else you called at the same time was not done either, and is not refused: call it again. "
	}
	c.prompt("While you worked:\n- " + strings.Join(slices.Compact(told), "\n- ") + "\n" + more + "\nGo on with your task. If nothing is left to do, repeat your final message.")
}

// request answers a request of the CLI, at once or from a goroutine.
func (c *acpClient) request(m acpMessage) {
	if first := m.ID[0]; first != '"' && first != '-' && (first < '0' || first > '9') {
		c.Fail(c.name + " asked for something without an id, so nobody can answer it")
		return
	}
	if m.Method != "session/request_permission" {
		c.fail(m.ID, -32601, "superloop does not support "+text.Line(m.Method, 64))
		return
	}
	var q acpQuestion
	if json.Unmarshal(m.Params, &q) != nil || q.Call.ID == "" {
		c.fail(m.ID, -32602, "superloop cannot read the parameters")
		return
	}
	id, yes, no := string(m.ID), q.option("allow_once"), q.option("reject_once")
	answer := func(option string) {
		c.send(acpOut{Version: "2.0", ID: m.ID, Result: map[string]any{"outcome": acpOutcome(option)}})
	}
	c.mu.Lock()
	if c.starts { // a CLI that shows nothing in between
		use := c.use(q.Call.ID)
		use.call = q.Call.with(use.call)
	}
	_, twice := c.open[id]
	dropped := c.drops && len(c.refused) > 0 && q.Session == c.session
	if twice || dropped || !c.enforce || yes == "" {
		c.mu.Unlock()
		switch {
		case twice:
			c.fail(m.ID, -32600, "this request is being answered already")
		case !c.enforce && c.accept && yes != "":
			answer(yes)
		default:
			answer(no)
		}
		return
	}
	ctx, cancel := context.WithCancel(c.ctx)
	c.open[id] = cancel
	use := c.use(q.Call.ID)
	use.asked = true
	c.mu.Unlock()
	c.running.Go(func() {
		c.known(ctx, use)
		c.mu.Lock()
		r := c.of(use.call, q)
		again := use.allowed && reflect.DeepEqual(use.granted, r) // a CLI may ask twice: for the path and for the tool
		c.mu.Unlock()
		a := permit.Answer{Decision: permit.Allow}
		if !again {
			a = c.Ask(ctx, r)
		}
		c.mu.Lock()
		delete(c.open, id)
		gone := ctx.Err() != nil
		may := !gone && a.Decision == permit.Allow
		use.allowed, use.granted = may, r
		if !gone && !may {
			c.refused = append(c.refused, acpRefusal(r, a.Message))
		}
		c.mu.Unlock()
		cancel()
		switch {
		case gone:
			answer("")
		case may:
			answer(yes)
		default:
			answer(no)
		}
	})
}
