package item

import (
	"cmp"
	"strings"
)

// codex reads an event of `codex exec --json`. It reports whether the line is one.
func (r *Reader) codex(e event) bool {
	kind := e.str("type")
	switch kind {
	case "thread.started":
		if !e.has("thread_id") {
			return false
		}
		r.emit(Item{Kind: Note, Text: "session begins"})
	case "turn.completed":
		r.ended(Item{Tokens: e.sum("usage.input_tokens", "usage.output_tokens")})
	case "turn.failed":
		r.ended(Item{Failed: true, Text: cmp.Or(e.str("error.message"), "the turn failed")})
	case "item.started", "item.updated", "item.completed":
		return e.has("item.type") && r.codexItem(e, kind)
	case "error":
		if !e.has("message") {
			return false
		}
		r.emit(Item{Kind: Note, Failed: true, Text: e.str("message")})
	default:
		if strings.HasPrefix(kind, "turn.") || strings.HasPrefix(kind, "thread.") || strings.HasPrefix(kind, "item.") {
			return r.skip()
		}
		return false
	}
	return true
}

func (r *Reader) codexItem(e event, kind string) bool {
	done, id := kind == "item.completed", e.str("item.id")
	switch it := e.str("item.type"); {
	case !done && kind != "item.started":
		return r.skip()
	case it == "agent_message" && done:
		r.emit(Item{Kind: Said, Text: e.str("item.text")})
	case it == "reasoning" && done:
		r.emit(Item{Kind: Thought, Text: e.str("item.text")})
	case it == "error" && done: // a warning of the CLI
		r.emit(Item{Kind: Note, Failed: true, Text: e.str("item.message")})
	case it == "command_execution":
		r.codexTool(e, done, id, Item{Tool: "shell", Text: unwrapped(e.str("item.command"))})
	case it == "file_change":
		r.codexTool(e, done, id, Item{Tool: "change", Text: joined(e, "item.changes.*.path")})
	case it == "mcp_tool_call", it == "collab_tool_call":
		r.codexTool(e, done, id, Item{Tool: cmp.Or(e.str("item.tool"), it), Text: e.str("item.server")})
	case it == "web_search":
		r.codexTool(e, done, id, Item{Tool: "search", Text: e.str("item.query")})
	default:
		return r.skip()
	}
	return true
}

// codexTool reports the call when it begins, and its result when it ends. Some calls are only told when they have ended.
func (r *Reader) codexTool(e event, done bool, id string, it Item) {
	if _, begun := r.calls[id]; !begun || !done {
		r.called(id, it)
	}
	if !done {
		return
	}
	status, res := e.str("item.status"), Item{}
	code, coded := e.number("item.exit_code")
	res.Failed = status == "failed" || status == "declined" || coded && code != 0
	if v, ok := e.text("item.aggregated_output"); ok {
		res.output(v)
	}
	switch {
	case status == "declined":
		res.Text = cmp.Or(res.Text, "declined")
	case res.Failed:
		res.Text = strings.TrimSuffix("exit code "+raw(e, "item.exit_code")+": "+cmp.Or(res.Text, e.str("item.error.message")), ": ")
		res.Text = strings.TrimPrefix(res.Text, "exit code : ")
	}
	r.came(id, res)
}

// unwrapped returns the command inside of bash -lc '...', which codex puts around every command.
func unwrapped(command string) string {
	for _, shell := range []string{"/bin/bash -lc ", "bash -lc "} {
		inner, ok := strings.CutPrefix(command, shell)
		if !ok || len(inner) < 2 || inner[0] != inner[len(inner)-1] || inner[0] != '\'' {
			continue
		}
		if inner = inner[1 : len(inner)-1]; !strings.Contains(inner, "'") {
			return inner
		}
	}
	return command
}
