package item

import (
	"bytes"
	"cmp"
)

// opencodeLog reports whether a line of opencode's log only says that all goes well. superloop switches this log on.
func opencodeLog(line []byte) bool {
	return bytes.HasPrefix(line, []byte("timestamp=")) && bytes.Contains(line[:min(len(line), 80)], []byte(" level=INFO run="))
}

// opencode reads an event of opencode. It reports whether the line is one.
func (r *Reader) opencode(e event) bool {
	if e.str("sessionID") == "" {
		return false
	}
	at := e.clock("timestamp")
	switch e.str("type") {
	case "text":
		if e.is("part.synthetic") {
			return r.skip()
		}
		r.emit(Item{Kind: Said, At: at, Text: e.str("part.text")})
	case "reasoning":
		r.emit(Item{Kind: Thought, At: at, Text: e.str("part.text")})
	case "tool_use":
		r.opencodeTool(e)
	case "step_finish":
		r.opencodeStep(e)
	case "error":
		r.emit(Item{Kind: Note, At: at, Failed: true, Text: cmp.Or(e.str("error.data.message"), e.str("error.name"), "error")})
	default:
		return r.skip()
	}
	return true
}

// opencodeTool reports a call together with its result, because opencode tells a call only when it has ended.
func (r *Reader) opencodeTool(e event) {
	from, to := e.clock("part.state.time.start"), e.clock("part.state.time.end")
	id := cmp.Or(e.str("part.callID"), e.str("part.id"))
	what := subject(e.All(want("part.state.input.*")), lastKey)
	r.called(id, Item{At: from, Tool: e.str("part.tool"), Text: cmp.Or(what, e.str("part.state.title"))})
	it := Item{At: to, Failed: e.str("part.state.status") == "error"}
	if v, ok := e.text("part.state.output"); ok {
		it.output(v)
	}
	if it.Failed {
		it.Text = cmp.Or(firstLine(e.str("part.state.error")), it.Text)
	}
	r.came(id, it)
}

// opencodeStep adds up the steps of a turn and reports its end after the last one.
func (r *Reader) opencodeStep(e event) {
	used := e.sum("part.tokens.input", "part.tokens.output", "part.tokens.reasoning", "part.tokens.cache.read", "part.tokens.cache.write")
	if used != nil && r.count <= 1<<53 {
		r.count += *used
		r.steps = true
	}
	cost, ok := e.number("part.cost")
	r.cost += cost
	reason := e.str("part.reason")
	if reason == "tool-calls" || reason == "unknown" {
		r.skip()
		return
	}
	it := Item{At: e.clock("timestamp")}
	if r.steps {
		n := r.count
		it.Tokens = &n
	}
	if total := r.cost; ok && total > 0 { // opencode reports 0 for a model without a price
		it.CostUSD = &total
	}
	it.Failed = reason != "stop" && reason != "end_turn"
	if it.Failed {
		it.Text = cmp.Or(reason, "no reason given")
	}
	r.ended(it)
}
