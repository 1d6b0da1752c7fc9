package text

import (
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
