package agent

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/superloop/superloop/recovery/permit"
)

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
