package catalog

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"math/bits"
	"reflect"
	"slices"

	"go.yaml.in/yaml/v3"
)

// builder is a catalog without the default values. Load applies each overlay file to a clone of a builder.
type builder struct {
	Sum        uint64 // checksum of the YAML files from which the compiled form was made
	Categories []Category
	Chains     []Chain
	Handlers   []Handler // the handlers outside recipes; Recipe.OnFailure has the others
	Recipes    []Recipe
	Projects   []ProjectRecipe
	Managers   []Manager
	Names      Names
	Held       string // see Catalog.Held
}

func (b *builder) clone() *builder {
	c := *b
	c.Categories, c.Chains, c.Handlers = slices.Clone(b.Categories), slices.Clone(b.Chains), cloneHandlers(b.Handlers)
	c.Recipes, c.Projects, c.Managers = slices.Clone(b.Recipes), slices.Clone(b.Projects), slices.Clone(b.Managers)
	for i := range c.Recipes {
		c.Recipes[i].OnFailure = cloneHandlers(c.Recipes[i].OnFailure)
	}
	c.Names.Origins = maps.Clone(b.Names.Origins)
	return &c
}

func cloneHandlers(list []Handler) []Handler {
	list = slices.Clone(list)
	for i := range list {
		list[i].Options = slices.Clone(list[i].Options)
	}
	return list
}

// apply adds the entries of a document to the builder, or changes the builder's entries by them.
func (b *builder) apply(doc *document) Problems {
	d := newDecoder(doc.origin)
	d.left = doc.left
	merge(d, doc.lists["categories"], "/categories", &b.Categories, merging[Category]{what: "category"})
	merge(d, doc.lists["managers"], "/managers", &b.Managers, merging[Manager]{what: "package manager"})
	merge(d, doc.lists["recipes"], "/recipes", &b.Recipes, merging[Recipe]{what: "recipe", after: func(n *yaml.Node, r *Recipe) {
		if child(n, "verify") != nil {
			r.Verify.Origin = map[bool]string{false: VerifyDefault, true: VerifyUser}[d.verbs]
		}
	}})
	merge(d, doc.lists["projects"], "/projects", &b.Projects, merging[ProjectRecipe]{what: "project recipe"})
	merge(d, doc.lists["chains"], "/chains", &b.Chains, merging[Chain]{what: "chain", key: "category", refuse: func(_ *Chain, e entry) string {
		if e.disabled {
			return "the chain of a category cannot be disabled: extend it and disable its approaches"
		}
		return ""
	}})
	var ofRecipes []*Handler
	for i := range b.Recipes {
		ofRecipes = append(ofRecipes, pointers(b.Recipes[i].OnFailure)...)
	}
	merge(d, doc.lists["handlers"], "/handlers", &b.Handlers, merging[Handler]{
		what: "handler", others: ofRecipes,
		fresh: func(old Handler) Handler {
			h := Handler{Layer: old.Layer, Family: old.Family}
			if ofRecipe := old.ID != "" && old.Layer == ""; doc.layer != "" && !ofRecipe {
				h.Layer, h.Family = doc.layer, doc.family
			}
			return h
		},
		refuse: func(h *Handler, e entry) string { return refuseHandler(doc, h, e) },
		after:  d.translate,
	})
	for i := range b.Recipes {
		b.Recipes[i].OnFailure = dropDisabled(b.Recipes[i].OnFailure)
	}
	b.applyNames(d, doc)
	return d.problems
}

// merging holds the options of merge. The zero value is valid.
type merging[T any] struct {
	what   string                       // the word for an entry of a file's top level, where only a verb may change an existing entry
	key    string                       // the key that holds the id in a file, "" means "id"
	others []*T                         // entries outside the list that a file may change, too
	fresh  func(old T) T                // returns the initial value of a new entry, or of one that replaces old
	refuse func(old *T, e entry) string // returns why e must not change old, or must not be added (old is nil), or ""
	after  func(n *yaml.Node, now *T)   // called after an entry was read
}

func idOf(v any) *string {
	if c, ok := v.(*Chain); ok {
		return &c.Category
	}
	return reflect.ValueOf(v).Elem().FieldByName("ID").Addr().Interface().(*string)
}

// originOf returns a pointer to the Origin of an entry. Options and categories have no Origin: for them it returns a
// pointer to a new Origin that is not part of the entry.
func originOf(v any) *Origin {
	if f := reflect.ValueOf(v).Elem().FieldByName("Origin"); f.IsValid() {
		return f.Addr().Interface().(*Origin)
	}
	return &Origin{}
}

