package schemas

import (
	"fmt"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v5"
)

// views are the schemas that speak about one value: the one named, and what it refers to.
func views(sch *jsonschema.Schema, into []*jsonschema.Schema) []*jsonschema.Schema {
	for ; sch != nil && !slices.Contains(into, sch); sch = sch.Ref {
		into = append(into, sch)
	}
	return into
}

// below gives the schemas for one member or element of a value.
func below(vs []*jsonschema.Schema, kind byte, key string) []*jsonschema.Schema {
	var out []*jsonschema.Schema
	for _, v := range vs {
		if kind == '[' {
			out = views(v.Items2020, out)
			continue
		}
		if p, ok := v.Properties[key]; ok {
			out = views(p, out)
			continue
		}
		if more, ok := v.AdditionalProperties.(*jsonschema.Schema); ok {
			out = views(more, out)
		}
	}
	return out
}

// visit calls f for every value below the root that a schema knows, with the schemas that speak about it.
func (d *Document) visit(f func(path []string, parent []*jsonschema.Schema, n *node, vs []*jsonschema.Schema)) {
	var path []string
	var walk func(n *node, vs []*jsonschema.Schema)
	walk = func(n *node, vs []*jsonschema.Schema) {
		for i := range n.kids {
			kid := &n.kids[i]
			token := kid.key
			if n.kind == '[' {
				token = fmt.Sprint(i)
			}
			path = append(path, token)
			kvs := below(vs, n.kind, kid.key)
			f(path, vs, kid, kvs)
			walk(kid, kvs)
			path = path[:len(path)-1]
		}
	}
	walk(&d.root, views(compiled(d.kind), nil))
}

// cases notes keys that differ from a key of the schema only in case. Go's decoder takes "Command" for "command" and
// other readers do not, so what is shown and what is done could differ. Where no other key is allowed the schema says
// it already.
func (d *Document) cases() []found {
	var out []found
	d.visit(func(path []string, parent []*jsonschema.Schema, n *node, _ []*jsonschema.Schema) {
		key := path[len(path)-1]
		for _, v := range parent {
			if closed, ok := v.AdditionalProperties.(bool); ok && !closed {
				return
			}
			if _, known := v.Properties[key]; known {
				return
			}
		}
		for _, v := range parent {
			for name := range v.Properties {
				if strings.EqualFold(name, key) {
					out = append(out, found{n.keyOff, Problem{
						Pointer: pointer(path), Code: CodeUnknownKey, Found: quote(key), Allowed: quote(name), Near: name,
						Message: fmt.Sprintf("the key %s differs only in case from %s", quote(key), quote(name)),
					}})
					return
				}
			}
		}
	})
	return out
}

// Ignored gives one problem for every key that is known but that superloop does not act on. They are warnings: the
// document is valid.
func (d *Document) Ignored() []Problem {
	var out []found
	d.visit(func(path []string, _ []*jsonschema.Schema, n *node, vs []*jsonschema.Schema) {
		for _, v := range vs {
			if !v.Deprecated {
				continue
			}
			p := Problem{Pointer: pointer(path), Code: CodeIgnoredKey, Found: quote(n.key)}
			p.Message = "superloop does not act on " + quote(n.key)
			if v.Comment != "" {
				p.Message += "; " + v.Comment
			}
			out = append(out, found{n.keyOff, p})
			return
		}
	})
	return place(d.src, out)
}

// Secret reports whether the schema says that the value at a JSON pointer, or one that holds it, is a secret.
func (d *Document) Secret(ptr string) bool {
	vs := views(compiled(d.kind), nil)
	n := &d.root
	for _, t := range Tokens(ptr) {
		vs = below(vs, n.kind, t)
		if slices.ContainsFunc(vs, func(s *jsonschema.Schema) bool { return s.WriteOnly }) {
			return true
		}
		if n = n.child(t); n == nil {
			return false
		}
	}
	return false
}
