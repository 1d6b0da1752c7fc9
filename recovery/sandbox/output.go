package sandbox

import (
	"bytes"
	"io"
	"sync"

	"github.com/superloop/superloop/internal/proc"
)

// longLine is how much of a line is held back until its end comes, in bytes.
const longLine = 16 << 10

// output takes what the command prints:
//
//	stdout --> redactor --> stdout's beginning and end, lines --+--> sink --> Spec.Output,
//	stderr --> redactor --> stderr's beginning and end, lines --+             beginning and end of both
//
// The redactors stand first, where a secret is still in one piece.
type output struct {
	sink     *sink
	out, err *channel
}

func newOutput(s *Spec, full func()) *output {
	keep := max(s.Keep, 0)
	o := &output{sink: &sink{w: s.Output, room: s.OutputLimit, keep: proc.NewHeadTail(keep), full: full}}
	for _, c := range []**channel{&o.out, &o.err} {
		*c = &channel{keep: proc.NewHeadTail(keep), sink: o.sink}
		(*c).first = s.Secrets.Writer(lines{*c})
	}
	return o
}

// into fills the result, when the command has ended.
func (o *output) into(res *Result) {
	o.out.end()
	o.err.end()
	res.Output, res.Stdout, res.Stderr = o.sink.keep.Capture(), o.out.keep.Capture(), o.err.keep.Capture()
	res.Dropped, res.OutputErr = o.sink.dropped, o.sink.err
}

// channel is one of the two streams. One goroutine at a time uses it.
type channel struct {
	first io.WriteCloser // the redactor, which writes to lines
	keep  *proc.HeadTail
	held  []byte // the beginning of a line
	sink  *sink
}

// take is the callback of proc.Spec. No writer behind it fails.
func (c *channel) take(p []byte) { _, _ = c.first.Write(p) }

func (c *channel) end() {
	_ = c.first.Close() // see take
	c.sink.put(c.held)
}

// lines is the end of a channel: it passes on whole lines, so that those of the two streams are not mixed.
type lines struct{ c *channel }

func (l lines) Write(p []byte) (int, error) {
	c := l.c
	_, _ = c.keep.Write(p)
	whole := bytes.LastIndexByte(p, '\n') + 1
	if len(c.held)+len(p)-whole > longLine {
		whole = len(p)
	}
	if whole > 0 {
		if len(c.held) > 0 {
			c.sink.put(append(c.held, p[:whole]...))
			c.held = c.held[:0]
		} else {
			c.sink.put(p[:whole])
		}
	}
	c.held = append(c.held, p[whole:]...)
	return len(p), nil
}

// sink passes room bytes on to w, and says when there is more. What does not fit, or cannot be written, is still kept
// and counted.
type sink struct {
	full func()

	mu      sync.Mutex // guards what follows
	w       io.Writer
	room    int64
	keep    *proc.HeadTail
	over    bool
	dropped int64
	err     error
}

func (s *sink) put(p []byte) {
	if len(p) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _ = s.keep.Write(p)
	fits := p[:min(int64(len(p)), s.room)]
	s.room -= int64(len(fits))
	s.dropped += int64(len(p) - len(fits))
	if len(fits) < len(p) && !s.over {
		s.over = true
		s.full()
	}
	if s.w == nil || len(fits) == 0 {
		return
	}
	n := 0
	if s.err == nil {
		if n, s.err = s.w.Write(fits); s.err == nil && n < len(fits) {
			s.err = io.ErrShortWrite
		}
	}
	if s.err != nil {
		s.dropped += int64(len(fits) - max(0, min(n, len(fits))))
	}
}
