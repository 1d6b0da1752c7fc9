package agent

import (
	"bytes"
	"io"
	"iter"
	"maps"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/superloop/superloop/internal/door"
	"github.com/superloop/superloop/internal/jsonstream"
	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/internal/text"
)

const (
	maxErrorText = 2000    // largest size of Learned.ErrorText, in bytes
	stderrHalf   = 8 << 10 // bytes that are kept of the beginning and of the end of standard error

	finalHalf = messageHalf - 64 // leaves room for the mark of the cut, so that a cut text is within MaxMessage
	finalText = 2 * finalHalf    // bytes that are kept of a message
)

// jsonLines is the common part of the readers of all structured streams: one JSON object per line on standard output,
// and text on standard error. A reader embeds jsonLines, calls read, and adds Settled and Finish. The owner may have
// chosen another output format, or the program may be a wrapper. Then jsonLines shows the output as plain text and
// learns nothing.
type jsonLines struct {
	reader *jsonstream.Reader
	event  func(*jsonstream.Line) bool
	note   func(line []byte)      // gets each line of standard error, unless nil
	noise  func(line string) bool // says which lines of standard error are no LastLine; nil: none

	known          bool // an event of this CLI's stream has been read
	lines, unread  int64
	last           string
	errLines       lineTail
	errText        *proc.HeadTail
	noted          eachLine
	session, model string
	denied         int64
}

// read initialises j. on gets every line that is a whole JSON object, and reports whether the line is an event of this
// CLI's stream. A line that is cut off is counted and otherwise ignored.
func (j *jsonLines) read(layout *layout, on func(event) (known bool)) {
	j.event, j.errText = func(l *jsonstream.Line) bool { return on(event{l, layout.wants}) }, proc.NewHeadTail(stderrHalf)
	j.reader = layout.shape.NewReader(j.line)
}

func (j *jsonLines) Stdout(p []byte) { j.reader.Write(p) }

// Stderr shows its last line only before the first event. Later the events tell more.
func (j *jsonLines) Stderr(p []byte) {
	_, _ = j.errText.Write(p)
	if j.note == nil {
		j.errored(p)
		return
	}
	for line := range bytes.Lines(p) { // so that the last line is the same however the output is cut
		j.errored(line)
		j.noted.write(line, j.note)
	}
}

func (j *jsonLines) errored(p []byte) {
	if line := j.errLines.feed(p); line != "" && !j.known && (j.noise == nil || !j.noise(line)) {
		j.last = line
	}
}

func (j *jsonLines) LastLine() string { return j.last }

func (j *jsonLines) line(l *jsonstream.Line) {
	j.lines++
	if l.Kind == jsonstream.Object && j.event(l) {
		j.known = true
		return
	}
	if l.Kind == jsonstream.Broken {
		j.unread++
	}
	if !j.known {
		j.show(l.Head)
	}
}

// say sets LastLine to the last line of text that is not blank. A text of white space alone changes nothing.
func (j *jsonLines) say(text string) {
	text = strings.TrimSpace(text)
	j.show([]byte(text[max(0, len(text)-maxLine):]))
}

// does sets LastLine to the name of a tool that the agent uses and to the subject of the call, such as a command.
func (j *jsonLines) does(tool, what string) {
	if what = strings.TrimSpace(what); what != "" {
		tool += ": " + strings.ReplaceAll(what, "\n", " ")
	}
	j.say(tool)
}

func (j *jsonLines) show(raw []byte) {
	var tail lineTail
	if line := tail.feed(slices.Concat(raw, []byte("\n"))); line != "" {
		j.last = line
	}
}

// close reads the last lines, which may have no line break. Finish calls it once, at its beginning.
func (j *jsonLines) close() Learned {
	j.reader.Close()
	if rest := j.errLines.rest(); rest != "" && !j.known && (j.noise == nil || !j.noise(rest)) {
		j.last = rest
	}
	if j.note != nil {
		j.noted.end(j.note)
	}
	return Learned{Structured: j.known, Lines: j.lines, Unread: j.unread, SessionID: j.session, Model: j.model, Denied: j.denied}
}

// stderr returns standard error. If it was longer than 16 KiB, stderr returns its first and its last 8 KiB on lines of
// their own.
func (j *jsonLines) stderr() string {
	return captured(j.errText, func(head, tail string, _ int64) string { return head + "\n" + tail })
}

// captured returns the text that h has kept. If h left a part out, join joins the two ends.
func captured(h *proc.HeadTail, join func(head, tail string, cut int64) string) string {
	c := h.Capture()
	if !c.Truncated {
		return c.Text()
	}
	return join(string(c.Head), string(c.Tail), c.Bytes-int64(len(c.Head)+len(c.Tail)))
}

// failed reports whether the program itself exited with a failure, so that standard error may say why.
func failed(end proc.Result) bool {
	return end.Ended == proc.Exited && (end.Signal != "" || end.Code != 0)
}

// without returns a text without the lines that match noise, and without white space around it.
func without(noise *regexp.Regexp, text string) string {
	return strings.TrimSpace(strings.Join(slices.DeleteFunc(strings.Split(text, "\n"), noise.MatchString), "\n"))
}

// errorText prepares a CLI's own message for Learned.ErrorText: valid UTF-8 on one line without control characters, cut
// to maxErrorText bytes.
func errorText(said string) string {
	return text.Head(text.Line(text.Head(said, 2*maxErrorText), 2*maxErrorText), maxErrorText)
}

