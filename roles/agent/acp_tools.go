package agent

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/recovery/permit"
)

// acpCall is a use of a tool, as far as the CLI has shown it.
type acpCall struct {
	ID        string          `json:"toolCallId"`
	Title     string          `json:"title"`
	Kind      string          `json:"kind"`
	Status    string          `json:"status"`
	Input     json.RawMessage `json:"rawInput"`
	Output    json.RawMessage `json:"rawOutput"`
	Content   json.RawMessage `json:"content"`
	Locations []struct {
		Path string `json:"path"`
	} `json:"locations"`
	Meta struct {
		Tool string `json:"toolName"`
	} `json:"_meta"`

	tool string // the title with which it was first shown
}

// acpQuestion are the parameters of session/request_permission.
type acpQuestion struct {
	Session string  `json:"sessionId"`
	Call    acpCall `json:"toolCall"`
	Options []struct {
		ID   string `json:"optionId"`
		Kind string `json:"kind"`
	} `json:"options"`
}

// option returns the first option of a kind, never one that is remembered; "" if there is none.
func (q acpQuestion) option(kind string) string {
	for _, o := range q.Options {
		if o.Kind == kind {
			return o.ID
		}
	}
	return ""
}

// acpOutcome is the answer that selects an option; without an option it is that the turn is over.
func acpOutcome(option string) map[string]string {
	if option == "" {
		return map[string]string{"outcome": "cancelled"}
	}
	return map[string]string{"outcome": "selected", "optionId": option}
}

// acpRefusal is what an agent is told about a refusal.
func acpRefusal(r permit.Request, reason string) string {
	return fmt.Sprintf("superloop refused %s: %s", text.Line(cmp.Or(r.Command, strings.Join(r.Paths, ", "), r.Host, r.Tool), 200), cmp.Or(reason, "it is not allowed"))
}

// with returns the call with what is newly known of it. An empty value says nothing.
func (c acpCall) with(n acpCall) acpCall {
	c.ID, c.Kind, c.Status = cmp.Or(n.ID, c.ID), cmp.Or(n.Kind, c.Kind), cmp.Or(n.Status, c.Status)
	c.tool, c.Title, c.Meta.Tool = cmp.Or(c.tool, n.Title), cmp.Or(n.Title, c.Title), cmp.Or(n.Meta.Tool, c.Meta.Tool)
	if !emptyJSON(n.Input) {
		c.Input = bytes.Clone(n.Input)
	}
	if !emptyJSON(n.Content) {
		c.Content = bytes.Clone(n.Content)
	}
	if len(n.Locations) > 0 {
		c.Locations = n.Locations
	}
	return c
}

// hasOutput reports whether the CLI shows output of the tool.
func (c acpCall) hasOutput() bool { return !emptyJSON(c.Output) || !emptyJSON(c.Content) }

func emptyJSON(raw json.RawMessage) bool {
	return slices.Contains([]string{"", "null", "{}", "[]", `""`}, string(raw))
}

func (c acpCall) paths() (list []string) {
	for _, l := range c.Locations {
		list = append(list, l.Path)
	}
	return list
}

func distinct(list []string) []string {
	slices.Sort(list)
	return slices.Compact(list)
}

// acpUse is a use of a tool.
type acpUse struct {
	call                          acpCall
	input                         chan struct{}  // is closed when the CLI has shown the whole input
	granted                       permit.Request // what was asked about last; it may be if allowed
	shown, asked, allowed, judged bool
}

// acpLate is how long the client waits for the input of a tool whose question came first. A question without it is judged by
// what it says itself.
const acpLate = 2 * time.Second

// of translates a use of a tool that the CLI asks about. The lock is held.
func (c *acpClient) of(call acpCall, q acpQuestion) permit.Request {
	r := c.translate(call, q.Call, c.work)
	if r.Session, r.ToolUse = c.session, q.Call.ID; q.Session != c.session {
		r.Agent = q.Session
	}
	return r
}

// use returns what is known of a use of a tool. The lock is held. Beyond maxAsked nothing is remembered, so nothing is
// allowed.
func (c *acpClient) use(id string) *acpUse {
	u := c.uses[id]
	if u == nil {
		u = &acpUse{input: make(chan struct{})}
		if len(c.uses) < maxAsked {
			c.uses[id] = u
		}
	}
	return u
}

// known waits a little until the CLI has shown the whole input of a use of a tool: a question may overtake it.
func (c *acpClient) known(ctx context.Context, use *acpUse) {
	if c.starts {
		return
	}
	late := time.NewTimer(acpLate)
	defer late.Stop()
	select {
	case <-use.input:
	case <-late.C:
	case <-ctx.Done():
	}
}

