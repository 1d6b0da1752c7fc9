package lesson

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/superloop/superloop/internal/pattern"
	"github.com/superloop/superloop/internal/redact"
)

// recognised is a pattern for one line, and the commands of the cure with placeholders for what the pattern captures.
type recognised struct {
	expr     string
	literals []string // the literal parts of expr, as the line has them
	label    string   // the line with "..." for its general parts
	commands []step
}

// piece is a part of a line.
type piece struct {
	text string // as it stands in the line
	expr string // "" for literal text
	name string // what a capture of it is called
}

// least is the number of letters that the longest literal of a pattern has at least.
const least = 8

// A pattern ends before its program is larger than the linter allows. These bound it, in instructions.
const (
	maxSize       = 150
	sizeOfGeneral = 12
)

// leastTelling is the number of letters that the telling words of a pattern have together, at least.
const leastTelling = 6

// generalise makes a pattern of a line. The cure's commands get placeholders where they quote a general part of the
// line. keep says that the last element of a path stays literal. It returns false if what is left is not specific.
func generalise(l line, cure []step, keep bool) (recognised, bool) {
	r := recognised{commands: make([]step, len(cure))}
	for i, s := range cure {
		r.commands[i] = step{sudo: s.sudo, argv: slices.Clone(s.argv)}
	}
	body := strings.TrimSpace(l.text)
	expr := strings.Builder{}
	expr.WriteString("^")
	if l.loose || len(body) < len(l.text) {
		expr.WriteString(`\s*`)
	}
	literal, names, size := "", map[string]int{}, 0
	flush := func() {
		if literal != "" {
			r.literals = append(r.literals, literal)
			expr.WriteString(quoteLiteral(literal))
			literal = ""
		}
	}
	end := "$"
	for _, p := range pieces(body, keep) {
		if size += len(p.text); p.expr != "" {
			size += sizeOfGeneral - len(p.text)
		}
		if size > maxSize {
			end = ""
			break
		}
		quoted := quotes(r.commands, p.text)
		switch {
		case p.expr == "" && p.name == "", p.expr == "" && !quoted, quoted && !plainName().MatchString(p.text):
			literal += p.text
			r.label += p.text
			continue
		}
		flush()
		r.label += "..."
		if !quoted {
			expr.WriteString(p.expr)
			continue
		}
		name := p.name
		if names[p.name]++; names[p.name] > 1 {
			name += fmt.Sprint(names[p.name])
		}
		fmt.Fprintf(&expr, "(?P<%s>%s)", name, captured[p.name])
		fill(r.commands, p.text, name)
	}
	flush()
	expr.WriteString(end)
	r.expr = expr.String()
	longest, all := 0, 0
	for _, s := range r.literals {
		longest, all = max(longest, letters(s)), all+telling(s)
	}
	return r, longest >= least && all >= leastTelling
}

// captured holds the expression of a capture by the kind of the piece. What it matches can be a plain name, since only
// such a text fills a placeholder.
var captured = map[string]string{
	"name": `[\w@][\w@./+-]*`, "path": `[\w@][\w@./+-]*`, "number": `\d+`, "version": `v?\d[\w.+-]*`, "host": `[\w.-]+`,
}

