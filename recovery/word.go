package recovery

import (
	"path"
	"runtime"
	"strings"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"
)

// word is one word of a command after quote removal. Text that is only known when bash runs the command (an expansion,
// a substitution, a glob, braces, a tilde) is an unknown byte in text.
type word struct {
	text  string
	known bool // text has no unknown byte
	many  bool // bash may make several words of it, all of the form of text
	split bool // bash may make any words at all of it, or none
}

func literal(text string) word { return word{text: text, known: true} }

// mayBe reports whether want may be among the words that w becomes.
func (w word) mayBe(want string) bool { return w.split || intersects(want, w.text) }

// mayBeOption reports whether an option may be among the words that w becomes. A glob that contains one of the
// characters "./_,:", such as *.o, does not count: it finds no file whose name a program would take for an option.
func (w word) mayBeOption() bool {
	if w.split || w.text == "" || w.text[0] == '-' {
		return w.text != ""
	}
	return w.text[0] == unknown && (!w.many || !strings.ContainsAny(w.text, "./_,:"))
}

// before returns the known text before the first unknown byte.
func (w word) before() string {
	text, _, _ := strings.Cut(w.text, string(unknown))
	return text
}

// show returns the word for display, with "..." for each unknown byte.
func (w word) show() string { return strings.ReplaceAll(w.text, string(unknown), "...") }

func show(ws []word) string {
	var out []string
	for _, w := range ws {
		out = append(out, w.show())
	}
	return strings.Join(out, " ")
}

// join joins words by single blanks, the form in which patterns are compared with them.
func join(ws []word) string {
	var b strings.Builder
	glued := true
	for _, w := range ws {
		// A word that may become no word at all gets no blanks around it.
		free := w.split && strings.Trim(w.text, string(unknown)) == ""
		if !glued && !free {
			b.WriteByte(' ')
		}
		b.WriteString(w.text)
		glued = free
	}
	return b.String()
}

// programName returns the name of a program without its path.
func programName(name string) string {
	if strings.HasSuffix(name, "/") {
		return name
	}
	return foldName(path.Base(name))
}

// foldName converts the name of a program to lower case on systems whose file names have no case.
func foldName(name string) string {
	if runtime.GOOS == "darwin" || runtime.GOOS == "windows" {
		return strings.ToLower(name)
	}
	return name
}

// newWord removes the quotes of a word of the parser.
func newWord(w *syntax.Word) word {
	b := wordBuilder{known: true}
	if len(w.Parts) > 0 {
		lit, ok := w.Parts[0].(*syntax.Lit)
		if ok && len(w.Parts) == 1 && (lit.Value == "[" || !strings.ContainsAny(lit.Value, "\\*?[{~")) {
			return literal(lit.Value)
		}
		b.tilde = ok && strings.HasPrefix(lit.Value, "~")
	}
	for _, part := range w.Parts {
		b.part(part)
	}
	out := word{text: b.text.String(), known: b.known, many: b.many || b.split, split: b.split}
	if b.class || b.open && b.close && b.comma {
		out.text, out.known, out.many = out.text[:b.cut]+string(unknown), false, true
	}
	return out
}

type wordBuilder struct {
	text               strings.Builder
	known, many, split bool
	tilde              bool
	// open, close, comma and class record unquoted characters of a possible brace expansion (an open brace, its end,
	// and "," or ".." between them) or of a character class. The parser of words does not expand these. The text from
	// cut on is unknown.
	open, close, comma, class bool
	cut                       int
}

func (b *wordBuilder) cutHere() {
	if !b.open && !b.class {
		b.cut = b.text.Len()
	}
}

func (b *wordBuilder) unknown() {
	b.known = false
	b.text.WriteByte(unknown)
}

func (b *wordBuilder) part(part syntax.WordPart) {
	switch p := part.(type) {
	case *syntax.Lit:
		b.bare(p.Value)
	case *syntax.SglQuoted:
		if !p.Dollar {
			b.text.WriteString(p.Value)
		} else if text, ok := ansi(p.Value); ok {
			b.text.WriteString(text)
		} else {
			b.unknown()
		}
	case *syntax.DblQuoted:
		if p.Dollar { // a translated text, which comes from a file
			b.unknown()
			return
		}
		for _, inner := range p.Parts {
			b.quoted(inner)
		}
	case *syntax.ArithmExp, *syntax.ProcSubst:
		b.unknown()
	default: // expansions, substitutions, extended globs
		b.unknown()
		b.many, b.split = true, true
	}
}

