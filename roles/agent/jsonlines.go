package agent

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"github.com/superloop/superloop/internal/jsonstream"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/roles"
)

const (
	maxErrorText = 2000    // bytes of Learned.ErrorText
	stderrHalf   = 8 << 10 // bytes of the beginning, and of the end, of standard error that are kept
)

// jsonLines is what the readers of all structured streams have in common: one
// JSON object a line on standard output, and people's text on standard error.
// A reader embeds it, calls open, and adds Settled and Finish.
//
// A CLI that prints something else (the owner chose another output format, or
// the program is a wrapper) is shown like plain text, and nothing is learned.
type jsonLines struct {
	reader *jsonstream.Reader
	event  func(*jsonstream.Line) bool

	known         bool // an event of this CLI's stream has come
	lines, unread int64
	last          string
	errLines      lineTail
	errText       headTail
}

// open makes it ready. event gets every line that is a whole JSON object and
// reports whether this is an event of this CLI's stream; the line holds only
// during the call, and event says what is to be shown of it. A line that broke
// off is counted and otherwise ignored: what it was going to say is not known.
func (j *jsonLines) open(shape *jsonstream.Shape, event func(*jsonstream.Line) (known bool)) {
	j.event = event
	j.reader = shape.NewReader(j.line)
}

func (j *jsonLines) Stdout(p []byte) { j.reader.Write(p) }

// Stderr is shown only while the stream has not begun: later the events tell
// more.
func (j *jsonLines) Stderr(p []byte) {
	j.errText.write(p)
	if line := j.errLines.feed(p); line != "" && !j.known {
		j.last = line
	}
}

func (j *jsonLines) LastLine() string { return j.last }

func (j *jsonLines) line(l *jsonstream.Line) {
	j.lines++
	switch l.Kind {
	case jsonstream.Object:
		if j.event(l) {
			j.known = true
			return
		}
	case jsonstream.Broken:
		j.unread++
	}
	if !j.known {
		j.show(l.Head)
	}
}

// say sets LastLine to the last line of text that says something; a text of
// white space alone changes nothing.
func (j *jsonLines) say(text string) {
	text = strings.TrimSpace(text)
	if len(text) > maxLine {
		text = text[len(text)-maxLine:]
	}
	j.show([]byte(text))
}

func (j *jsonLines) show(raw []byte) {
	var tail lineTail
	done := tail.feed(raw)
	if rest := tail.rest(); rest != "" {
		j.last = rest
	} else if done != "" {
		j.last = done
	}
}

// close reads what had no line break yet and gives what holds for every
// structured stream: Structured, Lines and Unread. Call it once, at the
// beginning of Finish.
func (j *jsonLines) close() Learned {
	j.reader.Close()
	if rest := j.errLines.rest(); rest != "" && !j.known {
		j.last = rest
	}
	return Learned{Structured: j.known, Lines: j.lines, Unread: j.unread}
}

// stderr is what standard error said, at most its first and its last 8 KiB,
// with a line break where something is left out.
func (j *jsonLines) stderr() string { return j.errText.text() }

// errorText makes a CLI's own words fit for Learned.ErrorText: valid UTF-8 on
// one line without control characters, at most maxErrorText bytes. Of a longer
// text the beginning is kept.
func errorText(said string) string {
	return text.Head(text.Line(text.Head(said, 2*maxErrorText), 2*maxErrorText), maxErrorText)
}

// whole is the text of a string, with a mark where jsonstream left out some of
// it, give or take three bytes; want is the most that the shape keeps.
func whole(v jsonstream.Value, want int) []byte {
	half := min(want/2, len(v.Raw))
	if v.Cut == 0 {
		return v.Raw
	}
	for half > 0 && !utf8.RuneStart(v.Raw[half]) {
		half--
	}
	return []byte(roles.JoinCut(string(v.Raw[:half]), string(v.Raw[half:]), v.Cut))
}

// Recoverer is a Stream that finds in the files of its CLI what the output did
// not tell, such as the usage of a run that was killed. Recover is called after
// Finish, in any case, with the agent's environment and directory, and only adds
// to what was learned. It reads a bounded part of regular files below the CLI's
// own directory and writes nothing; what it does not find stays unknown.
type Recoverer interface {
	Recover(env []string, workdir string, l *Learned)
}

// headTail keeps the beginning and the end of a text, stderrHalf bytes each.
// The zero value is ready.
type headTail struct {
	head, tail []byte
	cut        bool
}

func (h *headTail) write(p []byte) {
	n := min(len(p), stderrHalf-len(h.head))
	h.head = append(h.head, p[:n]...)
	p = p[n:]
	if over := len(p) - stderrHalf; over > 0 {
		h.cut, h.tail, p = true, h.tail[:0], p[over:]
	}
	h.tail = append(h.tail, p...)
	if over := len(h.tail) - stderrHalf; over > 0 {
		h.cut = true
		h.tail = append(h.tail[:0], h.tail[over:]...)
	}
}

func (h *headTail) text() string {
	gap := ""
	if h.cut {
		gap = "\n"
	}
	return string(bytes.Join([][]byte{h.head, h.tail}, []byte(gap)))
}
