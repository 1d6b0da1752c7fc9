package schemas

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// node is one value of a document and where it stands.
type node struct {
	kind     byte // one of { [ " 0 t f n
	off, end int  // bytes of the value in the source
	text     string
	key      string // of a member of an object
	keyOff   int
	kids     []node
	index    map[string]int // of a large object: key to kid, of duplicates the last
}

// large is the number of keys from which an object gets an index.
const large = 32

// scanner reads JSON strictly. A syntax error ends it; everything else that it
// refuses is noted, and it reads on.
type scanner struct {
	src      []byte
	pos      int
	problems []found
	path     []string
	comments bool // keys may be comments; said to who writes another kind of comment
	left     int  // how many values may still come
}

// found is a problem whose offset is not yet a line and a column.
type found struct {
	off int
	p   Problem
}

// scan reads one JSON value that fills src but for white space. ok is false
// when there is no tree to go on with.
func scan(src []byte, kind Kind) (root node, problems []found, ok bool) {
	s := &scanner{src: src, comments: kind == Config, left: kind.values()}
	if !s.encoding() {
		return node{}, s.problems, false
	}
	s.space()
	if s.pos == len(src) {
		s.note(0, CodeEmpty, "the file is empty", "nothing", "a JSON value")
		return node{}, s.problems, false
	}
	root, ok = s.value(1)
	if !ok {
		return node{}, s.problems, false
	}
	s.space()
	if s.pos < len(src) {
		s.note(s.pos, CodeTrailing, "there is something after the end of the value", s.here(), "the end of the file")
		return node{}, s.problems, false
	}
	return root, s.problems, true
}

// encoding refuses what is not plain UTF-8 before anything is read from it.
func (s *scanner) encoding() bool {
	switch {
	case bytes.HasPrefix(s.src, []byte("\xef\xbb\xbf")):
		s.note(0, CodeEncoding, "the file starts with a byte order mark; save it as UTF-8 without one", "a byte order mark", "UTF-8 without a byte order mark")
		return false
	case bytes.HasPrefix(s.src, []byte("\xff\xfe")), bytes.HasPrefix(s.src, []byte("\xfe\xff")):
		s.note(0, CodeEncoding, "the file is UTF-16; save it as UTF-8", "UTF-16", "UTF-8")
		return false
	}
	if i := bytes.IndexByte(s.src, 0); i >= 0 {
		s.note(i, CodeEncoding, "the file holds a NUL byte", "a NUL byte", "text")
		return false
	}
	if utf8.Valid(s.src) {
		return true
	}
	for i := 0; i < len(s.src); {
		r, n := utf8.DecodeRune(s.src[i:])
		if r == utf8.RuneError && n <= 1 {
			s.note(i, CodeEncoding, "the file is not UTF-8", fmt.Sprintf("byte 0x%02x", s.src[i]), "UTF-8")
			return false
		}
		i += n
	}
	return false
}

func (s *scanner) note(off int, code, message, what, allowed string) {
	if len(s.problems) > 2*maxProblems && code != CodeSyntax {
		return
	}
	s.problems = append(s.problems, found{off, Problem{
		Pointer: pointer(s.path), Code: code, Message: message, Found: what, Allowed: allowed,
	}})
}

func (s *scanner) syntax(off int, message, what, allowed string) (node, bool) {
	s.note(off, CodeSyntax, message, what, allowed)
	return node{}, false
}

func (s *scanner) space() {
	for s.pos < len(s.src) {
		switch s.src[s.pos] {
		case ' ', '\t', '\n', '\r':
			s.pos++
		default:
			return
		}
	}
}

// here describes what stands at the position.
func (s *scanner) here() string {
	if s.pos >= len(s.src) {
		return "the end of the file"
	}
	r, _ := utf8.DecodeRune(s.src[s.pos:])
	return strconv.QuoteRune(r)
}

func (s *scanner) value(depth int) (node, bool) {
	if s.pos >= len(s.src) {
		return s.syntax(s.pos, "the file ends in the middle of a value", "the end of the file", "a value")
	}
	if depth > MaxDepth && (s.src[s.pos] == '{' || s.src[s.pos] == '[') {
		s.note(s.pos, CodeDepth, fmt.Sprintf("values are nested deeper than %d", MaxDepth), "", fmt.Sprintf("at most %d levels", MaxDepth))
		return node{}, false
	}
	if s.left--; s.left < 0 {
		s.note(s.pos, CodeValues, "the file holds too many values", "", "fewer values")
		return node{}, false
	}
	off := s.pos
	switch c := s.src[s.pos]; {
	case c == '{':
		return s.object(depth)
	case c == '[':
		return s.array(depth)
	case c == '"':
		text, ok := s.str()
		return node{kind: '"', off: off, end: s.pos, text: text}, ok
	case c == '-' || c >= '0' && c <= '9':
		return s.number()
	case c == '\'':
		return s.syntax(off, "strings stand in double quotes", `'\''`, `"`)
	case c == '/':
		return s.comment("a value")
	}
	for _, word := range []string{"true", "false", "null"} {
		if bytes.HasPrefix(s.src[s.pos:], []byte(word)) && !wordAt(s.src, s.pos+len(word)) {
			s.pos += len(word)
			return node{kind: word[0], off: off, end: s.pos, text: word}, true
		}
	}
	if wordAt(s.src, off) {
		end := off
		for wordAt(s.src, end) {
			end++
		}
		word := clip(string(s.src[off:end]))
		return s.syntax(off, fmt.Sprintf("%s is not a JSON value; strings stand in double quotes", word), word,
			`a string, a number, true, false, null, "{" or "["`)
	}
	return s.syntax(off, fmt.Sprintf("expected a value, found %s", s.here()), s.here(), "a value")
}

