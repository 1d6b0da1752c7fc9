package escalation

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// page is text for a terminal: lines of printable ASCII, none longer than its
// width. Nothing foreign begins a line: what is too long goes on behind the same
// indentation, so that no text can play a line of ours.
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

// head is a line of ours.
func (p *page) head(format string, args ...any) { p.put("", fmt.Sprintf(format, args...)) }

// field is a named value; an empty one is left out.
func (p *page) field(name, value string) {
	if value != "" {
		p.put(fmt.Sprintf("  %-10s ", name), value)
	}
}

// quoted is foreign text, with a bar before each of its lines.
func (p *page) quoted(text string) { p.put("  | ", text) }

func (p *page) item(text string) { p.put("  - ", text) }

func (p *page) blank() { p.b.WriteByte('\n') }

// put writes text, which must be printable ASCII, behind a prefix. Lines after the
// first are indented as far (those of a head a little), by the prefix itself if
// that is a bar. Behind a bar every blank is kept, so that the text can be put
// together again; elsewhere lines are broken between words.
func (p *page) put(prefix, text string) {
	exact := strings.HasSuffix(prefix, "| ")
	more := strings.Repeat(" ", len(prefix))
	if exact {
		more = prefix
	} else if prefix == "" {
		more = "    "
	}
	for {
		n := breakAt(text, p.width-len(prefix), exact)
		line := prefix + text[:n]
		text = text[n:]
		if !exact {
			line, text = strings.TrimRight(line, " "), strings.TrimLeft(text, " ")
		}
		p.b.WriteString(line + "\n")
		if text == "" {
			return
		}
		prefix = more
	}
}

// line is a line of ours that has to stay one, however long, to be pasted.
func (p *page) line(text string) { p.b.WriteString("    " + text + "\n") }

// breakAt says how much of text goes into a line, without tearing a mark such as
// <U+202E> apart, nor, unless it is to be exact, a word.
func breakAt(text string, room int, exact bool) int {
	if len(text) <= room {
		return len(text)
	}
	const longest = 24 // of a mark
	if open := strings.LastIndexByte(text[:room], '<'); open > 0 && room-open < longest && !strings.Contains(text[open:room], ">") {
		return open
	}
	if blank := strings.LastIndexByte(text[:room+1], ' '); !exact && blank > room/2 {
		return blank
	}
	return room
}

// visible writes a line of text that is only looked at: what is not printable
// ASCII stands by its number.
func visible(line string) string {
	var b strings.Builder
	for i := 0; i < len(line); {
		c, size := utf8.DecodeRuneInString(line[i:])
		switch {
		case c == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, "<0x%02X>", line[i])
		case c == '\t':
			b.WriteString("<tab>")
		case c < ' ' || c > '~':
			fmt.Fprintf(&b, "<U+%04X>", c)
		default:
			b.WriteByte(byte(c))
		}
		i += size
	}
	return b.String()
}
