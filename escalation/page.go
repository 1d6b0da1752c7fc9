package escalation

import (
	"fmt"
	"strings"

	"github.com/superloop/superloop/internal/text"
)

// page is text for a terminal: lines of printable ASCII, none longer than its
// width. Nothing foreign begins a line: what is too long goes on behind the same
// indentation, so that no text can imitate a line of superloop.
type page struct {
	b     strings.Builder
	width int
}

// minWidth is the narrowest page; a narrower terminal wraps by itself.
const minWidth = 40

func newPage(width int) *page {
	if width <= 0 {
		width = 80
	}
	return &page{width: max(width, minWidth)}
}

// head is a line of superloop; section is one after an empty line.
func (p *page) head(format string, args ...any) { p.put("", fmt.Sprintf(format, args...)) }

func (p *page) section(format string, args ...any) {
	p.b.WriteByte('\n')
	p.head(format, args...)
}

// field is a named value; an empty one is left out.
func (p *page) field(name, value string) {
	if value != "" {
		p.put(fmt.Sprintf("  %-10s ", name), value)
	}
}

// foreign is a field with a value that superloop did not write.
func (p *page) foreign(name, value string) { p.field(name, text.Display(value)) }

// quoted is foreign text, with a bar before each of its lines.
func (p *page) quoted(s string) { p.put("  | ", s) }

func (p *page) item(s string) { p.put("  - ", s) }

// lines is foreign text of several lines.
func (p *page) lines(s string) {
	for line := range strings.SplitSeq(strings.TrimRight(s, "\n"), "\n") {
		p.quoted(text.Shown(line))
	}
}

// pasted is a line of superloop that has to stay one, however long, to be pasted.
func (p *page) pasted(s string) { p.b.WriteString("    " + s + "\n") }

// list is a section with the first maxParts entries; none, no section.
func list[T any](p *page, title string, entries []T, show func(i int, entry T)) {
	if len(entries) == 0 {
		return
	}
	p.section("%s", title)
	for i, entry := range entries {
		if i == maxParts {
			p.item(fmt.Sprintf("... and %d more", len(entries)-i))
			break
		}
		show(i, entry)
	}
}

// put writes s, which must be printable ASCII, behind a prefix. Lines after the
// first are indented as far (those of a head a little), by the prefix itself if
// that is a bar. Behind a bar every blank is kept, so that the text can be put
// together again; elsewhere lines are broken between words.
func (p *page) put(prefix, s string) {
	exact := strings.HasSuffix(prefix, "| ")
	more := strings.Repeat(" ", len(prefix))
	if exact {
		more = prefix
	} else if prefix == "" {
		more = "    "
	}
	for {
		n := breakAt(s, p.width-len(prefix), exact)
		line := prefix + s[:n]
		s = s[n:]
		if !exact {
			line, s = strings.TrimRight(line, " "), strings.TrimLeft(s, " ")
		}
		p.b.WriteString(line + "\n")
		if s == "" {
			return
		}
		prefix = more
	}
}

// breakAt says how much of s goes into a line, without tearing a mark such as
// <U+202E> apart, nor, unless it is to be exact, a word.
func breakAt(s string, room int, exact bool) int {
	if len(s) <= room {
		return len(s)
	}
	const longest = 24 // of a mark
	if open := strings.LastIndexByte(s[:room], '<'); open > 0 && room-open < longest && !strings.Contains(s[open:room], ">") {
		return open
	}
	if blank := strings.LastIndexByte(s[:room+1], ' '); !exact && blank > room/2 {
		return blank
	}
	return room
}
