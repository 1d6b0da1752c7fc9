package text

import (
	"fmt"
	"strings"
)

// Word is s as one word of a command line, which any POSIX shell reads back as s.
func Word(s string) string {
	if isPlain(s) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// Words is a command line that a POSIX shell takes apart into these words.
func Words(argv []string) string {
	words := make([]string, len(argv))
	for i, a := range argv {
		words[i] = Word(a)
	}
	return strings.Join(words, " ")
}

// isPlain reports whether a shell reads s as it is. No shell takes these characters for anything else inside of a word;
// = and ^ mean something at its beginning.
func isPlain(s string) bool {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789@%_+-:,./=^"
	return s != "" && strings.Trim(s, plain) == "" && s[0] != '=' && s[0] != '^'
}

// Paste is s as one word for a command line that people read and paste: one line of printable ASCII, so that pasting it
// does what it shows. Other characters are written through printf; newlines at the very end of s are lost then.
func Paste(s string) string {
	if strings.IndexFunc(s, func(c rune) bool { return c < ' ' || c > '~' }) < 0 {
		return Word(s)
	}
	var b strings.Builder
	b.WriteString(`"$(printf '`)
	for i := range len(s) {
		switch c := s[i]; {
		case c == '%':
			b.WriteString("%%")
		case c < ' ' || c > '~' || c == '\'' || c == '\\' || c == '-' && i == 0: // the last would be an option of printf
			fmt.Fprintf(&b, `\%03o`, c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteString(`')"`)
	return b.String()
}
