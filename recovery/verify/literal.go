package verify

import (
	"regexp/syntax"
	"strings"
)

// literal is the longest text, in lower case, that every match of an expression holds, or "" if there is none of some
// length. Looking for texts is much cheaper than an expression, and most lines hold none.
func literal(expr string) string {
	re, err := syntax.Parse("(?i)"+expr, syntax.Perl)
	if err != nil {
		return ""
	}
	best := longest(re.Simplify())
	if len(best) < 3 {
		return ""
	}
	return best
}

func longest(re *syntax.Regexp) string {
	switch re.Op {
	case syntax.OpLiteral:
		text := strings.ToLower(string(re.Rune))
		for i := range len(text) {
			if text[i] >= 0x80 {
				return "" // its lower case may be another in the line
			}
		}
		return text
	case syntax.OpCapture, syntax.OpPlus:
		return longest(re.Sub[0])
	case syntax.OpConcat:
		best := ""
		for _, s := range re.Sub {
			if text := longest(s); len(text) > len(best) {
				best = text
			}
		}
		return best
	}
	return ""
}

// literals are those of several expressions, nil if one of them has none: then nothing can be ruled out.
func literals(exprs []string) []string {
	var out []string
	for _, e := range exprs {
		l := literal(e)
		if l == "" {
			return nil
		}
		out = append(out, l)
	}
	return out
}

func containsAny(text string, list []string) bool {
	for _, l := range list {
		if strings.Contains(text, l) {
			return true
		}
	}
	return list == nil
}