// update reads a notice about the session: of interest are the uses of tools.
func (c *acpClient) update(params json.RawMessage) {
	var n struct {
		Session string          `json:"sessionId"`
		Update  json.RawMessage `json:"update"`
	}
	var kind struct {
		Kind string `json:"sessionUpdate"`
		Mode string `json:"currentModeId"`
	}
	var call acpCall
	if json.Unmarshal(params, &n) != nil || json.Unmarshal(n.Update, &kind) != nil {
		c.Fail(c.name + " printed a notice that cannot be read")
		return
	}
	if c.enforce && kind.Kind == "current_mode_update" && c.mode != "" && kind.Mode != c.mode {
		c.Fail(c.name + " has left the mode in which it asks for " + text.Line(kind.Mode, 64))
		return
	}
	if kind.Kind != "tool_call" && kind.Kind != "tool_call_update" || c.prompts == 0 { // before the prompt an old session is shown
		return
	}
	if json.Unmarshal(n.Update, &call) != nil || call.ID == "" {
		c.Fail(c.name + " printed a use of a tool that cannot be read")
		return
	}
	c.mu.Lock()
	use := c.use(call.ID)
	use.call = use.call.with(call)
	if call.Status != "pending" && !use.shown {
		use.shown = true
		close(use.input)
	}
	works := call.Status == "completed" || call.Status == "in_progress" && (c.starts || call.hasOutput())
	judge := works && !use.allowed && !use.judged || !c.enforce && call.Status != "pending" && !use.judged
	use.judged = use.judged || judge
	r := c.of(use.call, acpQuestion{Session: n.Session, Call: acpCall{ID: call.ID}})
	c.mu.Unlock()
	switch {
	case !judge:
	case !c.enforce:
		c.running.Go(func() { c.Ask(c.ctx, r) }) // the answer is Leave
	default:
		c.unasked(r, use.asked)
	}
}

// unasked judges a use of a tool that works already: some CLIs do not ask about everything. Nobody can be asked any more, so
// it has to be allowed by the policy.
func (c *acpClient) unasked(r permit.Request, asked bool) {
	c.running.Go(func() {
		over, cancel := context.WithCancel(c.ctx)
		cancel()
		if asked || c.Ask(over, r).Decision != permit.Allow {
			c.Fail(c.name + " ran without asking: " + text.Line(cmp.Or(r.Command, strings.Join(r.Paths, ", "), r.Host, r.Tool), 200))
		}
	})
}

// fields are the fields of a JSON object. Their names are compared exactly, as JavaScript does, and not as encoding/json
// compares them with those of a struct.
type fields map[string]json.RawMessage

func fieldsOf(raw json.RawMessage) (f fields) {
	_ = json.Unmarshal(raw, &f) // what is no object has no fields
	return f
}

// word returns a text of the object; ok is false if it is something else.
func (f fields) word(key string) (s string, ok bool) {
	raw, there := f[key]
	ok = there && len(raw) > 0 && raw[0] == '"' && json.Unmarshal(raw, &s) == nil
	return s, ok
}

// hostOf returns the host of an address on the web; "" if it is not certain.
func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.User != nil {
		return ""
	}
	return u.Hostname()
}

// globPaths returns where a search by a pattern looks, given the paths that its other input names. A pattern can lead
// elsewhere by itself; ok is false if nobody knows where.
func globPaths(pattern string, paths []string) (list []string, ok bool) {
	fixed := globBase(pattern)
	switch {
	case strings.Contains(pattern[len(fixed):], ".."):
		return paths, false
	case path.IsAbs(fixed) || strings.HasPrefix(fixed, "~") || strings.Contains(fixed, ".."):
		return append(paths, fixed), true
	case len(paths) > 0:
		return append(paths, path.Join(paths[0], fixed)), true
	case fixed != "":
		return append(paths, fixed), true
	}
	return paths, true
}

// opencodeKinds are the tools of opencode that superloop knows, with the input that holds their path.
var opencodeKinds = map[string]struct {
	kind permit.Kind
	path string
}{
	"read": {permit.Read, "filePath"}, "glob": {permit.Read, "path"}, "grep": {permit.Read, "path"}, "list": {permit.Read, "path"},
	"edit": {permit.Write, "filePath"}, "write": {permit.Write, "filePath"}, "multiedit": {permit.Write, "filePath"}, "patch": {permit.Write, ""}, "apply_patch": {permit.Write, ""},
	"webfetch": {permit.Fetch, ""}, "websearch": {permit.Fetch, ""}, "codesearch": {permit.Fetch, ""},
	"todowrite": {permit.Internal, ""}, "todoread": {permit.Internal, ""}, "invalid": {permit.Internal, ""}, "question": {permit.Question, ""},
	"task": {permit.Other, ""}, "skill": {permit.Other, ""}, "lsp": {permit.Other, ""},
}

