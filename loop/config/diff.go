package config

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	"github.com/superloop/superloop/internal/redact"
	"github.com/superloop/superloop/schemas"
)

// Change is one difference between two configurations. An absent value is nil.
// Path is a JSON pointer, but that a loop stands in it under its id
// ("/loops/demo/max_iterations") and not under its index. A secret is
// redact.Mark on both sides: it says only that it changed.
type Change struct {
	Path string `json:"path"`
	From any    `json:"from"`
	To   any    `json:"to"`
}

// Diff gives what was changed from a to b as it is written in their files,
// sorted by path; comments and white space are no change. Lists of plain values
// are compared whole. A nil Config is an empty file.
func Diff(a, b *Config) []Change {
	d := &differ{}
	d.compare("", side{docOf(a), "", valueOf(a)}, side{docOf(b), "", valueOf(b)})
	slices.SortFunc(d.changes, func(x, y Change) int { return cmp.Compare(x.Path, y.Path) })
	return d.changes
}

func docOf(c *Config) *schemas.Document {
	if c == nil {
		return nil
	}
	return c.doc
}

func valueOf(c *Config) any {
	if c == nil || c.doc == nil {
		return nil
	}
	dec := json.NewDecoder(bytes.NewReader(c.doc.Raw("", isComment)))
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
		for _, k := range union(am, bm) {
			d.compare(path+pointer(k), a.member(k), b.member(k))
		}
		return
	}
	if path == "/loops" {
		d.loops(a, b)
		return
	}
	if objects(a.v) || objects(b.v) {
		for i := range max(length(a.v), length(b.v)) {
			d.compare(path+pointer(i), a.element(i), b.element(i))
		}
		return
	}
	d.changes = append(d.changes, Change{path, a.shown(), b.shown()})
}

// loops compares loops by id, and their order, which is the order in which they
// run.
func (d *differ) loops(a, b side) {
	aIDs, bIDs := a.ids(), b.ids()
	both := func(in, other []string) []string {
		return slices.DeleteFunc(slices.Clone(in), func(id string) bool { return !slices.Contains(other, id) })
	}
	if x, y := both(aIDs, bIDs), both(bIDs, aIDs); !slices.Equal(x, y) {
		d.changes = append(d.changes, Change{"/loops", aIDs, bIDs})
	}
	all := slices.Concat(aIDs, bIDs)
	slices.Sort(all)
	for _, id := range slices.Compact(all) {
		d.compare("/loops"+pointer(id), a.element(slices.Index(aIDs, id)), b.element(slices.Index(bIDs, id)))
	}
}

func (s side) ids() []string {
	list, _ := s.v.([]any)
	out := make([]string, 0, len(list))
	for _, l := range list {
		m, _ := l.(map[string]any)
		out = append(out, fmt.Sprint(m["id"]))
	}
	return out
}

func (s side) member(key string) side {
	m, _ := s.v.(map[string]any)
	return side{s.doc, s.ptr + pointer(key), m[key]}
}

func (s side) element(i int) side {
	list, _ := s.v.([]any)
	if i < 0 || i >= len(list) {
		return side{s.doc, s.ptr, nil}
	}
	return side{s.doc, s.ptr + pointer(i), list[i]}
}

// objects reports whether v is a list that holds objects.
func objects(v any) bool {
	list, _ := v.([]any)
	return slices.ContainsFunc(list, func(e any) bool { _, ok := e.(map[string]any); return ok })
}

func length(v any) int {
	list, _ := v.([]any)
	return len(list)
}

func union(a, b map[string]any) []string {
	var keys []string
	for k := range a {
		keys = append(keys, k)
	}
	for k := range b {
		if _, ok := a[k]; !ok {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	return keys
}
