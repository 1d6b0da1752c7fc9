package item

import (
	"cmp"
	"strings"
)

// served reads a message of `codex app-server`. It reports whether the line is one: a notice or a request has a method, an
// answer the id of superloop's own request.
func (r *Reader) served(e event) bool {
	method, at := e.str("method"), e.clock("emittedAtMs")
	sub := e.has("params.threadId") && r.thread != "" && e.str("params.threadId") != r.thread
	switch method {
	case "":
		return r.replied(e)
	case "thread/tokenUsage/updated":
		if !sub {
			r.tokens = e.sum("params.tokenUsage.total.inputTokens", "params.tokenUsage.total.outputTokens")
		}
	case "turn/completed":
		if !sub {
			it := Item{At: at, Tokens: r.tokens, Took: e.millis("params.turn.durationMs")}
			if status := e.str("params.turn.status"); status != "completed" {
				it.Failed, it.Text = true, cmp.Or(e.str("params.turn.error.message"), "the turn is "+status)
			}
			r.ended(it)
			return true
		}
	case "error":
		said := e.str("params.error.message")
		if why := e.str("params.error.additionalDetails"); why != "" {
			said += " (" + why + ")"
		}
		r.emit(Item{Kind: Note, At: at, Sub: sub, Failed: true, Text: said})
		return true
	case "item/started", "item/completed":
		return r.servedItem(e, method == "item/completed", Item{At: at, Sub: sub})
	default:
		if !strings.Contains(method, "/") && !e.has("params.threadId") && at.IsZero() {
			return false
		}
	}
	return r.skip()
}

func (r *Reader) replied(e event) bool {
	switch {
	case e.has("result.thread.id"):
		r.thread = e.str("result.thread.id")
		r.emit(Item{Kind: Note, Text: strings.TrimSuffix("session begins, model "+e.str("result.model"), ", model ")})
	case e.has("id") && e.has("error.message"):
		r.emit(Item{Kind: Note, Failed: true, Text: e.str("error.message")})
	default:
		_, settings := e.Last(want("result.config.model")) // which is null mostly
		return (settings || e.has("result.turn.id") || e.has("result.turnId") || e.has("result.userAgent")) && r.skip()
	}
	return true
}

func (r *Reader) servedItem(e event, done bool, it Item) bool {
	id := e.str("params.item.id")
	switch kind := e.str("params.item.type"); {
	case kind == "agentMessage" && done:
		it.Kind, it.Text = Said, e.str("params.item.text")
		r.emit(it)
		return true
	case kind == "reasoning" && done:
		it.Kind, it.Text = Thought, joined(e, "params.item.summary.*")
		r.emit(it)
		return true
	case kind == "commandExecution":
		it.Tool, it.Text = "shell", unwrapped(e.str("params.item.command"))
	case kind == "fileChange":
		it.Tool, it.Text = "change", joined(e, "params.item.changes.*.path")
	case kind == "mcpToolCall", kind == "collabAgentToolCall":
		it.Tool, it.Text = cmp.Or(e.str("params.item.tool"), kind), e.str("params.item.server")
	case kind == "webSearch":
		it.Tool, it.Text = "search", e.str("params.item.query")
	default:
		return r.skip()
	}
	if _, begun := r.calls[id]; !begun || !done {
		r.called(id, it)
	}
	if !done {
		return true
	}
	res, status := Item{At: it.At, Sub: it.Sub, Took: e.millis("params.item.durationMs")}, e.str("params.item.status")
	code, coded := e.number("params.item.exitCode")
	res.Failed = status == "failed" || status == "declined" || coded && code != 0
	if v, ok := e.text("params.item.aggregatedOutput"); ok {
		res.output(v)
	}
	switch {
	case status == "declined":
		res.Text = cmp.Or(res.Text, "declined")
	case res.Failed:
		res.Text = cmp.Or(res.Text, e.str("params.item.error.message"))
		if coded {
			res.Text = strings.TrimSuffix("exit code "+raw(e, "params.item.exitCode")+": "+res.Text, ": ")
		}
	}
	r.came(id, res)
	return true
}
