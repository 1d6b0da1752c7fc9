package mockapi

import (
	"cmp"
	"encoding/json"
	"errors"
)

// gemini is the dialect of Google's generateContent API.
type gemini struct{}

func (gemini) parse(c *Call, r node) error {
	contents := r.at("contents").list()
	if c.Model == "" || len(contents) == 0 {
		return errors.New("a model in the path and contents are required")
	}
	config := r.at("generationConfig")
	c.schema = config.at(config.first("responseJsonSchema", "responseSchema"))
	for _, t := range r.at("tools").list() {
		for _, f := range t.at("functionDeclarations").list() {
			c.offered = append(c.offered, offer{name: f.at("name").str(), kind: takesJSON, schema: f.at(f.first("parametersJsonSchema", "parameters"))})
		}
	}
	for _, content := range contents {
		if content.at("role").str() == "model" {
			c.HasToolResult = false
			continue
		}
		for _, p := range content.at("parts").list() {
			if response := p.at("functionResponse", "response"); p.at("functionResponse").v != nil {
				// The result of a tool is its output or its error. Without either, the whole response counts.
				c.HasToolResult, c.LastToolOutput = true, inJSON(response.v)
				if said, ok := response.at(response.first("output", "error", "result", "content")).v.(string); ok {
					c.LastToolOutput = said
				}
			} else {
				c.Prompt = cmp.Or(p.at("text").str(), c.Prompt)
			}
		}
	}
	return nil
}

func (gemini) usage(u Usage, done bool) object {
	m := object{"promptTokenCount": u.prompt(), "totalTokenCount": u.prompt(),
		"promptTokensDetails": []object{{"modality": "TEXT", "tokenCount": u.prompt()}}}
	if u.CacheRead > 0 {
		m["cachedContentTokenCount"] = u.CacheRead
	}
	if done {
		m["candidatesTokenCount"], m["totalTokenCount"] = u.Output-u.Reasoning, u.prompt()+u.Output
		if u.Reasoning > 0 {
			m["thoughtsTokenCount"] = u.Reasoning
		}
	}
	return m
}

// chunk returns one GenerateContentResponse.
func (d gemini) chunk(a answer, parts []object, done bool) object {
	candidate := object{"index": 0, "content": object{"role": "model", "parts": parts}}
	if done {
		candidate["finishReason"] = a.stop("STOP", "STOP")
	}
	return object{"candidates": []object{candidate}, "usageMetadata": d.usage(a.told, done), "modelVersion": a.Model, "responseId": "resp-" + a.id}
}

// parts returns the parts of the answer. The text is in at most limit pieces.
func (gemini) parts(a answer, limit int) []object {
	var list []object
	for _, p := range pieces(a.Thinking, min(4, limit)) {
		list = append(list, object{"text": p, "thought": true})
	}
	for _, p := range pieces(a.Text, limit) {
		list = append(list, object{"text": p})
	}
	for i, c := range a.calls {
		part := object{"functionCall": object{"id": c.id, "name": c.name, "args": json.RawMessage(c.input)}}
		if i == 0 {
			part["thoughtSignature"] = "bW9jaw=="
		}
		list = append(list, part)
	}
	return list
}

func (d gemini) whole(a answer) object {
	parts := d.parts(a, 1)
	if a.Text == "" && len(a.calls) == 0 {
		parts = append(parts, object{"text": ""})
	}
	return d.chunk(a, parts, true)
}

func (d gemini) stream(a answer) [][]byte {
	var list [][]byte
	add := func(chunk object) { list = append(list, []byte("data: "+inJSON(chunk)+"\r\n\r\n")) }
	for _, part := range d.parts(a, 8) {
		add(d.chunk(a, []object{part}, false))
	}
	if a.InStream {
		add(a.errorBody())
		return list
	}
	add(d.chunk(a, []object{{"text": ""}}, true))
	return list
}

func (gemini) failure(status int, kind, message string, a answer) object {
	e := object{"code": status, "message": message, "status": kind}
	if a.RetryAfter > 0 {
		e["details"] = []object{{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": wholeSeconds(a.RetryAfter) + "s"}}
	}
	return object{"error": e}
}