// merge applies the entries of a file's list to the existing entries in list. It puts changed copies into a new list,
// and does not write to the old list. A nil node changes nothing.
func merge[T any](d *decoder, n *yaml.Node, ptr string, list *[]T, m merging[T]) {
	if n == nil {
		return
	}
	left := slices.Clone(*list)
	have := map[string]*T{}
	for _, v := range append(pointers(left), m.others...) {
		have[*idOf(v)] = v
	}
	var added []T
	d.entries(n, ptr, cmp.Or(m.key, "id"), cmp.Or(m.what, "entry"), sortedKeys(have), func(c *yaml.Node, ptr string, e entry) {
		v, why := have[e.id], ""
		if v != nil && m.what != "" && !e.changes() {
			o := originOf(v)
			why = fmt.Sprintf("there is a %s %q already (%s:%d): write extends: %s to change it, or add replace: true", m.what, e.id, o.File, o.Line, e.id)
		} else if m.refuse != nil {
			why = m.refuse(v, e)
		}
		if why != "" {
			d.fail(c, ptr, "%s", why)
			return
		}
		if e.disabled {
			*idOf(v) = ""
			return
		}
		var now T
		if v != nil {
			now = *v
		}
		if v == nil || e.replace {
			old := now
			now = *new(T)
			if m.fresh != nil {
				now = m.fresh(old)
			}
		}
		d.structure(c, reflect.ValueOf(&now).Elem(), ptr, e.read)
		*idOf(&now), *originOf(&now) = e.id, d.place(c, ptr)
		if m.after != nil {
			m.after(c, &now)
		}
		if v != nil {
			*v = now
		} else {
			added = append(added, now)
		}
	})
	*list = append(dropDisabled(left), added...)
}

func ids[T any](list []T) []string {
	out := make([]string, len(list))
	for i := range list {
		out[i] = *idOf(&list[i])
	}
	return out
}

func pointers[T any](list []T) []*T {
	out := make([]*T, len(list))
	for i := range list {
		out[i] = &list[i]
	}
	return out
}

// dropDisabled removes the entries without an id: merge clears the id of an entry that a file disables.
func dropDisabled[T any](list []T) []T {
	return slices.DeleteFunc(list, func(v T) bool { return *idOf(&v) == "" })
}

// applyNames adds the names of a document to the tables of package names, and notes the origin of an overlay's names.
func (b *builder) applyNames(d *decoder, doc *document) {
	for _, t := range doc.names {
		d.value(t.node, reflect.ValueOf(b.Names.table(t.kind)).Elem(), t.ptr)
		if !d.verbs {
			continue
		}
		if b.Names.Origins == nil {
			b.Names.Origins = map[string]Origin{}
		}
		for i := 0; i+1 < len(t.node.Content); i += 2 {
			name := t.node.Content[i]
			if doc.left[name] {
				continue
			}
			b.Names.Origins[t.kind+"/"+name.Value] = d.place(name, join(t.ptr, name.Value))
		}
	}
}

// finish makes the catalog: it fills in the defaults and puts the handlers in their order. It uses the builder up,
// because copies of all options would cost a tenth of the time to load.
func (b *builder) finish() *Catalog {
	b.holdEverything()
	c := &Catalog{
		Held: b.Held, Categories: b.Categories, Recipes: b.Recipes, Projects: b.Projects, Managers: b.Managers, Names: b.Names,
		Chains: make(map[string]Chain, len(b.Chains)),
	}
	var handlers []*Handler // a Handler is large: pointers are sorted, and each is copied once
	for i := range c.Recipes {
		r := &c.Recipes[i]
		r.fillDefaults()
		for j := range r.OnFailure {
			h := &r.OnFailure[j]
			h.Layer, h.Family = LayerRecipe, r.ID
			handlers = append(handlers, h)
		}
	}
	for i := range b.Handlers {
		handlers = append(handlers, &b.Handlers[i])
	}
	slices.SortStableFunc(handlers, func(a, b *Handler) int {
		return cmp.Or(cmp.Compare(b.Layer.Rank(), a.Layer.Rank()), cmp.Compare(b.Priority, a.Priority))
	})
	c.Handlers = make([]Handler, len(handlers))
	for i, h := range handlers {
		h.fillDefaults()
		h.Category = c.categoryID(h.Category)
		c.Handlers[i] = *h
	}
	slices.SortStableFunc(c.Projects, func(a, b ProjectRecipe) int { return cmp.Compare(b.Priority, a.Priority) })
	for _, ch := range b.Chains {
		ch.Category = c.categoryID(ch.Category)
		ch.Approaches = slices.Clone(ch.Approaches)
		slices.SortStableFunc(ch.Approaches, func(a, b Approach) int { return cmp.Compare(a.Priority, b.Priority) })
		for j := range ch.Approaches {
			if a := &ch.Approaches[j]; a.Option != nil {
				filled := *a.Option
				filled.ID, filled.Label = cmp.Or(filled.ID, a.ID), cmp.Or(filled.Label, a.Label)
				filled.Confidence = cmp.Or(filled.Confidence, a.Confidence)
				filled.fillDefaults()
				a.Option = &filled
			}
		}
		c.Chains[ch.Category] = ch
	}
	return c
}

