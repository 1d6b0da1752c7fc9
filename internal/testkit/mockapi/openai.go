package mockapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
)

// openai is the Responses API.
type openai struct{}

// item is one finished output item, and the events that stream its inside.
type item struct {
	fields object
	inside []object
}

func (openai) usage(u Usage) object {
	return object{"input_tokens": u.prompt(), "input_tokens_details": object{"cached_tokens": u.CacheRead, "cache_write_tokens": u.CacheWrite},
		"output_tokens": u.Output, "output_tokens_details": object{"reasoning_tokens": u.Reasoning}, "total_tokens": u.prompt() + u.Output}
}

func (d openai) response(a answer, status string) object {
	return object{"id": "resp_" + a.id, "object": "response", "created_at": a.began.Unix(), "status": status, "model": a.Model,
		"error": nil, "incomplete_details": nil, "output": []object{}, "parallel_tool_calls": true, "usage": nil}
}

// status is how a response ends, in its own words.
func (openai) status(a answer) string { return a.stop("completed", "completed") }

func (d openai) completed(a answer, output []object) object {
	r := d.response(a, d.status(a))
	if r["status"] == "incomplete" {
		r["incomplete_details"] = object{"reason": "max_output_tokens"}
	}
	r["output"], r["usage"] = output, d.usage(a.told)
	return r
}

func (d openai) whole(a answer) any {
	output := []object{}
	for _, it := range d.items(a) {
		output = append(output, it.fields)
	}
	return d.completed(a, output)
}

func (d openai) stream(a answer) []frame {
	var list []frame
	add := func(kind string, fields object) {
		fields["type"], fields["sequence_number"] = kind, len(list)
		list = append(list, frame{data: []byte("event: " + kind + "\ndata: " + inJSON(fields) + "\n\n")})
	}
	add("response.created", object{"response": d.response(a, "in_progress")})
	add("response.in_progress", object{"response": d.response(a, "in_progress")})
	output := []object{}
	for i, it := range d.items(a) {
		if a.InStream && a.Text+a.Thinking == "" {
			break
		}
		open := maps.Clone(it.fields)
		open["status"] = "in_progress"
		for _, k := range []string{"content", "summary"} {
			if _, ok := open[k]; ok {
				open[k] = []object{}
			}
		}
		for _, k := range []string{"arguments", "input"} {
			if _, ok := open[k]; ok {
				open[k] = ""
			}
		}
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
		r["error"] = a.errorBody(d).(object)["error"]
		add("response.failed", object{"response": r})
		return list
	}
	add("response."+d.status(a), object{"response": d.completed(a, output)})
	return list
}

// items are the output items: reasoning, message, calls.
func (d openai) items(a answer) []item {
	var list []item
	if a.Thinking != "" {
		part := object{"type": "summary_text", "text": a.Thinking}
		inside := []object{{"type": "response.reasoning_summary_part.added", "summary_index": 0, "part": object{"type": "summary_text", "text": ""}}}
		for _, p := range pieces(a.Thinking, 8) {
			inside = append(inside, object{"type": "response.reasoning_summary_text.delta", "summary_index": 0, "delta": p})
		}
		inside = append(inside, object{"type": "response.reasoning_summary_text.done", "summary_index": 0, "text": a.Thinking},
			object{"type": "response.reasoning_summary_part.done", "summary_index": 0, "part": part})
		list = append(list, item{object{"type": "reasoning", "id": "rs_" + a.id, "summary": []object{part}, "encrypted_content": "bW9jaw=="}, inside})
	}
	if a.Text != "" || len(a.calls) == 0 {
		part := object{"type": "output_text", "text": a.Text, "annotations": []object{}}
		inside := []object{{"type": "response.content_part.added", "content_index": 0, "part": object{"type": "output_text", "text": "", "annotations": []object{}}}}
		for _, p := range pieces(a.Text, 16) {
			inside = append(inside, object{"type": "response.output_text.delta", "content_index": 0, "delta": p})
		}
		inside = append(inside, object{"type": "response.output_text.done", "content_index": 0, "text": a.Text},
			object{"type": "response.content_part.done", "content_index": 0, "part": part})
		list = append(list, item{object{"type": "message", "id": "msg_" + a.id, "status": "completed", "role": "assistant", "content": []object{part}}, inside})
	}
	for _, c := range a.calls {
		list = append(list, d.call(c))
	}
	return list
}

// call is the item of one tool call.
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

func (openai) failure(_ int, kind, message string, a answer) any {
	e := object{"message": message, "type": kind, "param": nil, "code": kind}
	if kind == "invalid_api_key" || kind == "model_not_found" {
		e["type"] = "invalid_request_error"
	}
	maps.Copy(e, a.ErrorFields)
	return object{"error": e}
}

func (openai) usual(status int) (kind, message string) {
	switch status {
	case http.StatusUnauthorized:
		return "invalid_api_key", "Incorrect API key provided."
	case http.StatusForbidden:
		return "permission_denied", "You do not have access to this resource."
	case http.StatusNotFound:
		return "model_not_found", "The requested model does not exist or you do not have access to it."
	case http.StatusTooManyRequests:
		return "rate_limit_exceeded", "Rate limit reached for requests."
	case http.StatusServiceUnavailable:
		return "server_is_overloaded", "Our servers are currently overloaded. Please try again later."
	}
	if status >= 500 {
		return "server_error", "The server had an error while processing your request."
	}
	return "invalid_request_error", fmt.Sprintf("The request is invalid (%d).", status)
}