var (
	plainName = pattern.Lazy(`^[A-Za-z0-9@][A-Za-z0-9@._/+-]*$`)
	version   = pattern.Lazy(`^v?\d+(?:\.\d+)+(?:[-+.]\w+)*$`)
	hash      = pattern.Lazy(`^(?:0x[0-9a-fA-F]+|[0-9a-fA-F]{7,})$`)
	month     = pattern.Lazy(`^(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec|Mon|Tue|Wed|Thu|Fri|Sat|Sun)$`)
	clock     = pattern.Lazy(`^(?:\d{4}[-/]\d\d[-/]\d\d(?:T[\d:.,]+)?|\d{1,2}:\d\d:\d\d(?:[.,]\d+)?)(?:Z|[+-]\d\d:?\d\d)?$`)
	uuid      = pattern.Lazy(`^[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)
	address   = pattern.Lazy(`^(?:(?:\d{1,3}\.){3}\d{1,3}|localhost|(?:[A-Za-z0-9-]+\.)+(?:com|org|net|io|dev|local|internal|lan|test|example|corp|cloud|ai|co|gov|edu))(?::\d+)?$`)
	port      = pattern.Lazy(`^[A-Za-z][A-Za-z0-9.-]*:\d{2,5}$`)
	mail      = pattern.Lazy(`^[\w.+-]+@[\w-]+(?:\.[\w-]+)+$`)
	// code matches names of errors and of formats, whose digits are part of the name: E404, TS2322, utf8, sha256, x86_64.
	code   = pattern.Lazy(`^(?:[A-Z]{1,8}[-_]?\d{1,6}|[a-z]{1,8}\d{1,3}|x86_64|(?:[A-Z][A-Z0-9]*_)+[A-Z0-9]+)$`)
	digits = pattern.Lazy(`\d+(?:\.\d+)*`)
	made   = pattern.Lazy(`[-_./@\d]`)
	scheme = pattern.Lazy(`^[A-Za-z][A-Za-z0-9+.-]*://`)
)

// quoteEnds holds the quotes that may stand around a name, each with its end.
var quoteEnds = map[rune]rune{'\'': '\'', '"': '"', '`': '`', '‘': '’', '“': '”'}

// pieces splits a line into literal and general pieces.
func pieces(s string, keep bool) []piece {
	var out []piece
	for s != "" {
		if inner, open, end, ok := quotedAt(s, out); ok && !strings.Contains(inner, "://") {
			out = append(out, piece{text: open})
			out = append(out, quotedName(inner, end, keep)...)
			out = append(out, piece{text: end})
			s = s[len(open)+len(inner)+len(end):]
			continue
		}
		n := strings.IndexAny(s, " \t")
		if n == 0 {
			out, s = append(out, piece{text: s[:1]}), s[1:]
			continue
		}
		if n < 0 {
			n = len(s)
		}
		if q := strings.IndexAny(s[1:n], "'\"`="); q >= 0 && !strings.Contains(s[:n], "://") && s[1+q] == '=' || q >= 0 && s[1+q] != '=' && strings.ContainsAny(s[q:q+1], "([{=:,") {
			n = q + 1
			if s[n] == '=' {
				n++
			}
		}
		out = append(out, token(s[:n], keep)...)
		s = s[n:]
	}
	return out
}

// quotedAt finds a quoted text at the beginning of s. A quote that follows a letter is an apostrophe.
func quotedAt(s string, before []piece) (inner, open, end string, ok bool) {
	first := []rune(s[:min(len(s), 4)])[0]
	last, isQuote := quoteEnds[first]
	if !isQuote {
		return "", "", "", false
	}
	if n := len(before); n > 0 && wordEnd().MatchString(before[n-1].text) {
		return "", "", "", false
	}
	open = string(first)
	inner, rest, found := strings.Cut(s[len(open):], string(last))
	if !found || inner == "" || len(inner) > 200 || rest != "" && wordEnd().MatchString(rest[:1]) {
		return "", "", "", false
	}
	return inner, open, string(last), true
}

var wordEnd = pattern.Lazy(`\w$`)

// quotedName returns the pieces of a text in quotes: one if it is a name, else those of its words.
func quotedName(s, end string, keep bool) []piece {
	if strings.ContainsAny(s, " \t") {
		return pieces(s, keep)
	}
	t := token(s, keep)
	if len(t) == 1 && t[0].expr != "" && t[0].name != "number" {
		t[0].expr = `[^` + regexp.QuoteMeta(end) + `]+`
	} else if len(t) == 1 && t[0].expr == "" {
		t[0].name = "name"
	}
	return t
}

// token splits a word without blanks into its general core, if it has one, and the punctuation around it.
func token(s string, keep bool) []piece {
	if strings.Contains(s, redact.Mark) {
		return []piece{{text: s, expr: `\S+`, name: ""}}
	}
	core := strings.TrimLeft(s, `([{<"'`+"`,;:=")
	head := s[:len(s)-len(core)]
	if at := scheme().FindString(core); at != "" {
		return []piece{{text: head + at}, {text: core[len(at):], expr: `\S*`}}
	}
	trimmed := strings.TrimRight(core, `)]}>"'`+"`.,;:!?=")
	tail := core[len(trimmed):]
	out := []piece{{text: head}}
	out = append(out, coreOf(trimmed, keep)...)
	return slices.DeleteFunc(append(out, piece{text: tail}), func(p piece) bool { return p.text == "" })
}

func coreOf(s string, keep bool) []piece {
	switch {
	case s == "":
		return nil
	case code().MatchString(s) && (!hash().MatchString(s) || s[0] <= 'Z'):
		return []piece{{text: s, name: nameIf(made().MatchString(s) && len(s) >= 3)}}
	case uuid().MatchString(s), hash().MatchString(s) && digits().MatchString(s) && letters(s) > 0:
		return []piece{{s, `[0-9a-fA-Fx-]+`, "name"}}
	case month().MatchString(s):
		return []piece{{text: s, expr: `[A-Z][a-z]{2}`}}
	case clock().MatchString(s):
		return []piece{{text: s, expr: `\d[\dTZ:.,+-]*`}}
	case address().MatchString(s), port().MatchString(s):
		return []piece{{s, `[\w.:-]+`, "host"}}
	case version().MatchString(s):
		return []piece{{s, `v?\d[\w.+-]*`, "version"}}
	case mail().MatchString(s):
		return []piece{{s, `\S+@\S+`, "name"}}
	case isPath(s):
		if i := strings.LastIndexByte(s, '/'); keep && !digits().MatchString(s[i+1:]) && s[i+1:] != "" {
			return []piece{{text: s[:i+1], expr: `(?:\S*/)?`, name: "path"}, {text: s[i+1:]}}
		}
		return []piece{{s, `\S+`, "path"}}
	case !digits().MatchString(s):
		return []piece{{text: s, name: nameIf(made().MatchString(s) && len(s) >= 3)}}
	}
	return numbers(s)
}

func nameIf(yes bool) string {
	if yes {
		return "name"
	}
	return ""
}

// numbers makes the numbers in a word general. A short number behind a letter is part of a name: x64, O2, py310.
func numbers(s string) []piece {
	var out []piece
	from := 0
	for _, m := range digits().FindAllStringIndex(s, -1) {
		n := s[m[0]:m[1]]
		if m[0] > 0 && letters(s[m[0]-1:m[0]]) > 0 && len(n) <= 3 && !strings.Contains(n, ".") {
			continue
		}
		if m[0] > from {
			out = append(out, piece{text: s[from:m[0]]})
		}
		expr := `\d+`
		if strings.Contains(n, ".") {
			expr = `\d[\d.]*`
		}
		out = append(out, piece{n, expr, "number"})
		from = m[1]
	}
	if from < len(s) {
		out = append(out, piece{text: s[from:], name: nameIf(from == 0 && len(s) >= 3)})
	}
	return out
}

// isPath reports whether a word is a path, and not two words such as read/write.
func isPath(s string) bool {
	if !strings.ContainsAny(s, `/\`) {
		return false
	}
	return strings.HasPrefix(s, "/") || strings.HasPrefix(s, ".") || strings.HasPrefix(s, "~/") || strings.Count(s, "/") > 1 ||
		strings.Contains(s, `\`) || strings.ContainsAny(s, "._0123456789@")
}
