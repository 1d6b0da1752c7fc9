package mockapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// anthropic is the Messages API.
type anthropic struct{}

type anthropicRequest struct {
	Model    string `json:"model"`
	Stream   bool   `json:"stream"`
	Messages []struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"` // text, or blocks
	} `json:"messages"`
	Tools []struct {
		Type        string          `json:"type"`
		Name        string          `json:"name"`
		InputSchema json.RawMessage `json:"input_schema"`
	} `json:"tools"`
	Metadata struct {
		UserID string `json:"user_id"`
	} `json:"metadata"`
	Output struct {
		Format struct {
			Schema json.RawMessage `json:"schema"`
		} `json:"format"`
	} `json:"output_config"`
}

type anthropicBlock struct {
	Type    string          `json:"type"`
	Text    string          `json:"text"`
	Content json.RawMessage `json:"content"` // of a tool result: text, or blocks
	IsError bool            `json:"is_error"`
}

func (anthropic) parse(c *Call) error {
	var r anthropicRequest
	if err := json.Unmarshal(c.Body, &r); err != nil {
		return fmt.Errorf("the body is not a request of the Messages API: %w", err)
	}
	if r.Model == "" || len(r.Messages) == 0 {
		return fmt.Errorf("model and messages are required")
	}
	c.Model, c.Stream, c.Schema = r.Model, r.Stream, r.Output.Format.Schema
	c.Session = c.Header.Get("X-Claude-Code-Session-Id")
	if c.Session == "" {
		var user struct {
			Session string `json:"session_id"`
		}
		_ = json.Unmarshal([]byte(r.Metadata.UserID), &user) // other clients put anything there
		c.Session = user.Session
	}
	for _, t := range r.Tools {
		o := offer{name: t.Name, kind: takesJSON, schema: lenientSchema(t.InputSchema)}
		if t.Type != "" && t.Type != "custom" {
			o.kind = provider
		}
		c.offered = append(c.offered, o)
	}
	for _, m := range r.Messages {
		switch m.Role {
		case "assistant":
			c.HasToolResult, c.ToolFailed = false, false
		case "user":
			c.user(anthropicBlocks(m.Content))
		}
	}
	return nil
}

// user reads one message of the user; the last one counts.
func (c *Call) user(blocks []anthropicBlock) {
	for _, b := range blocks {
		switch b.Type {
		case "text":
			// What the CLI itself adds to the user's words.
			if !strings.HasPrefix(strings.TrimSpace(b.Text), "<system-reminder>") {
				c.Prompt = b.Text
			}
		case "tool_result":
			c.HasToolResult, c.ToolFailed = true, b.IsError
			var texts []string
			for _, part := range anthropicBlocks(b.Content) {
				texts = append(texts, part.Text)
			}
			c.LastToolOutput = strings.Join(texts, "\n")
		}
	}
}

// anthropicBlocks reads content, which is a text or a list of blocks.
func anthropicBlocks(raw json.RawMessage) []anthropicBlock {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return []anthropicBlock{{Type: "text", Text: text}}
	}
	var blocks []anthropicBlock
	_ = json.Unmarshal(raw, &blocks) // anything else says nothing
	return blocks
}

type object = map[string]any

func anthropicUsage(u Usage, output int64) object {
	return object{"input_tokens": u.Input, "cache_creation_input_tokens": u.CacheWrite, "cache_read_input_tokens": u.CacheRead,
		"cache_creation": object{"ephemeral_5m_input_tokens": u.CacheWrite, "ephemeral_1h_input_tokens": 0},
		"output_tokens":  output, "service_tier": "standard"}
}

// content are the finished blocks of the message.
func (anthropic) content(a answer) []object {
	blocks := []object{}
	if a.Thinking != "" {
		blocks = append(blocks, object{"type": "thinking", "thinking": a.Thinking, "signature": "bW9jaw=="})
	}
	if a.Text != "" || len(a.calls) == 0 {
		blocks = append(blocks, object{"type": "text", "text": a.Text})
	}
	for _, c := range a.calls {
		blocks = append(blocks, object{"type": "tool_use", "id": "toolu_" + c.id, "name": c.name, "input": json.RawMessage(c.input)})
	}
	return blocks
}

