package catalog

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// builder is a catalog in the making. It is a value: a copy made by clone can
// be thrown away when the file that was applied to it turns out to be broken.
type builder struct {
	categories []Category
	chains     []Chain
	handlers   []Handler // of files; those of recipes stand in the recipes until the end
	recipes    []Recipe
	projects   []ProjectRecipe
	managers   []Manager
	names      Names
}

func (b *builder) clone() *builder {
	c := *b
	c.categories = slices.Clone(b.categories)
	c.chains = slices.Clone(b.chains)
	c.handlers = slices.Clone(b.handlers)
	c.recipes = slices.Clone(b.recipes)
	c.projects = slices.Clone(b.projects)
	c.managers = slices.Clone(b.managers)
	c.names.Origins = maps.Clone(b.names.Origins)
	return &c
}

// apply puts the entries of a document into the builder.
func (b *builder) apply(doc *document) Problems {
	d := newDecoder(doc.origin.File, doc.origin.Source != SourceEmbedded)
	b.categories = applyList(d, doc, keyCategories, b.categories, target[Category]{
		what: "category", key: "id", id: func(c *Category) *string { return &c.ID },
	})
	b.managers = applyList(d, doc, keyManagers, b.managers, target[Manager]{
		what: "package manager", key: "id", id: func(m *Manager) *string { return &m.ID },
		origin: func(m *Manager) *Origin { return &m.Origin },
	})
	b.recipes = applyList(d, doc, keyRecipes, b.recipes, target[Recipe]{
		what: "recipe", key: "id", id: func(r *Recipe) *string { return &r.ID },
		origin: func(r *Recipe) *Origin { return &r.Origin },
		after:  func(n *yaml.Node, ptr string, r *Recipe, _ bool) { finishRecipe(doc, n, ptr, r) },
	})
	b.projects = applyList(d, doc, keyProjects, b.projects, target[ProjectRecipe]{
		what: "project recipe", key: "id", id: func(p *ProjectRecipe) *string { return &p.ID },
		origin: func(p *ProjectRecipe) *Origin { return &p.Origin },
	})
	b.chains = applyList(d, doc, keyChains, b.chains, target[Chain]{
		what: "chain", key: "category", id: func(c *Chain) *string { return &c.Category },
		origin: func(c *Chain) *Origin { return &c.Origin },
		refuse: refuseChain,
		after:  func(n *yaml.Node, ptr string, c *Chain, _ bool) { finishChain(doc, n, ptr, c) },
	})
	b.applyHandlers(d, doc)
	b.applyNames(d, doc)
	return d.problems
}

// target is what applyList must know of a type.
type target[T any] struct {
	what, key string
	id        func(*T) *string
	origin    func(*T) *Origin
	// refuse says why an entry that is there must not be changed so, or "".
	refuse func(old *T, e entry, source string) string
	after  func(n *yaml.Node, ptr string, v *T, isNew bool)
}

func applyList[T any](d *decoder, doc *document, key string, list []T, t target[T]) []T {
	n := doc.lists[key]
	if n == nil {
		return list
	}
	at := make(map[string]int, len(list))
	known := make([]string, 0, len(list))
	for i := range list {
		at[*t.id(&list[i])] = i
		known = append(known, *t.id(&list[i]))
	}
	gone := map[int]bool{}
	seen := map[string]bool{}
	for i, c := range n.Content {
		if d.full() {
			break
		}
		ptr := join(join("", key), strconv.Itoa(i))
		e := d.entryBy(c, ptr, t.key)
		if e.id == "" {
			continue
		}
		if seen[e.id] {
			d.fail(c, ptr, "the %s %q stands in this file twice", t.what, e.id)
			continue
		}
		seen[e.id] = true
		old, there := at[e.id]
		if !there {
			if e.extends || e.replace || e.disabled {
				d.missing(c, ptr, t.what, e.id, known)
				continue
			}
			var v T
			list = append(list, v)
			old = len(list) - 1
			at[e.id] = old
			decodeEntry(d, doc, c, ptr, e, &list[old], t, true)
			continue
		}
		if !e.extends && !e.replace && !e.disabled {
			where := ""
			if t.origin != nil {
				where = " (" + t.origin(&list[old]).File + ":" + strconv.Itoa(t.origin(&list[old]).Line) + ")"
			}
			d.fail(c, ptr, "there is a %s %q already%s: write extends: %s to change it, or add replace: true", t.what, e.id, where, e.id)
			continue
		}
		if t.refuse != nil {
			if why := t.refuse(&list[old], e, doc.origin.Source); why != "" {
				d.fail(c, ptr, "%s", why)
				continue
			}
		}
		if e.disabled {
			gone[old] = true
			continue
		}
		decodeEntry(d, doc, c, ptr, e, &list[old], t, e.replace)
	}
	if len(gone) == 0 {
		return list
	}
	kept := make([]T, 0, len(list))
	for i := range list {
		if !gone[i] {
			kept = append(kept, list[i])
		}
	}
	return kept
}

