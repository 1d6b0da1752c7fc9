package mockapi

import (
	"encoding/json"
	"fmt"
	"maps"
)

// gemini is Google's generateContent.
type gemini struct{}

type geminiRequest struct {
	Contents []geminiContent `json:"contents"`
	Tools    []struct {
		Declarations []struct {
			Name       string          `json:"name"`
			Parameters json.RawMessage `json:"parameters"`
			JSONSchema json.RawMessage `json:"parametersJsonSchema"`
		} `json:"functionDeclarations"`
	} `json:"tools"`
	Config struct {
		Schema     json.RawMessage `json:"responseSchema"`
		JSONSchema json.RawMessage `json:"responseJsonSchema"`
	} `json:"generationConfig"`
}

type geminiContent struct {
	Role  string `json:"role"`
	Parts []struct {
		Text             string `json:"text"`
		FunctionResponse *struct {
			Response map[string]json.RawMessage `json:"response"`
		} `json:"functionResponse"`
	} `json:"parts"`
}

func (gemini) parse(c *Call) error {
	var r geminiRequest
	if err := json.Unmarshal(c.Body, &r); err != nil {
		return fmt.Errorf("the body is not a request of generateContent: %w", err)
	}
	if c.Model == "" || len(r.Contents) == 0 {
		return fmt.Errorf("a model in the path and contents are required")
	}
	c.Schema = r.Config.Schema
	if len(r.Config.JSONSchema) > 0 {
		c.Schema = r.Config.JSONSchema
	}
	for _, t := range r.Tools {
		for _, f := range t.Declarations {
			raw := f.Parameters
			if len(f.JSONSchema) > 0 {
				raw = f.JSONSchema
			}
			c.offered = append(c.offered, offer{name: f.Name, kind: takesJSON, schema: lenientSchema(raw)})
		}
	}
	for _, content := range r.Contents {
		if content.Role == "model" {
			c.HasToolResult = false
			continue
		}
		for _, p := range content.Parts {
			switch {
			case p.FunctionResponse != nil:
				c.HasToolResult = true
				c.LastToolOutput = geminiOutput(p.FunctionResponse.Response)
			case p.Text != "":
				c.Prompt = p.Text
			}
		}
	}
	return nil
}

// geminiOutput is what a tool said: its output or its error, else all of it.
func geminiOutput(response map[string]json.RawMessage) string {
	for _, key := range []string{"output", "error", "result", "content"} {
		var text string
		if raw, ok := response[key]; ok && json.Unmarshal(raw, &text) == nil {
			return text
		}
	}
	return inJSON(response)
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

// chunk is one GenerateContentResponse.
func (d gemini) chunk(a answer, parts []object, done bool) object {
	candidate := object{"index": 0, "content": object{"role": "model", "parts": parts}}
	if done {
		candidate["finishReason"] = a.stop("STOP", "STOP")
	}
	return object{"candidates": []object{candidate}, "usageMetadata": d.usage(a.told, done), "modelVersion": a.Model, "responseId": "resp-" + a.id}
}

// parts are the parts of the answer, text in pieces.
func (gemini) parts(a answer) []object {
	var list []object
	for _, p := range pieces(a.Thinking, 4) {
		list = append(list, object{"text": p, "thought": true})
	}
	for _, p := range pieces(a.Text, 8) {
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
	parts := []object{}
	if a.Thinking != "" {
		parts = append(parts, object{"text": a.Thinking, "thought": true})
	}
	if a.Text != "" || len(a.calls) == 0 {
		parts = append(parts, object{"text": a.Text})
	}
	calls := a
	calls.Thinking, calls.Text = "", ""
	return d.chunk(a, append(parts, d.parts(calls)...), true)
}

func (d gemini) stream(a answer) [][]byte {
	var list [][]byte
	add := func(chunk object) { list = append(list, []byte("data: "+inJSON(chunk)+"\r\n\r\n")) }
	for _, part := range d.parts(a) {
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
	maps.Copy(e, a.ErrorFields)
	return object{"error": e}
}

func (gemini) usual() map[int][2]string {
	return map[int][2]string{
		400: {"INVALID_ARGUMENT", "Request contains an invalid argument."},
		401: {"UNAUTHENTICATED", "Request had invalid authentication credentials."},
		403: {"PERMISSION_DENIED", "The caller does not have permission."},
		404: {"NOT_FOUND", "The model is not found for this API version."},
		429: {"RESOURCE_EXHAUSTED", "Resource has been exhausted (e.g. check quota)."},
		500: {"INTERNAL", "An internal error has occurred."},
		503: {"UNAVAILABLE", "The model is overloaded. Please try again later."},
		504: {"DEADLINE_EXCEEDED", "The request timed out."},
	}
}
