package recovery

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Hidden is a character that people do not see, or do not see as what it is.
type Hidden struct {
	Offset int    `json:"offset"` // in bytes
	Name   string `json:"name"`   // "<U+200B>"
}

// isHidden reports whether people cannot see a character: controls but for
// newline and tab, formats, blanks other than the usual one, and letters and
// marks that show nothing.
func isHidden(c rune) bool {
	if c >= ' ' && c < 0x7f || c == '\n' || c == '\t' {
		return false
	}
	switch {
	case unicode.IsControl(c), c == utf8.RuneError, unicode.In(c, unicode.Cf, unicode.Zs, unicode.Zl, unicode.Zp, unicode.Co, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point):
		return true
	case c == 0x2800: // a braille pattern without dots
		return true
	}
	return false
}

func hidden(text string) []Hidden {
	const enough = 100
	var out []Hidden
	for i, c := range text {
		if c < utf8.RuneSelf && c >= ' ' && c != 0x7f {
			continue
		}
		if isHidden(c) && len(out) < enough {
			out = append(out, Hidden{Offset: i, Name: charName(c)})
		}
	}
	return out
}

func charName(c rune) string { return fmt.Sprintf("<U+%04X>", c) }

// Display writes a command for a person who decides about it: in one line, with
// nothing left out and nothing that a terminal or an eye could misread. Every
// character that is not printable ASCII is shown by its number, a newline as
// <newline>, a tab as <tab>, more than three blanks or newlines in a row by their
// count. No two commands look the same.
func Display(text string) string {
	var b strings.Builder
	for i := 0; i < len(text); {
		c, size := utf8.DecodeRuneInString(text[i:])
		switch {
		case c == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, "<0x%02X>", text[i])
		case c == ' ' || c == '\n':
			n := len(text[i:]) - len(strings.TrimLeft(text[i:], string(c)))
			size = n
			switch {
			case n > 3 && c == ' ':
				b.WriteString("<" + strconv.Itoa(n) + " blanks>")
			case n > 3:
				b.WriteString("<" + strconv.Itoa(n) + " newlines>")
			case c == ' ':
				b.WriteString(text[i : i+n])
			default:
				b.WriteString(strings.Repeat("<newline>", n))
			}
		case c == '\t':
			b.WriteString("<tab>")
		case c == '<' && looksLikeMark(text[i+1:]), c < ' ' || c > '~':
			b.WriteString(charName(c))
		default:
			b.WriteByte(byte(c))
		}
		i += size
	}
	return b.String()
}

// looksLikeMark reports whether text behind a '<' could be taken for a mark of
// Display.
func looksLikeMark(rest string) bool {
	for _, mark := range []string{"newline>", "tab>", "U+", "0x"} {
		if strings.HasPrefix(rest, mark) {
			return true
		}
	}
	digits := strings.TrimLeft(rest, "0123456789")
	return len(digits) < len(rest) && (strings.HasPrefix(digits, " blanks>") || strings.HasPrefix(digits, " newlines>"))
}
