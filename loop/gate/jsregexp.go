package gate

import (
	"fmt"
	"regexp"
	"strings"
)

// compileRegex compiles a pattern and flags that were written for JavaScript.
//
// Flags: i, m and s mean the same here; g and u change nothing for a test of
// presence; y anchors the match at the start of the text. Any other flag, and a
// flag given twice, is an error, as it is there.
//
// \uXXXX, \u{X}, [^], [] and the wider \s are translated. Look-around and back
// references do not exist here, so that a pattern cannot take exponential time;
// they are errors.
func compileRegex(pattern, flags string) (*regexp.Regexp, error) {
	var keep string
	sticky := false
	for i, f := range flags {
		if strings.ContainsRune(flags[:i], f) {
			return nil, fmt.Errorf("flag %q is given twice", f)
		}
		switch f {
		case 'i', 'm', 's':
			keep += string(f)
		case 'g', 'u':
		case 'y':
			sticky = true
		default:
			return nil, fmt.Errorf("unknown flag %q; known are g, i, m, s, u, y", f)
		}
	}
	expr := fromJS(pattern)
	if sticky {
		expr = `\A(?:` + expr + `)`
	}
	if keep != "" {
		expr = "(?" + keep + ")" + expr
	}
	re, err := regexp.Compile(expr)
	if err != nil {
		return nil, err
	}
	return re, nil
}

// jsSpace is what \s stands for in JavaScript, as the inside of a class.
const jsSpace = `\t\n\v\f\r\p{Z}\x{FEFF}`

// fromJS rewrites what the two syntaxes spell differently; everything else is
// passed on, right or wrong.
func fromJS(p string) string {
	var b strings.Builder
	class := false
	for i := 0; i < len(p); i++ {
		c := p[i]
		rest := p[i:]
		switch {
		case c == '\\' && i+1 < len(p):
			out, n := escapeFromJS(rest, class)
			b.WriteString(out)
			i += n - 1
		case class:
			class = c != ']'
			if c == '[' { // a literal bracket there, the start of [:name:] here
				b.WriteString(`\[`)
				continue
			}
			b.WriteByte(c)
		case strings.HasPrefix(rest, "[^]"):
			b.WriteString(`[\s\S]`)
			i += 2
		case strings.HasPrefix(rest, "[]"):
			b.WriteString(`[^\s\S]`)
			i++
		case c == '[':
			class = true
			b.WriteByte(c)
			if strings.HasPrefix(rest, "[^") {
				b.WriteByte('^')
				i++
			}
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

// escapeFromJS translates the escape that s begins with and returns how many
// bytes of s it took.
func escapeFromJS(s string, class bool) (string, int) {
	switch s[1] {
	case 'u':
		if len(s) >= 6 && isHex(s[2:6]) {
			return `\x{` + s[2:6] + `}`, 6
		}
		if end := strings.IndexByte(s, '}'); strings.HasPrefix(s, `\u{`) && end > 3 && isHex(s[3:end]) {
			return `\x{` + s[3:end] + `}`, end + 1
		}
	case 's':
		if class {
			return jsSpace, 2
		}
		return `[` + jsSpace + `]`, 2
	case 'S':
		if !class {
			return `[^` + jsSpace + `]`, 2
		}
	case 'b':
		if class {
			return `\x08`, 2
		}
	case '0':
		return `\x00`, 2
	case '-', '/':
		return `\` + s[1:2], 2
	}
	return s[:2], 2
}

func isHex(s string) bool {
	return s != "" && strings.Trim(s, "0123456789abcdefABCDEF") == ""
}
