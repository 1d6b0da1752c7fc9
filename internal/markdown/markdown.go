// Package markdown reads what superloop has to know of a Markdown text: its lines, fences, boxes and headings. It is pure,
// and takes time that follows the size of the text.
package markdown

import (
	"iter"
	"strings"

	"github.com/superloop/superloop/internal/pattern"
)

// Line is a line of a text.
type Line struct {
	N       int    // its number, from 1
	Text    string // without its end, and without a byte order mark
	Content string // Text behind the marks of quotes, headings and list items
	// Fenced says that the line is between ``` or ~~~ fences, or one of these. A fence that is never closed hides nothing,
	// because otherwise one stray line would hide all that comes after it.
	Fenced bool
}

// markers matches the start of a line: the marks of quotes, headings and list items. A blank must follow each mark except
// that of a quote. openFence matches an opening fence; a fence of backticks has no other backtick in its line. openBox
// matches an open box that is not a link, doneBox a ticked one, and anyBox both.
var (
	markers   = pattern.Lazy(`^[ \t\x{a0}]*(?:(?:>|(?:[-*+]|#+|[0-9]{1,9}[.)])(?:[ \t]|$))[ \t\x{a0}]*)*`)
	openFence = pattern.Lazy("^(?:(`{3,})[^`]*|(~{3,}).*)$")
	openBox   = pattern.Lazy(`^\[(?:[ \t\x{a0}]*\](?:[ \t]|$)|[ \t\x{a0}]+\][^(\[:])`)
	anyBox    = pattern.Lazy(`\[[ \t\x{a0}xX]*\]`)
	doneBox   = pattern.Lazy(`^\[[ \t\x{a0}]*[xX][ \t\x{a0}]*\](?:[^(\[:]|$)`)
)

// Lines returns the lines of a text.
func Lines(text string) iter.Seq[Line] {
	return func(yield func(Line) bool) {
		was := ""
		for l, fence := range fences(text, Stray(text)) {
			l.Fenced = was != "" || fence != ""
			was = fence
			if !yield(l) {
				return
			}
		}
	}
}

// Stray returns the line of the fence that is never closed, 0 if there is none.
func Stray(text string) (line int) {
	if !strings.Contains(text, "```") && !strings.Contains(text, "~~~") {
		return 0
	}
	for l, fence := range fences(text, 0) {
		if fence == "" {
			line = 0
		} else if line == 0 {
			line = l.N
		}
	}
	return line
}

// fences returns the lines of a text, each with the fence that is open behind it. From line stray on there is none; 0 is no
// line.
func fences(text string, stray int) iter.Seq2[Line, string] {
	return func(yield func(Line, string) bool) {
		fence, n := "", 0
		for line := range strings.Lines(strings.TrimPrefix(text, "\ufeff")) {
			n++
			line = strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r")
			l := Line{N: n, Text: line, Content: line[markers().FindStringIndex(line)[1]:]}
			switch {
			case stray > 0 && n >= stray:
			case fence == "":
				if m := openFence().FindStringSubmatch(l.Content); m != nil {
					fence = m[1] + m[2]
				}
			default:
				rest := strings.TrimLeft(l.Content, fence[:1])
				if len(l.Content)-len(rest) >= len(fence) && strings.TrimSpace(rest) == "" {
					fence = ""
				}
			}
			if !yield(l, fence) {
				return
			}
		}
	}
}

// Open reports whether the line has an open box, "[ ]", or "[]" before a blank: at the start of a list item, of a quoted or
// plain line, of a heading or of a table cell. A box in the middle of a sentence is none, and neither is one between fences.
func (l Line) Open() bool { return l.box(openBox()) }

// Done reports whether the line has a ticked box, "[x]", where Open looks for an open one.
func (l Line) Done() bool { return l.box(doneBox()) }

func (l Line) box(is interface{ MatchString(string) bool }) bool {
	if l.Fenced {
		return false
	}
	if is.MatchString(l.Content) {
		return true
	}
	rest, more := l.Content, true
	for more {
		if _, rest, more = strings.Cut(rest, "|"); more && is.MatchString(strings.TrimLeft(rest, " \t")) {
			return true
		}
	}
	return false
}

// Item returns the content of the line without its boxes, with single blanks between its words.
func (l Line) Item() string {
	return strings.Join(strings.Fields(anyBox().ReplaceAllString(l.Content, " ")), " ")
}

// Boxes counts the lines of a text with an open box, and those with a ticked one and no open one.
func Boxes(text string) (open, done int) {
	for l := range Lines(text) {
		switch {
		case l.Open():
			open++
		case l.Done():
			done++
		}
	}
	return open, done
}
