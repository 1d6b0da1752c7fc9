package recovery

import (
	"unicode"
	"unicode/utf8"

	"github.com/superloop/superloop/internal/text"
)

// Hidden is a character that people do not see, or do not see as what it is.
type Hidden struct {
	Offset int    `json:"offset"` // in bytes
	Name   string `json:"name"`   // "<U+200B>"
}

// isHidden reports whether people cannot see a character: controls but for newline and tab, formats, blanks other than
// the usual one, and letters and marks that show nothing.
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

func hidden(s string) []Hidden {
	const enough = 100
	var out []Hidden
	for i, c := range s {
		if c < utf8.RuneSelf && c >= ' ' && c != 0x7f {
			continue
		}
		if isHidden(c) && len(out) < enough {
			out = append(out, Hidden{Offset: i, Name: text.CharName(c)})
		}
	}
	return out
}