func wordAt(src []byte, i int) bool {
	if i >= len(src) {
		return false
	}
	c := src[i]
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

func (s *scanner) object(depth int) (node, bool) {
	n := node{kind: '{', off: s.pos}
	s.pos++
	seen := map[string]int{}
	for first := true; ; first = false {
		s.space()
		if s.pos < len(s.src) && s.src[s.pos] == '}' {
			if !first {
				return s.syntax(s.pos, `there is a comma before "}"`, `'}'`, "another key, or no comma")
			}
			break
		}
		if s.pos >= len(s.src) || s.src[s.pos] != '"' {
			return s.keyError()
		}
		keyOff := s.pos
		key, ok := s.str()
		if !ok {
			return node{}, false
		}
		s.space()
		if s.pos >= len(s.src) || s.src[s.pos] != ':' {
			return s.syntax(s.pos, fmt.Sprintf("expected \":\" after the key %s, found %s", quote(key), s.here()), s.here(), `":"`)
		}
		s.pos++
		s.space()
		s.path = append(s.path, key)
		if at, dup := seen[key]; dup {
			s.duplicate(key, at, keyOff)
		} else {
			seen[key] = keyOff
		}
		kid, ok := s.value(depth + 1)
		if !ok {
			return node{}, false
		}
		s.path = s.path[:len(s.path)-1]
		kid.key, kid.keyOff = key, keyOff
		if key == "" {
			// No format has one, and the library leaves it out of the places that
			// it names.
			s.note(keyOff, CodeBadFormat, "a key is empty", `""`, "a name")
		} else {
			n.kids = append(n.kids, kid)
		}
		s.space()
		if s.pos < len(s.src) && s.src[s.pos] == ',' {
			s.pos++
			continue
		}
		if s.pos < len(s.src) && s.src[s.pos] == '}' {
			break
		}
		return s.syntax(s.pos, fmt.Sprintf("expected \",\" or \"}\", found %s", s.here()), s.here(), `"," or "}"`)
	}
	s.pos++
	n.end = s.pos
	if len(n.kids) > large {
		n.index = make(map[string]int, len(n.kids))
		for i := range n.kids {
			n.index[n.kids[i].key] = i
		}
	}
	return n, true
}

func (s *scanner) duplicate(key string, first, second int) {
	if len(s.problems) > maxProblems {
		return // said often enough, and finding the line is not free
	}
	line, col := position(s.src, first)
	s.note(second, CodeDuplicateKey, fmt.Sprintf("the key %s stands here twice; first at %d:%d", quote(key), line, col), quote(key), "each key once")
}

func (s *scanner) comment(allowed string) (node, bool) {
	message := "JSON has no comments"
	if s.comments {
		message += `; a key that starts with "//" or "_comment" is one here`
	}
	return s.syntax(s.pos, message, s.here(), allowed)
}

// keyError tells the usual mistakes in the place of a key apart.
func (s *scanner) keyError() (node, bool) {
	switch {
	case s.pos >= len(s.src):
		return s.syntax(s.pos, "the file ends in the middle of an object", "the end of the file", `a key or "}"`)
	case s.src[s.pos] == '/':
		return s.comment("a key")
	case s.src[s.pos] == '\'' || wordAt(s.src, s.pos):
		return s.syntax(s.pos, "keys stand in double quotes", s.here(), `"`)
	}
	return s.syntax(s.pos, fmt.Sprintf("expected a key in double quotes, found %s", s.here()), s.here(), "a key")
}

func (s *scanner) array(depth int) (node, bool) {
	n := node{kind: '[', off: s.pos}
	s.pos++
	for first := true; ; first = false {
		s.space()
		if s.pos < len(s.src) && s.src[s.pos] == ']' {
			if !first {
				return s.syntax(s.pos, `there is a comma before "]"`, `']'`, "another value, or no comma")
			}
			break
		}
		s.path = append(s.path, strconv.Itoa(len(n.kids)))
		kid, ok := s.value(depth + 1)
		if !ok {
			return node{}, false
		}
		s.path = s.path[:len(s.path)-1]
		n.kids = append(n.kids, kid)
		s.space()
		if s.pos < len(s.src) && s.src[s.pos] == ',' {
			s.pos++
			continue
		}
		if s.pos < len(s.src) && s.src[s.pos] == ']' {
			break
		}
		return s.syntax(s.pos, fmt.Sprintf("expected \",\" or \"]\", found %s", s.here()), s.here(), `"," or "]"`)
	}
	s.pos++
	n.end = s.pos
	return n, true
}

// pointer joins reference tokens into a JSON pointer.
func pointer(path []string) string {
	var b strings.Builder
	for _, t := range path {
		b.WriteByte('/')
		b.WriteString(escapeToken(t))
	}
	return b.String()
}

func escapeToken(t string) string {
	if !strings.ContainsAny(t, "~/") {
		return t
	}
	return strings.ReplaceAll(strings.ReplaceAll(t, "~", "~0"), "/", "~1")
}
