package catalog

import (
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/schemas"
	"go.yaml.in/yaml/v3"
)

// decoder turns the nodes of one file into Go values, strictly: a key that is
// not known, a key twice, a value of the wrong type is a problem with its place.
//
// It decodes onto what is there already, which is how a patch works: keys that
// are given change, the others stay; maps grow, lists of entries with an id are
// merged by it, other lists are replaced. What is there is never written to: it
// may belong to the embedded catalog.
type decoder struct {
	file     string
	verbs    bool // an overlay: replace and disabled may stand in nested entries
	problems Problems
	types    map[reflect.Type]fields
}

type fields struct {
	names []string // in the order of the type
	index map[string]int
	id    int // of the field "id", or -1
}

// The verbs of an overlay's entries.
const (
	verbExtends  = "extends"
	verbReplace  = "replace"
	verbDisabled = "disabled"
)

func newDecoder(file string, verbs bool) *decoder {
	return &decoder{file: file, verbs: verbs, types: map[reflect.Type]fields{}}
}

// maxProblems bounds what is said about one file; one with more is not the file
// that its writer thinks it is.
const maxProblems = 30

func (d *decoder) full() bool { return len(d.problems) >= maxProblems }

func (d *decoder) fail(n *yaml.Node, ptr, format string, args ...any) {
	if d.full() {
		return
	}
	d.problems = append(d.problems, Problem{
		File: d.file, Line: n.Line, Column: n.Column, Pointer: ptr, Message: fmt.Sprintf(format, args...),
	})
}

func (d *decoder) fields(t reflect.Type) fields {
	if f, ok := d.types[t]; ok {
		return f
	}
	f := fields{index: map[string]int{}, id: -1}
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("yaml"), ",")
		if name == "" || name == "-" {
			continue
		}
		f.names = append(f.names, name)
		f.index[name] = i
		if name == "id" {
			f.id = i
		}
	}
	d.types[t] = f
	return f
}

// value decodes n onto v, which can be set.
func (d *decoder) value(n *yaml.Node, v reflect.Value, ptr string) {
	switch v.Kind() {
	case reflect.Struct:
		d.structure(n, v, ptr, nil)
	case reflect.Map:
		d.table(n, v, ptr)
	case reflect.Slice:
		d.list(n, v, ptr)
	case reflect.Pointer:
		fresh := reflect.New(v.Type().Elem())
		if !v.IsNil() {
			fresh.Elem().Set(v.Elem())
		}
		d.value(n, fresh.Elem(), ptr)
		v.Set(fresh)
	default:
		d.scalar(n, v, ptr)
	}
}

// structure decodes the keys of a mapping, but those of skip, which its caller
// has read.
func (d *decoder) structure(n *yaml.Node, v reflect.Value, ptr string, skip []string) {
	f := d.fields(v.Type())
	d.keys(n, ptr, func(key, val *yaml.Node) {
		if slices.Contains(skip, key.Value) {
			return
		}
		if i, ok := f.index[key.Value]; ok {
			d.value(val, v.Field(i), join(ptr, key.Value))
			return
		}
		d.unknown(key, join(ptr, key.Value), v.Type().Name(), append(slices.Clone(f.names), skip...))
	})
}

func (d *decoder) table(n *yaml.Node, v reflect.Value, ptr string) {
	out := reflect.MakeMap(v.Type())
	for _, k := range v.MapKeys() {
		out.SetMapIndex(k, v.MapIndex(k))
	}
	d.keys(n, ptr, func(key, val *yaml.Node) {
		name := reflect.ValueOf(key.Value)
		elem := reflect.New(v.Type().Elem()).Elem()
		if old := v.MapIndex(name); old.IsValid() {
			elem.Set(old)
		}
		d.value(val, elem, join(ptr, key.Value))
		out.SetMapIndex(name, elem)
	})
	v.Set(out)
}

