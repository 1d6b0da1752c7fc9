package agent

import (
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

	"github.com/superloop/superloop/internal/jsonstream"
	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/roles"
)

const (
	maxErrorText = 2000    // bytes of Learned.ErrorText
	stderrHalf   = 8 << 10 // bytes of the beginning, and of the end, of standard error that are kept

	finalHalf = messageHalf - 64 // finalHalf leaves room for the mark, so that a cut text is within MaxMessage
	finalText = 2 * finalHalf    // bytes of a message that are kept
)

// jsonLines is what the readers of all structured streams have in common: one JSON object a line on standard output,
// and text on standard error. A reader embeds it, calls read, and adds Settled and Finish. A CLI that prints something
// else (the owner chose another output format, or the program is a wrapper) is shown like plain text, and nothing is
// learned.
type jsonLines struct {
	reader *jsonstream.Reader
	event  func(*jsonstream.Line) bool
	note   func(line []byte) // note, unless nil, gets each line of standard error

	known          bool // an event of this CLI's stream has come
	lines, unread  int64
	last           string
	errLines       lineTail
	errText        *proc.HeadTail
	noted          eachLine
	session, model string
	denied         int64
}

// read makes it ready. on gets every line that is a whole JSON object and says whether this is an event of this CLI's
// stream. A line that broke off is counted and otherwise ignored.
func (j *jsonLines) read(layout *layout, on func(event) (known bool)) {
	j.event, j.errText = func(l *jsonstream.Line) bool { return on(event{l, layout.wants}) }, proc.NewHeadTail(stderrHalf)
	j.reader = layout.shape.NewReader(j.line)
}

func (j *jsonLines) Stdout(p []byte) { j.reader.Write(p) }

// Stderr is shown only while the stream has not begun: later the events tell more.
func (j *jsonLines) Stderr(p []byte) {
	_, _ = j.errText.Write(p)
	if line := j.errLines.feed(p); line != "" && !j.known {
		j.last = line
	}
	if j.note != nil {
		j.noted.write(p, j.note)
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

// say sets LastLine to the last line of text that says something; a text of white space alone changes nothing.
func (j *jsonLines) say(text string) {
	text = strings.TrimSpace(text)
	j.show([]byte(text[max(0, len(text)-maxLine):]))
}

// does says that the agent uses a tool, and on what.
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

// close reads what had no line break yet. Call it once, at the beginning of Finish.
func (j *jsonLines) close() Learned {
	j.reader.Close()
	if rest := j.errLines.rest(); rest != "" && !j.known {
		j.last = rest
	}
	if j.note != nil {
		j.noted.end(j.note)
	}
	return Learned{Structured: j.known, Lines: j.lines, Unread: j.unread, SessionID: j.session, Model: j.model, Denied: j.denied}
}

// stderr is what standard error said; only its first and its last 8 KiB, on lines of their own, if it was more.
func (j *jsonLines) stderr() string {
	return captured(j.errText, func(head, tail string, _ int64) string { return head + "\n" + tail })
}

// captured is what was kept of a text; where something is left out, join puts its ends together.
func captured(h *proc.HeadTail, join func(head, tail string, cut int64) string) string {
	c := h.Capture()
	if !c.Truncated {
		return c.Text()
	}
	return join(string(c.Head), string(c.Tail), c.Bytes-int64(len(c.Head)+len(c.Tail)))
}

// failed reports whether the program itself left with a failure, so that standard error may say why.
func failed(end proc.Result) bool {
	return end.Ended == proc.Exited && (end.Signal != "" || end.Code != 0)
}

// without is a text without the lines that match noise, and without white space around it.
func without(noise *regexp.Regexp, text string) string {
	return strings.TrimSpace(strings.Join(slices.DeleteFunc(strings.Split(text, "\n"), noise.MatchString), "\n"))
}

// errorText makes a CLI's own words fit for Learned.ErrorText: valid UTF-8 on one line without control characters, at
// most maxErrorText bytes. Of a longer text the beginning is kept.
func errorText(said string) string {
	return text.Head(text.Line(text.Head(said, 2*maxErrorText), 2*maxErrorText), maxErrorText)
}

// whole is a string with a mark where jsonstream left out some of it; want is the most that the layout keeps.
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

// paths are the values that a reader wants of each line, as in jsonstream.Want, by the bytes that are kept of each.
type paths map[int]string

type layout struct {
	shape *jsonstream.Shape
	wants map[string]int
}

// lazy compiles the paths at the first use.
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

// event is a line whose values are named by their paths. A path that is not in the layout has no value.
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

// These give the values at a path in order, or the last one; of that its text or number, with "", 0 and nil if it is
// none. int and count take a whole number from 0 to 2^53.
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

// counters reads the counters at a path that ends with "*", by their last key.
func (e event) counters(path string, names counterNames) (u Usage) {
	for v := range e.all(path) {
		u.take(v, names)
	}
	return u
}

// counterNames are a CLI's names of the fields of Usage, in their order; "" where it has none.
type counterNames [5]string

// take sets the counter that the last key of v names, if v is a number.
func (u *Usage) take(v jsonstream.Value, names counterNames) {
	i := slices.Index(names[:], v.Keys[len(v.Keys)-1])
	if n, ok := number(v); ok && i >= 0 {
		*u.kinds()[i] = &n
	}
}

// number is the value as a whole number from 0 to 2^53.
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

// message is the last string at a path of which finalText bytes are kept.
func (e event) message(path string) string {
	if v, ok := e.text(path); ok {
		return string(whole(v, finalText))
	}
	return ""
}

// So many bytes of a session's file are read, its end, and entries of a directory.
const maxTranscript, maxListed = 256 << 20, 4096

// Recoverer is a Stream that finds in the files of its CLI what the output did not tell, such as the usage of a run
// that was killed. Recover is called after Finish, in any case, with the agent's environment and directory, and only
// adds to what was learned. It reads a bounded part of regular files below the CLI's own directory and writes nothing.
type Recoverer interface {
	Recover(env []string, workdir string, l *Learned)
}

// readTranscript reads the JSON lines of a file below root, if it is a regular one, until each has enough.
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

// listDir is the directory's entries in no order, at most maxListed of them.
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
