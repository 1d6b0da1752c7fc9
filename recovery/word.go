package recovery

import (
	"path"
	"runtime"
	"strings"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"
)

// word is one word of a command after quote removal. What bash only knows when it runs the command (an expansion, a
// substitution, a glob, braces, a tilde) is an unknown byte in text.
type word struct {
	text  string
	known bool // no unknown byte in text
	many  bool // it may become several words, all of the form of text
	split bool // it may become any words at all, or none
}

func literal(text string) word { return word{text: text, known: true} }

// mayBe reports whether want may be among the words that w becomes.
func (w word) mayBe(want string) bool { return w.split || intersects(want, w.text) }

// mayBeOption reports whether an option may be among the words that w becomes. A glob with more than letters in it,
// such as *.o, finds no file that a program would take for one.
func (w word) mayBeOption() bool {
	if w.split || w.text == "" || w.text[0] == '-' {
		return w.text != ""
	}
	return w.text[0] == unknown && (!w.many || !strings.ContainsAny(w.text, "./_,:"))
}

// before gives the literal text in front of what is unknown.
func (w word) before() string {
	text, _, _ := strings.Cut(w.text, string(unknown))
	return text
}

// show writes the word for people; what is unknown is "...".
func (w word) show() string { return strings.ReplaceAll(w.text, string(unknown), "...") }

func show(ws []word) string {
	var out []string
	for _, w := range ws {
		out = append(out, w.show())
	}
	return strings.Join(out, " ")
}

// join joins words by single blanks, as patterns see them.
func join(ws []word) string {
	var b strings.Builder
	glued := true
	for _, w := range ws {
		// A word that may be no word at all takes its blanks with it.
		free := w.split && strings.Trim(w.text, string(unknown)) == ""
		if !glued && !free {
			b.WriteByte(' ')
		}
		b.WriteString(w.text)
		glued = free
	}
	return b.String()
}

// programName is what a program is called, whatever path it is called by.
func programName(name string) string {
	if strings.HasSuffix(name, "/") {
		return name
	}
	return foldName(path.Base(name))
}

// foldName: where file names have no case, neither have those of programs.
func foldName(name string) string {
	if runtime.GOOS == "darwin" || runtime.GOOS == "windows" {
		return strings.ToLower(name)
	}
	return name
}

// newWord removes the quotes of a word.
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
	// What may be a brace expansion (an open brace, its end, and "," or ".." between them) or a class of characters,
	// none of it quoted. What it ends up as is not followed: from cut on, the text is unknown.
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
		if p.Dollar { // a translation: from a file
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

// quoted adds a part of a text in double quotes: one word, whatever it is, but for "$@" and "${array[@]}".
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

// bare adds text without quotes around it: backslashes quote, and globs, braces and a leading tilde are expanded.
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
			for i+1 < len(s) && s[i+1] != '/' { // ~name
				i++
			}
		default:
			b.text.WriteByte(c)
		}
	}
}

// ansi decodes the inside of $'...' as bash does. It is not ok where bash would make something that is no text: a NUL,
// which ends it, or what is not UTF-8.
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
				return "", false // some versions read \x{...}
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
			return "", false // a control character, by a rule that differs between versions
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

// number reads at most n digits.
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
			value = 1 << 26 // too large for a character; keep on reading its digits
		}
		digits++
	}
	return value, digits
}
