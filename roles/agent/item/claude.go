package item

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// claude reads an event of Claude Code. It reports whether the line is one.
func (r *Reader) claude(e event) bool {
	switch e.str("type") {
	case "system":
		return e.has("subtype") && r.claudeSystem(e)
	case "assistant":
		return (e.has("session_id") || e.has("message.model")) && r.claudeAssistant(e)
	case "user":
		return e.has("session_id") && r.claudeResults(e)
	case "rate_limit_event":
		return e.has("rate_limit_info.status") && r.claudeLimit(e)
	case "result":
		return (e.has("is_error") || e.has("subtype")) && r.claudeEnd(e)
	case "control_request", "control_response", "control_cancel_request": // whether a tool may be used: its call says which
		return r.skip()
	case "stream_event": // a piece of a message that follows as a whole
		return e.has("session_id") && r.skip()
	}
	return false
}

func (r *Reader) claudeSystem(e event) bool {
	it := Item{Kind: Note, At: e.clock("timestamp")}
	switch e.str("subtype") {
	case "init":
		it.Text = "session begins" + with(", model ", e.str("model"))
	case "api_retry":
		n, _ := e.number("attempt")
		of, _ := e.number("max_retries")
		it.Failed = true
		it.Text = fmt.Sprintf("API error: %s, retry %.0f of %.0f in %s", strings.TrimSpace(e.str("error")+" "+raw(e, "error_status")), n, of, e.millis("retry_delay_ms").Round(time.Second))
	case "permission_denied":
		it.Failed, it.Text = true, "a tool call was denied by the permissions"+with(": ", e.str("tool_name"))
	default:
		return r.skip()
	}
	r.emit(it)
	return true
}

// raw returns a number as the line has it.
func raw(e event, path string) string {
	if v, ok := e.Last(want(path)); ok && v.Type == 'n' {
		return string(v.Raw)
	}
	return ""
}

func with(before, s string) string {
	if s == "" {
		return ""
	}
	return before + s
}

func (r *Reader) claudeAssistant(e event) bool {
	at, sub := e.clock("timestamp"), e.has("parent_tool_use_id")
	own := e.str("message.model") == "<synthetic>" || e.has("error") // the CLI's own message, such as an error
	texts, thoughts, names := want("message.content.*.text"), want("message.content.*.thinking"), want("message.content.*.name")
	for _, v := range e.Values {
		switch {
		case v.Type != 's':
		case v.Want == texts && own:
			r.emit(Item{Kind: Note, At: at, Sub: sub, Failed: true, Text: valueOf(v).text})
		case v.Want == texts:
			r.emit(Item{Kind: Said, At: at, Sub: sub, Text: valueOf(v).text})
		case v.Want == thoughts:
			r.emit(Item{Kind: Thought, At: at, Sub: sub, Text: valueOf(v).text})
		case v.Want == names:
			what := subject(e.in("message.content.*.input.*", v.Keys[0]), lastKey)
			r.called(e.of("message.content.*.id", v.Keys[0]), Item{At: at, Sub: sub, Tool: valueOf(v).text, Text: what})
		}
	}
	return true
}

func (r *Reader) claudeResults(e event) bool {
	at, sub, any := e.clock("timestamp"), e.has("parent_tool_use_id"), false
	for v := range e.All(want("message.content.*.tool_use_id")) {
		if v.Type != 's' {
			continue
		}
		it, block := Item{At: at, Sub: sub}, v.Keys[0]
		for b := range e.in("message.content.*.is_error", block) {
			it.Failed = string(b.Raw) == "true"
		}
		parts := func(path string) {
			for v := range e.in(path, block) {
				if v.Type == 's' {
					it.output(valueOf(v))
				}
			}
		}
		parts("message.content.*.content")
		parts("message.content.*.content.*.text")
		r.came(valueOf(v).text, it)
		any = true
	}
	return any || r.skip() // otherwise it is a prompt
}

func (r *Reader) claudeLimit(e event) bool {
	if e.str("rate_limit_info.status") != "rejected" || e.is("rate_limit_info.isUsingOverage") {
		return r.skip()
	}
	it := Item{Kind: Note, Failed: true, Text: "limit reached" + with(": ", e.str("rate_limit_info.rateLimitType"))}
	if s, err := strconv.ParseInt(raw(e, "rate_limit_info.resetsAt"), 10, 40); err == nil && s > 0 {
		it.Text += ", until " + time.Unix(s, 0).UTC().Format(time.RFC3339)
	}
	r.emit(it)
	return true
}

func (r *Reader) claudeEnd(e event) bool {
	it := Item{At: e.clock("timestamp"), Took: e.millis("duration_ms"), Failed: e.is("is_error")}
	it.Tokens = e.sum("usage.input_tokens", "usage.output_tokens", "usage.cache_creation_input_tokens", "usage.cache_read_input_tokens")
	if cost, ok := e.number("total_cost_usd"); ok {
		it.CostUSD = &cost
	}
	kind := e.str("subtype")
	it.Failed = it.Failed || kind != "" && kind != "success"
	switch result := e.str("result"); {
	case it.Failed:
		it.Text = cmp.Or(result, joined(e, "errors.*"), kind)
	case !r.spoke: // the output format "json" has nothing else
		r.emit(Item{Kind: Said, At: it.At, Text: result})
	}
	r.ended(it)
	return true
}

// joined returns the strings at a path, with commas between them.
func joined(e event, path string) string {
	var all []string
	for v := range e.All(want(path)) {
		if v.Type == 's' {
			all = append(all, valueOf(v).text)
		}
	}
	return strings.Join(all, ", ")
}
