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

// Change is one difference between two configurations. Path is a JSON pointer, except that it names a loop by its id
// ("/loops/demo/max_iterations"). From or To is nil where the value is absent. A changed secret is redact.Mark on both
// sides.
type Change struct {
	Path string `json:"path"`
	From any    `json:"from"`
	To   any    `json:"to"`
}

// Diff returns the changes from a to b, sorted by path. It compares the values that the two files hold, without
// comments. It compares lists of plain values as a whole. A nil Config counts as an empty file.
func Diff(a, b *Config) []Change {
	d := &differ{}
	d.compare("", sideOf(a), sideOf(b))
	slices.SortFunc(d.changes, func(x, y Change) int { return cmp.Compare(x.Path, y.Path) })
	return d.changes
}

// value returns the document as plain values without comments.
func value(doc *schemas.Document) any {
	dec := json.NewDecoder(bytes.NewReader(doc.Raw("", isComment)))
	dec.UseNumber()
	var v any
	if dec.Decode(&v) != nil {
		return nil // cannot happen: the bytes come from a valid document
	}
	return v
}

// side is a value of one of the two configurations. ptr is the JSON pointer to it.
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

// shown returns the value, or redact.Mark if it is a secret.
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

// loops compares the loops by id. It also compares their order, which is the order in which they run.
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

// objects reports whether the list holds at least one object.
func objects(list []any) bool {
	return slices.ContainsFunc(list, func(e any) bool { _, ok := e.(map[string]any); return ok })
}
