package schemas

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// about says what one keyword of the schema holds against the value. An empty message means that the keyword has no
// words of its own here.
func (in instance) about(schema map[string]any, name string) Problem {
	p := Problem{Found: in.node.describe(in.secret)}
	bound := fmt.Sprint(schema[name])
	switch name {
	case "type":
		p.Code = CodeWrongType
		p.Allowed = phrase(schema, types(schema["type"]))
		p.Message = fmt.Sprintf("found %s; allowed: %s", p.Found, p.Allowed)
	case "enum", "const":
		in.listed(schema, name, &p)
	case "format", "pattern":
		in.form(schema, name, &p)
	case "minLength":
		if in.outOfRange(&p, fmt.Sprintf("at least %s characters", bound)); bound == "1" {
			p.Allowed, p.Message = "text", "must not be empty"
		}
	case "maxLength":
		in.outOfRange(&p, fmt.Sprintf("at most %s characters", bound))
	case "minimum":
		in.outOfRange(&p, phrase(schema, bound+" or more"))
	case "maximum":
		in.outOfRange(&p, phrase(schema, bound+" or less"))
	case "exclusiveMinimum":
		in.outOfRange(&p, phrase(schema, "more than "+bound))
	case "minItems":
		if len(in.node.kids) == 0 {
			p.Found = "an empty array"
		}
		in.outOfRange(&p, "at least "+count(bound, "item"))
	case "maxItems":
		p.Found = count(fmt.Sprint(len(in.node.kids)), "item")
		in.outOfRange(&p, "at most "+count(bound, "item"))
	case "minProperties", "maxProperties":
		p.Code, p.Found = CodeCombination, in.names()
		p.Allowed = phrase(schema, bound+" keys")
		p.Message = fmt.Sprintf("found %s; allowed: %s", p.Found, p.Allowed)
	case "uniqueItems":
		in.repeated(&p)
	}
	return p
}

// listed explains enum and const; the nearest listed string is the hint.
func (in instance) listed(schema map[string]any, name string, p *Problem) {
	values, _ := schema["enum"].([]any)
	if name == "const" {
		values = []any{schema["const"]}
	}
	var texts, shown []string
	for _, v := range values {
		b, _ := json.Marshal(v) // a value that was just decoded
		shown = append(shown, string(b))
		if s, ok := v.(string); ok {
			texts = append(texts, s)
		}
	}
	p.Code = CodeNotAllowed
	p.Allowed = orList(shown)
	p.Message = fmt.Sprintf("found %s; allowed: %s", p.Found, p.Allowed)
	if in.node.kind != '"' || in.secret {
		return
	}
	if p.Near = Nearest(in.node.text, texts); p.Near != "" {
		p.Message += fmt.Sprintf("; did you mean %q?", p.Near)
	}
}

// form explains format and pattern.
func (in instance) form(schema map[string]any, name string, p *Problem) {
	p.Code = CodeBadFormat
	format, _ := schema["format"].(string)
	p.Allowed = phrase(schema, cmp.Or(formats[format].allowed, format))
	if name == "pattern" {
		p.Allowed = phrase(schema, fmt.Sprintf("text that matches %s", schema["pattern"]))
	}
	p.Message = fmt.Sprintf("found %s; allowed: %s", p.Found, p.Allowed)
	if _, err := regexp.Compile(in.node.text); err != nil && name == "format" && format == "regex" {
		p.Message = fmt.Sprintf("the regular expression does not compile: %s; allowed: %s",
			strings.TrimPrefix(err.Error(), "error parsing regexp: "), p.Allowed)
	}
}

func (in instance) outOfRange(p *Problem, allowed string) {
	p.Code, p.Allowed = CodeOutOfRange, allowed
	p.Message = fmt.Sprintf("found %s; allowed: %s", p.Found, allowed)
}

// repeated names the first element that equals an earlier one.
func (in instance) repeated(p *Problem) {
	p.Code, p.Allowed = CodeNotAllowed, "each value once"
	seen := map[string]int{}
	for i := range in.node.kids {
		b, _ := json.Marshal(in.node.kids[i].value()) // plain values
		if j, dup := seen[string(b)]; dup {
			p.Found = in.node.kids[i].describe(in.secret)
			p.Message = fmt.Sprintf("%s stands here twice, at index %d and %d", p.Found, j, i)
			return
		}
		seen[string(b)] = i
	}
}

func (in instance) names() string {
	var ks []string
	for i := range in.node.kids {
		ks = append(ks, quote(in.node.kids[i].key))
	}
	if len(ks) == 0 {
		return "an empty object"
	}
	return clip(strings.Join(ks, ", "))
}

// phrase is what a schema says for humans (x-allowed), else the default.
func phrase(schema map[string]any, otherwise string) string {
	if s, ok := schema["x-allowed"].(string); ok {
		return s
	}
	return otherwise
}

func count(n, noun string) string {
	if n != "1" {
		noun += "s"
	}
	return n + " " + noun
}

// types writes the value of a type keyword for humans.
func types(v any) string {
	words := map[string]string{"object": "an object", "array": "an array", "string": "a string", "number": "a number",
		"integer": "an integer", "boolean": "true or false", "null": "null"}
	switch v := v.(type) {
	case string:
		return words[v]
	case []any:
		var out []string
		for _, t := range v {
			s, _ := t.(string)
			out = append(out, words[s])
		}
		return orList(out)
	}
	return "another type"
}

// keys lists the properties of a schema, sorted: all that are known, and those of them that superloop acts on.
func keys(schema map[string]any) (known, acted []string) {
	props, _ := schema["properties"].(map[string]any)
	for k, v := range props {
		known = append(known, k)
		if m, _ := v.(map[string]any); m["deprecated"] != true {
			acted = append(acted, k)
		}
	}
	slices.Sort(known)
	slices.Sort(acted)
	return known, acted
}

func patterns(schema map[string]any) (out []*regexp.Regexp) {
	pats, _ := schema["patternProperties"].(map[string]any)
	for p := range pats {
		out = append(out, regexp.MustCompile(p)) // the schema compiled
	}
	return out
}

func quoteAll(names []string) []string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = quote(n)
	}
	return out
}
