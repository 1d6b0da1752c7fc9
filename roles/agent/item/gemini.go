package item

import "cmp"

// geminiMarks are, by type of event, the field that shows that the event is gemini's.
var geminiMarks = map[string]string{
	"init": "session_id", "message": "role", "tool_use": "tool_name", "tool_result": "tool_id", "error": "severity", "result": "status",
}

// gemini reads an event of gemini. It reports whether the line is one.
func (r *Reader) gemini(e event) bool {
	kind := e.str("type")
	if mark := geminiMarks[kind]; mark == "" || e.str(mark) == "" {
		return false
	}
	at := e.clock("timestamp")
	switch kind {
	case "init":
		r.emit(Item{Kind: Note, At: at, Text: "session begins" + with(", model ", e.str("model"))})
	case "message":
		if e.str("role") != "assistant" {
			return r.skip() // the prompt
		}
		r.piece(e)
	case "tool_use":
		r.called(e.str("tool_id"), Item{At: at, Tool: e.str("tool_name"), Text: subject(e.All(want("parameters.*")), lastKey)})
	case "tool_result":
		it := Item{At: at, Failed: e.str("status") == "error"}
		if v, ok := e.text("output"); ok {
			it.output(v)
		}
		if it.Failed {
			it.Text = cmp.Or(it.Text, firstLine(e.str("error.message")))
		}
		r.came(e.str("tool_id"), it)
	case "error":
		r.emit(Item{Kind: Note, At: at, Failed: true, Text: e.str("message")})
	case "result":
		it := Item{At: at, Took: e.millis("stats.duration_ms"), Failed: e.str("status") != "success", Tokens: e.sum("stats.total_tokens")}
		if it.Failed {
			it.Text = cmp.Or(e.str("error.message"), e.str("error.type"), e.str("status"))
		}
		r.ended(it)
	}
	return true
}

// piece adds to the message that is under way. A piece without "delta" is a whole message.
func (r *Reader) piece(e event) {
	if !e.is("delta") {
		r.emit(Item{Kind: Said, At: e.clock("timestamp"), Text: e.str("content")})
		return
	}
	if r.open.Len() == 0 {
		r.at = e.clock("timestamp")
	}
	if said := e.str("content"); r.open.Len()+len(said) <= maxOpen {
		r.open.WriteString(said)
	}
}
