package catalog

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/superloop/superloop/internal/text"
	"go.yaml.in/yaml/v3"
)

// decoder turns the nodes of one file into Go values, strictly. An unknown key, a repeated key or a value of the wrong
// type is a problem, which the decoder notes with its place.
//
// The decoder starts from the old value, so a file can change an entry of the catalog. A key that the file gives
// changes the field; other fields keep their values. Maps grow. Lists of entries with an id are merged by id. Other
// lists are replaced. The decoder never writes to the old value, which may belong to the embedded catalog.
type decoder struct {
	origin   Origin              // the origin of the file, without a line
	verbs    bool                // true: the file is an overlay, whose entries may have the verbs extends, replace and disabled
	left     map[*yaml.Node]bool // wrong entries, which the decoder skips
	problems Problems
}

func newDecoder(o Origin) *decoder { return &decoder{origin: o, verbs: o.Source != SourceEmbedded} }

// maxProblems bounds the problems that the decoder reports about one file. A file with more of them is probably no file
// of the catalog.
const maxProblems = 30

func (d *decoder) full() bool { return len(d.problems) >= maxProblems }

func (d *decoder) fail(n *yaml.Node, ptr, format string, args ...any) {
	d.failNear(n, ptr, "", format, args...)
}

// place returns the origin of a node.
func (d *decoder) place(n *yaml.Node, ptr string) Origin {
	o := d.origin
	o.Line, o.Pointer = n.Line, ptr
	return o
}

// failNear reports a problem as fail does. near is the known name that the writer of an unknown name may mean, or "".
func (d *decoder) failNear(n *yaml.Node, ptr, near, format string, args ...any) {
	if !d.full() {
		d.problems = append(d.problems, Problem{File: d.origin.File, Line: n.Line, Column: n.Column, Pointer: ptr, Message: fmt.Sprintf(format, args...), Near: near})
	}
}

// keysOf returns the YAML keys of a struct type in the order of its fields, and the field number of each key.
func keysOf(t reflect.Type) (names []string, index map[string]int) {
	index = map[string]int{}
	for i := range t.NumField() {
		if name := t.Field(i).Tag.Get("yaml"); name != "" && name != "-" {
			names, index[name] = append(names, name), i
		}
	}
	return names, index
}

// value decodes n into v, which must be settable.
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

// structure decodes the keys of a mapping into a struct, except the keys in skip, which the caller has read.
func (d *decoder) structure(n *yaml.Node, v reflect.Value, ptr string, skip []string) {
	names, index := keysOf(v.Type())
	d.keys(n, ptr, func(key, val *yaml.Node) {
		if slices.Contains(skip, key.Value) {
			return
		}
		if i, ok := index[key.Value]; ok {
			d.value(val, v.Field(i), join(ptr, key.Value))
			return
		}
		d.unknown(key, join(ptr, key.Value), v.Type().Name(), slices.Concat(names, skip))
	})
}

func (d *decoder) table(n *yaml.Node, v reflect.Value, ptr string) {
	out := reflect.MakeMap(v.Type())
	for k, old := range v.Seq2() {
		out.SetMapIndex(k, old)
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
	switch list := v.Addr().Interface().(type) {
	case *[]Handler:
		merge(d, n, ptr, list, merging[Handler]{})
	case *[]Approach:
		merge(d, n, ptr, list, merging[Approach]{})
	case *[]Option:
		merge(d, n, ptr, list, merging[Option]{})
		recommendLast(n, *list)
	default:
		v.SetZero() // an empty list is nil, as in the compiled form
		if len(n.Content) > 0 {
			v.Set(reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content)))
		}
		for i, c := range n.Content {
			d.value(c, v.Index(i), join(ptr, strconv.Itoa(i)))
		}
	}
}

// recommendLast removes the recommendation of all other options if an overlay recommends an option.
func recommendLast(n *yaml.Node, opts []Option) {
	chosen := map[string]bool{}
	for _, c := range n.Content {
		if strings.EqualFold(scalarOf(c, "recommended"), "true") {
			chosen[scalarOf(c, "id")+scalarOf(c, verbExtends)] = true
		}
	}
	for i := range opts {
		opts[i].Recommended = opts[i].Recommended && (len(chosen) == 0 || chosen[opts[i].ID])
	}
}

func meant(near string) string {
	if near == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", near)
}

// keys calls each for every key of a mapping and its value. If a key stands in the mapping twice, keys reports a
// problem and skips the second one.
func (d *decoder) keys(n *yaml.Node, ptr string, each func(key, val *yaml.Node)) {
	if n.Kind != yaml.MappingNode {
		d.fail(n, ptr, "must be a mapping (key: value), not %s", kindName(n))
		return
	}
	seen := make(map[string]int, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content) && !d.full(); i += 2 {
		key := n.Content[i]
		if d.left[key] {
			continue
		}
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

// scalar decodes a plain value. A string gets the text as the file has it, so 1.20 stays "1.20".
func (d *decoder) scalar(n *yaml.Node, v reflect.Value, ptr string) {
	wanted := map[reflect.Kind]string{reflect.String: "a text", reflect.Bool: "true or false", reflect.Int: "a whole number", reflect.Float64: "a number"}[v.Kind()]
	if n.Kind != yaml.ScalarNode {
		d.fail(n, ptr, "must be %s, not %s", wanted, kindName(n))
		return
	}
	if isNull(n) {
		d.fail(n, ptr, "is empty: leave the key out, or give %s", wanted)
		return
	}
	ok, tag := true, n.ShortTag()
	switch v.Kind() {
	case reflect.String:
		v.SetString(n.Value)
	case reflect.Bool:
		ok = tag == "!!bool"
		v.SetBool(strings.EqualFold(n.Value, "true"))
	case reflect.Int:
		i, err := strconv.ParseInt(strings.ReplaceAll(n.Value, "_", ""), 0, 32)
		ok = tag == "!!int" && err == nil
		v.SetInt(i)
	case reflect.Float64:
		x, err := strconv.ParseFloat(n.Value, 64)
		ok = (tag == "!!float" || tag == "!!int") && err == nil && !math.IsNaN(x) && !math.IsInf(x, 0)
		v.SetFloat(x)
	default:
		panic("catalog: no decoding for " + v.Type().String()) // a field of an entry has a type that the decoder does not know
	}
	if !ok {
		d.fail(n, ptr, "must be %s, not %q", wanted, clip(n.Value))
	}
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
