// Package text makes foreign text harmless, each way of it once: for a terminal (Display, Shown, Line), for a shell
// (Word, Words, Paste), and in a length (Cut, Head, Tail). It decides nothing.
package text

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Dots stand for what was cut off.
const Dots = "..."

// Uncoloured is s without the control sequences of terminals: CSI, OSC and the other strings, and the short ones; an
// unfinished one at the end too.
func Uncoloured(s string) string {
	at := strings.IndexByte(s, 0x1b)
	if at < 0 {
		return s
	}
	var b strings.Builder
	for ; at >= 0; at = strings.IndexByte(s, 0x1b) {
		b.WriteString(s[:at])
		s = afterControl(s[at+1:])
	}
	b.WriteString(s)
	return b.String()
}

// afterControl is what follows a control sequence, whose ESC was read.
func afterControl(s string) string {
	switch {
	case s == "":
		return ""
	case s[0] == '[':
		return after(strings.TrimLeft(strings.TrimLeft(s[1:], parameters), intermediates), '@')
	case strings.IndexByte("]PX^_", s[0]) >= 0:
		end := strings.IndexAny(s, "\a\x1b")
		switch {
		case end < 0:
			return ""
		case strings.HasPrefix(s[end:], "\x1b\\"):
			return s[end+2:]
		case s[end] == '\a':
			return s[end+1:]
		}
		return s[end:]
	}
	return after(strings.TrimLeft(s, intermediates), '0')
}

// What stands between the beginning and the last character of a control sequence.
const (
	parameters    = "0123456789:;<=>?"
	intermediates = " !\"#$%&'()*+,-./"
)

// after is s without its first character, if that is one from least to ~.
func after(s string, least byte) string {
	if s != "" && s[0] >= least && s[0] <= '~' {
		return s[1:]
	}
	return s
}

// Line is foreign text as one line for a screen, a log or a prompt: no control sequences, no control or invisible
// characters, each run of white space one blank, a ? for each byte that is not UTF-8. It has at most most characters,
// Dots included.
func Line(s string, most int) string {
	if len(s) > 16*most { // what is far behind the cut is not looked at
		s = s[:16*most]
	}
	s = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case r == utf8.RuneError:
			return '?'
		case unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co, unicode.Zl, unicode.Zp):
			return -1
		}
		return r
	}, Uncoloured(s))
	return Cut(strings.Join(strings.Fields(s), " "), most)
}

// Cut is s with at most most characters, Dots included where something was cut off.
func Cut(s string, most int) string {
	if len(s) <= most || utf8.RuneCountInString(s) <= most {
		return s
	}
	room, i := most-len(Dots), 0
	dots := Dots
	if room < 1 {
		room, dots = max(most, 0), ""
	}
	for range room {
		_, n := utf8.DecodeRuneInString(s[i:])
		i += n
	}
	return s[:i] + dots
}

// Head is the beginning of s, at most most bytes, and no character cut in two.
func Head(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:max(most, 0)]
}

// Tail is the end of s, at most most bytes, and no character cut in two.
func Tail(s string, most int) string {
	start := max(len(s)-most, 0)
	for start < len(s) && !utf8.RuneStart(s[start]) {
		start++
	}
	return s[start:]
}

// Plain is foreign text of any number of lines: Unix line ends, no control or invisible characters but newline and tab,
// a ? for each byte that is not UTF-8.
func Plain(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case r == '\r':
			return '\n'
		case r == utf8.RuneError:
			return '?'
		case unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp):
			return -1
		}
		return r
	}, strings.ReplaceAll(s, "\r\n", "\n"))
}

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
			case n > 3:
				fmt.Fprintf(&b, "<%d %s>", n, map[rune]string{' ': "blanks", '\n': "newlines"}[c])
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