// whole returns a string with a mark where jsonstream left a part out. want is the number of bytes that the layout
// keeps.
func whole(v jsonstream.Value, want int) []byte {
	half := min(want/2, len(v.Raw))
	if v.Cut == 0 {
		return v.Raw
	}
	for half > 0 && !utf8.RuneStart(v.Raw[half]) {
		half--
	}
	return []byte(door.JoinCut(string(v.Raw[:half]), string(v.Raw[half:]), v.Cut))
}

// paths are the values that a reader needs of each line, in the syntax of jsonstream.Want. The key is the number of
// bytes to keep of each value.
type paths map[int]string

type layout struct {
	shape *jsonstream.Shape
	wants map[string]int
}

// lazy returns a function that compiles the paths at its first call.
func (p paths) lazy() func() *layout {
	return sync.OnceValue(func() *layout {
		l := &layout{wants: map[string]int{}}
		var wants []jsonstream.Want
		for _, most := range slices.Sorted(maps.Keys(p)) {
			for _, path := range strings.Fields(p[most]) {
				l.wants[path] = len(wants)
				wants = append(wants, jsonstream.Want{Path: path, Max: most})
			}
		}
		l.shape = jsonstream.MustShape(wants...)
		return l
	})
}

// event is a line whose values are found by their paths. A path that is not in the layout has no value.
type event struct {
	*jsonstream.Line
	wants map[string]int
}

func (e event) want(path string) int {
	if i, ok := e.wants[path]; ok {
		return i
	}
	return -1
}

// all returns the values at a path in order, and last the last one. The other methods return the last value as a text,
// number or truth value, or "", 0 or nil if it is of another type. int and count accept a whole number from 0 to 2^53.
func (e event) all(path string) iter.Seq[jsonstream.Value] { return e.All(e.want(path)) }
func (e event) last(path string) (jsonstream.Value, bool)  { return e.Last(e.want(path)) }
func (e event) str(path string) string                     { return e.String(e.want(path)) }
func (e event) float(path string) (float64, bool)          { return e.Float(e.want(path)) }
func (e event) bool(path string) (value, ok bool)          { return e.Bool(e.want(path)) }
func (e event) int(path string) int64                      { return deref(e.count(path)) }

func (e event) text(path string) (jsonstream.Value, bool) {
	v, ok := e.last(path)
	return v, ok && v.Type == 's'
}

func (e event) count(path string) *int64 {
	v, _ := e.last(path)
	if n, ok := number(v); ok {
		return &n
	}
	return nil
}

// counters reads the counters at a path that ends with "*". The last key of each value is the name of the counter.
func (e event) counters(path string, names counterNames) (u Usage) {
	for v := range e.all(path) {
		u.take(v, names)
	}
	return u
}

// counterNames are a CLI's names for the fields of Usage, in the order of the fields; "" if the CLI has no such
// counter.
type counterNames [5]string

// take sets the counter whose name is the last key of v, if v is a number.
func (u *Usage) take(v jsonstream.Value, names counterNames) {
	i := slices.Index(names[:], v.Keys[len(v.Keys)-1])
	if n, ok := number(v); ok && i >= 0 {
		*u.kinds()[i] = &n
	}
}

// number returns the value as a whole number from 0 to 2^53.
func number(v jsonstream.Value) (int64, bool) {
	f, ok := fraction(v)
	if !ok || f < 0 || f > 1<<53 || f != math.Trunc(f) {
		return 0, false
	}
	return int64(f), true
}

func fraction(v jsonstream.Value) (float64, bool) {
	if v.Type != 'n' || v.Cut > 0 {
		return 0, false
	}
	f, err := strconv.ParseFloat(string(v.Raw), 64)
	return f, err == nil
}

// message returns the last string at a path whose layout keeps finalText bytes.
func (e event) message(path string) string {
	if v, ok := e.text(path); ok {
		return string(whole(v, finalText))
	}
	return ""
}

// Bounds of reading: bytes at the end of a session's file, and entries of a directory.
const maxTranscript, maxListed = 256 << 20, 4096

// Recoverer is a Stream that finds in the files of its CLI what the output did not tell, such as the usage of a run
// that was killed. Run always calls Recover after Finish, with the agent's environment and directory. Recover only adds
// to l. It reads a bounded part of regular files below the CLI's own directory and writes nothing.
type Recoverer interface {
	Recover(env []string, workdir string, l *Learned)
}

// readTranscript reads the JSON lines of a regular file below root until each returns false.
func readTranscript(root *os.Root, path string, layout *layout, each func(event) (more bool)) {
	info, err := root.Lstat(path)
	if err != nil || !info.Mode().IsRegular() {
		return
	}
	f, err := root.Open(path)
	if err != nil {
		return
	}
	defer f.Close()
	if over := info.Size() - maxTranscript; over > 0 {
		if _, err := f.Seek(over, io.SeekStart); err != nil {
			return
		}
	}
	more := true
	r := layout.shape.NewReader(func(l *jsonstream.Line) {
		if more && l.Kind == jsonstream.Object {
			more = each(event{l, layout.wants})
		}
	})
	from, chunk := io.LimitReader(f, maxTranscript), make([]byte, 256<<10)
	for err == nil && more {
		var n int
		n, err = from.Read(chunk)
		r.Write(chunk[:n])
	}
	r.Close()
}

// listDir returns at most maxListed entries of a directory, unsorted.
func listDir(root *os.Root, path string) []os.DirEntry {
	info, err := root.Lstat(path)
	if err != nil || !info.IsDir() {
		return nil
	}
	d, err := root.Open(path)
	if err != nil {
		return nil
	}
	defer d.Close()
	list, _ := d.ReadDir(maxListed)
	return list
}