func (a answer) stop(calls, end string) string {
	switch {
	case a.StopReason != "":
		return a.StopReason
	case len(a.calls) > 0:
		return calls
	}
	return end
}

func (d anthropic) message(a answer) object {
	return object{"id": "msg_" + a.id, "type": "message", "role": "assistant", "model": a.Model, "content": []object{},
		"stop_reason": nil, "stop_sequence": nil, "usage": anthropicUsage(a.told, min(1, a.told.Output))}
}

func (d anthropic) whole(a answer) any {
	m := d.message(a)
	m["content"], m["stop_reason"] = d.content(a), a.stop("tool_use", "end_turn")
	m["usage"] = anthropicUsage(a.told, a.told.Output)
	return m
}

func (d anthropic) stream(a answer) []frame {
	var list []frame
	begun := a.told
	begun.Output = min(1, begun.Output)
	add := func(kind string, fields object) {
		fields["type"] = kind
		list = append(list, frame{data: []byte("event: " + kind + "\ndata: " + inJSON(fields) + "\n\n"), partial: begun})
	}
	add("message_start", object{"message": d.message(a)})
	add("ping", object{})
	for i, block := range d.content(a) {
		if a.InStream && a.Text+a.Thinking == "" {
			break
		}
		d.block(i, block, add)
	}
	if a.InStream {
		add("error", d.errorFields(a.errorBody(d).(object)))
		return list
	}
	u := anthropicUsage(a.told, a.told.Output)
	delete(u, "cache_creation")
	delete(u, "service_tier")
	add("message_delta", object{"delta": object{"stop_reason": a.stop("tool_use", "end_turn"), "stop_sequence": nil}, "usage": u})
	add("message_stop", object{})
	return list
}

// block streams one content block: its start, its pieces, its stop.
func (anthropic) block(i int, block object, add func(string, object)) {
	start := object{"type": block["type"]}
	var deltas []object
	switch block["type"] {
	case "thinking":
		start["thinking"], start["signature"] = "", ""
		for _, p := range pieces(block["thinking"].(string), 8) {
			deltas = append(deltas, object{"type": "thinking_delta", "thinking": p})
		}
		deltas = append(deltas, object{"type": "signature_delta", "signature": block["signature"]})
	case "text":
		start["text"] = ""
		for _, p := range pieces(block["text"].(string), 16) {
			deltas = append(deltas, object{"type": "text_delta", "text": p})
		}
	case "tool_use":
		start["id"], start["name"], start["input"] = block["id"], block["name"], object{}
		for _, p := range append([]string{""}, pieces(string(block["input"].(json.RawMessage)), 8)...) {
			deltas = append(deltas, object{"type": "input_json_delta", "partial_json": p})
		}
	}
	add("content_block_start", object{"index": i, "content_block": start})
	for _, delta := range deltas {
		add("content_block_delta", object{"index": i, "delta": delta})
	}
	add("content_block_stop", object{"index": i})
}

func (anthropic) errorFields(body object) object { return object{"error": body["error"]} }

func (anthropic) failure(_ int, kind, message string, a answer) any {
	e := object{"type": kind, "message": message}
	for k, v := range a.ErrorFields {
		e[k] = v
	}
	return object{"type": "error", "error": e, "request_id": "req_" + a.id}
}

func (anthropic) usual(status int) (kind, message string) {
	switch status {
	case http.StatusUnauthorized:
		return "authentication_error", "invalid x-api-key"
	case http.StatusForbidden:
		return "permission_error", "Your API key does not have permission to use the specified resource."
	case http.StatusNotFound:
		return "not_found_error", "The requested resource was not found."
	case http.StatusRequestEntityTooLarge:
		return "request_too_large", "Request exceeds the maximum size"
	case http.StatusTooManyRequests:
		return "rate_limit_error", "This request would exceed your organization's rate limit."
	case 529:
		return "overloaded_error", "Overloaded"
	case http.StatusBadRequest:
		return "invalid_request_error", "The request is invalid."
	}
	if status >= 500 {
		return "api_error", "Internal server error"
	}
	return "invalid_request_error", http.StatusText(status)
}