// quoted adds a part of a text in double quotes. Such a part stays one word, except for "$@" and "${array[@]}".
func (b *wordBuilder) quoted(part syntax.WordPart) {
	switch p := part.(type) {
	case *syntax.Lit:
		for i := 0; i < len(p.Value); i++ {
			if c := p.Value[i]; c == '\\' && i+1 < len(p.Value) && strings.IndexByte("$`\"\\\n", p.Value[i+1]) >= 0 {
				i++
				if p.Value[i] == '\n' {
					continue
				}
			}
			b.text.WriteByte(p.Value[i])
		}
	case *syntax.ParamExp:
		b.unknown()
		if p.Index != nil || p.Names != 0 || p.Param != nil && (p.Param.Value == "@" || p.Excl) {
			b.many, b.split = true, true
		}
	default:
		b.unknown()
	}
}

// bare adds text that is not in quotes. A backslash quotes the next character. bash expands globs, braces and a leading
// tilde.
func (b *wordBuilder) bare(s string) {
	for i := 0; i < len(s); i++ {
		switch c := s[i]; c {
		case '\\':
			i++
			if i < len(s) && s[i] != '\n' {
				b.text.WriteByte(s[i])
			}
		case '*', '?':
			b.unknown()
			b.many = true
		case '[':
			b.cutHere()
			b.class = true
			b.text.WriteByte(c)
		case '{':
			b.cutHere()
			b.open = true
			b.text.WriteByte(c)
		case '}':
			b.close = b.close || b.open
			b.text.WriteByte(c)
		case ',':
			b.comma = b.comma || b.open
			b.text.WriteByte(c)
		case '.':
			b.comma = b.comma || b.open && i+1 < len(s) && s[i+1] == '.'
			b.text.WriteByte(c)
		case '~':
			if !b.tilde || b.text.Len() > 0 {
				b.text.WriteByte(c)
				continue
			}
			b.tilde = false
			b.unknown()
			for i+1 < len(s) && s[i+1] != '/' { // skips the name in ~name
				i++
			}
		default:
			b.text.WriteByte(c)
		}
	}
}

// ansi decodes the inside of $'...' as bash does. ok is false if the result contains NUL, where bash would cut the
// text, if it is not UTF-8, or if versions of bash disagree on it.
func ansi(s string) (string, bool) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		const names, values = `abefnrtvE\'"?`, "\a\b\x1b\f\n\r\t\v\x1b\\'\"?"
		c := s[i]
		if at := strings.IndexByte(names, c); at >= 0 {
			b.WriteByte(values[at])
			continue
		}
		value, digits := rune(0), 0
		switch c {
		case 'x':
			if strings.HasPrefix(s[i+1:], "{") {
				return "", false // only some versions of bash read \x{...}
			}
			value, digits = number(s[i+1:], 16, 2)
		case 'u':
			value, digits = number(s[i+1:], 16, 4)
		case 'U':
			value, digits = number(s[i+1:], 16, 8)
		case '0', '1', '2', '3', '4', '5', '6', '7':
			value, digits = number(s[i:], 8, 3)
			digits--
			value &= 0xff
		case 'c':
			return "", false // a control character, by a rule that differs between versions of bash
		}
		if digits == 0 && strings.IndexByte("01234567", c) < 0 {
			b.WriteByte('\\')
			b.WriteByte(c)
			continue
		}
		i += digits
		switch {
		case value == 0 || value > utf8.MaxRune:
			return "", false
		case (c == 'u' || c == 'U') && utf8.ValidRune(value):
			b.WriteRune(value)
		case c == 'u' || c == 'U':
			return "", false
		default:
			b.WriteByte(byte(value))
		}
	}
	return b.String(), utf8.ValidString(b.String())
}

// number reads at most n digits of the given base.
func number(s string, base rune, n int) (value rune, digits int) {
	for digits < n && digits < len(s) {
		d := rune(strings.IndexByte("0123456789abcdefABCDEF", s[digits]))
		if d > 0xf {
			d -= 6
		}
		if d < 0 || d >= base {
			break
		}
		if value = value*base + d; value < 0 || value > 1<<26 {
			value = 1 << 26 // too large for a character; the loop goes on to skip its digits
		}
		digits++
	}
	return value, digits
}
