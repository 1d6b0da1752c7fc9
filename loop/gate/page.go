package gate

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/andybalholm/cascadia"
	"golang.org/x/net/html"

	"github.com/superloop/superloop/internal/pattern"
)

const maxElements = 200_000 // bounds a page, so that no selector takes long

// page is what the preflight checks need of an HTML text: its elements in their order, the source without comments, and
// the text that can be seen. It is read as a browser with scripting reads it: the elements that every document has are
// there, written or not, and the content of a <template> is not.
type page struct {
	elements []*html.Node
	source   string
	text     string
}

// The parser has two algorithms that a hostile page makes quadratic. An element for formatting that is left open is
// opened again in each block that follows, so the parser takes such elements by names that it does not know; mark tells
// them apart, and is no character that a text may have. Each <html> and <body> copies the attributes of all before it,
// so that few of them are taken.
const (
	mark     = "\uFFFE"
	maxRoots = 20
)

var (
	formatting = pattern.Lazy(`(?i)(</?(?:a|b|big|code|em|font|i|nobr|s|small|strike|strong|tt|u))([\s/>])`)
	roots      = pattern.Lazy(`(?i)<(?:html|body)[\s/>]`)
)

var errTooMany = errors.New("the page has too many elements")

// readPage reads a page. No text is malformed; the error is for a page beyond the bounds: 200,000 elements, 512 in one
// another, 20 times <html> or <body>.
func readPage(src string) (*page, error) {
	if strings.Count(src, "<") > 2*maxElements || len(roots().FindAllStringIndex(src, maxRoots+1)) > maxRoots {
		return nil, errTooMany
	}
	doc, err := html.Parse(strings.NewReader(formatting().ReplaceAllString(src, "${1}"+mark+"${2}")))
	if err != nil {
		return nil, fmt.Errorf("reading the page: %w", err)
	}
	p := page{source: withoutComments(src)}
	var text strings.Builder
	if p.take(doc, &text); len(p.elements) > maxElements {
		return nil, errTooMany
	}
	p.text = strings.Join(strings.Fields(text.String()), " ")
	return &p, nil
}

// take adds a node and what is below it. Names become as selectors write them: in small letters, which the parser does
// not leave to those of SVG.
func (p *page) take(n *html.Node, text *strings.Builder) {
	plain := func(s string) string { return strings.ReplaceAll(s, mark, "") }
	switch n.Type {
	case html.TextNode:
		if !slices.Contains(hidden, n.Parent.Data) {
			text.WriteString(plain(n.Data))
		}
	case html.ElementNode:
		n.Data = strings.ToLower(plain(n.Data))
		for i := range n.Attr {
			a := &n.Attr[i]
			if a.Namespace != "" {
				a.Key = a.Namespace + ":" + a.Key
			}
			a.Key, a.Val = strings.ToLower(a.Key), plain(a.Val)
		}
		p.elements = append(p.elements, n)
		if !slices.Contains(inline, n.Data) { // the words around a block do not run together
			text.WriteByte(' ')
			defer text.WriteByte(' ')
		}
		if n.Data == "template" && n.Namespace == "" {
			return
		}
	}
	for c := range n.ChildNodes() {
		p.take(c, text)
	}
}

// withoutComments is a page as it is written, but for its comments.
func withoutComments(src string) string {
	var out strings.Builder
	z := html.NewTokenizer(strings.NewReader(src))
	for kind := z.Next(); kind != html.ErrorToken; kind = z.Next() {
		n := len(z.Raw())
		if kind != html.CommentToken || !strings.HasPrefix(src, "<!--") {
			out.WriteString(src[:n])
		}
		src = src[n:]
	}
	return out.String() + src // the rest is a tag that has no end
}

// attr returns the value of an attribute.
func attr(n *html.Node, name string) (string, bool) {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val, true
		}
	}
	return "", false
}

// Elements whose content is text that nobody sees (noscript is one of them wherever scripts run), and elements that do
// not part the words on their two sides.
var (
	hidden = strings.Fields("script style xmp iframe noembed noframes noscript")
	inline = strings.Fields("a abbr b bdi bdo cite code del em font i ins kbd mark q s small span strong sub sup u var wbr")
)

// errSelector is every selector outside the subset: to pass it unverified would be a lie, to guess at it too.
var errSelector = errors.New("selector not supported: use tag, #id, .class, [attr], [attr=value], " +
	"their combinations and blanks between them; text or markup belongs in required_text")

// The subset: compounds with blanks between them, without escapes. A compound is what one element must have, all of it.
const (
	nameForm     = `[A-Za-z_\x{80}-\x{10FFFF}-][\w\x{80}-\x{10FFFF}-]*`
	bareForm     = "[^ \\t\"'\\[\\]=<>()\\\\`]+"
	quotedForm   = `"[^"\\]*"|'[^'\\]*'`
	attrForm     = `\[[ \t]*` + nameForm + `[ \t]*(?:=[ \t]*(?:` + quotedForm + `|` + bareForm + `)[ \t]*)?\]`
	partsForm    = `(?:\.` + nameForm + `|` + attrForm + `)*`
	compoundForm = `(?:\*|` + nameForm + `)?` + partsForm + `(?:#` + nameForm + partsForm + `)?`
	blankForm    = `[ \t\r\n\f]`
)

var (
	selectorForm = pattern.Lazy(`^` + blankForm + `*(?:` + compoundForm + `(?:` + blankForm + `+|$))+$`)
	compoundIn   = pattern.Lazy(compoundForm)
	valueIn      = pattern.Lazy(quotedForm + `|=[ \t]*` + bareForm)
)

// parseSelector reads the compounds of a selector, the outermost first.
func parseSelector(s string) ([]cascadia.Sel, error) {
	if !selectorForm().MatchString(s) {
		return nil, errSelector
	}
	var out []cascadia.Sel
	for _, c := range compoundIn().FindAllString(s, -1) {
		if c == "" {
			continue
		}
		// A value without quotes may be more than a name, [data-x=1].
		c = valueIn().ReplaceAllStringFunc(c, func(v string) string {
			if v[0] != '=' {
				return v
			}
			return `="` + strings.TrimLeft(v[1:], " \t") + `"`
		})
		sel, err := cascadia.Parse(c)
		if err != nil {
			return nil, errSelector
		}
		out = append(out, sel)
	}
	if len(out) == 0 {
		return nil, errSelector
	}
	return out, nil
}

// has reports whether the page has an element that the selector describes.
func (p *page) has(sel []cascadia.Sel) bool {
	for _, e := range p.elements {
		if !sel[len(sel)-1].Match(e) {
			continue
		}
		// For blanks alone the nearest ancestor that matches is always as good as one further out. The library tries
		// them all, in time exponential in len(sel).
		want := len(sel) - 2
		for at := e.Parent; at != nil && want >= 0; at = at.Parent {
			if sel[want].Match(at) {
				want--
			}
		}
		if want < 0 {
			return true
		}
	}
	return false
}
