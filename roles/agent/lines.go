package agent

import (
	"bytes"
	"slices"
	"time"

	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/internal/redact"
	"github.com/superloop/superloop/internal/text"
)

const (
	maxLine    = 4 << 10 // bytes of one line that are kept; the rest is dropped
	maxShown   = 200     // largest length of a line that is shown, in runes
	lineBreaks = "\n\r"  // a carriage return ends a line, because progress bars redraw with it
)

// lineTail finds the last complete line that is not blank. It keeps at most maxLine bytes.
type lineTail struct{ part []byte }

// feed takes more output. It returns the last line that p completes and that is not blank after it is sanitised; "" if
// there is none. feed searches from the end, so a flood of lines costs one scan for line breaks.
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

// rest returns the last line, which has no line break yet.
func (l *lineTail) rest() string {
	line := sanitise(l.part)
	l.part = l.part[:0]
	return line
}

// head returns the part of a line that is kept.
func head(p []byte) []byte { return p[:min(len(p), maxLine)] }

// sanitise turns raw output into one line that is safe for any screen.
func sanitise(raw []byte) string { return text.Line(string(raw), maxShown) }

// eachLine splits a text that arrives in pieces into lines of at most maxLine bytes.
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

// end calls f with the last line, which may have no line break.
func (e *eachLine) end(f func(line []byte)) {
	if len(e.part) > 0 {
		f(e.part)
		e.part = e.part[:0]
	}
}

// progressGap is the least time between two calls of Options.Progress.
const progressGap = 100 * time.Millisecond

// progress passes the latest line on, at most once in progressGap. It does so in a goroutine of its own, so that a slow
// watcher does not delay the process whose output it watches. say and end are never called at the same time.
type progress struct {
	latest     chan string // the latest line, until it is shown
	stop, done chan struct{}
}

// startProgress starts the goroutine that calls show. If show is nil, it returns nil, which is ready for use.
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
	case <-p.latest: // the goroutine has not taken the previous line
	default:
	}
	p.latest <- line
}

// end shows the last line if that has not happened yet, and waits for the goroutine.
func (p *progress) end() {
	if p != nil {
		close(p.latest)
		close(p.stop)
		<-p.done
	}
}

// Follow calls show with the last line of any command's output, as Run does for an agent. The caller passes the output
// to feed, from any goroutine. end shows the last line and stops. show may be nil. No line has one of the secrets.
func Follow(show func(line string), secrets *redact.Replacer) (feed func(p []byte), end func()) {
	w := &watcher{stream: &plainStream{}, progress: startProgress(show), redact: secrets}
	return w.stdout, func() { w.end(proc.Result{}) }
}
