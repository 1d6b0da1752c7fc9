package agent

import (
	"bytes"
	"slices"
	"time"

	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/internal/text"
)

const (
	maxLine    = 4 << 10 // bytes of one line that are kept; the rest is dropped
	maxShown   = 200     // runes of a line as it is shown
	lineBreaks = "\n\r"  // a carriage return ends a line: progress bars redraw with it
)

// lineTail finds the last complete line that says something. It holds at most maxLine bytes.
type lineTail struct{ part []byte }

// feed takes more output and returns the last line completed by it that is not blank once it is sanitised; "" if there
// is none. It looks at lines from the end, so a flood costs one scan for line breaks.
func (l *lineTail) feed(p []byte) string {
	all := slices.Concat(l.part, p)
	end := bytes.LastIndexAny(all, lineBreaks)
	l.part = append(l.part[:0], head(all[end+1:])...)
	for end >= 0 {
		begin := bytes.LastIndexAny(all[:end], lineBreaks)
		if line := sanitise(head(all[begin+1 : end])); line != "" {
			return line
		}
		end = begin
	}
	return ""
}

// rest returns the last line, which had no line break yet.
func (l *lineTail) rest() string {
	line := sanitise(l.part)
	l.part = l.part[:0]
	return line
}

// head is what is kept of a line.
func head(p []byte) []byte { return p[:min(len(p), maxLine)] }

// sanitise makes raw output fit for one line of any screen.
func sanitise(raw []byte) string { return text.Line(string(raw), maxShown) }

// eachLine calls f with every line of a text that comes cut anywhere, each at most maxLine bytes long.
type eachLine struct{ part []byte }

func (e *eachLine) write(p []byte, f func(line []byte)) {
	for line := range bytes.Lines(p) {
		whole, ended := bytes.CutSuffix(line, []byte("\n"))
		e.part = head(append(e.part, whole...))
		if ended {
			e.end(f)
		}
	}
}

// end hands on the last line, which may have no line break.
func (e *eachLine) end(f func(line []byte)) {
	if len(e.part) > 0 {
		f(e.part)
		e.part = e.part[:0]
	}
}

// progressGap is the least time between two calls of Options.Progress.
const progressGap = 100 * time.Millisecond

// progress passes the latest line on, at most once in progressGap, from a goroutine of its own, so that a slow watcher
// does not hold up the process whose output it watches. say and end are never called at the same time.
type progress struct {
	latest     chan string // the latest line, until it is shown
	stop, done chan struct{}
}

// startProgress returns nil, which is ready for use, for a nil show.
func startProgress(show func(line string)) *progress {
	if show == nil {
		return nil
	}
	p := &progress{latest: make(chan string, 1), stop: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(p.done)
		shown := ""
		for line := range p.latest {
			if line != shown {
				show(line)
				shown = line
			}
			select {
			case <-p.stop:
			case <-time.After(progressGap):
			}
		}
	}()
	return p
}

func (p *progress) say(line string) {
	if p == nil || line == "" {
		return
	}
	select {
	case <-p.latest: // nobody took what was latest before
	default:
	}
	p.latest <- line
}

// end shows the last line if it was not shown yet, and waits for the goroutine.
func (p *progress) end() {
	if p != nil {
		close(p.latest)
		close(p.stop)
		<-p.done
	}
}

// Follow shows what any command says last, as Run does for an agent: feed takes its output, from any goroutine, and end
// shows the last line and stops. show may be nil.
func Follow(show func(line string)) (feed func(p []byte), end func()) {
	w := &watcher{stream: &plainStream{}, progress: startProgress(show)}
	return w.stdout, func() { w.end(proc.Result{}) }
}
