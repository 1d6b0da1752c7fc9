package gate

import (
	"slices"
	"strings"
)

// isVoid: elements that have no content and no end tag.
func isVoid(name string) bool {
	switch name {
	case "area", "base", "br", "col", "embed", "hr", "img", "input", "link",
		"meta", "param", "source", "track", "wbr":
		return true
	}
	return false
}

// isRaw: elements whose content is text up to their own end tag. noscript is
// one of them wherever scripts run.
func isRaw(name string) bool {
	switch name {
	case "script", "style", "textarea", "title", "xmp", "iframe", "noembed", "noframes", "noscript":
		return true
	}
	return false
}

// impliedEnd: an open element that a new one closes when no end tag did, and
// the ancestor beyond which it does not look.
func impliedEnd(name string) (closes, within []string) {
	switch name {
	case "li":
		return []string{"li"}, []string{"ul", "ol", "menu"}
	case "dt", "dd":
		return []string{"dt", "dd"}, []string{"dl"}
	case "option", "optgroup":
		return []string{"option", name}, []string{"select", "datalist"}
	case "tr":
		return []string{"tr", "td", "th"}, []string{"table"}
	case "td", "th":
		return []string{"td", "th"}, []string{"tr", "table"}
	case "thead", "tbody", "tfoot":
		return []string{"thead", "tbody", "tfoot", "tr", "td", "th"}, []string{"table"}
	case "body":
		return []string{"head"}, nil
	case "address", "article", "aside", "blockquote", "details", "dialog", "div", "dl", "fieldset",
		"figure", "footer", "form", "h1", "h2", "h3", "h4", "h5", "h6", "header", "hr", "main",
		"menu", "nav", "ol", "p", "pre", "section", "table", "ul":
		return []string{"p"}, []string{"button", "td", "th", "object"}
	}
	return nil, nil
}

// isInline: elements that do not part the words on their two sides.
func isInline(name string) bool {
	switch name {
	case "a", "abbr", "b", "bdi", "bdo", "cite", "code", "del", "em", "font", "i", "ins", "kbd",
		"mark", "q", "s", "small", "span", "strong", "sub", "sup", "u", "var", "wbr":
		return true
	}
	return false
}

// open adds an element and, for one with raw content, that content.
func (r *pageReader) open(name string, t tag) {
	r.part(name)
	r.imply(name)
	parent := -1
	if len(r.stack) > 0 {
		parent = r.stack[len(r.stack)-1]
	}
	e := element{name: name, attrs: t.attrs, parent: parent}
	if parent >= 0 {
		e.inert = r.elements[parent].inert || r.elements[parent].name == "template"
	}
	r.elements = append(r.elements, e)
	foreign := r.insideForeign()
	switch {
	case isVoid(name), t.closed && (foreign || name == "svg" || name == "math"):
	case isRaw(name) && !foreign:
		r.raw(name)
	case len(r.stack) < maxDepth:
		r.stack = append(r.stack, len(r.elements)-1)
		r.names[name]++
	}
}

// part keeps the words around a block from running together.
func (r *pageReader) part(name string) {
	if !isInline(name) {
		r.text.WriteByte(' ')
	}
}

// raw takes the content of a raw element and its end tag.
func (r *pageReader) raw(name string) {
	rest := r.s[r.pos:]
	end := rawEnd(rest, name)
	if name == "title" || name == "textarea" {
		r.text.WriteString(" " + rest[:end] + " ")
	}
	r.keep(end)
	r.keep(indexAfter(r.s[r.pos:], ">"))
}

// rawEnd is where the end tag of a raw element begins, or the end of s.
func rawEnd(s, name string) int {
	for at := 0; ; {
		i := strings.Index(s[at:], "</")
		if i < 0 {
			return len(s)
		}
		at += i
		after := s[at+2:]
		if len(after) >= len(name) && strings.EqualFold(after[:len(name)], name) &&
			(len(after) == len(name) || isBlank(after[len(name)]) || after[len(name)] == '/' || after[len(name)] == '>') {
			return at
		}
		at += 2
	}
}

func (r *pageReader) imply(name string) {
	closes, within := impliedEnd(name)
	if !slices.ContainsFunc(closes, func(c string) bool { return r.names[c] > 0 }) {
		return
	}
	for i := len(r.stack) - 1; i >= 0; i-- {
		open := r.elements[r.stack[i]].name
		if slices.Contains(within, open) {
			return
		}
		if slices.Contains(closes, open) {
			r.cut(i)
			r.imply(name) // a cell closes its row's, then the row itself
			return
		}
	}
}

// close ends the innermost open element of that name and all inside of it; an
// end tag without one is ignored.
func (r *pageReader) close(name string) {
	r.part(name)
	if r.names[name] == 0 {
		return
	}
	for i := len(r.stack) - 1; i >= 0; i-- {
		if r.elements[r.stack[i]].name == name {
			r.cut(i)
			return
		}
	}
}

// cut closes the open elements from the i-th on.
func (r *pageReader) cut(i int) {
	for _, open := range r.stack[i:] {
		r.names[r.elements[open].name]--
	}
	r.stack = r.stack[:i]
}

func (r *pageReader) insideForeign() bool {
	if r.names["svg"]+r.names["math"] == 0 {
		return false
	}
	for i := len(r.stack) - 1; i >= 0; i-- {
		switch r.elements[r.stack[i]].name {
		case "svg", "math":
			return true
		case "foreignobject", "desc", "annotation-xml":
			return false
		}
	}
	return false
}