func decodeEntry[T any](d *decoder, doc *document, n *yaml.Node, ptr string, e entry, v *T, t target[T], fresh bool) {
	if fresh {
		var zero T
		*v = zero
	}
	d.structure(n, reflect.ValueOf(v).Elem(), ptr, e.read)
	*t.id(v) = e.id
	if t.origin != nil {
		*t.origin(v) = doc.place(n, ptr)
	}
	if t.after != nil {
		t.after(n, ptr, v, fresh)
	}
}

// finishRecipe gives the handlers that this file wrote their origin, and the
// verify section its author.
func finishRecipe(doc *document, n *yaml.Node, ptr string, r *Recipe) {
	if list := child(n, "on_failure"); list != nil {
		for i := range r.OnFailure {
			if c, at := element(list, "@"+r.OnFailure[i].ID); c != nil {
				r.OnFailure[i].Origin = doc.place(c, join(join(ptr, "on_failure"), strconv.Itoa(at)))
			}
		}
	}
	if v := child(n, "verify"); v != nil {
		r.Verify.Origin = VerifyDefault
		if doc.origin.Source != SourceEmbedded {
			r.Verify.Origin = VerifyUser
		}
	}
}

func refuseChain(_ *Chain, e entry, _ string) string {
	if e.disabled {
		return "the chain of a category cannot be disabled: extend it and disable its approaches"
	}
	return ""
}

func finishChain(doc *document, n *yaml.Node, ptr string, c *Chain) {
	list := child(n, "approaches")
	if list == nil {
		return
	}
	for i := range c.Approaches {
		if a, at := element(list, "@"+c.Approaches[i].ID); a != nil {
			c.Approaches[i].Origin = doc.place(a, join(join(ptr, "approaches"), strconv.Itoa(at)))
		}
	}
}

// applyNames adds to the tables of packages' names, family by family.
func (b *builder) applyNames(d *decoder, doc *document) {
	for _, t := range doc.names {
		table := reflect.ValueOf(b.names.table(t.kind)).Elem()
		d.value(t.node, table, t.ptr)
		if !d.verbs {
			continue
		}
		if b.names.Origins == nil {
			b.names.Origins = map[string]Origin{}
		}
		for i := 0; i+1 < len(t.node.Content); i += 2 {
			name := t.node.Content[i]
			b.names.Origins[t.kind+"/"+name.Value] = doc.place(name, join(t.ptr, name.Value))
		}
	}
}

func (n *Names) table(kind string) *map[string]map[string][]string {
	switch kind {
	case NameGroup:
		return &n.Groups
	case NameLib:
		return &n.Libs
	case NameHeader:
		return &n.Headers
	case NamePkgConfig:
		return &n.PkgConfigs
	case NameCMake:
		return &n.CMakes
	}
	return &n.Sonames
}

// finish makes the catalog: defaults filled in, handlers in their order. The
// builder, which others may build on, stays as it is.
func (b *builder) finish() *Catalog {
	b = b.clone()
	c := &Catalog{
		Categories: b.categories, Recipes: b.recipes, Projects: b.projects, Managers: b.managers, Names: b.names,
		Chains: make(map[string]Chain, len(b.chains)),
	}
	for i := range c.Recipes {
		r := &c.Recipes[i]
		r.fillDefaults()
		r.OnFailure = slices.Clone(r.OnFailure)
		for j := range r.OnFailure {
			h := &r.OnFailure[j]
			h.Layer, h.Family = LayerRecipe, r.ID
			h.fillDefaults()
		}
		c.Handlers = append(c.Handlers, r.OnFailure...)
	}
	for _, h := range b.handlers {
		h.fillDefaults()
		c.Handlers = append(c.Handlers, h)
	}
	slices.SortStableFunc(c.Handlers, func(a, b Handler) int {
		return cmp.Or(cmp.Compare(b.Layer.Rank(), a.Layer.Rank()), cmp.Compare(b.Priority, a.Priority))
	})
	slices.SortStableFunc(c.Projects, func(a, b ProjectRecipe) int { return cmp.Compare(b.Priority, a.Priority) })
	c.index = newIndex(c)
	for i := range c.Handlers {
		if cat, ok := c.Category(c.Handlers[i].Category); ok {
			c.Handlers[i].Category = cat.ID
		}
	}
	for _, ch := range b.chains {
		if cat, ok := c.Category(ch.Category); ok {
			ch.Category = cat.ID
		}
		ch.Approaches = slices.Clone(ch.Approaches)
		slices.SortStableFunc(ch.Approaches, func(a, b Approach) int { return cmp.Compare(a.Priority, b.Priority) })
		for j := range ch.Approaches {
			if o := ch.Approaches[j].Option; o != nil {
				filled := *o
				filled.ID, filled.Label = cmp.Or(o.ID, ch.Approaches[j].ID), cmp.Or(o.Label, ch.Approaches[j].Label)
				filled.Confidence = cmp.Or(o.Confidence, ch.Approaches[j].Confidence)
				filled.fillDefaults()
				ch.Approaches[j].Option = &filled
			}
		}
		c.Chains[ch.Category] = ch
	}
	return c
}
