package notify

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/superloop/superloop/internal/text"
)

const (
	longestRun  = 3 // blanks or newlines in a row that are shown as they are
	mostAccents = 4 // combining marks in a row
)

// unseen are characters that Unicode calls graphic and that show nothing.
var unseen = &unicode.RangeTable{
	R16: []unicode.Range16{
		{Lo: 0x034f, Hi: 0x034f, Stride: 1}, // grapheme joiner
		{Lo: 0x115f, Hi: 0x1160, Stride: 1}, // Hangul fillers
		{Lo: 0x17b4, Hi: 0x17b5, Stride: 1}, // Khmer inherent vowels
		{Lo: 0x180b, Hi: 0x180f, Stride: 1}, // Mongolian selectors
		{Lo: 0x2800, Hi: 0x2800, Stride: 1}, // Braille blank
		{Lo: 0x3164, Hi: 0x3164, Stride: 1}, // Hangul filler
		{Lo: 0xfe00, Hi: 0xfe0f, Stride: 1}, // variation selectors
		{Lo: 0xffa0, Hi: 0xffa0, Stride: 1}, // half-width Hangul filler
	},
	R32: []unicode.Range32{{Lo: 0xe0100, Hi: 0xe01ef, Stride: 1}}, // variation selectors
}

// Visible writes s so that a reader sees all of it: control characters, bidi
// controls, blanks that are not the blank, and characters that show nothing
// become <U+202E>, a byte that is no UTF-8 becomes <0xFF>, and more than three
// blanks or newlines in a row become <5000 blanks>. What remains has no
// character that moves, hides or turns others round. marks counts the
// replacements; 0 means that shown is s. Newlines stay.
func Visible(s string) (shown string, marks int) {
	var b strings.Builder
	accents := 0
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		if r == ' ' || r == '\n' {
			n := len(s[i:]) - len(strings.TrimLeft(s[i:], string(r)))
			i += n
			accents = 0
			if n <= longestRun {
				b.WriteString(s[i-n : i])
				continue
			}
			marks++
			if r == ' ' {
				fmt.Fprintf(&b, "<%d blanks>", n)
			} else {
				fmt.Fprintf(&b, "<%d newlines>\n", n)
			}
			continue
		}
		i += size
		if unicode.Is(unicode.M, r) {
			accents++
		} else {
			accents = 0
		}
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, "<0x%02X>", s[i-1])
			marks++
		case !unicode.IsGraphic(r), unicode.Is(unicode.Zs, r), unicode.Is(unseen, r), accents > mostAccents:
			fmt.Fprintf(&b, "<U+%04X>", r)
			marks++
		default:
			b.WriteRune(r)
		}
	}
	return b.String(), marks
}

// OneLine is Visible on one line, of at most limit characters: newlines become
// blanks, and what does not fit becomes "...".
func OneLine(s string, limit int) string {
	s = strings.TrimSpace(s)
	longer := len(s) > 8*limit // then it is not worth looking at the rest
	if longer {
		s = strings.ToValidUTF8(s[:8*limit], "")
	}
	line, _ := Visible(s)
	line = strings.ReplaceAll(line, "\n", " ")
	if longer {
		line += text.Dots
	}
	return text.Cut(line, limit)
}

// Escape writes & < > as entities, for Slack and for whatever reads Slack's
// messages: links, and calls to everybody, need a bare "<".
func Escape(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(s)
}
