package render

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/superloop/superloop/cmd/superloop/internal/screen"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/journal"
	"github.com/superloop/superloop/loop/local"
)

// Progress shows a run as it happens. The caller closes it at the end.
type Progress interface {
	local.Observer
	// Talk prints a text for the operator between the events. It prints nothing if the events are printed as JSON.
	Talk(text string)
	Close()
}

// Lines prints one line per event, for a pipe, a log file or a terminal.
type Lines struct {
	mu   sync.Mutex
	w    io.Writer
	json bool  // print the lines of events.jsonl and nothing else
	live *live // the terminal's last line; nil in a pipe
	here func(string) string
	form screen.Form
}

// NewJSONL returns a Lines that prints every event to w as events.jsonl holds it.
func NewJSONL(w io.Writer) *Lines { return &Lines{w: w, json: true} }

// NewLines returns a Lines that prints lines of a form to w. here is that of DescribeFor.
func NewLines(w io.Writer, form screen.Form, here func(string) string) *Lines {
	return &Lines{w: w, form: form, here: here}
}

// NewLive returns a Lines that prints lines to the terminal w. Below them it keeps a live line that says which step
// runs, for how long, and what the agent said last. Close ends its goroutine. here is that of DescribeFor.
func NewLive(w io.Writer, form screen.Form, here func(string) string) *Lines {
	l := &Lines{w: w, form: form, here: here, live: &live{stop: make(chan struct{}), done: make(chan struct{})}}
	go l.tick()
	return l
}

// live holds the content of the live line.
type live struct {
	what, said string
	since      time.Time
	until      time.Time
	stop, done chan struct{}
}

// Event implements local.Observer.
func (l *Lines) Event(ev journal.Event, s loop.State) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.json:
		if line, err := journal.AppendLine(nil, ev); err == nil {
			_, _ = l.w.Write(line) // a closed pipe does not stop the loop
		}
		return
	case l.live != nil:
		l.live.follow(ev, s)
	}
	text := DescribeFor(ev, l.here)
	switch {
	case Quiet(ev.Event):
		return
	case ev.Event == "iteration_start" && s.Plan.MaxIterations > 0:
		text = fmt.Sprintf("iteration %d of %d", ev.Iteration, s.Plan.MaxIterations)
	case ev.Event != "iteration_start" && !strings.HasPrefix(ev.Event, "loop_"):
		text = "  " + text
	}
	l.wipe()
	hang := itemColumn + len(text) - len(strings.TrimLeft(text, " "))
	_ = l.form.Print(l.w, ToneOf(ev), ev.Timestamp.Local().Format(time.TimeOnly)+" "+text, hang) // a closed pipe does not stop the loop
	l.draw()
}

// Said implements local.Observer.
func (l *Lines) Said(_, line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.live != nil {
		l.live.said = Clean(line)
		l.draw()
	}
}

// Talk implements Progress. It prints the text unchanged.
func (l *Lines) Talk(text string) {
	if l.json {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wipe()
	fmt.Fprint(l.w, text)
	l.draw()
}

// Close removes the live line.
func (l *Lines) Close() {
	if l.live == nil {
		return
	}
	close(l.live.stop)
	<-l.live.done
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wipe()
	l.live = nil
}

func (v *live) follow(ev journal.Event, s loop.State) {
	p := s.Pending
	v.said, v.until = "", time.Time{}
	switch {
	case p == nil || s.Status == loop.Paused:
		v.what = ""
	case p.Kind == loop.Wait && s.Recovery != nil:
		v.what, v.until = "the recovery waits", p.Until
	case p.Kind == loop.Wait:
		v.what, v.until = p.Role+" waits", p.Until
	case s.Status == loop.AwaitingHuman:
		v.what, v.since = "waiting for an operator", ev.Timestamp
	case s.Status == loop.AwaitingApproval:
		v.what, v.since = "waiting for approval", ev.Timestamp
	case s.Begun && p.Kind == loop.RunRole:
		v.what, v.since = p.Role, ev.Timestamp
	case s.Begun && p.Kind == loop.ExecuteRecovery && s.Recovery != nil:
		v.what, v.since = "recovery: "+text.Display(s.Recovery.Attempt.Command), ev.Timestamp
	case s.Begun && (p.Kind == loop.RunTests || p.Kind == loop.RunValidation):
		v.what, v.since = strings.TrimPrefix(string(p.Kind), "run_"), ev.Timestamp
	}
}

func (l *Lines) tick() {
	defer close(l.live.done)
	t := time.NewTicker(time.Second)
	defer t.Stop()
	for {
		select {
		case <-l.live.stop:
			return
		case <-t.C:
			l.mu.Lock()
			l.draw()
			l.mu.Unlock()
		}
	}
}

func (l *Lines) wipe() {
	if l.live != nil {
		fmt.Fprint(l.w, "\r\x1b[K")
	}
}

func (l *Lines) draw() {
	v := l.live
	if v == nil || v.what == "" {
		return
	}
	text := fmt.Sprintf("         %s %s", v.what, Duration(time.Since(v.since)))
	if !v.until.IsZero() {
		text = fmt.Sprintf("         %s, %s more", v.what, Duration(time.Until(v.until)))
	}
	if v.said != "" {
		text += "  " + v.said
	}
	width := max(20, l.form.Width()-1)
	fmt.Fprintf(l.w, "\r\x1b[K%s", strings.TrimRight(screen.Fit(text, width), " "))
}

// JSON prints v as one indented object.
func JSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}
