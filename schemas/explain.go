package schemas

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v5"
)

// check applies the schema and gives what it says, in no order.
func (d *Document) check() []found {
	out := d.cases()
	err := standard().compiled[d.kind]().Validate(d.root.value())
	if err == nil {
		return out
	}
	ve, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		// Only a mistake in a schema of ours (a reference that never ends) can bring this about.
		panic(fmt.Sprintf("schemas: validating a %s: %v", d.kind, err))
	}
	for _, in := range d.instances(leaves(ve, nil)) {
		out = append(out, d.explain(in)...)
	}
	return out
}

// instances finds the values that errors are about and puts them into the order of the file: the library gives them in
// a random one. Beyond what is reported anyway it leaves them out, so that a huge wrong file costs no more than a small
// one.
func (d *Document) instances(errs []*jsonschema.ValidationError) []instance {
	all := make([]instance, 0, len(errs))
	for _, ve := range errs {
		in := instance{err: ve, path: tokens(ve.InstanceLocation), node: &d.root}
		for i, t := range in.path {
			kid := in.node.child(t)
			if kid == nil { // a place that the library names otherwise than we do
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

// leaves gives the errors that say what is wrong; the others only say where. Our schemas have no alternatives (anyOf,
// oneOf), so each of them counts.
func leaves(ve *jsonschema.ValidationError, into []*jsonschema.ValidationError) []*jsonschema.ValidationError {
	if len(ve.Causes) == 0 {
		return append(into, ve)
	}
	for _, c := range ve.Causes {
		into = leaves(c, into)
	}
	return into
}

// tokens splits a location as the library writes it: a JSON pointer whose tokens are escaped for a URL besides.
func tokens(location string) []string {
	parts := Tokens(location)
	for i, t := range parts {
		if u, err := url.PathUnescape(t); err == nil {
			parts[i] = u
		}
	}
	return parts
}

// keyword finds the schema object that an error is about, and its keyword.
func keyword(ve *jsonschema.ValidationError) (schema map[string]any, name string, rest []string) {
	base, fragment, _ := strings.Cut(ve.AbsoluteKeywordLocation, "#")
	kind := Kind(strings.TrimSuffix(strings.TrimPrefix(base, idPrefix), ".schema.json"))
	var at any = standard().raw[kind]()
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

// instance is the value that an error is about.
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

// member is the pointer of a member of the value.
func (in instance) member(key string) string { return pointer(append(slices.Clip(in.path), key)) }

// absent gives those names of a list in a schema that the value does not have.
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
