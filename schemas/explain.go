package schemas

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v5"
)

// check validates the document against the schema and returns the problems in no order.
func (d *Document) check() []found {
	out := d.cases()
	err := compiled(d.kind).Validate(d.root.value())
	if err == nil {
		return out
	}
	ve, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		// Only a mistake in an embedded schema, such as an endless reference, can lead to this error.
		panic(fmt.Sprintf("schemas: validating a %s: %v", d.kind, err))
	}
	for _, in := range d.instances(leaves(ve, nil)) {
		out = append(out, d.explain(in)...)
	}
	return out
}

// instances finds the values that the errors are about, and sorts them in the order of the file, because the library
// returns errors in a random order. It returns at most one more than Sort keeps, so that a huge wrong file costs no
// more time than a small one.
func (d *Document) instances(errs []*jsonschema.ValidationError) []instance {
	all := make([]instance, 0, len(errs))
	for _, ve := range errs {
		in := instance{err: ve, path: tokens(ve.InstanceLocation), node: &d.root}
		for i, t := range in.path {
			kid := in.node.child(t)
			if kid == nil { // the library names this place in another way
				in.path = in.path[:i]
				break
			}
			in.node = kid
		}
		all = append(all, in)
	}
	slices.SortFunc(all, func(a, b instance) int {
		return cmp.Or(cmp.Compare(a.node.off, b.node.off), cmp.Compare(a.err.AbsoluteKeywordLocation, b.err.AbsoluteKeywordLocation))
	})
	return all[:min(len(all), maxProblems+1)]
}

// leaves returns the errors that have no further cause; the others only say where these are. The embedded schemas have
// no alternatives (anyOf, oneOf), so each leaf is a problem.
func leaves(ve *jsonschema.ValidationError, into []*jsonschema.ValidationError) []*jsonschema.ValidationError {
	if len(ve.Causes) == 0 {
		return append(into, ve)
	}
	for _, c := range ve.Causes {
		into = leaves(c, into)
	}
	return into
}

// tokens splits a location of the library: a JSON pointer whose tokens are also escaped for a URL.
func tokens(location string) []string {
	parts := Tokens(location)
	for i, t := range parts {
		if u, err := url.PathUnescape(t); err == nil {
			parts[i] = u
		}
	}
	return parts
}

// keyword returns the schema object that an error is about, the keyword in it, and the tokens after the keyword.
func keyword(ve *jsonschema.ValidationError) (schema map[string]any, name string, rest []string) {
	base, fragment, _ := strings.Cut(ve.AbsoluteKeywordLocation, "#")
	kind := Kind(strings.TrimSuffix(strings.TrimPrefix(base, idPrefix), ".schema.json"))
	var at any = parsed(kind)
	ts := tokens(fragment)
	for i, t := range ts {
		m, ok := at.(map[string]any)
		if !ok {
			break
		}
		if i == len(ts)-1 {
			return m, t, nil
		}
		if t == "dependentRequired" {
			return m, t, ts[i+1:]
		}
		at = m[t]
	}
	return map[string]any{}, "", nil
}

// instance is a value of the document with the error about it.
type instance struct {
	err    *jsonschema.ValidationError
	path   []string
	node   *node
	secret bool
}

