package agent

import (
	"encoding/json"
	"path"
	"slices"
	"strings"

	"github.com/superloop/superloop/recovery/permit"
)

// codexItem is an item of a thread, as far as the client needs it.
type codexItem struct {
	Type      string          `json:"type"`
	ID        string          `json:"id"`
	Command   string          `json:"command"`
	Dir       string          `json:"cwd"`
	ProcessID *string         `json:"processId"`
	Source    string          `json:"source"`
	Status    string          `json:"status"`
	Changes   json.RawMessage `json:"changes"`
	Server    string          `json:"server"`
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments"`
	Path      string          `json:"path"`

	asked bool // of an MCP tool and a change of files: a request has been taken for it
}

// codexQuiet are the items that touch nothing outside of the agent.
var codexQuiet = strings.Fields(`userMessage hookPrompt agentMessage functionCallOutput plan reasoning collabAgentToolCall subAgentActivity sleep
	enteredReviewMode exitedReviewMode contextCompaction`)

// codexLists are the tools that name the resources of MCP servers, and read none of them.
var codexLists = []string{"list_mcp_resources", "list_mcp_resource_templates"}

// request translates an item into what the agent asks for. ok is false for an item that is no use of a tool.
func (it codexItem) request() (r permit.Request, ok bool) {
	r = permit.Request{Kind: permit.Other, Tool: it.Type, Exact: true, Dir: it.Dir, ToolUse: it.ID}
	switch it.Type {
	case "commandExecution":
		return codexCommand(it.Command, it.Dir, it.ID), true
	case "fileChange":
		r.Input = it.Changes
		if paths := codexPaths(it.Changes); len(paths) > 0 {
			r.Kind, r.Paths = permit.Write, paths
		}
	case "mcpToolCall":
		r.Kind, r.Tool, r.Input = permit.MCP, "mcp__"+it.Server+"__"+it.Tool, it.Arguments
		if slices.Contains(codexLists, it.Tool) {
			r.Kind = permit.Internal
		}
	case "imageView":
		r.Input = []byte(it.Path)
		r.Kind, r.Paths = permit.Read, []string{it.Path}
	case "webSearch":
		r.Kind = permit.Fetch
	default:
		if it.Type == "" || slices.Contains(codexQuiet, it.Type) {
			return r, false
		}
	}
	return r, true
}

// codexCommand is the request for a command, which codex shows as its words, quoted for a shell.
func codexCommand(words, dir, id string) permit.Request {
	r := permit.Request{Kind: permit.Command, Tool: "commandExecution", Input: []byte(words), Exact: true, Command: words, Dir: dir, ToolUse: id}
	argv, ok := unquoted(words)
	r.Exact = ok // otherwise nobody knows of which words it is
	if len(argv) == 3 && codexShell(argv[0]) && argv[1] == "-lc" {
		r.Command = argv[2]
	}
	return r
}

// codexShell reports whether the program is a shell of the system. A model can name another, such as one of the repository.
func codexShell(program string) bool {
	return slices.Contains([]string{"/bin", "/usr/bin", "/usr/local/bin", "/opt/homebrew/bin"}, path.Dir(program)) && slices.Contains([]string{"bash", "sh", "zsh"}, path.Base(program))
}

// unquoted splits a line into the words that a shell would make of it. ok is false if a shell would do more to the line than
// take the quotes off.
func unquoted(line string) (words []string, ok bool) {
	const plain = "@%+=:,./-_"
	var word strings.Builder
	open := false // a word has begun
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case c == ' ':
			if open {
				words, open = append(words, word.String()), false
				word.Reset()
			}
			continue
		case c == '\'':
			end := strings.IndexByte(line[i+1:], '\'')
			if end < 0 {
				return nil, false
			}
			word.WriteString(line[i+1 : i+1+end])
			i += 1 + end
		case c == '"':
			for i++; ; i++ {
				if i >= len(line) || line[i] == '$' || line[i] == '`' || line[i] == '!' {
					return nil, false
				}
				if line[i] == '"' {
					break
				}
				if line[i] == '\\' {
					if i++; i >= len(line) || !strings.ContainsRune("$`\"\\", rune(line[i])) {
						return nil, false
					}
				}
				word.WriteByte(line[i])
			}
		case c >= '0' && c <= '9', c >= 'A' && c <= 'Z', c >= 'a' && c <= 'z', strings.IndexByte(plain, c) >= 0, c >= 0x80:
			word.WriteByte(c)
		default:
			return nil, false
		}
		open = true
	}
	if open {
		words = append(words, word.String())
	}
	return words, len(words) > 0
}

// codexPaths returns the files of a change, also those to which files are moved; none if they cannot be read.
func codexPaths(changes json.RawMessage) (paths []string) {
	type kind struct {
		Type string `json:"type"`
		Move string `json:"move_path"`
	}
	var list []struct {
		Path string `json:"path"`
		Kind kind   `json:"kind"`
	}
	if json.Unmarshal(changes, &list) != nil {
		return nil
	}
	for _, c := range list {
		if c.Path == "" || !slices.Contains([]string{"add", "delete", "update"}, c.Kind.Type) {
			return nil
		}
		paths = append(paths, c.Path)
		if c.Kind.Move != "" {
			paths = append(paths, c.Kind.Move)
		}
	}
	return paths
}

// codexLeaves reports whether the arguments of a command's tool ask to leave the CLI's own sandbox, or could.
func codexLeaves(arguments string) bool {
	var in map[string]json.RawMessage
	if json.Unmarshal([]byte(arguments), &in) != nil {
		return true
	}
	for key, value := range in {
		switch strings.ToLower(key) {
		case "sandbox_permissions":
			if s := string(value); s != `"use_default"` && s != "null" {
				return true
			}
		case "additional_permissions", "with_escalated_permissions", "environment_id":
			if s := string(value); s != "null" && s != "false" {
				return true
			}
		}
	}
	return false
}

// codexHints reports whether a script of the CLI's code mode speaks of leaving the sandbox. A script can hide that it does.
func codexHints(script string) bool {
	script = strings.ToLower(script)
	return strings.Contains(script, "sandbox_permissions") || strings.Contains(script, "escalated") || strings.Contains(script, "additional_permissions")
}
