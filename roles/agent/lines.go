package agent

import (
	"bytes"

	"github.com/superloop/superloop/internal/text"
)

const (
	maxLine    = 4 << 10 // bytes of one line that are kept; the rest is dropped
	maxShown   = 200     // runes of a line as it is shown
	lineBreaks = "\n\r"  // a carriage return ends a line: progress bars redraw with it
)

// lineTail finds the last complete line that says something. The zero value is
// ready. It holds at most maxLine bytes, however long a line gets.
type lineTail struct{ part []byte }

// feed takes more output and returns the last line completed by it that is not
// blank once it is sanitised; "" if there is none. It looks at lines from the
// end, so a flood costs one scan for line breaks.
func (l *lineTail) feed(p []byte) string {
	end := bytes.LastIndexAny(p, lineBreaks)
	if end < 0 {
		l.keep(p)
		return ""
	}
	done := p[:end]
	line := ""
	for line == "" {
		start := bytes.LastIndexAny(done, lineBreaks)
		if start < 0 {
			l.keep(done)
			line = sanitise(l.part)
			break
		}
		line = sanitise(head(done[start+1:], maxLine))
		done = done[:start]
	}
	l.part = l.part[:0]
	l.keep(p[end+1:])
	return line
}

// rest returns the last line, which had no line break yet.
func (l *lineTail) rest() string {
	line := sanitise(l.part)
	l.part = l.part[:0]
	return line
}

func (l *lineTail) keep(p []byte) { l.part = append(l.part, head(p, maxLine-len(l.part))...) }

func head(p []byte, n int) []byte { return p[:min(len(p), max(0, n))] }

// sanitise makes raw output fit for one line of any screen.
func sanitise(raw []byte) string { return text.Line(string(raw), maxShown) }
