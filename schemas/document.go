package schemas

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v5"

	"github.com/superloop/superloop/internal/text"
)

// Document is a strictly read file that remembers where each value stands.
type Document struct {
	kind Kind
	src  []byte
	root node
}

// Read reads data as a file of the given kind. The document is nil when data is not JSON at all; otherwise it can be
// asked for values and places even when there are problems. No problem means that data is valid. Problems come sorted
// (see Sort). data is not copied: the caller leaves it as it is.
func Read(kind Kind, data []byte) (*Document, []Problem) {
	if !kind.Known() {
		return nil, []Problem{{Code: CodeNotAllowed, Found: quote(string(kind)), Message: fmt.Sprintf("%q is not a kind of file that superloop knows", string(kind))}}
	}
	if limit := kind.Limit(); len(data) > limit {
		return nil, []Problem{{Line: 1, Column: 1, Code: CodeTooLarge, Found: size(len(data)), Allowed: "at most " + size(limit),
			Message: fmt.Sprintf("the file has %s; a %s file has at most %s", size(len(data)), kind, size(limit))}}
	}
	root, notes, ok := scan(data, kind)
	if !ok {
		return nil, place(data, notes)
	}
	d := &Document{kind: kind, src: data, root: root}
	notes = append(notes, d.check()...)
	return d, place(data, notes)
}

// Validate gives the problems of data as a file of the given kind; none means that it is valid.
func Validate(kind Kind, data []byte) []Problem {
	_, problems := Read(kind, data)
	return problems
}

// Into reads data strictly and, when it is valid, decodes it into dst as json.Unmarshal does, integers in any spelling.
// dst is untouched when there is a problem that the schema can see.
func Into(kind Kind, data []byte, dst any) []Problem {
	d, problems := Read(kind, data)
	if len(problems) > 0 {
		return problems
	}
	err := json.Unmarshal(d.Raw("", nil), dst)
	if err == nil {
		return nil
	}
	// The schema allows what dst cannot hold.
	p := Problem{Line: 1, Column: 1, Code: CodeWrongType, Message: err.Error()}
	if te, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		p.Pointer = "/" + strings.ReplaceAll(te.Field, ".", "/")
		p.Found, p.Allowed = te.Value, te.Type.String()
		p.Message = fmt.Sprintf("found %s where %s is needed", te.Value, te.Type)
		if line, col, ok := d.Position(p.Pointer); ok {
			p.Line, p.Column = line, col
		}
	}
	return []Problem{p}
}

// Position gives line and column, from 1, of the value at a JSON pointer.
func (d *Document) Position(ptr string) (line, col int, ok bool) {
	n := d.find(ptr)
	if n == nil {
		return 0, 0, false
	}
	line, col = position(d.src, n.off)
	return line, col, true
}

// Raw gives the JSON text of the value at a JSON pointer without white space, integers in plain form, and without the
// object keys for which drop says so; nil when there is no such value. Strings keep the bytes of the source.
func (d *Document) Raw(ptr string, drop func(key string) bool) json.RawMessage {
	n := d.find(ptr)
	if n == nil {
		return nil
	}
	var b bytes.Buffer
	n.write(&b, d.src, drop)
	return b.Bytes()
}

// Tokens gives the reference tokens of a JSON pointer.
func Tokens(ptr string) []string {
	if ptr == "" {
		return nil
	}
	tokens := strings.Split(strings.TrimPrefix(ptr, "/"), "/")
	for i, t := range tokens {
		tokens[i] = strings.ReplaceAll(strings.ReplaceAll(t, "~1", "/"), "~0", "~")
	}
	return tokens
}

// find gives the node at a JSON pointer, of duplicate keys the last.
func (d *Document) find(ptr string) *node {
	n := &d.root
	for _, t := range Tokens(ptr) {
		if n = n.child(t); n == nil {
			return nil
		}
	}
	return n
}

func (n *node) child(token string) *node {
	i, ok := -1, false
	switch {
	case n.index != nil:
		i, ok = n.index[token]
	case n.kind == '{':
		for i = len(n.kids) - 1; i >= 0 && n.kids[i].key != token; i-- {
		}
		ok = i >= 0
	case n.kind == '[':
		var err error
		i, err = strconv.Atoi(token)
		ok = err == nil && i >= 0 && i < len(n.kids)
	}
	if !ok {
		return nil
	}
	return &n.kids[i]
}

func (n *node) value() any {
	switch n.kind {
	case '{':
		m := make(map[string]any, len(n.kids))
		for i := range n.kids {
			m[n.kids[i].key] = n.kids[i].value()
		}
		return m
	case '[':
		a := make([]any, len(n.kids))
		for i := range n.kids {
			a[i] = n.kids[i].value()
		}
		return a
	case '"':
		return n.text
	case '0':
		return json.Number(n.text)
	case 't', 'f':
		return n.kind == 't'
	}
	return nil
}

func (n *node) write(b *bytes.Buffer, src []byte, drop func(string) bool) {
	switch n.kind {
	case '{', '[':
		b.WriteByte(n.kind)
		start := b.Len()
		for i := range n.kids {
			k := &n.kids[i]
			if n.kind == '{' && drop != nil && drop(k.key) {
				continue
			}
			if b.Len() > start {
				b.WriteByte(',')
			}
			if n.kind == '{' {
				name, _ := json.Marshal(k.key) // a string is always marshalled
				b.Write(append(name, ':'))
			}
			k.write(b, src, drop)
		}
		b.WriteByte(n.kind + 2) // the bracket that closes it
	case '"':
		b.Write(src[n.off:n.end])
	default:
		b.WriteString(n.text)
	}
}

// describe writes the value shortly for a human.
func (n *node) describe(secret bool) string {
	switch {
	case n.kind == '{':
		return "an object"
	case n.kind == '[':
		return "an array"
	case n.kind == '"' && secret:
		return "a string"
	case n.kind == '"':
		return quote(n.text)
	case n.kind == '0' && secret:
		return "a number"
	}
	return clip(n.text)
}

// place turns offsets into lines and columns and sorts.
func place(src []byte, notes []found) []Problem {
	if len(notes) == 0 {
		return nil
	}
	slices.SortStableFunc(notes, func(a, b found) int { return cmp.Compare(a.off, b.off) })
	notes = notes[:min(len(notes), 2*maxProblems)] // more than Sort keeps; each costs a look through the file
	ps := make([]Problem, len(notes))
	for i, f := range notes {
		ps[i] = f.p
		ps[i].Line, ps[i].Column = position(src, f.off)
	}
	return Sort(ps)
}

// position gives line and column, from 1, of a byte offset. Columns count characters.
func position(src []byte, off int) (line, col int) {
	off = min(off, len(src))
	before := src[:off]
	start := bytes.LastIndexByte(before, '\n') + 1
	return bytes.Count(before, []byte("\n")) + 1, utf8.RuneCount(before[start:]) + 1
}

// clip shortens text for a message; what a file holds may be long and ugly.
func clip(s string) string { return text.Cut(s, 63) }

func quote(s string) string { return strconv.Quote(clip(s)) }

func size(n int) string {
	switch {
	case n >= mib && n%mib == 0:
		return fmt.Sprintf("%d MiB", n/mib)
	case n >= mib:
		return fmt.Sprintf("%.1f MiB", float64(n)/mib)
	case n >= kib && n%kib == 0:
		return fmt.Sprintf("%d KiB", n/kib)
	}
	return fmt.Sprintf("%d bytes", n)
}

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
