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

const maxElements = 200_000 // bounds the elements of a page, so that no selector takes long

// page holds the parts of an HTML page that the preflight checks need: its elements in document order, its source
// without comments, and its visible text. The page is parsed in the way of a browser that runs scripts: the elements
// that every document has are present even if the source omits them, and the content of a <template> is absent.
type page struct {
	elements []*html.Node
	source   string
	text     string
}

// Two algorithms of the HTML parser take quadratic time on a hostile page. First, the parser reopens an unclosed
// formatting element in each block that follows. readPage therefore appends mark to the names of these elements, so
// that the parser does not know them. mark is a character that no valid text contains. Second, each <html> and <body>
// tag copies the attributes of all tags before it. readPage therefore refuses a page with more than maxRoots of these
// tags.
const (
	mark     = "\uFFFE"
	maxRoots = 20
)

var (
	formatting = pattern.Lazy(`(?i)(</?(?:a|b|big|code|em|font|i|nobr|s|small|strike|strong|tt|u))([\s/>])`)
	roots      = pattern.Lazy(`(?i)<(?:html|body)[\s/>]`)
)

var errTooMany = errors.New("the page has too many elements")

// readPage parses a page. No page is malformed. readPage returns an error only for a page beyond the bounds: 200,000
// elements, 512 nested elements, 20 tags <html> or <body>.
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

// take adds a node and all nodes below it. It converts names to lower case, as selectors have them, because the parser
// keeps the case of SVG names.
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
		if !slices.Contains(inline, n.Data) { // a block separates the words before it from the words after it
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

// withoutComments returns the source of a page without its comments.
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

// hidden lists the elements whose text nobody sees (noscript is one of them, because scripts run). inline lists the
// elements that do not separate the words on their two sides.
var (
	hidden = strings.Fields("script style xmp iframe noembed noframes noscript")
	inline = strings.Fields("a abbr b bdi bdo cite code del em font i ins kbd mark q s small span strong sub sup u var wbr")
)

// errSelector is the error for every selector outside the supported subset. The gate can neither skip such a selector
// nor guess its meaning, because its verdict would then be false.
var errSelector = errors.New("selector not supported: use tag, #id, .class, [attr], [attr=value], " +
	"their combinations and blanks between them; text or markup belongs in required_text")

// The supported subset of selectors: compounds separated by blanks, without escapes. A compound lists the properties
// that one element must have, all of them.
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

// parseSelector parses the compounds of a selector. The first one is that of the outermost element.
func parseSelector(s string) ([]cascadia.Sel, error) {
	if !selectorForm().MatchString(s) {
		return nil, errSelector
	}
	var out []cascadia.Sel
	for _, c := range compoundIn().FindAllString(s, -1) {
		if c == "" {
			continue
		}
		// cascadia wants quotes around a value that is not a name, as in [data-x=1].
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

// has reports whether an element of the page matches the selector.
func (p *page) has(sel []cascadia.Sel) bool {
	for _, e := range p.elements {
		if !sel[len(sel)-1].Match(e) {
			continue
		}
		// With blanks as the only combinator, the nearest ancestor that matches is as good as any other. cascadia tries
		// all ancestors, in time exponential in len(sel).
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
