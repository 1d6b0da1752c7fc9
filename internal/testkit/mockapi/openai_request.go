package mockapi

import (
	"encoding/json"
	"fmt"
	"strings"
)

type openaiRequest struct {
	Model     string          `json:"model"`
	Stream    bool            `json:"stream"`
	Input     json.RawMessage `json:"input"` // text, or items
	Tools     []openaiTool    `json:"tools"`
	CacheKey  string          `json:"prompt_cache_key"`
	SessionID string          `json:"session_id"`
	Text      struct {
		Format struct {
			Schema json.RawMessage `json:"schema"`
		} `json:"format"`
	} `json:"text"`
}

type openaiTool struct {
	Type        string          `json:"type"`
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
	Tools       []openaiTool    `json:"tools"` // of a namespace
}

type openaiItem struct {
	Type    string          `json:"type"`
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"` // text, or parts
	Output  json.RawMessage `json:"output"`  // of a tool: text, or parts
	Tools   []openaiTool    `json:"tools"`   // of type additional_tools
}

func (openai) parse(c *Call) error {
	var r openaiRequest
	if err := json.Unmarshal(c.Body, &r); err != nil {
		return fmt.Errorf("the body is not a request of the Responses API: %w", err)
	}
	if r.Model == "" || len(r.Input) == 0 {
		return fmt.Errorf("model and input are required")
	}
	c.Model, c.Stream, c.Schema = r.Model, r.Stream, r.Text.Format.Schema
	for _, s := range []string{c.Header.Get("Session-Id"), c.Header.Get("Session_id"), r.CacheKey, r.SessionID} {
		if s != "" {
			c.Session = s
			break
		}
	}
	c.offered = openaiOffers(r.Tools, "")
	var text string
	if json.Unmarshal(r.Input, &text) == nil {
		c.Prompt = text
		return nil
	}
	var items []openaiItem
	if err := json.Unmarshal(r.Input, &items); err != nil {
		return fmt.Errorf("input is neither a text nor a list of items: %w", err)
	}
	for _, it := range items {
		c.item(it)
	}
	return nil
}

// item reads one item of the input; the last ones count.
func (c *Call) item(it openaiItem) {
	switch {
	case it.Type == "additional_tools":
		// codex 0.169 offers the tools of its newer models here.
		c.offered = append(c.offered, openaiOffers(it.Tools, "")...)
	case strings.HasSuffix(it.Type, "_call_output"):
		c.HasToolResult = true
		c.LastToolOutput = openaiText(it.Output)
	case it.Role == "user":
		// What the CLI itself adds comes before the user's words.
		c.Prompt, c.HasToolResult = openaiText(it.Content), false
	case it.Role == "assistant", strings.HasSuffix(it.Type, "_call"):
		c.HasToolResult = false
	}
}

// openaiText reads what is a text, a list of parts, or an object that holds one
// of these.
func openaiText(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	var parts []struct {
		Text string `json:"text"`
	}
	if json.Unmarshal(raw, &parts) == nil {
		var texts []string
		for _, p := range parts {
			texts = append(texts, p.Text)
		}
		return strings.Join(texts, "\n")
	}
	var wrapped struct {
		Content json.RawMessage `json:"content"`
	}
	if json.Unmarshal(raw, &wrapped) == nil && len(wrapped.Content) > 0 {
		return openaiText(wrapped.Content)
	}
	return ""
}

func openaiOffers(tools []openaiTool, namespace string) []offer {
	var list []offer
	for _, t := range tools {
		o := offer{name: t.Name, namespace: namespace, schema: lenientSchema(t.Parameters)}
		switch t.Type {
		case "namespace":
			list = append(list, openaiOffers(t.Tools, t.Name)...)
			continue
		case "function":
			o.kind = takesJSON
		case "custom":
			o.kind = takesText
		case "local_shell":
			o.name, o.kind = t.Type, localShell
		default:
			o.kind = provider
		}
		if o.name == "" {
			o.name = t.Type
		}
		list = append(list, o)
		if o.kind == takesText {
			list = append(list, nestedOffers(o, t.Description)...)
		}
	}
	return list
}
