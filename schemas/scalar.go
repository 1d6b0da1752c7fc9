package schemas

import (
	"encoding/json"
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/superloop/superloop/internal/pattern"
)

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
			_, ok = s.syntax(s.pos, fmt.Sprintf("a string holds the raw control character %s; write it as an escape", s.here()), s.here(), "an escape such as \\n")
			return "", ok
		case c == '\\':
			if !s.escape() {
				return "", false
			}
			escaped = true
		}
	}
	_, ok = s.syntax(start, "this string has no closing quote", "the end of the file", `"`)
	return "", ok
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
				return s.syntax(off, message, s.here(), "a digit")
			}
			return s.syntax(s.pos, message, s.here(), "a digit")
		}
		if begin, end := at[2], at[3]; i == 0 && s.src[off+begin] == '0' && end-begin > 1 {
			return s.syntax(off, "a number does not start with 0", clip(string(s.src[off:off+end])), "the number without leading zeros")
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
