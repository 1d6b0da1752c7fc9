package mockapi

import (
	"encoding/json"
	"regexp"
	"strings"
)

// offer is a tool that a request offers.
type offer struct {
	name string // by which it is called
	kind offerKind
	// namespace is OpenAI's grouping of tools; "" is none.
	namespace string
	// parent is the tool that takes a program in which a nested one is called.
	parent *offer
	schema schema
}

type offerKind string

const (
	takesJSON  offerKind = "json"
	takesText  offerKind = "text"
	localShell offerKind = "local_shell" // OpenAI's built-in shell
	nested     offerKind = "nested"      // called from a parent's program
	provider   offerKind = "provider"    // the provider runs it itself (web search)
)

// title is the name in Call.Tools.
func (o offer) title() string {
	if o.parent != nil {
		return o.parent.name + "." + o.name
	}
	return o.name
}

func titles(offers []offer) []string {
	list := make([]string, len(offers))
	for i, o := range offers {
		list[i] = o.title()
	}
	return list
}

// schema is what is needed of a tool's JSON Schema.
type schema struct {
	Properties map[string]property `json:"properties"`
	Required   []string            `json:"required"`
}

type property struct {
	Type json.RawMessage   `json:"type"` // a name, in Gemini's own form in capitals, or a list of them
	Enum []json.RawMessage `json:"enum"`
	schema
}

func (p property) is(kind string) bool {
	return strings.Contains(strings.ToLower(string(p.Type)), `"`+kind+`"`)
}

// any is a value that the schema takes.
func (p property) any() any {
	switch {
	case len(p.Enum) > 0:
		return p.Enum[0]
	case p.is("boolean"):
		return false
	case p.is("number"), p.is("integer"):
		return 1
	case p.is("array"):
		return []any{}
	case p.is("object"):
		m := map[string]any{}
		for _, r := range p.Required {
			m[r] = p.Properties[r].any()
		}
		return m
	}
	return "as the task asks"
}

// lenientSchema reads a schema; one that is none has no properties.
func lenientSchema(raw json.RawMessage) (s schema) {
	_ = json.Unmarshal(raw, &s) // nothing is known of such a tool, and so it is not chosen
	return s
}

// first is the first of names that is a property.
func (s schema) first(names ...string) string {
	for _, n := range names {
		if _, ok := s.Properties[n]; ok {
			return n
		}
	}
	return ""
}

// nestedDeclaration finds the tools of codex's code mode: its tool takes a
// program, and the description declares what the program can call.
func nestedDeclaration() *regexp.Regexp {
	return regexp.MustCompile(`declare const tools: \{ ([A-Za-z_][A-Za-z0-9_]*)\((\w+): `)
}

// nestedOffers are the tools that a program given to parent can call.
func nestedOffers(parent offer, description string) []offer {
	var list []offer
	for _, m := range nestedDeclaration().FindAllStringSubmatch(description, -1) {
		list = append(list, offer{name: m[1], kind: nested, parent: &parent})
	}
	return list
}
