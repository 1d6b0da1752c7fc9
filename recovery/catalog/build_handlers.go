package catalog

import (
	"reflect"
	"slices"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// applyHandlers puts the handlers of a document where they belong: a new one
// into the file's family or layer, a changed one where it stands, which may be a
// recipe.
func (b *builder) applyHandlers(d *decoder, doc *document) {
	n := doc.lists[keyHandlers]
	if n == nil {
		return
	}
	known, seen := b.handlerIDs(), map[string]bool{}
	for i, c := range n.Content {
		if d.full() {
			break
		}
		ptr := join(join("", keyHandlers), strconv.Itoa(i))
		e := d.entry(c, ptr)
		if e.id == "" {
			continue
		}
		if seen[e.id] {
			d.fail(c, ptr, "the handler %q stands in this file twice", e.id)
			continue
		}
		seen[e.id] = true
		old, there := known[e.id]
		change := e.extends || e.replace || e.disabled
		switch {
		case !there && change:
			d.missing(c, ptr, "handler", e.id, sortedKeys(known))
		case !there:
			b.addHandler(d, doc, c, ptr, e)
		case !change:
			o := b.handlerAt(old).Origin
			d.fail(c, ptr, "there is a handler %q already (%s:%d): write extends: %s to change it, or add replace: true", e.id, o.File, o.Line, e.id)
		default:
			if why := refuseHandler(b.handlerAt(old), doc.origin.Source); why != "" {
				d.fail(c, ptr, "%s", why)
				continue
			}
			b.changeHandler(d, doc, c, ptr, e, old)
		}
	}
	b.dropGone()
}

// slot is where a handler stands: in recipe r, or in no recipe (-1).
type slot struct{ r, i int }

func (b *builder) handlerIDs() map[string]slot {
	out := make(map[string]slot, len(b.handlers))
	for i := range b.handlers {
		out[b.handlers[i].ID] = slot{-1, i}
	}
	for r := range b.recipes {
		for i := range b.recipes[r].OnFailure {
			out[b.recipes[r].OnFailure[i].ID] = slot{r, i}
		}
	}
	return out
}

func (b *builder) handlerAt(s slot) *Handler {
	if s.r < 0 {
		return &b.handlers[s.i]
	}
	return &b.recipes[s.r].OnFailure[s.i]
}

// refuseHandler keeps a file of the repository, which an agent may have
// written, from taking away what tells code from environment.
func refuseHandler(h *Handler, source string) string {
	if source != SourceRepository || h.Origin.Source == SourceRepository {
		return ""
	}
	if h.Guard != GuardNone {
		return "a file of the repository cannot change a guard: put this into your own directory of configuration"
	}
	if h.Dominates {
		return "a file of the repository cannot change a handler that dominates: put this into your own directory of configuration"
	}
	return ""
}

func (b *builder) addHandler(d *decoder, doc *document, n *yaml.Node, ptr string, e entry) {
	if doc.family == "" && doc.layer == "" {
		d.fail(n, ptr, "the new handler %q needs family: or layer: at the top of the file", e.id)
		return
	}
	var h Handler
	decodeHandler(d, doc, n, ptr, e, &h)
	setPlace(doc, &h)
	b.handlers = append(b.handlers, h)
}

func setPlace(doc *document, h *Handler) {
	h.Layer, h.Family = doc.layer, doc.family
	if doc.family != "" {
		h.Layer = LayerMethod
	}
}

func decodeHandler(d *decoder, doc *document, n *yaml.Node, ptr string, e entry, h *Handler) {
	d.structure(n, reflect.ValueOf(h).Elem(), ptr, e.read)
	h.ID, h.Origin = e.id, doc.place(n, ptr)
}

func (b *builder) changeHandler(d *decoder, doc *document, n *yaml.Node, ptr string, e entry, s slot) {
	if s.r >= 0 { // the list is shared with the catalog that this builder was made from
		b.recipes[s.r].OnFailure = slices.Clone(b.recipes[s.r].OnFailure)
	}
	h := b.handlerAt(s)
	if e.disabled {
		h.ID = ""
		return
	}
	if e.replace {
		fresh := Handler{Layer: h.Layer, Family: h.Family}
		if doc.family != "" || doc.layer != "" {
			setPlace(doc, &fresh)
		}
		if s.r >= 0 { // it becomes one of the file's, no longer the recipe's
			fresh.Layer, fresh.Family = h.Layer, h.Family
		}
		*h = fresh
	}
	decodeHandler(d, doc, n, ptr, e, h)
}

// dropGone removes the handlers that were disabled; they have no id any more.
func (b *builder) dropGone() {
	gone := func(h Handler) bool { return h.ID == "" }
	if slices.ContainsFunc(b.handlers, gone) {
		b.handlers = slices.DeleteFunc(slices.Clone(b.handlers), gone)
	}
	for i := range b.recipes {
		if slices.ContainsFunc(b.recipes[i].OnFailure, gone) {
			b.recipes[i].OnFailure = slices.DeleteFunc(slices.Clone(b.recipes[i].OnFailure), gone)
		}
	}
}
