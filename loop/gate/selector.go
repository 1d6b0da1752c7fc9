package gate

import (
	"errors"
	"strings"

	"github.com/andybalholm/cascadia"

	"github.com/superloop/superloop/internal/pattern"
)

// errSelector is every selector outside the subset: to pass it unverified would
// be a lie, to guess at it too.
var errSelector = errors.New("selector not supported: use tag, #id, .class, [attr], [attr=value], " +
	"their combinations and blanks between them; text or markup belongs in required_text")

// The subset: compounds with blanks between them, without escapes. A compound is
// what one element must have, all of it.
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
		// For blanks alone the nearest ancestor that matches is always as good as one
		// further out. The library tries them all, in time exponential in len(sel).
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
