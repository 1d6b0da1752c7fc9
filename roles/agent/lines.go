package agent

import (
	"bytes"
	"strings"
	"unicode"

	"github.com/superloop/superloop/internal/pattern"
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

// escape matches the terminal's control sequences: CSI, OSC and the other
// string commands, and the short ones; also an unfinished one at the end.
var escape = pattern.Lazy("\x1b(?:\\[[0-?]*[ -/]*[@-~]?|[\\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\\\)?|[ -/]*[0-~]?)")

// sanitise makes raw output fit for one line of any screen: valid UTF-8, no
// control sequences, no control or invisible format characters, white space
// collapsed, at most maxShown runes.
func sanitise(raw []byte) string {
	text := clean(raw)
	if len(text) <= maxShown {
		return text
	}
	if runes := []rune(text); len(runes) > maxShown {
		return string(runes[:maxShown-3]) + "..."
	}
	return text
}

// clean is sanitise without the bound.
func clean(raw []byte) string {
	if bytes.IndexByte(raw, 0x1b) >= 0 {
		raw = escape().ReplaceAll(raw, nil)
	}
	text := strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case r == unicode.ReplacementChar:
			return '?'
		case unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co, unicode.Zl, unicode.Zp):
			return -1
		}
		return r
	}, string(raw))
	return strings.Join(strings.Fields(text), " ")
}