func (d *decoder) list(n *yaml.Node, v reflect.Value, ptr string) {
	if n.Kind != yaml.SequenceNode {
		d.fail(n, ptr, "must be a list, not %s", kindName(n))
		return
	}
	elem := v.Type().Elem()
	byID := elem.Kind() == reflect.Struct && d.fields(elem).id >= 0
	switch {
	case byID && len(n.Content)+v.Len() > 0:
		d.mergeByID(n, v, ptr)
		return
	case len(n.Content) == 0:
		v.SetZero() // as the compiled form has it
		return
	}
	out := reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content))
	for i, c := range n.Content {
		d.value(c, out.Index(i), join(ptr, strconv.Itoa(i)))
	}
	v.Set(out)
}

func (d *decoder) missing(n *yaml.Node, ptr, what, id string, known []string) {
	if d.full() {
		return
	}
	near := schemas.Nearest(id, known)
	d.fail(n, ptr, "there is no %s %q to change%s", what, id, meant(near))
	d.problems[len(d.problems)-1].Near = near
}

func meant(near string) string {
	if near == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", near)
}

// keys calls each for every key of a mapping, once per key.
func (d *decoder) keys(n *yaml.Node, ptr string, each func(key, val *yaml.Node)) {
	if n.Kind != yaml.MappingNode {
		d.fail(n, ptr, "must be a mapping (key: value), not %s", kindName(n))
		return
	}
	seen := make(map[string]int, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content) && !d.full(); i += 2 {
		key := n.Content[i]
		if key.Kind != yaml.ScalarNode || isNull(key) {
			d.fail(key, ptr, "a key must be a plain text")
			continue
		}
		if line, twice := seen[key.Value]; twice {
			d.fail(key, join(ptr, key.Value), "the key %q stands here twice (first in line %d)", key.Value, line)
			continue
		}
		seen[key.Value] = key.Line
		each(key, n.Content[i+1])
	}
}

// scalar takes any plain text for a string as it is written, so that 1.20 stays
// "1.20" and an argument may be a number.
func (d *decoder) scalar(n *yaml.Node, v reflect.Value, ptr string) {
	if n.Kind != yaml.ScalarNode {
		d.fail(n, ptr, "must be %s, not %s", wanted(v.Kind()), kindName(n))
		return
	}
	if isNull(n) {
		d.fail(n, ptr, "is empty: leave the key out, or give %s", wanted(v.Kind()))
		return
	}
	tag := n.ShortTag()
	switch v.Kind() {
	case reflect.String:
		v.SetString(n.Value)
	case reflect.Bool:
		if tag != "!!bool" {
			d.fail(n, ptr, "must be true or false, not %q", clip(n.Value))
			return
		}
		v.SetBool(strings.EqualFold(n.Value, "true"))
	case reflect.Int:
		i, err := strconv.ParseInt(strings.ReplaceAll(n.Value, "_", ""), 0, 32)
		if tag != "!!int" || err != nil {
			d.fail(n, ptr, "must be a whole number, not %q", clip(n.Value))
			return
		}
		v.SetInt(i)
	case reflect.Float64:
		x, err := strconv.ParseFloat(n.Value, 64)
		if tag != "!!float" && tag != "!!int" || err != nil || math.IsNaN(x) || math.IsInf(x, 0) {
			d.fail(n, ptr, "must be a number, not %q", clip(n.Value))
			return
		}
		v.SetFloat(x)
	default:
		panic("catalog: no decoding for " + v.Type().String()) // a mistake in the types of this package
	}
}

func wanted(k reflect.Kind) string {
	switch k {
	case reflect.Bool:
		return "true or false"
	case reflect.Int:
		return "a whole number"
	case reflect.Float64:
		return "a number"
	}
	return "a text"
}

func kindName(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case isNull(n):
		return "nothing"
	}
	return fmt.Sprintf("%q", clip(n.Value))
}

func clip(s string) string { return text.Cut(s, 43) }

var pointerEscape = strings.NewReplacer("~", "~0", "/", "~1")

func join(ptr, token string) string { return ptr + "/" + pointerEscape.Replace(token) }

// child is the value of a key of a mapping, or nil.
func child(n *yaml.Node, key string) *yaml.Node {
	if n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

func scalarOf(n *yaml.Node, key string) string {
	if c := child(n, key); c != nil && c.Kind == yaml.ScalarNode {
		return c.Value
	}
	return ""
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
