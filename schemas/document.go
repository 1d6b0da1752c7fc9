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
