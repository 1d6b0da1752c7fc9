package text

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Display writes a command for an operator who decides about it: in one line, with nothing left out and nothing that a
// terminal or an eye could misread. Every character that is not printable ASCII is shown by its number, a newline as
// <newline>, a tab as <tab>, more than three blanks or newlines in a row by their count. No two commands look the same.
func Display(s string) string { return display(s, true) }

// Shown writes a line of text that is only looked at: as Display, but blanks and what looks like a mark stay as they
// are.
func Shown(line string) string { return display(line, false) }

func display(s string, exact bool) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		c, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case c == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, "<0x%02X>", s[i])
		case exact && (c == ' ' || c == '\n'):
			n := len(s[i:]) - len(strings.TrimLeft(s[i:], string(c)))
			size = n
			switch {
			case n > 3 && c == ' ':
				b.WriteString("<" + strconv.Itoa(n) + " blanks>")
			case n > 3:
				b.WriteString("<" + strconv.Itoa(n) + " newlines>")
			case c == ' ':
				b.WriteString(s[i : i+n])
			default:
				b.WriteString(strings.Repeat("<newline>", n))
			}
		case c == '\t':
			b.WriteString("<tab>")
		case exact && c == '<' && looksLikeMark(s[i+1:]), c < ' ' || c > '~':
			b.WriteString(CharName(c))
		default:
			b.WriteByte(byte(c))
		}
		i += size
	}
	return b.String()
}

// looksLikeMark reports whether text behind a '<' could be taken for a mark of Display.
func looksLikeMark(rest string) bool {
	for _, mark := range []string{"newline>", "tab>", "U+", "0x"} {
		if strings.HasPrefix(rest, mark) {
			return true
		}
	}
	digits := strings.TrimLeft(rest, "0123456789")
	return len(digits) < len(rest) && (strings.HasPrefix(digits, " blanks>") || strings.HasPrefix(digits, " newlines>"))
}

// CharName is the mark that Display writes in the place of a character: "<U+200B>".
func CharName(c rune) string { return fmt.Sprintf("<U+%04X>", c) }
