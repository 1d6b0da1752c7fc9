package schemas

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/superloop/superloop/internal/pattern"
)

// node is one value of a document, with its place.
type node struct {
	kind     byte // one of { [ " 0 t f n
	off, end int  // the byte range of the value in the source
	text     string
	key      string // the key, if it is a member of an object
	keyOff   int
	kids     []node
	index    map[string]int // for a large object: from key to index in kids; of duplicate keys the last
}

// large is the number of members above which an object gets an index.
const large = 32

// scanner reads JSON strictly. A syntax error stops it. It notes every other problem and continues.
type scanner struct {
	src      []byte
	pos      int
	problems []found
	path     []string
	comments bool // whether the file may have comments and trailing commas
	left     int  // how many more values the file may have
}

// found is a problem with a byte offset instead of line and column.
type found struct {
	off int
	p   Problem
}

// scan reads the single JSON value in src, with white space around it. ok is false if there is no complete tree.
func scan(src []byte, kind Kind) (root node, problems []found, ok bool) {
	s := &scanner{src: src, comments: kind == Config, left: cmp.Or(kind.caps().values, 4_000_000)}
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

// encoding checks that the file is UTF-8 without a byte order mark and without NUL.
func (s *scanner) encoding() bool {
	switch {
	case bytes.HasPrefix(s.src, []byte("\xef\xbb\xbf")):
		return s.note(0, CodeEncoding, "the file starts with a byte order mark; save it as UTF-8 without one", "a byte order mark", "UTF-8 without a byte order mark")
	case bytes.HasPrefix(s.src, []byte("\xff\xfe")), bytes.HasPrefix(s.src, []byte("\xfe\xff")):
		return s.note(0, CodeEncoding, "the file is UTF-16; save it as UTF-8", "UTF-16", "UTF-8")
	}
	if i := bytes.IndexByte(s.src, 0); i >= 0 {
		return s.note(i, CodeEncoding, "the file holds a NUL byte", "a NUL byte", "text")
	}
	for i, c := range string(s.src) {
		if c == utf8.RuneError && !bytes.HasPrefix(s.src[i:], []byte("\uFFFD")) {
			return s.note(i, CodeEncoding, "the file is not UTF-8", fmt.Sprintf("byte 0x%02x", s.src[i]), "UTF-8")
		}
	}
	return true
}

// note records a problem and returns false.
func (s *scanner) note(off int, code, message, what, allowed string) bool {
	if len(s.problems) <= 2*maxProblems || code == CodeSyntax {
		s.problems = append(s.problems, found{off, Problem{Pointer: pointer(s.path), Code: code, Message: message, Found: what, Allowed: allowed}})
	}
	return false
}

func (s *scanner) syntax(off int, message, what, allowed string) bool {
	return s.note(off, CodeSyntax, message, what, allowed)
}

// here describes the character at the position.
func (s *scanner) here() string {
	if s.pos >= len(s.src) {
		return "the end of the file"
	}
	r, _ := utf8.DecodeRune(s.src[s.pos:])
	return strconv.QuoteRune(r)
}

func (s *scanner) value(depth int) (node, bool) {
	if s.pos >= len(s.src) {
		return node{}, s.syntax(s.pos, "the file ends in the middle of a value", "the end of the file", "a value")
	}
	if depth > MaxDepth && (s.src[s.pos] == '{' || s.src[s.pos] == '[') {
		return node{}, s.note(s.pos, CodeDepth, fmt.Sprintf("values are nested deeper than %d", MaxDepth), "", fmt.Sprintf("at most %d levels", MaxDepth))
	}
	if s.left--; s.left < 0 {
		return node{}, s.note(s.pos, CodeValues, "the file holds too many values", "", "fewer values")
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
		return node{}, s.syntax(off, "strings stand in double quotes", `'\''`, `"`)
	case c == '/':
		return node{}, s.comment("a value")
	case wordAt(s.src, off):
		for wordAt(s.src, s.pos) {
			s.pos++
		}
		word := clip(string(s.src[off:s.pos]))
		if slices.Contains([]string{"true", "false", "null"}, word) {
			return node{kind: word[0], off: off, end: s.pos, text: word}, true
		}
		return node{}, s.syntax(off, fmt.Sprintf("%s is not a JSON value; strings stand in double quotes", word), word,
			`a string, a number, true, false, null, "{" or "["`)
	}
	return node{}, s.syntax(off, fmt.Sprintf("expected a value, found %s", s.here()), s.here(), "a value")
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
	object, end, what := n.kind == '{', n.kind+2, "value" // end is the closing bracket
	if object {
		what = "key"
	}
	seen := map[string]int{}
	s.pos++
	for first := true; ; first = false {
		s.space()
		if s.at(end) && (first || s.comments) {
			break
		}
		if s.at(end) {
			return node{}, s.syntax(s.pos, fmt.Sprintf("there is a comma before %q", string(end)), s.here(), "another "+what+", or no comma")
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
			// No file format has an empty key, and the library omits it from the locations of errors.
			s.note(keyOff, CodeBadFormat, "a key is empty", `""`, "a name")
		} else {
			n.kids = append(n.kids, kid)
		}
		s.space()
		if s.at(end) {
			break
		}
		if s.at('/') {
			return node{}, s.comment(fmt.Sprintf(`"," or %q`, string(end)))
		}
		if !s.at(',') {
			return node{}, s.syntax(s.pos, fmt.Sprintf("expected \",\" or %q, found %s", string(end), s.here()), s.here(), fmt.Sprintf(`"," or %q`, string(end)))
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

// key reads a key and its colon. It reports usual mistakes each with its own message.
func (s *scanner) key() (string, bool) {
	switch {
	case s.at('"'):
		key, ok := s.str()
		if !ok {
			return "", false
		}
		s.space()
		if !s.at(':') {
			return "", s.syntax(s.pos, fmt.Sprintf("expected \":\" after the key %s, found %s", quote(key), s.here()), s.here(), `":"`)
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
		return // there are enough reports, and finding each line costs time
	}
	line, col := position(s.src, first)
	s.note(second, CodeDuplicateKey, fmt.Sprintf("the key %s stands here twice; first at %d:%d", quote(key), line, col), quote(key), "each key once")
}

// pointer joins reference tokens to a JSON pointer.
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

// escapes matches an escape of JSON at the beginning of a text. A pair of surrogates counts as one escape.
var escapes = pattern.Lazy(`^\\(?:["\\/bfnrt]|u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[0-9a-fA-F]{4})`)

// str reads the string at the position. It reports a lone surrogate and an escaped NUL, because readers differ about
// them: one sees U+FFFD or the end of the text where another sees text.
func (s *scanner) str() (text string, ok bool) {
	start, escaped := s.pos, false
	for s.pos++; s.pos < len(s.src); s.pos++ {
		switch c := s.src[s.pos]; {
		case c == '"':
			s.pos++
			text = string(s.src[start+1 : s.pos-1])
			if escaped {
				_ = json.Unmarshal(s.src[start:s.pos], &text) // the scanner has checked the string
			}
			return text, true
		case c < 0x20:
			return "", s.syntax(s.pos, fmt.Sprintf("a string holds the raw control character %s; write it as an escape", s.here()), s.here(), "an escape such as \\n")
		case c == '\\':
			if !s.escape() {
				return "", false
			}
			escaped = true
		}
	}
	return "", s.syntax(start, "this string has no closing quote", "the end of the file", `"`)
}

// escape reads the escape at the position and moves to its last byte.
func (s *scanner) escape() bool {
	rest := s.src[s.pos:]
	e := escapes().Find(rest[:min(len(rest), len(`\uXXXX\uXXXX`))])
	switch {
	case e == nil && len(rest) == 1:
		s.syntax(s.pos, "the file ends in the middle of an escape", "the end of the file", "an escape")
	case e == nil && rest[1] == 'u':
		s.syntax(s.pos, `\u needs four hexadecimal digits`, `\u`, `\uXXXX`)
	case e == nil:
		c, _ := utf8.DecodeRune(rest[1:])
		shown := strings.Trim(strconv.Quote(string(c)), `"`) // it may be a control character
		s.syntax(s.pos, fmt.Sprintf("\\%s is not an escape of JSON; a backslash is written \\\\", shown), `'\'`, `\" \\ \/ \b \f \n \r \t \uXXXX`)
	case string(e) == `\u0000`:
		s.note(s.pos, CodeEncoding, "a string holds an escaped NUL", `\u0000`, "text")
	case len(e) == len(`\uXXXX`) && (e[2] == 'd' || e[2] == 'D') && e[3] >= '8':
		s.note(s.pos, CodeEncoding, "a string holds half of a surrogate pair", string(e), "both halves, or the character itself")
	}
	s.pos += len(e) - 1
	return e != nil
}

// maxExponent bounds the exponent and the length of a number. Every float64 fits, and arithmetic with the number stays
// cheap.
const maxExponent = 400

// numbers matches a number with its parts: the integer, the digits after the point, and those of the exponent. Each
// part may be empty.
var numbers = pattern.Lazy(`^-?([0-9]*)(?:\.([0-9]*))?(?:[eE][+-]?([0-9]*))?`)

func (s *scanner) number() (node, bool) {
	off := s.pos
	at := numbers().FindSubmatchIndex(s.src[off:])
	for i, message := range []string{"there is no digit after the minus sign", "there is no digit after the decimal point", "there is no digit in the exponent"} {
		if begin, end := at[2*i+2], at[2*i+3]; begin >= 0 && begin == end {
			s.pos = off + end
			if i == 0 {
				return node{}, s.syntax(off, message, s.here(), "a digit")
			}
			return node{}, s.syntax(s.pos, message, s.here(), "a digit")
		}
		if begin, end := at[2], at[3]; i == 0 && s.src[off+begin] == '0' && end-begin > 1 {
			return node{}, s.syntax(off, "a number does not start with 0", clip(string(s.src[off:off+end])), "the number without leading zeros")
		}
	}
	s.pos = off + at[1]
	text := string(s.src[off:s.pos])
	exp := 0
	if _, after, has := strings.Cut(strings.ToLower(text), "e"); has {
		var err error
		if exp, err = strconv.Atoi(after); err != nil {
			exp = maxExponent + 1
		}
	}
	n := node{kind: '0', off: off, end: s.pos, text: text}
	if _, err := strconv.ParseFloat(text, 64); err != nil || max(exp, -exp) > maxExponent || len(text) > maxExponent {
		s.note(off, CodeNumber, fmt.Sprintf("the number %s is out of every range", clip(text)), clip(text), "a number below 1e308")
		n.text = "0" // the number is refused; no later code shall compute with it
		return n, true
	}
	n.text = plainInteger(text, exp)
	return n, true
}

// plainInteger writes an integer of at most 18 digits without fraction and exponent. So 300.0 and 3e2 can be decoded
// into an int: the schema counts them as integers, but Go's decoder does not. Any other number stays as it is.
func plainInteger(text string, exp int) string {
	if mant, _, _ := strings.Cut(strings.ToLower(text), "e"); strings.Trim(mant, "-0.") == "" {
		return "0"
	}
	if strings.Trim(text, "-0123456789") == "" || max(exp, -exp) > maxExponent/4 {
		return text // plain already, or too large to be worth the arithmetic
	}
	r, ok := new(big.Rat).SetString(text)
	if !ok || !r.IsInt() || len(strings.TrimPrefix(r.Num().String(), "-")) > 18 {
		return text
	}
	return r.Num().String()
}
