package mockapi

import (
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"strings"
	"time"
)

// openai is the dialect of OpenAI's Responses API.
type openai struct{}

func (openai) parse(c *Call, r node) error {
	input := r.at("input")
	if c.Model == "" || input.v == nil {
		return errors.New("model and input are required")
	}
	c.schema = r.at("text", "format", "schema")
	c.Session = cmp.Or(c.Header.Get("Session-Id"), c.Header.Get("Session_id"), r.at("prompt_cache_key").str(), r.at("session_id").str())
	c.offered = openaiOffers(r.at("tools"), "")
	switch input.v.(type) {
	case string:
		c.Prompt = input.str()
	case []any:
		for _, it := range input.list() {
			c.item(it)
		}
	default:
		return errors.New("input is neither a text nor a list of items")
	}
	return nil
}

// item reads one item of the input. The last text and the last tool result count.
func (c *Call) item(it node) {
	switch kind, role := it.at("type").str(), it.at("role").str(); {
	case kind == "additional_tools":
		// codex 0.169 offers the tools of its newer models in this item.
		c.offered = append(c.offered, openaiOffers(it.at("tools"), "")...)
	case strings.HasSuffix(kind, "_call_output"):
		c.HasToolResult, c.LastToolOutput = true, it.at("output").text()
	case role == "user":
		// The CLI's own additions come before the user's text.
		c.Prompt, c.HasToolResult = it.at("content").text(), false
	case role == "assistant", strings.HasSuffix(kind, "_call"):
		c.HasToolResult = false
	}
}

func openaiOffers(tools node, namespace string) (list []offer) {
	for _, t := range tools.list() {
		kind, name := t.at("type").str(), t.at("name").str()
		if kind == "namespace" {
			list = append(list, openaiOffers(t.at("tools"), name)...)
			continue
		}
		o := offer{name: cmp.Or(name, kind), namespace: namespace, schema: t.at("parameters"),
			kind: cmp.Or(map[string]offerKind{"function": takesJSON, "custom": takesText, "local_shell": localShell}[kind], provider)}
		list = append(list, o)
		if o.kind == takesText {
			list = append(list, nestedOffers(o, t.at("description").str())...)
		}
	}
	return list
}

func (openai) usage(u Usage) object {
	return object{"input_tokens": u.prompt(), "input_tokens_details": object{"cached_tokens": u.CacheRead, "cache_write_tokens": u.CacheWrite},
		"output_tokens": u.Output, "output_tokens_details": object{"reasoning_tokens": u.Reasoning}, "total_tokens": u.prompt() + u.Output}
}

func (openai) response(a answer, status string) object {
	return object{"id": "resp_" + a.id, "object": "response", "created_at": time.Now().Unix(), "status": status, "model": a.Model,
		"error": nil, "incomplete_details": nil, "output": []object{}, "parallel_tool_calls": true, "usage": nil}
}

// completed returns the response at the end of an answer.
func (d openai) completed(a answer, output []object) object {
	r := d.response(a, a.stop("completed", "completed"))
	if r["status"] == "incomplete" {
		r["incomplete_details"] = object{"reason": "max_output_tokens"}
	}
	r["output"], r["usage"] = output, d.usage(a.told)
	return r
}

func (d openai) whole(a answer) object {
	return d.completed(a, finished(d.items(a)))
}

func (d openai) stream(a answer) [][]byte {
	var list [][]byte
	add := func(kind string, fields object) {
		fields["sequence_number"] = len(list)
		list = append(list, sse(kind, fields))
	}
	add("response.created", object{"response": d.response(a, "in_progress")})
	add("response.in_progress", object{"response": d.response(a, "in_progress")})
	output := []object{}
	for i, it := range d.items(a) {
		if a.InStream && a.Text+a.Thinking == "" {
			break
		}
		open := it.begun(object{"content": []object{}, "summary": []object{}, "arguments": "", "input": ""})
		open["status"] = "in_progress"
		add("response.output_item.added", object{"output_index": i, "item": open})
		for _, ev := range it.inside {
			ev["output_index"], ev["item_id"] = i, it.fields["id"]
			add(ev["type"].(string), ev)
		}
		add("response.output_item.done", object{"output_index": i, "item": it.fields})
		output = append(output, it.fields)
	}
	if a.InStream {
		r := d.response(a, "failed")
		r["error"] = a.errorBody()["error"]
		add("response.failed", object{"response": r})
		return list
	}
	add("response."+a.stop("completed", "completed"), object{"response": d.completed(a, output)})
	return list
}

// items returns the output items: reasoning, message, calls.
func (d openai) items(a answer) []item {
	var list []item
	if a.Thinking != "" {
		part := object{"type": "summary_text", "text": a.Thinking}
		list = append(list, item{object{"type": "reasoning", "id": "rs_" + a.id, "summary": []object{part}, "encrypted_content": "bW9jaw=="},
			inside("response.reasoning_summary_part", "response.reasoning_summary_text", "summary_index", part, 8)})
	}
	if a.Text != "" || len(a.calls) == 0 {
		part := object{"type": "output_text", "text": a.Text, "annotations": []object{}}
		list = append(list, item{object{"type": "message", "id": "msg_" + a.id, "status": "completed", "role": "assistant", "content": []object{part}},
			inside("response.content_part", "response.output_text", "content_index", part, 16)})
	}
	for _, c := range a.calls {
		list = append(list, d.call(c))
	}
	return list
}

// inside returns the events that stream the single part of an item, with its text in pieces.
func inside(ofPart, ofText, index string, part object, limit int) []object {
	empty, text := maps.Clone(part), part["text"].(string)
	empty["text"] = ""
	list := []object{{"type": ofPart + ".added", index: 0, "part": empty}}
	for _, p := range pieces(text, limit) {
		list = append(list, object{"type": ofText + ".delta", index: 0, "delta": p})
	}
	return append(list, object{"type": ofText + ".done", index: 0, "text": text}, object{"type": ofPart + ".done", index: 0, "part": part})
}

func (openai) call(c toolCall) item {
	fields := object{"id": "fc_" + c.id, "call_id": c.id, "status": "completed", "name": c.name}
	if c.namespace != "" {
		fields["namespace"] = c.namespace
	}
	var inside []object
	stream := func(event, field string) {
		for _, p := range pieces(c.input, 8) {
			inside = append(inside, object{"type": event + ".delta", "delta": p})
		}
		inside = append(inside, object{"type": event + ".done", field: c.input})
		fields[field] = c.input
	}
	switch c.kind {
	case localShell:
		delete(fields, "name")
		fields["type"], fields["action"] = "local_shell_call", json.RawMessage(c.input)
	case takesText:
		fields["type"] = "custom_tool_call"
		stream("response.custom_tool_call_input", "input")
	default:
		fields["type"] = "function_call"
		stream("response.function_call_arguments", "arguments")
	}
	return item{fields, inside}
}

func (openai) failure(_ int, kind, message string, _ answer) object {
	e := object{"message": message, "type": kind, "param": nil, "code": kind}
	if kind == "invalid_api_key" || kind == "model_not_found" {
		e["type"] = "invalid_request_error"
	}
	return object{"error": e}
}