func (d *Document) explain(in instance) []found {
	in.secret = d.Secret(pointer(in.path))
	schema, name, rest := keyword(in.err)
	if strings.Contains(in.err.KeywordLocation, "/propertyNames/") {
		key, allowed := quote(in.path[len(in.path)-1]), phrase(schema, "another name")
		return []found{{in.node.keyOff, Problem{Pointer: pointer(in.path), Code: CodeBadFormat, Found: key, Allowed: allowed,
			Message: fmt.Sprintf("the name %s is not allowed; allowed: %s", key, allowed)}}}
	}
	switch name {
	case "additionalProperties":
		return in.unknown(schema)
	case "required":
		var out []found
		for _, key := range in.absent(schema["required"]) {
			out = append(out, found{in.node.off, Problem{Pointer: in.member(key), Code: CodeMissingKey, Found: "nothing",
				Allowed: quote(key), Message: fmt.Sprintf("the key %s is missing", quote(key))}})
		}
		return out
	case "dependentRequired":
		deps, _ := schema["dependentRequired"].(map[string]any)
		key, needs := rest[0], orList(quoteAll(in.absent(deps[rest[0]])))
		return []found{{in.node.child(key).keyOff, Problem{Pointer: in.member(key), Code: CodeCombination, Found: quote(key), Allowed: needs,
			Message: fmt.Sprintf("%s stands only beside %s", quote(key), needs)}}}
	}
	p := in.about(schema, name)
	if p.Message == "" {
		p.Code, p.Message = CodeCombination, in.err.Message
	}
	p.Pointer = pointer(in.path)
	return []found{{in.node.off, p}}
}

// member returns the pointer to a member of the value.
func (in instance) member(key string) string { return pointer(append(slices.Clip(in.path), key)) }

// absent returns the names of the list in the schema that the value does not have.
func (in instance) absent(list any) (names []string) {
	all, _ := list.([]any)
	for _, v := range all {
		if name, _ := v.(string); in.node.child(name) == nil {
			names = append(names, name)
		}
	}
	return names
}

func (in instance) unknown(schema map[string]any) []found {
	known, acted := keys(schema)
	pats := patterns(schema)
	var out []found
	for i := range in.node.kids {
		kid := &in.node.kids[i]
		if slices.Contains(known, kid.key) || slices.ContainsFunc(pats, func(p *regexp.Regexp) bool { return p.MatchString(kid.key) }) {
			continue
		}
		if len(out) > maxProblems {
			break
		}
		p := Problem{Pointer: in.member(kid.key), Code: CodeUnknownKey, Found: quote(kid.key), Allowed: orList(quoteAll(acted)),
			Near: Nearest(kid.key, known), Message: fmt.Sprintf("unknown key %s", quote(kid.key))}
		switch {
		case p.Near != "":
			p.Message += fmt.Sprintf("; did you mean %q?", p.Near)
		case len(acted) == 0:
			p.Message += "; no key is known here"
		default:
			p.Message += "; known here: " + strings.Join(acted, ", ")
		}
		out = append(out, found{kid.keyOff, p})
	}
	return out
}

// about returns the problem that one keyword of the schema finds in the value. If about has no text for the keyword,
// the message is empty.
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

// listed describes a violation of enum or const. It suggests the most similar string of the list.
func (in instance) listed(schema map[string]any, name string, p *Problem) {
	values, _ := schema["enum"].([]any)
	if name == "const" {
		values = []any{schema["const"]}
	}
	var texts, shown []string
	for _, v := range values {
		b, _ := json.Marshal(v) // the value comes from JSON
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

// form describes a violation of format or pattern.
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

// repeated describes a violation of uniqueItems by the first element that equals an earlier one.
func (in instance) repeated(p *Problem) {
	p.Code, p.Allowed = CodeNotAllowed, "each value once"
	seen := map[string]int{}
	for i := range in.node.kids {
		b, _ := json.Marshal(in.node.kids[i].value()) // plain JSON values can always be encoded
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

// phrase returns the schema's own text for operators (x-allowed), or else the given text.
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

// types returns the value of a type keyword in words.
func types(v any) string {
	words := map[string]string{"object": "an object", "array": "an array", "string": "a string", "number": "a number",
		"integer": "an integer", "boolean": "true or false", "null": "null"}
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	var out []string
	for _, t := range list {
		s, _ := t.(string)
		out = append(out, words[s])
	}
	return orList(out)
}

// keys returns the properties of a schema, sorted: all of them, and those that superloop does not ignore.
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
		out = append(out, regexp.MustCompile(p)) // the schema has compiled it already
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
