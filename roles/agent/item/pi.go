package item

import (
	"bytes"
	"cmp"
	"encoding/json"
	"strings"
	"time"
)

// pi reads an event of pi. It reports whether the line is one. The result of a tool comes as an event and as a message; a
// message grows by events that repeat all of it, and comes once more when it is whole.
func (r *Reader) pi(e event) bool {
	switch e.str("type") {
	case "session":
		if e.str("id") == "" {
			return false
		}
		r.emit(Item{Kind: Note, At: e.clock("timestamp"), Text: "session begins"})
	case "message_end":
		if e.str("message.role") != "assistant" {
			return r.skip()
		}
		r.piMessage(e)
	case "tool_execution_start":
		r.called(e.str("toolCallId"), Item{Tool: e.str("toolName"), Text: subject(e.All(want("args.*")), lastKey)})
	case "tool_execution_end":
		it := Item{Failed: e.is("isError")}
		for v := range e.All(want("result.content.*.text")) {
			it.output(valueOf(v))
		}
		r.came(e.str("toolCallId"), it)
	case "auto_retry_start":
		r.emit(Item{Kind: Note, Text: "tries again in " + e.millis("delayMs").Round(time.Millisecond).String()})
	case "compaction_start":
		r.emit(Item{Kind: Note, Text: "shortens the conversation" + with(", because of ", e.str("reason"))})
	case "agent_end":
		it := Item{Text: r.failure, Failed: r.failure != ""}
		if r.steps {
			n := r.count
			it.Tokens = &n
		}
		if total := r.cost; total > 0 { // pi reports 0 for a model without a price
			it.CostUSD = &total
		}
		r.failure = ""
		r.ended(it)
	case "agent_start", "turn_start", "turn_end", "message_start", "message_update", "tool_execution_update", "auto_retry_end", "compaction_end", "queue_update":
		return r.skip()
	default:
		return false
	}
	return true
}

// piMessage reports what the agent thinks and says in a message, and adds up what the messages of a turn cost.
func (r *Reader) piMessage(e event) {
	at := e.clock("message.timestamp")
	for v := range e.All(want("message.content.*.thinking")) {
		r.emit(Item{Kind: Thought, At: at, Text: valueOf(v).text})
	}
	for v := range e.All(want("message.content.*.text")) {
		r.emit(Item{Kind: Said, At: at, Text: valueOf(v).text})
	}
	r.failure = ""
	if reason := e.str("message.stopReason"); reason == "error" || reason == "aborted" {
		r.failure = cmp.Or(piSaid(e.str("message.errorMessage")), reason)
	}
	if used := e.sum("message.usage.totalTokens"); used != nil && r.count <= 1<<53 {
		r.count += *used
		r.steps = r.steps || *used > 0
	}
	cost, _ := e.number("message.usage.cost.total")
	r.cost += cost
}

// piSaid returns what pi says of a failure, with the provider's message in the place of its object.
func piSaid(failure string) string {
	var body struct{ Error struct{ Message string } }
	status, object, ok := strings.Cut(failure, "{")
	if !ok || json.Unmarshal([]byte("{"+object), &body) != nil || body.Error.Message == "" {
		return failure
	}
	return status + body.Error.Message
}

// piLog reports whether a line of the logs that superloop switches on for pi only says that all goes well.
func piLog(line []byte) bool {
	return bytes.HasPrefix(line, []byte("[log_")) && bytes.Contains(line, []byte(" succeeded with status 200 "))
}
