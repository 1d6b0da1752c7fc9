package config

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/superloop/superloop/internal/redact"
	"github.com/superloop/superloop/schemas"
)

// Change is one difference between two configurations. An absent value is nil. Path is a JSON pointer, but that a loop
// stands in it under its id ("/loops/demo/max_iterations"). A changed secret is redact.Mark on both sides.
type Change struct {
	Path string `json:"path"`
	From any    `json:"from"`
	To   any    `json:"to"`
}

// Diff gives what was changed from a to b as it is written in their files, sorted by path; comments and white space are
// no change. Lists of plain values are compared whole. A nil Config is an empty file.
func Diff(a, b *Config) []Change {
	d := &differ{}
	d.compare("", sideOf(a), sideOf(b))
	slices.SortFunc(d.changes, func(x, y Change) int { return cmp.Compare(x.Path, y.Path) })
	return d.changes
}

// value is a document as plain values without comments.
func value(doc *schemas.Document) any {
	dec := json.NewDecoder(bytes.NewReader(doc.Raw("", isComment)))
	dec.UseNumber()
	var v any
	if dec.Decode(&v) != nil {
		return nil // never: it was read from a valid document
	}
	return v
}

// side is a value of one of the two configurations; ptr is where it stands.
type side struct {
	doc *schemas.Document
	ptr string
	v   any
}

func sideOf(c *Config) side {
	if c == nil {
		return side{}
	}
	return side{c.doc, "", value(c.doc)}
}

// shown is the value with its secrets masked.
func (s side) shown() any {
	if s.v != nil && s.doc.Secret(s.ptr) {
		return redact.Mark
	}
	return s.v
}

type differ struct{ changes []Change }

func (d *differ) compare(path string, a, b side) {
	if reflect.DeepEqual(a.v, b.v) {
		return
	}
	am, aMap := a.v.(map[string]any)
	bm, bMap := b.v.(map[string]any)
	if (aMap || a.v == nil) && (bMap || b.v == nil) && len(am)+len(bm) > 0 {
		keys := map[string]any{}
		maps.Copy(keys, am)
		maps.Copy(keys, bm)
		for k := range keys {
			d.compare(path+Pointer(k), a.member(k), b.member(k))
		}
		return
	}
	if path == "/loops" {
		d.loops(a, b)
		return
	}
	if objects(a.list()) || objects(b.list()) {
		for i := range max(len(a.list()), len(b.list())) {
			d.compare(path+Pointer(i), a.element(i), b.element(i))
		}
		return
	}
	d.changes = append(d.changes, Change{path, a.shown(), b.shown()})
}

// loops compares loops by id, and their order, which is the order in which they run.
func (d *differ) loops(a, b side) {
	aIDs, bIDs := a.ids(), b.ids()
	both := func(in, other []string) []string {
		return slices.DeleteFunc(slices.Clone(in), func(id string) bool { return !slices.Contains(other, id) })
	}
	if !slices.Equal(both(aIDs, bIDs), both(bIDs, aIDs)) {
		d.changes = append(d.changes, Change{"/loops", aIDs, bIDs})
	}
	for i, id := range slices.Concat(aIDs, bIDs) {
		if i < len(aIDs) || !slices.Contains(aIDs, id) {
			d.compare("/loops"+Pointer(id), a.element(slices.Index(aIDs, id)), b.element(slices.Index(bIDs, id)))
		}
	}
}

func (s side) ids() []string {
	out := []string{}
	for _, l := range s.list() {
		m, _ := l.(map[string]any)
		out = append(out, fmt.Sprint(m["id"]))
	}
	return out
}

func (s side) member(key string) side {
	m, _ := s.v.(map[string]any)
	return side{s.doc, s.ptr + Pointer(key), m[key]}
}

func (s side) element(i int) side {
	if i < 0 || i >= len(s.list()) {
		return side{s.doc, s.ptr, nil}
	}
	return side{s.doc, s.ptr + Pointer(i), s.list()[i]}
}

func (s side) list() []any {
	list, _ := s.v.([]any)
	return list
}

// objects reports whether a list holds objects.
func objects(list []any) bool {
	return slices.ContainsFunc(list, func(e any) bool { _, ok := e.(map[string]any); return ok })
}
