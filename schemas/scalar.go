package schemas

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// str reads a string at the position. A lone surrogate and an escaped NUL are
// noted: one reader would see U+FFFD or an end where another sees text.
func (s *scanner) str() (string, bool) {
	start := s.pos
	s.pos++
	var b strings.Builder
	plain := s.pos // start of the run that is copied as it stands
	for s.pos < len(s.src) {
		switch c := s.src[s.pos]; {
		case c == '"':
			b.Write(s.src[plain:s.pos])
			s.pos++
			return b.String(), true
		case c < 0x20:
			_, ok := s.syntax(s.pos, fmt.Sprintf("a string holds the raw control character %s; write it as an escape", s.here()), s.here(), "an escape such as \\n")
			return "", ok
		case c == '\\':
			b.Write(s.src[plain:s.pos])
			r, ok := s.escape()
			if !ok {
				return "", false
			}
			b.WriteRune(r)
			plain = s.pos
		default:
			s.pos++
		}
	}
	_, ok := s.syntax(start, "this string has no closing quote", "the end of the file", `"`)
	return "", ok
}

func (s *scanner) escape() (rune, bool) {
	at := s.pos
	s.pos++
	if s.pos >= len(s.src) {
		_, ok := s.syntax(at, "the file ends in the middle of an escape", "the end of the file", "an escape")
		return 0, ok
	}
	c := s.src[s.pos]
	if i := strings.IndexByte(`"\/bfnrt`, c); i >= 0 {
		s.pos++
		return rune("\"\\/\b\f\n\r\t"[i]), true
	}
	if c != 'u' {
		_, ok := s.syntax(at, fmt.Sprintf("\\%c is not an escape of JSON; a backslash is written \\\\", s.rune()), `'\'`, `\" \\ \/ \b \f \n \r \t \uXXXX`)
		return 0, ok
	}
	r, ok := s.hex(at)
	if !ok {
		return 0, false
	}
	if r == 0 {
		s.note(at, CodeEncoding, "a string holds an escaped NUL", `\u0000`, "text")
	}
	if !utf16.IsSurrogate(r) {
		return r, true
	}
	if r < 0xdc00 && s.pos+1 < len(s.src) && s.src[s.pos] == '\\' && s.src[s.pos+1] == 'u' {
		back := s.pos
		s.pos++
		low, ok := s.hex(back)
		if !ok {
			return 0, false
		}
		if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
			return pair, true
		}
		s.pos = back
	}
	s.note(at, CodeEncoding, "a string holds half of a surrogate pair", string(s.src[at:at+6]), "both halves, or the character itself")
	return utf8.RuneError, true
}

func (s *scanner) rune() rune {
	r, _ := utf8.DecodeRune(s.src[s.pos:])
	return r
}

// hex reads the XXXX of \uXXXX; the position stands at the u.
func (s *scanner) hex(at int) (rune, bool) {
	if s.pos+5 <= len(s.src) {
		if v, err := strconv.ParseUint(string(s.src[s.pos+1:s.pos+5]), 16, 32); err == nil {
			s.pos += 5
			return rune(v), true
		}
	}
	_, ok := s.syntax(at, `\u needs four hexadecimal digits`, `\u`, `\uXXXX`)
	return 0, ok
}

// maxExponent bounds what is accepted as a number: every float64 fits, and no
// arithmetic on it can grow without bound.
const maxExponent = 400

func (s *scanner) number() (node, bool) {
	off := s.pos
	digits := func() int {
		start := s.pos
		for s.pos < len(s.src) && s.src[s.pos] >= '0' && s.src[s.pos] <= '9' {
			s.pos++
		}
		return s.pos - start
	}
	if s.src[s.pos] == '-' {
		s.pos++
	}
	lead := s.pos
	if digits() == 0 {
		return s.syntax(off, "there is no digit after the minus sign", s.here(), "a digit")
	}
	if s.src[lead] == '0' && s.pos-lead > 1 {
		return s.syntax(off, "a number does not start with 0", clip(string(s.src[off:s.pos])), "the number without leading zeros")
	}
	if s.pos < len(s.src) && s.src[s.pos] == '.' {
		s.pos++
		if digits() == 0 {
			return s.syntax(s.pos, "there is no digit after the decimal point", s.here(), "a digit")
		}
	}
	exp := 0
	if s.pos < len(s.src) && (s.src[s.pos] == 'e' || s.src[s.pos] == 'E') {
		s.pos++
		start := s.pos
		if s.pos < len(s.src) && (s.src[s.pos] == '+' || s.src[s.pos] == '-') {
			s.pos++
		}
		if digits() == 0 {
			return s.syntax(s.pos, "there is no digit in the exponent", s.here(), "a digit")
		}
		var err error
		if exp, err = strconv.Atoi(string(s.src[start:s.pos])); err != nil {
			exp = maxExponent + 1
		}
	}
	text := string(s.src[off:s.pos])
	n := node{kind: '0', off: off, end: s.pos, text: text}
	if _, err := strconv.ParseFloat(text, 64); err != nil || exp > maxExponent || exp < -maxExponent || len(text) > maxExponent {
		s.note(off, CodeNumber, fmt.Sprintf("the number %s is out of every range", clip(text)), clip(text), "a number below 1e308")
		n.text = "0" // it is refused; nothing may compute with it
		return n, true
	}
	n.text = plainInteger(text, exp)
	return n, true
}

// plainInteger writes a number that is an integer without fraction and
// exponent, so that 300.0 and 3e2 can be read into an int: the schema calls
// them integers, Go's decoder does not. Any other number stays as it is.
func plainInteger(text string, exp int) string {
	mant, _, _ := strings.Cut(strings.ToLower(text), "e")
	if mant == text && !strings.Contains(text, ".") {
		if text == "-0" {
			return "0"
		}
		return text
	}
	neg := strings.HasPrefix(mant, "-")
	whole, frac, _ := strings.Cut(strings.TrimPrefix(mant, "-"), ".")
	frac = strings.TrimRight(frac, "0")
	point := len(whole) + exp
	all := strings.TrimLeft(whole+frac, "0")
	point -= len(whole+frac) - len(all) // the point moves with the zeros cut in front
	all = strings.TrimRight(all, "0")
	if all == "" {
		return "0"
	}
	if len(all) > point || point > 18 {
		return text
	}
	out := all + strings.Repeat("0", point-len(all))
	if neg {
		out = "-" + out
	}
	return out
}
