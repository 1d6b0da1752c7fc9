package mockapi

import (
	"cmp"
	"encoding/json"
	"errors"
	"strings"
)

type anthropic struct{}

func (anthropic) parse(c *Call, r node) error {
	messages := r.at("messages").list()
	if c.Model == "" || len(messages) == 0 {
		return errors.New("model and messages are required")
	}
	c.schema = r.at("output_config", "format", "schema")
	var user node
	_ = json.Unmarshal([]byte(r.at("metadata", "user_id").str()), &user.v) // other clients send other texts
	c.Session = cmp.Or(c.Header.Get("X-Claude-Code-Session-Id"), user.at("session_id").str())
	for _, t := range r.at("tools").list() {
		o := offer{name: t.at("name").str(), kind: takesJSON, schema: t.at("input_schema")}
		if kind := t.at("type").str(); kind != "" && kind != "custom" {
			o.kind = provider
		}
		c.offered = append(c.offered, o)
	}
	for _, m := range messages {
		switch m.at("role").str() {
		case "assistant":
			c.HasToolResult = false
		case "user":
			c.user(m.at("content"))
		}
	}
	return nil
}

// user reads one message of the user. The parser calls it for every message, and the last text counts.
func (c *Call) user(content node) {
	blocks := content.list()
	if text := content.str(); text != "" {
		blocks = []node{{object{"type": "text", "text": text}}}
	}
	for _, b := range blocks {
		switch text := b.at("text").str(); b.at("type").str() {
		case "text":
			// The CLI adds its own reminders to the user's text.
			if !strings.HasPrefix(strings.TrimSpace(text), "<system-reminder>") {
				c.Prompt = text
			}
		case "tool_result":
			c.HasToolResult, c.LastToolOutput = true, b.at("content").text()
		}
	}
}

func anthropicUsage(u Usage, output int64) object {
	return object{"input_tokens": u.Input, "cache_creation_input_tokens": u.CacheWrite, "cache_read_input_tokens": u.CacheRead,
		"cache_creation": object{"ephemeral_5m_input_tokens": u.CacheWrite, "ephemeral_1h_input_tokens": 0},
		"output_tokens":  output, "service_tier": "standard"}
}

func (anthropic) items(a answer) (list []item) {
	deltas := func(kind, field, text string, limit int) (list []object) {
		for _, p := range pieces(text, limit) {
			list = append(list, object{"type": kind, field: p})
		}
		return list
	}
	if a.Thinking != "" {
		signature := object{"type": "signature_delta", "signature": "bW9jaw=="}
		list = append(list, item{object{"type": "thinking", "thinking": a.Thinking, "signature": "bW9jaw=="},
			append(deltas("thinking_delta", "thinking", a.Thinking, 8), signature)})
	}
	if a.Text != "" || len(a.calls) == 0 {
		list = append(list, item{object{"type": "text", "text": a.Text}, deltas("text_delta", "text", a.Text, 16)})
	}
	for _, c := range a.calls {
		first := object{"type": "input_json_delta", "partial_json": ""}
		list = append(list, item{object{"type": "tool_use", "id": "toolu_" + c.id, "name": c.name, "input": json.RawMessage(c.input)},
			append([]object{first}, deltas("input_json_delta", "partial_json", c.input, 8)...)})
	}
	return list
}

func (d anthropic) message(a answer) object {
	return object{"id": "msg_" + a.id, "type": "message", "role": "assistant", "model": a.Model, "content": []object{},
		"stop_reason": nil, "stop_sequence": nil, "usage": anthropicUsage(a.told, min(1, a.told.Output))}
}

func (d anthropic) whole(a answer) object {
	m := d.message(a)
	m["content"], m["stop_reason"] = finished(d.items(a)), a.stop("tool_use", "end_turn")
	m["usage"] = anthropicUsage(a.told, a.told.Output)
	return m
}

func (d anthropic) stream(a answer) [][]byte {
	var list [][]byte
	add := func(kind string, fields object) { list = append(list, sse(kind, fields)) }
	add("message_start", object{"message": d.message(a)})
	add("ping", object{})
	for i, it := range d.items(a) {
		if a.InStream && a.Text+a.Thinking == "" {
			break
		}
		add("content_block_start", object{"index": i, "content_block": it.begun(object{"thinking": "", "signature": "", "text": "", "input": object{}})})
		for _, delta := range it.inside {
			add("content_block_delta", object{"index": i, "delta": delta})
		}
		add("content_block_stop", object{"index": i})
	}
	if a.InStream {
		add("error", object{"error": a.errorBody()["error"]})
		return list
	}
	u := anthropicUsage(a.told, a.told.Output)
	delete(u, "cache_creation")
	delete(u, "service_tier")
	add("message_delta", object{"delta": object{"stop_reason": a.stop("tool_use", "end_turn"), "stop_sequence": nil}, "usage": u})
	add("message_stop", object{})
	return list
}

func (anthropic) failure(_ int, kind, message string, a answer) object {
	return object{"type": "error", "error": object{"type": kind, "message": message}, "request_id": "req_" + a.id}
}
