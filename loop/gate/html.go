package gate

import (
	"errors"
	"html"
	"strings"
)

// Bounds of a page: a browser cuts the depth as well, and what is beyond
// maxElements is an error, so that no selector takes long.
const (
	maxElements = 200_000
	maxDepth    = 512
)

// element is a start tag in its place. parent indexes page.elements, -1 at the
// top; inert elements stand inside a <template> and are not of the document.
type element struct {
	name   string
	attrs  []attribute
	parent int
	inert  bool
}

type attribute struct{ name, value string }

// attr returns the value of an attribute, the first one when it is repeated.
func (e *element) attr(name string) (string, bool) {
	for _, a := range e.attrs {
		if a.name == name {
			return a.value, true
		}
	}
	return "", false
}

// page is what the preflight checks need of an HTML text: its elements with
// their nesting, the source without comments, and the text that can be seen.
// It is read as forgivingly as a browser with scripting would: no text is an
// error, unclosed tags are closed where the next one implies it.
type page struct {
	elements []element
	source   string
	text     string
}

type pageReader struct {
	page
	s      string
	pos    int
	stack  []int          // open elements, the outermost first
	names  map[string]int // how many of them have a name
	source strings.Builder
	text   strings.Builder
}

func readPage(s string) (*page, error) {
	r := pageReader{s: s, names: map[string]int{}}
	for r.pos < len(r.s) {
		if len(r.elements) > maxElements {
			return nil, errors.New("the page has too many elements")
		}
		r.next()
	}
	r.page.source = r.source.String()
	r.page.text = strings.Join(strings.Fields(html.UnescapeString(r.text.String())), " ")
	return &r.page, nil
}

// next takes one comment, tag or run of text.
func (r *pageReader) next() {
	rest := r.s[r.pos:]
	switch {
	case strings.HasPrefix(rest, "<!--"):
		r.pos += commentEnd(rest)
	case strings.HasPrefix(rest, "<!"), strings.HasPrefix(rest, "<?"):
		r.keep(indexAfter(rest, ">"))
	case strings.HasPrefix(rest, "</") && len(rest) > 2 && isLetter(rest[2]):
		name, _, n, ok := readTag(rest[2:])
		if ok {
			r.close(name)
		}
		r.keep(2 + n)
	case rest[0] == '<' && len(rest) > 1 && isLetter(rest[1]):
		name, tag, n, ok := readTag(rest[1:])
		r.keep(1 + n)
		if ok {
			r.open(name, tag)
		}
	default:
		n := strings.IndexByte(rest[1:], '<') + 1
		if n == 0 {
			n = len(rest)
		}
		r.text.WriteString(rest[:n])
		r.keep(n)
	}
}

// keep moves on by n bytes, which stay in the source.
func (r *pageReader) keep(n int) {
	r.source.WriteString(r.s[r.pos : r.pos+n])
	r.pos += n
}

func commentEnd(s string) int {
	at := len("<!--")
	for _, empty := range []string{">", "->"} {
		if strings.HasPrefix(s[at:], empty) {
			return at + len(empty)
		}
	}
	for {
		i := strings.Index(s[at:], "--")
		if i < 0 {
			return len(s)
		}
		at += i + 2
		if end := strings.TrimLeft(s[at:min(len(s), at+2)], "!"); strings.HasPrefix(end, ">") {
			return at + indexAfter(s[at:], ">")
		}
		at-- // "--->" ends one too
	}
}

// indexAfter is the position behind sep in s, or the end of s.
func indexAfter(s, sep string) int {
	if i := strings.Index(s, sep); i >= 0 {
		return i + len(sep)
	}
	return len(s)
}

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

func isBlank(c byte) bool {
	return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f'
}

type tag struct {
	attrs  []attribute
	closed bool // ends in "/>"
}

// readTag reads a tag from its name on and returns how long it is; ok is false
// when the text ends inside of it.
func readTag(s string) (name string, t tag, n int, ok bool) {
	for n < len(s) && !isBlank(s[n]) && s[n] != '/' && s[n] != '>' {
		n++
	}
	name = strings.ToLower(s[:n])
	for n < len(s) {
		switch c := s[n]; {
		case c == '>':
			return name, t, n + 1, true
		case c == '/':
			n++
			t.closed = n < len(s) && s[n] == '>'
		case isBlank(c):
			n++
		default:
			var a attribute
			var m int
			a, m = readAttribute(s[n:])
			t.attrs = append(t.attrs, a)
			n += m
		}
	}
	return name, t, n, false
}

func readAttribute(s string) (attribute, int) {
	n := 1 // a leading "=" is part of the name
	for n < len(s) && !isBlank(s[n]) && s[n] != '/' && s[n] != '>' && s[n] != '=' {
		n++
	}
	a := attribute{name: strings.ToLower(s[:n])}
	v := n
	for v < len(s) && isBlank(s[v]) {
		v++
	}
	if v == len(s) || s[v] != '=' {
		return a, n
	}
	for v++; v < len(s) && isBlank(s[v]); v++ {
	}
	if v == len(s) || s[v] == '>' {
		return a, v
	}
	if q := s[v]; q == '"' || q == '\'' {
		end := strings.IndexByte(s[v+1:], q)
		if end < 0 {
			return a, len(s)
		}
		a.value = html.UnescapeString(s[v+1 : v+1+end])
		return a, v + end + 2
	}
	start := v
	for v < len(s) && !isBlank(s[v]) && s[v] != '>' {
		v++
	}
	a.value = html.UnescapeString(s[start:v])
	return a, v
}
