package recovery

import (
	"strings"
	"unicode/utf8"
)

// ansi decodes the inside of $'...' as bash does. It is not ok where bash would
// make something that is no text: a NUL, which ends it, or what is not UTF-8.
func ansi(s string) (string, bool) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		const names, values = `abefnrtvE\'"?`, "\a\b\x1b\f\n\r\t\v\x1b\\'\"?"
		c := s[i]
		if at := strings.IndexByte(names, c); at >= 0 {
			b.WriteByte(values[at])
			continue
		}
		value, digits := rune(0), 0
		switch c {
		case 'x':
			if strings.HasPrefix(s[i+1:], "{") {
				return "", false // some versions read \x{...}
			}
			value, digits = number(s[i+1:], 16, 2)
		case 'u':
			value, digits = number(s[i+1:], 16, 4)
		case 'U':
			value, digits = number(s[i+1:], 16, 8)
		case '0', '1', '2', '3', '4', '5', '6', '7':
			value, digits = number(s[i:], 8, 3)
			digits--
			value &= 0xff
		case 'c':
			return "", false // a control character, by a rule that differs between versions
		}
		if digits == 0 && strings.IndexByte("01234567", c) < 0 {
			b.WriteByte('\\')
			b.WriteByte(c)
			continue
		}
		i += digits
		switch {
		case value == 0 || value > utf8.MaxRune:
			return "", false
		case (c == 'u' || c == 'U') && utf8.ValidRune(value):
			b.WriteRune(value)
		case c == 'u' || c == 'U':
			return "", false
		default:
			b.WriteByte(byte(value))
		}
	}
	return b.String(), utf8.ValidString(b.String())
}

// number reads at most n digits.
func number(s string, base rune, n int) (value rune, digits int) {
	for digits < n && digits < len(s) {
		d := rune(strings.IndexByte("0123456789abcdef", lower(s[digits])))
		if d < 0 || d >= base {
			break
		}
		if value = value*base + d; value < 0 || value > 1<<26 {
			value = 1 << 26 // too large for a character; keep on reading its digits
		}
		digits++
	}
	return value, digits
}

func lower(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}
