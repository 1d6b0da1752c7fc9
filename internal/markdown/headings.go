package markdown

import (
	"strings"

	"github.com/superloop/superloop/internal/pattern"
)

// Heading is a heading of a text: "## Title", or a paragraph that is underlined with "=" or "-".
type Heading struct {
	Line  int // its first line, from 1
	Last  int // its last line
	Level int // 1 to 6
	Title string
}

// atx matches a heading that begins with #, underline the line below a heading, rule a thematic break, block the start of what
// is no paragraph and ends one (a quote, a list item, a table row, HTML), and deep the indentation of code.
var (
	atx       = pattern.Lazy(`^ {0,3}(#{1,6})(?:[ \t]+(.*?))??(?:[ \t]+#+)?[ \t]*$`)
	underline = pattern.Lazy(`^ {0,3}(?:=+|-+)[ \t]*$`)
	block     = pattern.Lazy(`^ {0,3}(?:>|[-*+](?:[ \t]|$)|[0-9]{1,9}[.)](?:[ \t]|$)|\||<)`)
	rule      = pattern.Lazy(`^ {0,3}(?:(?:\*[ \t]*){3,}|(?:_[ \t]*){3,}|(?:-[ \t]*){3,})$`)
	deep      = pattern.Lazy(`^(?: {4}| {0,3}\t)`)
)

// Headings returns the headings of a text. Between fences, in a comment of HTML, in the metadata between two lines "---" at
// the top, in quotes and in list items there is none.
func Headings(text string) (all []Heading) {
	const none, other = 0, -1
	var (
		// para is the first line of the paragraph that the line before belongs to; other is a list item, a quote, a table.
		para    = none
		words   []string
		comment bool
		meta    = matter(text)
	)
	begin := func(at int) { para, words = at, words[:0] }
	for l := range Lines(text) {
		is := atx().FindStringSubmatch(l.Text)
		switch trimmed := strings.TrimSpace(l.Text); {
		case l.N <= meta:
		case comment:
			comment = !strings.Contains(l.Text, "-->")
		case l.Fenced || trimmed == "":
			begin(none)
		case strings.HasPrefix(trimmed, "<!--"):
			comment = !strings.Contains(trimmed, "-->")
			begin(none)
		case is != nil:
			all = append(all, Heading{l.N, l.N, len(is[1]), strings.TrimSpace(is[2])})
			begin(none)
		case para > none && underline().MatchString(l.Text):
			level := 1
			if strings.HasPrefix(trimmed, "-") {
				level = 2
			}
			all = append(all, Heading{para, l.N, level, strings.Join(words, " ")})
			begin(none)
		case para == none && deep().MatchString(l.Text):
		case rule().MatchString(l.Text):
			begin(none)
		case block().MatchString(l.Text):
			begin(other) // what follows without an empty line belongs to it
		case para == other:
		default:
			if para == none {
				para = l.N
			}
			words = append(words, trimmed)
		}
	}
	return all
}

// matter returns the last line of the metadata at the top of a text, 0 without any.
func matter(text string) int {
	for l := range Lines(text) {
		line := strings.TrimRight(l.Text, " \t")
		switch {
		case l.N == 1 && line != "---":
			return 0
		case l.N > 1 && (line == "---" || line == "..."):
			return l.N
		}
	}
	return 0
}
