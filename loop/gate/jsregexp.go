package gate

import (
	"fmt"
	"regexp"
	"strings"
)

// compileRegex compiles a pattern and flags that were written for JavaScript.
//
// Flags: i, m and s mean the same here; g and u change nothing for a test of presence; y anchors the match at the start
// of the text. Any other flag, and a flag given twice, is an error, as it is there.
//
// \uXXXX, \u{X}, [^], [] and the wider \s are translated. Look-around and back references do not exist here, so that a
// pattern cannot take exponential time; they are errors.
func compileRegex(pattern, flags string) (*regexp.Regexp, error) {
	expr := fromJS(pattern)
	var keep string
	for i, f := range flags {
		switch {
		case strings.ContainsRune(flags[:i], f):
			return nil, fmt.Errorf("flag %q is given twice", f)
		case strings.ContainsRune("ims", f):
			keep += string(f)
		case f == 'y':
			expr = `\A(?:` + expr + `)`
		case f != 'g' && f != 'u':
			return nil, fmt.Errorf("unknown flag %q; known are g, i, m, s, u, y", f)
		}
	}
	if keep != "" {
		expr = "(?" + keep + ")" + expr
	}
	return regexp.Compile(expr)
}

// jsSpace is what \s stands for in JavaScript, as the inside of a class.
const jsSpace = `\t\n\v\f\r\p{Z}\x{FEFF}`

// fromJS rewrites what the two syntaxes spell differently; everything else is passed on, right or wrong.
func fromJS(p string) string {
	var b strings.Builder
	class := false
	for p != "" {
		out, n := p[:1], 1
		switch {
		case p[0] == '\\' && len(p) > 1:
			out, n = escapeFromJS(p, class)
		case class && p[0] == '[': // a literal bracket there, the start of [:name:] here
			out = `\[`
		case class:
			class = p[0] != ']'
		case strings.HasPrefix(p, "[^]"):
			out, n = `[\s\S]`, 3
		case strings.HasPrefix(p, "[]"):
			out, n = `[^\s\S]`, 2
		case strings.HasPrefix(p, "[^"):
			out, n, class = "[^", 2, true
		case p[0] == '[':
			class = true
		}
		b.WriteString(out)
		p = p[n:]
	}
	return b.String()
}

// escapeFromJS translates the escape that s begins with and returns how many bytes of s it took.
func escapeFromJS(s string, class bool) (string, int) {
	switch c := s[1]; {
	case c == 'u' && len(s) >= 6 && isHex(s[2:6]):
		return `\x{` + s[2:6] + `}`, 6
	case c == 'u':
		if end := strings.IndexByte(s, '}'); strings.HasPrefix(s, `\u{`) && end > 3 && isHex(s[3:end]) {
			return `\x{` + s[3:end] + `}`, end + 1
		}
	case c == 's' && class:
		return jsSpace, 2
	case c == 's':
		return `[` + jsSpace + `]`, 2
	case c == 'S' && !class:
		return `[^` + jsSpace + `]`, 2
	case c == 'b' && class:
		return `\x08`, 2
	case c == '0':
		return `\x00`, 2
	}
	return s[:2], 2
}

func isHex(s string) bool { return s != "" && strings.Trim(s, "0123456789abcdefABCDEF") == "" }
