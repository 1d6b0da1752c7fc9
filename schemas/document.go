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

// Document is a file that Read has read strictly. It knows the place of each value in the source.
type Document struct {
	kind Kind
	src  []byte
	root node
}

// Read reads data as a file of the given kind. A Config may have comments (// and /* */) and a comma behind the last value
// of an object or an array, every other kind is plain JSON. It returns the document and the problems, sorted (see Sort). Without a
// problem, data is valid. The document is nil if data cannot be read; otherwise its methods return values and places even
// if there are problems. Read does not copy data, so the caller must not change it.
func Read(kind Kind, data []byte) (*Document, []Problem) {
	if !kind.Known() {
		return nil, []Problem{{Code: CodeNotAllowed, Found: quote(string(kind)), Message: fmt.Sprintf("%q is not a kind of file that superloop knows", string(kind))}}
	}
	if limit := kind.Limit(); len(data) > limit {
		return nil, []Problem{{Line: 1, Column: 1, Code: CodeTooLarge, Found: size(len(data)), Allowed: "at most " + size(limit),
			Message: fmt.Sprintf("the file has %s; a %s file has at most %s", size(len(data)), kind, size(limit))}}
	}
	d, notes := syntax(kind, data)
	if d != nil {
		notes = append(notes, d.check()...)
	}
	return d, place(data, notes)
}

// Parse is Read without the schema: its problems are those of the syntax only. It is for who reads a few values, and must
// be quick.
func Parse(kind Kind, data []byte) (*Document, []Problem) {
	d, notes := syntax(kind, data)
	return d, place(data, notes)
}

func syntax(kind Kind, data []byte) (*Document, []found) {
	root, notes, ok := scan(data, kind)
	if !ok {
		return nil, notes
	}
	return &Document{kind: kind, src: data, root: root}, notes
}

// Validate returns the problems of data as a file of the given kind. It returns none if data is valid.
func Validate(kind Kind, data []byte) []Problem {
	_, problems := Read(kind, data)
	return problems
}

// Into reads data strictly and decodes it into dst if it is valid. It decodes as json.Unmarshal does, but accepts
// integers in any spelling. If the schema finds a problem, Into does not change dst.
func Into(kind Kind, data []byte, dst any) []Problem {
	d, problems := Read(kind, data)
	if len(problems) > 0 {
		return problems
	}
	err := text.Decode(d.Raw("", nil), dst)
	if err == nil {
		return nil
	}
	// The schema allows a value that dst cannot hold.
	p := Problem{Line: 1, Column: 1, Code: CodeWrongType, Message: err.Error()}
	if te, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		p.Pointer = "/" + strings.ReplaceAll(te.Field, ".", "/")
		p.Found, p.Allowed = clip(te.Value), te.Type.String()
		p.Message = fmt.Sprintf("found %s where %s is needed", p.Found, te.Type)
		if line, col, ok := d.Position(p.Pointer); ok {
			p.Line, p.Column = line, col
		}
	}
	return []Problem{p}
}

// Position returns the line and the column, from 1, of the value at a JSON pointer.
func (d *Document) Position(ptr string) (line, col int, ok bool) {
	n := d.find(ptr)
	if n == nil {
		return 0, 0, false
	}
	line, col = position(d.src, n.off)
	return line, col, true
}

// Raw returns the JSON text of the value at a JSON pointer, without white space, with integers in plain form, and
// without the object keys for which drop returns true. It returns nil if there is no such value. Strings keep the bytes
// of the source.
func (d *Document) Raw(ptr string, drop func(key string) bool) json.RawMessage {
	n := d.find(ptr)
	if n == nil {
		return nil
	}
	var b bytes.Buffer
	n.write(&b, d.src, drop)
	return b.Bytes()
}

// Tokens returns the reference tokens of a JSON pointer, unescaped.
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

// find returns the node at a JSON pointer, or nil. Of duplicate keys it takes the last.
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
				name, _ := json.Marshal(k.key) // every string can be encoded as JSON
				b.Write(append(name, ':'))
			}
			k.write(b, src, drop)
		}
		b.WriteByte(n.kind + 2) // the closing bracket
	case '"':
		b.Write(src[n.off:n.end])
	default:
		b.WriteString(n.text)
	}
}

// describe returns a short description of the value for a message.
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

// place turns the offsets of problems into lines and columns, and sorts the problems.
func place(src []byte, notes []found) []Problem {
	if len(notes) == 0 {
		return nil
	}
	slices.SortStableFunc(notes, func(a, b found) int { return cmp.Compare(a.off, b.off) })
	notes = notes[:min(len(notes), 2*maxProblems)] // Sort keeps fewer; finding each place costs a pass over the file
	ps := make([]Problem, len(notes))
	for i, f := range notes {
		ps[i] = f.p
		ps[i].Line, ps[i].Column = position(src, f.off)
	}
	return Sort(ps)
}

// position returns the line and the column, from 1, of a byte offset. Columns count characters.
func position(src []byte, off int) (line, col int) {
	off = min(off, len(src))
	before := src[:off]
	start := bytes.LastIndexByte(before, '\n') + 1
	return bytes.Count(before, []byte("\n")) + 1, utf8.RuneCount(before[start:]) + 1
}

// clip shortens a text of a file for a message.
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

// views returns the schemas that apply to one value: the given one, and those that it refers to.
func views(sch *jsonschema.Schema, into []*jsonschema.Schema) []*jsonschema.Schema {
	for ; sch != nil && !slices.Contains(into, sch); sch = sch.Ref {
		into = append(into, sch)
	}
	return into
}

// below returns the schemas that apply to one member or element of a value.
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

// visit calls f for every value below the root, with the schemas that apply to the value and to its parent.
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

// cases reports keys that differ from a key of the schema only in case. Go's decoder takes "Command" for "command", and
// other readers do not, so an operator could see one command while superloop runs another. Where the schema allows no
// other key, the schema itself reports the key.
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

// Ignored returns a problem for every key that superloop knows but ignores. These problems are warnings; the document
// is valid.
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

// Secret reports whether the schema marks the value at a JSON pointer, or a value around it, as a secret.
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
