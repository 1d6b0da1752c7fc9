package schemas

import (
	"bytes"
	"fmt"
	"slices"
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

// scanner reads JSON strictly. A syntax error ends it; everything else that it refuses is noted, and it reads on.
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

// scan reads one JSON value that fills src but for white space. ok is false when there is no tree to go on with.
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
	for i, c := range string(s.src) {
		if c == utf8.RuneError && !bytes.HasPrefix(s.src[i:], []byte("\uFFFD")) {
			s.note(i, CodeEncoding, "the file is not UTF-8", fmt.Sprintf("byte 0x%02x", s.src[i]), "UTF-8")
			return false
		}
	}
	return true
}

func (s *scanner) note(off int, code, message, what, allowed string) {
	if len(s.problems) > 2*maxProblems && code != CodeSyntax {
		return
	}
	s.problems = append(s.problems, found{off, Problem{Pointer: pointer(s.path), Code: code, Message: message, Found: what, Allowed: allowed}})
}

func (s *scanner) syntax(off int, message, what, allowed string) (node, bool) {
	s.note(off, CodeSyntax, message, what, allowed)
	return node{}, false
}

func (s *scanner) space() {
	for s.pos < len(s.src) && strings.IndexByte(" \t\n\r", s.src[s.pos]) >= 0 {
		s.pos++
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
	case c == '{' || c == '[':
		return s.container(depth)
	case c == '"':
		text, ok := s.str()
		return node{kind: '"', off: off, end: s.pos, text: text}, ok
	case c == '-' || c >= '0' && c <= '9':
		return s.number()
	case c == '\'':
		return s.syntax(off, "strings stand in double quotes", `'\''`, `"`)
	case c == '/':
		return s.comment("a value")
	case wordAt(s.src, off):
		for wordAt(s.src, s.pos) {
			s.pos++
		}
		word := clip(string(s.src[off:s.pos]))
		if slices.Contains([]string{"true", "false", "null"}, word) {
			return node{kind: word[0], off: off, end: s.pos, text: word}, true
		}
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

func (s *scanner) at(c byte) bool { return s.pos < len(s.src) && s.src[s.pos] == c }

// container reads an object or an array.
func (s *scanner) container(depth int) (node, bool) {
	n := node{kind: s.src[s.pos], off: s.pos}
	object, end, what := n.kind == '{', n.kind+2, "value" // end is the bracket that closes it
	if object {
		what = "key"
	}
	seen := map[string]int{}
	s.pos++
	for first := true; ; first = false {
		s.space()
		if s.at(end) && first {
			break
		}
		if s.at(end) {
			return s.syntax(s.pos, fmt.Sprintf("there is a comma before %q", string(end)), s.here(), "another "+what+", or no comma")
		}
		key, keyOff, token := "", 0, strconv.Itoa(len(n.kids))
		if object {
			keyOff = s.pos
			var ok bool
			if key, ok = s.key(); !ok {
				return node{}, false
			}
			token = key
		}
		s.path = append(s.path, token)
		if object {
			if before, dup := seen[key]; dup {
				s.duplicate(key, before, keyOff)
			} else {
				seen[key] = keyOff
			}
		}
		kid, ok := s.value(depth + 1)
		if !ok {
			return node{}, false
		}
		s.path = s.path[:len(s.path)-1]
		kid.key, kid.keyOff = key, keyOff
		if object && key == "" {
			// No format has one, and the library leaves it out of the places that it names.
			s.note(keyOff, CodeBadFormat, "a key is empty", `""`, "a name")
		} else {
			n.kids = append(n.kids, kid)
		}
		s.space()
		if s.at(end) {
			break
		}
		if !s.at(',') {
			return s.syntax(s.pos, fmt.Sprintf("expected \",\" or %q, found %s", string(end), s.here()), s.here(), fmt.Sprintf(`"," or %q`, string(end)))
		}
		s.pos++
	}
	s.pos++
	n.end = s.pos
	if object && len(n.kids) > large {
		n.index = make(map[string]int, len(n.kids))
		for i := range n.kids {
			n.index[n.kids[i].key] = i
		}
	}
	return n, true
}

// key reads a key and its colon, and tells the usual mistakes in its place apart.
func (s *scanner) key() (string, bool) {
	switch {
	case s.at('"'):
		key, ok := s.str()
		if !ok {
			return "", false
		}
		s.space()
		if !s.at(':') {
			_, ok = s.syntax(s.pos, fmt.Sprintf("expected \":\" after the key %s, found %s", quote(key), s.here()), s.here(), `":"`)
			return "", ok
		}
		s.pos++
		s.space()
		return key, true
	case s.pos >= len(s.src):
		s.syntax(s.pos, "the file ends in the middle of an object", "the end of the file", `a key or "}"`)
	case s.at('/'):
		s.comment("a key")
	case s.at('\'') || wordAt(s.src, s.pos):
		s.syntax(s.pos, "keys stand in double quotes", s.here(), `"`)
	default:
		s.syntax(s.pos, fmt.Sprintf("expected a key in double quotes, found %s", s.here()), s.here(), "a key")
	}
	return "", false
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

// pointer joins reference tokens into a JSON pointer.
func pointer(path []string) string {
	var b strings.Builder
	for _, t := range path {
		b.WriteString("/" + escapeToken(t))
	}
	return b.String()
}

func escapeToken(t string) string {
	return strings.ReplaceAll(strings.ReplaceAll(t, "~", "~0"), "/", "~1")
}
