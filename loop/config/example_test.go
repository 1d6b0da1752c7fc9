package config

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/superloop/superloop/schemas"
)

const (
	examplePath = "../../examples/config.json"
	docsPath    = "../../docs/config.md"
)

func TestExampleIsValid(t *testing.T) {
	t.Parallel()
	c, err := Load(examplePath)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range c.Warnings {
		t.Errorf("warning: %v", w)
	}
	if len(c.Loops) != 2 || len(c.Runners) != 2 || c.Recovery == nil || c.Webhooks == nil {
		t.Errorf("got %+v", c)
	}
}

// spot is one property of the config schema.
type spot struct{ schema, key string }

// schemaWalk follows a value through the schema and calls f for every property
// that it uses.
type schemaWalk struct {
	defs map[string]any
	seen map[spot]bool
}

func (w *schemaWalk) value(name string, schema map[string]any, v any) {
	if ref, ok := schema["$ref"].(string); ok {
		name = strings.TrimPrefix(ref, "#/$defs/")
		schema, _ = w.defs[name].(map[string]any)
	}
	switch v := v.(type) {
	case map[string]any:
		props, _ := schema["properties"].(map[string]any)
		more, _ := schema["additionalProperties"].(map[string]any)
		for k, kid := range v {
			if p, ok := props[k].(map[string]any); ok {
				w.seen[spot{name, k}] = true
				w.value(name+"/"+k, p, kid)
			} else if more != nil {
				w.value(name+"/*", more, kid)
			}
		}
	case []any:
		items, _ := schema["items"].(map[string]any)
		for _, kid := range v {
			w.value(name+"/*", items, kid)
		}
	}
}

// properties lists every property below a schema that superloop acts on.
func (w *schemaWalk) properties(name string, schema map[string]any) []spot {
	var out []spot
	props, _ := schema["properties"].(map[string]any)
	for k, p := range props {
		pm, _ := p.(map[string]any)
		if pm["deprecated"] == true || name == "" && k == "runner" {
			continue // not acted on, or the old way to write runners
		}
		out = append(out, spot{name, k})
		out = append(out, w.properties(name+"/"+k, pm)...)
	}
	for _, inner := range []string{"items", "additionalProperties"} {
		if m, ok := schema[inner].(map[string]any); ok {
			out = append(out, w.properties(name+"/*", m)...)
		}
	}
	return out
}

// Every key that superloop acts on stands in the example and in the
// documentation, and every key that it only knows stands in the latter.
func TestExampleAndDocsAreComplete(t *testing.T) {
	t.Parallel()
	var root map[string]any
	if err := json.Unmarshal(schemas.Source(schemas.Config), &root); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(examplePath)
	if err != nil {
		t.Fatal(err)
	}
	var example map[string]any
	if err := json.Unmarshal(data, &example); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(docsPath)
	if err != nil {
		t.Fatal(err)
	}
	docs := string(text)
	w := &schemaWalk{defs: root["$defs"].(map[string]any), seen: map[spot]bool{}}
	w.value("", root, example)
	all := w.properties("", root)
	for name, def := range w.defs {
		all = append(all, w.properties(name, def.(map[string]any))...)
	}
	if len(all) < 100 {
		t.Fatalf("the walk found only %d properties", len(all))
	}
	for _, s := range all {
		if !w.seen[s] {
			t.Errorf("%s/%s is not in the example", s.schema, s.key)
		}
		if !strings.Contains(docs, "`"+s.key+"`") && !strings.Contains(docs, "."+s.key+"`") {
			t.Errorf("%s/%s is not in docs/config.md", s.schema, s.key)
		}
	}
	for key := range ignoredKeys(root) {
		if !strings.Contains(docs, "`"+key+"`") && !strings.Contains(docs, "."+key+"`") {
			t.Errorf("the ignored key %s is not in docs/config.md", key)
		}
	}
	for _, name := range append(argumentNames(), checkNames()...) {
		if !strings.Contains(docs, "`{"+name+"}`") {
			t.Errorf("the placeholder {%s} is not in docs/config.md", name)
		}
	}
}

func ignoredKeys(schema any) map[string]bool {
	out := map[string]bool{}
	var walk func(v any)
	walk = func(v any) {
		m, _ := v.(map[string]any)
		for k, kid := range m {
			if km, _ := kid.(map[string]any); km["deprecated"] == true {
				out[k] = true
			}
			walk(kid)
		}
	}
	walk(schema)
	return out
}

// Each JSON block of the documentation that is a whole config is valid.
func TestDocsExamplesLoad(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(docsPath)
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(string(text), "```json\n")[1:]
	whole := 0
	for _, b := range blocks {
		b, _, _ = strings.Cut(b, "```")
		if !strings.Contains(b, `"loops"`) {
			continue
		}
		whole++
		c, err := LoadBytes(home, []byte(b))
		if err != nil {
			t.Errorf("%v\n%s", err, b)
			continue
		}
		if slices.ContainsFunc(c.Warnings, func(Problem) bool { return true }) {
			t.Errorf("%v\n%s", c.Warnings, b)
		}
	}
	if whole == 0 {
		t.Error("docs/config.md shows no config")
	}
}