// binaryForm reads or writes the compiled form of the catalog. A struct is a number with a bit for each field that is
// not zero, followed by these fields. A text, a list and a map begin with their length. A text that was read shares the
// memory of the form. The form has no version number, because each build of the program contains its own form.
type binaryForm struct {
	reading bool
	short   bool // the form ended before all values were read
	rest    string
	written []byte
}

// writeBinary returns the compiled form of the value to which v points. The value may consist of strings, numbers,
// bools, slices, maps, structs and pointers.
func writeBinary(v any) string {
	b := binaryForm{}
	b.value(reflect.ValueOf(v).Elem())
	return string(b.written)
}

// readBinary reads a compiled form into the value to which v points. It returns false if the form is too short or too
// long for the type of the value.
func readBinary(form string, v any) bool {
	b := binaryForm{reading: true, rest: form}
	b.value(reflect.ValueOf(v).Elem())
	return !b.short && b.rest == ""
}

// number reads and returns a number if b is reading; else it writes n and returns n.
func (b *binaryForm) number(n uint64) uint64 {
	if !b.reading {
		b.written = binary.AppendUvarint(b.written, n)
		return n
	}
	n = 0
	for i := 0; i < len(b.rest) && i < binary.MaxVarintLen64; i++ { // binary.Uvarint would need a copy of rest as a byte slice
		n |= uint64(b.rest[i]&0x7f) << (7 * i)
		if b.rest[i] < 0x80 {
			b.rest = b.rest[i+1:]
			return n
		}
	}
	b.rest, b.short = "", true
	return 0
}

// length reads or writes the number of elements that follow, as number does. An element takes at least one byte, so a
// length above the number of remaining bytes is an error.
func (b *binaryForm) length(n int) int {
	long := b.number(uint64(n))
	if b.reading && long > uint64(len(b.rest)) {
		b.rest, b.short = "", true
		return 0
	}
	return int(long)
}

// value reads v, which must be settable, or writes it.
func (b *binaryForm) value(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		n := b.length(v.Len())
		if !b.reading {
			b.written = append(b.written, v.String()...)
			return
		}
		v.SetString(b.rest[:n])
		b.rest = b.rest[n:]
	case reflect.Bool:
		n := uint64(0)
		if v.Bool() {
			n = 1
		}
		v.SetBool(b.number(n) == 1)
	case reflect.Int:
		n := b.number(uint64(v.Int()<<1 ^ v.Int()>>63))
		v.SetInt(int64(n>>1) ^ -int64(n&1))
	case reflect.Uint64:
		v.SetUint(b.number(v.Uint()))
	case reflect.Float64:
		v.SetFloat(math.Float64frombits(b.number(math.Float64bits(v.Float()))))
	case reflect.Slice:
		n := b.length(v.Len())
		if b.reading {
			v.Grow(n) // from nil, without the header that MakeSlice allocates
			v.SetLen(n)
		}
		for i := range n {
			b.value(v.Index(i))
		}
	case reflect.Pointer: // not nil, because a struct leaves out its nil fields
		if b.reading {
			v.Set(reflect.New(v.Type().Elem()))
		}
		b.value(v.Elem())
	case reflect.Map:
		var keys []reflect.Value
		if !b.reading {
			keys = v.MapKeys()
			slices.SortFunc(keys, func(a, b reflect.Value) int { return cmp.Compare(a.String(), b.String()) })
		}
		n := b.length(len(keys))
		if b.reading && n > 0 {
			v.Set(reflect.MakeMapWithSize(v.Type(), n))
		}
		key, elem := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		for i := range n {
			key.SetZero()
			elem.SetZero()
			if !b.reading {
				key.Set(keys[i])
				elem.Set(v.MapIndex(key))
			}
			b.value(key)
			b.value(elem)
			v.SetMapIndex(key, elem)
		}
	case reflect.Struct:
		set := uint64(0)
		for i := 0; !b.reading && i < v.NumField(); i++ {
			if !v.Field(i).IsZero() {
				set |= 1 << i
			}
		}
		for set = b.number(set); set != 0 && !b.short; set &= set - 1 {
			if i := bits.TrailingZeros64(set); i < v.NumField() {
				b.value(v.Field(i))
			}
		}
	default:
		panic("the compiled catalog cannot hold a " + v.Type().String())
	}
}
