// Package text makes foreign text harmless, with one function for each purpose: for a terminal (Display, Shown, Line),
// for a shell (Word, Words, Paste), and to a given length (Cut, Head, Tail). Decode reads JSON, with short errors.
package text

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Dots replaces the text that Cut has cut off.
const Dots = "..."

// Uncoloured returns s without the control sequences of terminals: CSI, OSC and the other strings, and the short ones.
// It also removes an unfinished sequence at the end.
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

// afterControl returns the text after a control sequence. s begins after the ESC of the sequence.
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

// The characters that may stand between the beginning and the last character of a control sequence.
const (
	parameters    = "0123456789:;<=>?"
	intermediates = " !\"#$%&'()*+,-./"
)

// after returns s without its first character if that is between least and '~'.
func after(s string, least byte) string {
	if s != "" && s[0] >= least && s[0] <= '~' {
		return s[1:]
	}
	return s
}

// Line returns foreign text as one line for a screen, a log or a prompt. It removes control sequences and control or
// invisible characters. It replaces each run of white space by one blank, and each byte that is not UTF-8 by "?". The
// line has at most most characters, Dots included.
func Line(s string, most int) string {
	if len(s) > 16*most { // the text far beyond the limit does not matter
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

// Cut returns s if it has at most most characters. Otherwise it returns the beginning with Dots, most characters
// together.
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

// Head returns the beginning of s, at most most bytes. It splits no character.
func Head(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:max(most, 0)]
}

// Tail returns the end of s, at most most bytes. It splits no character.
func Tail(s string, most int) string {
	start := max(len(s)-most, 0)
	for start < len(s) && !utf8.RuneStart(s[start]) {
		start++
	}
	return s[start:]
}

// Plain returns foreign text with several lines: Unix line ends, no control or invisible characters except newline and
// tab, and "?" for each byte that is not UTF-8.
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

// Display writes a command for an operator who decides about it. It writes one line, omits nothing, and shows every
// character in a way that a terminal or an eye cannot misread. A character that is not printable ASCII appears as its
// code point, a newline as <newline>, a tab as <tab>, and more than three blanks or newlines in a row as their number.
// Two different commands never look the same.
func Display(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		c, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case c == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, "<0x%02X>", s[i])
		case c == ' ' || c == '\n':
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
		case c == '<' && looksLikeMark(s[i+1:]), c < ' ' || c > '~':
			b.WriteString(CharName(c))
		default:
			b.WriteByte(byte(c))
		}
		i += size
	}
	return b.String()
}

// Shown writes a text that needs no decision as one line. It leaves letters, digits, signs and symbols of all scripts as
// they are, blanks too, and text that looks like a mark. A newline becomes a blank. Every character that acts on a
// terminal, or that an eye does not see, appears as its code point (Seen).
func Shown(s string) string {
	var b strings.Builder
	accents := 0
	for i := 0; i < len(s); {
		c, size := utf8.DecodeRuneInString(s[i:])
		if unicode.Is(unicode.M, c) {
			accents++
		} else {
			accents = 0
		}
		switch {
		case c == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, "<0x%02X>", s[i])
		case c == '\n':
			b.WriteByte(' ')
		case c == '\t':
			b.WriteString("<tab>")
		case !Seen(c) || accents > MostAccents:
			b.WriteString(CharName(c))
		default:
			b.WriteRune(c)
		}
		i += size
	}
	return b.String()
}

// MostAccents is how many combining marks in a row stand as they are. More of them reach over the lines around.
const MostAccents = 4

// Seen reports whether a reader sees a character for what it is: it is no control character, moves and reverses nothing,
// and is not invisible. The only blank that is seen is the ASCII blank.
func Seen(c rune) bool {
	const brailleBlank = 0x2800 // Unicode counts it as a symbol
	return unicode.IsGraphic(c) && (c == ' ' || !unicode.Is(unicode.Zs, c)) && c != brailleBlank &&
		!unicode.In(c, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// Columns returns how many columns of a terminal a text takes that Shown has written.
func Columns(s string) (n int) {
	for _, c := range s {
		switch {
		case unicode.Is(unicode.M, c):
		case unicode.In(c, unicode.Han, unicode.Hangul, unicode.Hiragana, unicode.Katakana), c >= 0xff01 && c <= 0xff60, c >= 0x1f300 && c <= 0x1faff:
			n += 2
		default:
			n++
		}
	}
	return n
}

// looksLikeMark reports whether a reader could take "<" and rest for a mark of Display.
func looksLikeMark(rest string) bool {
	for _, mark := range []string{"newline>", "tab>", "U+", "0x"} {
		if strings.HasPrefix(rest, mark) {
			return true
		}
	}
	digits := strings.TrimLeft(rest, "0123456789")
	return len(digits) < len(rest) && (strings.HasPrefix(digits, " blanks>") || strings.HasPrefix(digits, " newlines>"))
}

// CharName returns the mark that Display writes for a character, such as "<U+200B>".
func CharName(c rune) string { return fmt.Sprintf("<U+%04X>", c) }

// Word quotes s as one word of a command line. Any POSIX shell reads the word as s.
func Word(s string) string {
	if isPlain(s) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// Words returns a command line that a POSIX shell splits into the words of argv.
func Words(argv []string) string {
	words := make([]string, len(argv))
	for i, a := range argv {
		words[i] = Word(a)
	}
	return strings.Join(words, " ")
}

// isPlain reports whether a shell reads s unchanged. The characters of plain have no meaning for a shell inside a word;
// = and ^ have one at its beginning.
func isPlain(s string) bool {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789@%_+-:,./=^"
	return s != "" && strings.Trim(s, plain) == "" && s[0] != '=' && s[0] != '^'
}

// Paste quotes s as one word for a command line that operators read and paste. The word is one line of printable ASCII,
// so that pasting it does what it shows. Paste writes other characters through printf. Then the shell drops newlines at
// the very end of s.
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

// Slug returns the ASCII letters and digits of a text in lower case, with one hyphen for whatever stands between them, and
// most bytes at most. It is "" if the text has none.
func Slug(s string, most int) string {
	words := strings.FieldsFunc(strings.ToLower(s), func(r rune) bool {
		return r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r)
	})
	id := strings.Join(words, "-")
	return strings.TrimRight(id[:min(len(id), most)], "-")
}
