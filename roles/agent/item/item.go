// Package item reads the recorded output of an agent CLI and tells what the agent does, one item for each thing: what it
// says, the tools that it uses, what came of them, and the end with its cost. It knows the streams of claude, codex,
// gemini, opencode and pi. It recognises each line by itself, so that one log may hold the lines of several programs. Any
// other line is an item of kind Plain.
//
// The package is pure. It reads a line of any length in constant memory, and no input makes it fail. All text of an item
// is harmless on a terminal: one line without control, invisible or bidirectional characters.
package item

import (
	"strings"
	"time"

	"github.com/superloop/superloop/internal/jsonstream"
	"github.com/superloop/superloop/internal/text"
)

// Kind is the kind of an item.
type Kind string

const (
	Said    Kind = "said"    // the agent's own words
	Thought Kind = "thought" // what the agent thinks before it answers
	Call    Kind = "call"    // the agent uses a tool
	Result  Kind = "result"  // what came of a call
	Note    Kind = "note"    // what the CLI itself reports: a session, a retry, a limit
	End     Kind = "end"     // the end of a turn
	Plain   Kind = "plain"   // a line that is no event of a known stream
)

// Bounds of an item, in characters.
const (
	MaxText = 2000 // of Text
	MaxTool = 60   // of Tool
)

// Item is one thing that an agent did or that its CLI reported.
type Item struct {
	Kind Kind
	At   time.Time     // by the CLI's clock; zero if the stream does not say
	Took time.Duration // of a Result or an End; 0 if the stream does not say
	Sub  bool          // by an agent that the agent has started
	Tool string        // of a Call, and of a Result whose Call was read
	// Text is what was said, the command or file of a call, the first line of a result, or why the turn failed. A Plain
	// item keeps the blanks at its beginning.
	Text   string
	Failed bool  // of a Result, a Note or an End
	Bytes  int64 // the size of a result or of a plain line, as the CLI printed it
	Lines  int64 // the lines of a result, if all of it was kept; otherwise 0
	// CostUSD and Tokens are those of an End as the CLI counts them (codex counts the whole session). nil means unknown.
	CostUSD *float64
	Tokens  *int64
}

// Reader reads one stream. It is not safe for concurrent use.
type Reader struct {
	lines   *jsonstream.Reader
	each    func(Item)
	plain   bool
	skipped int64

	calls map[string]call // calls under way, by their ids
	open  *strings.Builder
	at    time.Time // when the message in open began
	spoke bool      // the agent has said something in this turn
	cost  float64   // of the steps of this turn
	count int64
	steps bool

	failure string // why the last answer of pi failed; "" if it did not

	thread string // the conversation of `codex app-server`, and the tokens that it has used
	tokens *int64
}

type call struct {
	tool string
	at   time.Time
}

const (
	maxCalls = 64       // calls under way that a Reader remembers; no agent has so many
	maxOpen  = 16 << 10 // bytes that are kept of a message that comes in pieces
)

// NewReader returns a reader of an agent's output. It calls each for every item, in order.
func NewReader(each func(Item)) *Reader {
	r := &Reader{each: each, calls: map[string]call{}, open: &strings.Builder{}}
	r.lines = shape().NewReader(r.line)
	return r
}

// NewPlain returns a reader of the output of a program that is no agent: every line is a Plain item, whatever it holds.
func NewPlain(each func(Item)) *Reader {
	r := NewReader(each)
	r.plain = true
	return r
}

// Write takes the next piece of the stream, which may be cut anywhere. It keeps no reference to p.
func (r *Reader) Write(p []byte) { r.lines.Write(p) }

// Close ends the stream: it reports what has no line break or no end yet.
func (r *Reader) Close() {
	r.lines.Close()
	r.flush()
}

// Skipped returns the number of events so far that gave no item, because they say nothing about what the agent does.
func (r *Reader) Skipped() int64 { return r.skipped }

func (r *Reader) line(l *jsonstream.Line) {
	e := event{l}
	switch {
	case r.plain:
	case l.Kind != jsonstream.Object:
		if opencodeLog(l.Head) || piLog(l.Head) {
			r.skipped++
			return
		}
	case r.acp(e), r.gemini(e), r.claude(e), r.codex(e), r.served(e), r.opencode(e), r.pi(e):
		return
	}
	r.emit(Item{Kind: Plain, Text: plainText(l.Head), Bytes: l.Bytes})
}

// emit reports an item, after the message that was still open.
func (r *Reader) emit(it Item) {
	r.flush()
	r.spoke = r.spoke || it.Kind == Said
	if it.Kind != Plain {
		it.Text = text.Line(it.Text, MaxText)
	}
	it.Tool = text.Line(it.Tool, MaxTool)
	if it.Text == "" && (it.Kind == Said || it.Kind == Thought || it.Kind == Note || it.Kind == Plain) {
		return
	}
	r.each(it)
}

// flush reports a message that came in pieces.
func (r *Reader) flush() {
	if r.open.Len() == 0 {
		return
	}
	said := r.open.String()
	r.open.Reset()
	r.emit(Item{Kind: Said, At: r.at, Text: said})
}

// skip counts an event that gives no item. It reports true: the event is known.
func (r *Reader) skip() bool {
	r.skipped++
	return true
}

// called reports a call and remembers it by its id until its result comes.
func (r *Reader) called(id string, it Item) {
	if len(r.calls) >= maxCalls {
		clear(r.calls)
	}
	it.Kind = Call
	if id != "" {
		r.calls[id] = call{text.Line(it.Tool, MaxTool), it.At}
	}
	r.emit(it)
}

// came reports the result of the call with this id.
func (r *Reader) came(id string, it Item) {
	c, known := r.calls[id]
	delete(r.calls, id)
	it.Kind = Result
	if known {
		it.Tool = c.tool
		if it.Took == 0 && !c.at.IsZero() && it.At.After(c.at) {
			it.Took = it.At.Sub(c.at)
		}
	}
	r.emit(it)
}

// ended reports the end of a turn and forgets what belonged to the turn.
func (r *Reader) ended(it Item) {
	it.Kind = End
	r.emit(it)
	r.spoke, r.cost, r.count, r.steps = false, 0, 0, false
	clear(r.calls)
}

// output puts what a tool printed into an item: the first line that is not blank, and the size.
func (it *Item) output(v value) {
	it.Bytes += v.size
	if it.Text == "" {
		it.Text = firstLine(v.text)
	}
	if v.whole && v.size > 0 {
		it.Lines += int64(strings.Count(strings.TrimRight(v.text, "\n"), "\n")) + 1
	}
}

func firstLine(s string) string {
	for line := range strings.Lines(s) {
		if line = text.Line(line, MaxText); line != "" {
			return line
		}
	}
	return ""
}

// plainText makes a line harmless and keeps the blanks at its beginning. Of a line that a progress bar has drawn again
// and again, it keeps the last state.
func plainText(raw []byte) string {
	s := strings.TrimRight(string(raw), "\r \t")
	if i := strings.LastIndexByte(s, '\r'); i >= 0 {
		s = s[i+1:]
	}
	s = strings.ReplaceAll(text.Uncoloured(s), "\t", "    ")
	return text.Cut(strings.TrimRight(strings.ReplaceAll(text.Plain(s), "\n", " "), " "), MaxText)
}
