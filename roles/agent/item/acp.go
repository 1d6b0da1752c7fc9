package item

import "cmp"

// acp reads a message of an agent of the Agent Client Protocol. It reports whether the line is one.
func (r *Reader) acp(e event) bool {
	if e.str("jsonrpc") == "" {
		return false
	}
	id := e.str("params.update.toolCallId")
	switch e.str("params.update.sessionUpdate") {
	case "agent_message_chunk":
		if said := e.str("params.update.content.text"); r.open.Len()+len(said) <= maxOpen {
			r.open.WriteString(said)
		}
		return true
	case "agent_thought_chunk":
		return r.skip()
	case "tool_call", "tool_call_update":
		if status := e.str("params.update.status"); status == "completed" || status == "failed" {
			it := Item{Failed: status == "failed"}
			for _, path := range []string{"params.update.rawOutput.output", "params.update.rawOutput.error", "params.update.content.*.content.text"} {
				if v, ok := e.text(path); ok {
					it.output(v)
					break
				}
			}
			r.came(id, it)
			return true
		}
		return r.acpCall(id, e, "params.update.")
	}
	switch {
	case e.str("method") == "session/request_permission":
		return r.acpCall(e.str("params.toolCall.toolCallId"), e, "params.toolCall.")
	case e.has("result.sessionId"):
		r.emit(Item{Kind: Note, Text: "session begins"})
	case e.has("error.message") && e.str("id") == "":
		r.emit(Item{Kind: Note, Failed: true, Text: e.str("error.message")})
	case e.has("result.stopReason"):
		it := Item{}
		if why := e.str("result.stopReason"); why != "end_turn" {
			it.Failed, it.Text = true, why
		}
		r.ended(it)
	default:
		return r.skip()
	}
	return true
}

// acpCall reports a use of a tool when it has a command or a title, once.
func (r *Reader) acpCall(id string, e event, at string) bool {
	_, known := r.calls[id]
	pending := at == "params.update." && e.str(at+"status") == "pending" // its title is the name of the tool
	if known || pending || id == "" {
		return r.skip()
	}
	r.called(id, Item{Tool: e.str(at + "kind"), Text: cmp.Or(e.str(at+"rawInput.command"), e.str(at+"rawInput.filePath"), e.str(at+"title"))})
	return true
}