// opencodeShell are the inputs of the tool bash that change nothing but what the command is and where it runs. cwd is the
// CLI's own addition.
var opencodeShell = []string{"command", "description", "timeout", "workdir", "cwd"}

// opencodeUse translates a use of a tool of opencode. The input of the tool is what runs; the question has the data that the
// tool itself has made of it, such as the files that a patch changes.
func opencodeUse(call, question acpCall, work string) permit.Request {
	r := permit.Request{Kind: permit.Other, Tool: cmp.Or(call.tool, question.Title), Input: call.Input, Exact: true, Dir: work}
	if emptyJSON(r.Input) {
		r.Input = question.Input
	}
	in, asked := fieldsOf(r.Input), fieldsOf(question.Input)
	if call.tool == "bash" || call.tool == "" && question.Kind == "execute" {
		return opencodeCommand(r, in, asked, call.Status != "" && call.Status != "pending")
	}
	known, ok := opencodeKinds[call.tool]
	switch {
	case !ok && strings.Contains(call.tool, "_"):
		r.Kind = permit.MCP // SERVER_TOOL; plugins, which could bring tools too, are off
		return r
	case !ok:
		return r
	}
	if known.path != "" {
		name, isWord := in.word(known.path)
		if _, there := in[known.path]; there && !isWord {
			return r // no text: nobody knows what the CLI makes of it
		}
		if isWord {
			r.Paths = []string{name}
		}
	}
	switch known.kind {
	case permit.Write:
		if r.Paths = distinct(append(r.Paths, question.paths()...)); len(r.Paths) == 0 {
			return r
		}
	case permit.Fetch:
		address, _ := in.word("url")
		r.Host = hostOf(address)
	case permit.Read:
		switch pattern, isWord := in.word("pattern"); {
		case call.tool == "read" && len(r.Paths) == 0, call.tool == "glob" && !isWord:
			return r
		case call.tool == "glob":
			if r.Paths, ok = globPaths(pattern, r.Paths); !ok {
				return r
			}
		}
	}
	r.Kind = known.kind
	return r
}

// opencodeCommand translates a use of the tool bash. shown says that the CLI has shown the tool's whole input: before that
// nobody knows in which directory it runs.
func opencodeCommand(r permit.Request, in, asked fields, shown bool) permit.Request {
	r.Tool = "bash"
	for key := range in {
		if !slices.Contains(opencodeShell, key) {
			return r
		}
	}
	command, ok := in.word("command")
	if other, both := asked.word("command"); !ok {
		command, ok = other, both
	} else if both && other != command {
		return r
	}
	if !ok {
		return r
	}
	dir, there := in.word("workdir")
	switch _, any := in["workdir"]; {
	case !shown:
		r.Dir = ""
	case any && !there:
		return r
	case there && filepath.IsAbs(dir):
		r.Dir = dir
	case there:
		r.Dir += "/" + dir
	}
	r.Kind, r.Command = permit.Command, command
	return r
}

// geminiUse translates a use of a tool of gemini, which shows no input: the title is made for display, and is never enough to
// let something run. What the tool itself would write, and the files that it names, are exact.
func geminiUse(call, question acpCall, work string) permit.Request {
	call = call.with(question)
	r := permit.Request{Kind: permit.Other, Tool: cmp.Or(call.Kind, call.Title), Dir: work, Paths: call.paths()}
	r.Input = []byte(marshalled(map[string]any{"title": call.Title, "content": call.Content, "paths": r.Paths}))
	switch call.Kind {
	case "execute":
		r.Kind, r.Command = permit.Command, call.Title
	case "edit", "delete", "move":
		var diffs []struct {
			Type string `json:"type"`
			Path string `json:"path"`
		}
		_ = json.Unmarshal(call.Content, &diffs) // what is no list has no file
		for _, d := range diffs {
			if d.Type == "diff" {
				r.Paths = append(r.Paths, d.Path)
			}
		}
		if r.Paths = distinct(r.Paths); len(r.Paths) > 0 {
			r.Kind, r.Exact = permit.Write, true
		}
	case "read", "search":
		r.Kind, r.Exact = permit.Read, len(r.Paths) > 0
	case "fetch":
		r.Kind = permit.Fetch
	}
	return r
}
