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

// encoding refuses what is not plain UTF-8 before anything is read from it.
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

// note notes a problem; it is always false.
func (s *scanner) note(off int, code, message, what, allowed string) bool {
	if len(s.problems) <= 2*maxProblems || code == CodeSyntax {
		s.problems = append(s.problems, found{off, Problem{Pointer: pointer(s.path), Code: code, Message: message, Found: what, Allowed: allowed}})
	}
	return false
}

func (s *scanner) syntax(off int, message, what, allowed string) bool {
	return s.note(off, CodeSyntax, message, what, allowed)
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
		return // said often enough, and finding the line is not free
	}
	line, col := position(s.src, first)
	s.note(second, CodeDuplicateKey, fmt.Sprintf("the key %s stands here twice; first at %d:%d", quote(key), line, col), quote(key), "each key once")
}

func (s *scanner) comment(allowed string) bool {
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

// escapes are those of JSON, at a text's begin; two surrogates that are a pair are one.
var escapes = pattern.Lazy(`^\\(?:["\\/bfnrt]|u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[0-9a-fA-F]{4})`)

// str reads a string at the position. A lone surrogate and an escaped NUL are noted: one reader would see U+FFFD or an
// end where another sees text.
func (s *scanner) str() (text string, ok bool) {
	start, escaped := s.pos, false
	for s.pos++; s.pos < len(s.src); s.pos++ {
		switch c := s.src[s.pos]; {
		case c == '"':
			s.pos++
			text = string(s.src[start+1 : s.pos-1])
			if escaped {
				_ = json.Unmarshal(s.src[start:s.pos], &text) // it was just checked
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

// escape moves to the last byte of the escape at the position.
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
		s.syntax(s.pos, fmt.Sprintf("\\%c is not an escape of JSON; a backslash is written \\\\", c), `'\'`, `\" \\ \/ \b \f \n \r \t \uXXXX`)
	case string(e) == `\u0000`:
		s.note(s.pos, CodeEncoding, "a string holds an escaped NUL", `\u0000`, "text")
	case len(e) == len(`\uXXXX`) && (e[2] == 'd' || e[2] == 'D') && e[3] >= '8':
		s.note(s.pos, CodeEncoding, "a string holds half of a surrogate pair", string(e), "both halves, or the character itself")
	}
	s.pos += len(e) - 1
	return e != nil
}

// maxExponent bounds what is accepted as a number: every float64 fits, and no arithmetic on it can grow without bound.
const maxExponent = 400

// numbers takes what begins as a number: its integer, what follows the point, and what follows the e and its sign.
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
		n.text = "0" // it is refused; nothing may compute with it
		return n, true
	}
	n.text = plainInteger(text, exp)
	return n, true
}

// plainInteger writes a number that is an integer of at most 18 digits without fraction and exponent, so that 300.0 and
// 3e2 can be read into an int: the schema calls them integers, Go's decoder does not. Any other number stays as it is.
func plainInteger(text string, exp int) string {
	if mant, _, _ := strings.Cut(strings.ToLower(text), "e"); strings.Trim(mant, "-0.") == "" {
		return "0"
	}
	if strings.Trim(text, "-0123456789") == "" || max(exp, -exp) > maxExponent/4 {
		return text // as it should be, or too long to compute with for so small a gain
	}
	r, ok := new(big.Rat).SetString(text)
	if !ok || !r.IsInt() || len(strings.TrimPrefix(r.Num().String(), "-")) > 18 {
		return text
	}
	return r.Num().String()
}
