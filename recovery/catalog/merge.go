package catalog

import (
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// mergeByID decodes a list of entries with ids onto another one.
func (d *decoder) mergeByID(n *yaml.Node, v reflect.Value, ptr string) {
	elem := v.Type().Elem()
	id := d.fields(elem).id
	out := reflect.AppendSlice(reflect.MakeSlice(v.Type(), 0, v.Len()+len(n.Content)), v)
	seen := map[string]bool{}
	for i, c := range n.Content {
		if d.full() {
			break
		}
		here := join(ptr, strconv.Itoa(i))
		e := d.entry(c, here)
		if e.id == "" {
			continue
		}
		if seen[e.id] {
			d.fail(c, join(here, "id"), "%q stands in this list twice", e.id)
			continue
		}
		seen[e.id] = true
		known := names(out, id)
		at := slices.Index(known, e.id)
		if at < 0 && (e.replace || e.disabled || e.extends) {
			d.missing(c, here, "entry", e.id, known)
			continue
		}
		if e.disabled {
			out = reflect.AppendSlice(out.Slice(0, at), out.Slice(at+1, out.Len()))
			continue
		}
		fresh := reflect.New(elem).Elem()
		if at >= 0 && !e.replace {
			fresh.Set(out.Index(at))
		}
		d.structure(c, fresh, here, e.read)
		fresh.Field(id).SetString(e.id)
		if at >= 0 {
			out.Index(at).Set(fresh)
		} else {
			out = reflect.Append(out, fresh)
		}
	}
	v.Set(out)
	if opts, ok := v.Interface().([]Option); ok {
		recommendLast(n, opts)
	}
}

// recommendLast lets the option that a patch recommends take the place of the
// one that was recommended before.
func recommendLast(n *yaml.Node, opts []Option) {
	chosen := map[string]bool{}
	for _, c := range n.Content {
		if r := child(c, "recommended"); r != nil && strings.EqualFold(r.Value, "true") {
			chosen[scalarOf(c, "id")+scalarOf(c, verbExtends)] = true
		}
	}
	for i := range opts {
		if len(chosen) > 0 && !chosen[opts[i].ID] {
			opts[i].Recommended = false
		}
	}
}

func names(list reflect.Value, id int) []string {
	out := make([]string, list.Len())
	for i := range out {
		out[i] = list.Index(i).Field(id).String()
	}
	return out
}
