package gate

import (
	"errors"
	"strings"
	"unicode/utf8"
)

// errSelector is every selector outside the subset: to pass it unverified would
// be a lie, to guess at it too.
var errSelector = errors.New("selector not supported: use tag, #id, .class, [attr], [attr=value], " +
	"their combinations and blanks between them; text or markup belongs in required_text")

// compound is what one element must have, all of it.
type compound struct {
	tag     string // "" or "*": any
	id      string
	classes []string
	attrs   []attrTest
}

type attrTest struct {
	name, value string
	any         bool // the attribute is there, whatever its value
}

// parseSelector reads compounds that are separated by blanks, the outermost
// first.
func parseSelector(s string) ([]compound, error) {
	var out []compound
	for s = trimBlanks(s); s != ""; s = trimBlanks(s) {
		c, n, err := parseCompound(s)
		if err != nil {
			return nil, err
		}
		out = append(out, c)
		if s = s[n:]; s != "" && !isBlank(s[0]) {
			return nil, errSelector
		}
	}
	if len(out) == 0 {
		return nil, errSelector
	}
	return out, nil
}

func trimBlanks(s string) string { return strings.Trim(s, " \t\r\n\f") }

func parseCompound(s string) (c compound, n int, err error) {
	if s[0] == '*' {
		c.tag, n = "*", 1
	} else if name := ident(s); name != "" {
		c.tag, n = strings.ToLower(name), len(name)
	}
	for n < len(s) && !isBlank(s[n]) {
		name := ident(s[n+1:])
		switch {
		case s[n] == '[':
			t, m, ok := parseAttr(s[n:])
			if !ok {
				return c, 0, errSelector
			}
			c.attrs = append(c.attrs, t)
			n += m
			continue
		case s[n] == '#' && name != "" && c.id == "":
			c.id = name
		case s[n] == '.' && name != "":
			c.classes = append(c.classes, name)
		default:
			return c, 0, errSelector
		}
		n += 1 + len(name)
	}
	return c, n, nil
}

// parseAttr reads [name], [name=value] or [name="value"].
func parseAttr(s string) (t attrTest, n int, ok bool) {
	rest := strings.TrimLeft(s[1:], " \t")
	name := ident(rest)
	if name == "" {
		return t, 0, false
	}
	t.name = strings.ToLower(name)
	rest = strings.TrimLeft(rest[len(name):], " \t")
	if strings.HasPrefix(rest, "]") {
		t.any = true
		return t, len(s) - len(rest) + 1, true
	}
	if !strings.HasPrefix(rest, "=") {
		return t, 0, false
	}
	rest = strings.TrimLeft(rest[1:], " \t")
	switch {
	case rest == "":
		return t, 0, false
	case rest[0] == '"' || rest[0] == '\'':
		value, after, found := strings.Cut(rest[1:], rest[:1])
		if !found || strings.Contains(value, `\`) {
			return t, 0, false
		}
		t.value, rest = value, after
	default:
		end := strings.IndexAny(rest, " \t\"'[]=<>()\\`")
		if end < 1 {
			return t, 0, false
		}
		t.value, rest = rest[:end], rest[end:]
	}
	rest = strings.TrimLeft(rest, " \t")
	if !strings.HasPrefix(rest, "]") {
		return t, 0, false
	}
	return t, len(s) - len(rest) + 1, true
}

// ident is the name that s begins with, "" for none. Escapes are not read.
func ident(s string) string {
	n := 0
	for n < len(s) {
		c := s[n]
		letter := isLetter(c) || c == '_' || c >= utf8.RuneSelf || c == '-'
		if !letter && (n == 0 || c < '0' || c > '9') {
			break
		}
		n++
	}
	return s[:n]
}

// has reports whether the page has an element that the selector describes.
func (p *page) has(sel []compound) bool {
	last := sel[len(sel)-1]
	for i := range p.elements {
		if p.elements[i].inert || !last.matches(&p.elements[i]) {
			continue
		}
		// For blanks alone the nearest ancestor that matches is always as good
		// as one further out.
		want := len(sel) - 2
		for at := p.elements[i].parent; at >= 0 && want >= 0; at = p.elements[at].parent {
			if sel[want].matches(&p.elements[at]) {
				want--
			}
		}
		if want < 0 {
			return true
		}
	}
	return false
}

func (c *compound) matches(e *element) bool {
	if c.tag != "" && c.tag != "*" && c.tag != e.name {
		return false
	}
	if c.id != "" {
		if id, ok := e.attr("id"); !ok || id != c.id {
			return false
		}
	}
	if len(c.classes) > 0 {
		class, _ := e.attr("class")
		have := strings.Fields(class)
		for _, want := range c.classes {
			if !contains(have, want) {
				return false
			}
		}
	}
	for _, t := range c.attrs {
		if v, ok := e.attr(t.name); !ok || (!t.any && v != t.value) {
			return false
		}
	}
	return true
}

func contains(list []string, s string) bool {
	for _, have := range list {
		if have == s {
			return true
		}
	}
	return false
}
