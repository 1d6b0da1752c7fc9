package agent

import "strings"

var codexServed = paths{
	64:               "id method params.item.type params.item.status params.turn.status params.tokenUsage.total.* params.willRetry",
	128:              "params.item.tool",
	256:              "params.threadId result.thread.id result.model params.item.changes.*.path params.item.query",
	512:              "params.item.command",
	2 * maxErrorText: "error.message params.error.message params.error.additionalDetails params.turn.error.message",
	finalText:        "params.item.text params.item.summary.*",
}.lazy()

// codexServedNames are the counters of `codex app-server`.
var codexServedNames = counterNames{"inputTokens", "outputTokens", "cachedInputTokens", "cacheWriteInputTokens", "reasoningOutputTokens"}

// codexItems are the names that `codex exec` has for items.
var codexItems = map[string]string{"agentMessage": "agent_message", "reasoning": "reasoning", "commandExecution": "command_execution", "fileChange": "file_change",
	"mcpToolCall": "mcp_tool_call", "collabAgentToolCall": "collab_tool_call", "webSearch": "web_search"}

// served reads the output of `codex app-server`, of which codexClient is the other reader. It tells the same as the events of
// `codex exec`, of sub-agents too, and the usage after each answer of the model.
func (s *codexStream) served(e event) bool {
	method, thread := e.str("method"), e.str("params.threadId")
	if method == "" {
		return s.replied(e)
	}
	if thread != "" && thread != s.session { // of a sub-agent
		return true
	}
	switch method {
	case "turn/started":
		s.began, s.completed, s.failed = true, false, false
	case "turn/completed":
		s.completed = e.str("params.turn.status") == "completed"
		s.failed = !s.completed
		if s.failed {
			s.failure = e.str("params.turn.error.message")
			s.say(s.failure)
		}
	case "thread/tokenUsage/updated":
		s.usage = disjoint(e.counters("params.tokenUsage.total.*", codexServedNames))
	case "error":
		s.error = e.str("params.error.message")
		s.attempt = codexAttempt(s.error)
		if why := e.str("params.error.additionalDetails"); why != "" && s.attempt > 0 {
			s.error += " (" + why + ")"
		}
		s.say(s.error)
	case "item/started", "item/completed":
		item := e.str("params.item.type")
		if item == "" || item == "userMessage" {
			break
		}
		s.works(method == "item/completed" && e.str("params.item.status") == "declined")
		if item == "reasoning" {
			s.say(e.str("params.item.summary.*"))
			break
		}
		s.shows(e, codexItems[item], "params.item.")
	}
	return true
}

// replied reads an answer to a request of superloop's.
func (s *codexStream) replied(e event) bool {
	if _, ok := e.last("id"); !ok {
		return false
	}
	if session := e.str("result.thread.id"); session != "" {
		s.session = session
	}
	if said := e.str("error.message"); said != "" && !s.began {
		s.failed, s.refused, s.failure = true, true, strings.TrimSpace(said)
		s.say(s.failure)
	}
	return true
}
