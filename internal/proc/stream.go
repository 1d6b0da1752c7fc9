package proc

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

const (
	bufferSize = 64 << 10
	lineMax    = 16 << 10               // a longer line reaches the log in pieces
	lineWait   = 250 * time.Millisecond // so long the log waits for the rest of a line
	drainLimit = time.Second            // from the end of the tree to giving up on a pipe that somebody else holds
	drainBytes = 1 << 20                // taken from such a pipe after that: as much as it can hold
)

// stream reads one output pipe of a command until nobody can write to it any more. One goroutine (drain) owns it; end
// may be called from another one.
type stream struct {
	f    *os.File
	buf  []byte
	held int // at the front of buf is the beginning of a line, of this length, that the log does not have yet
	tap  func([]byte)
	keep *HeadTail
	log  *logSink      // nil: none
	last *atomic.Int64 // nanoseconds from start to the last output, of both streams
	from time.Time

	ended atomic.Int64  // nanoseconds from start to the moment to stop at, 0 while the tree lives
	done  chan struct{} // closed when everything is read
}

func (s *stream) drain() {
	defer close(s.done)
	defer s.f.Close()
	for {
		s.setDeadline()
		n, err := s.f.Read(s.buf[s.held:])
		s.take(n)
		if err == nil {
			continue
		}
		late := errors.Is(err, os.ErrDeadlineExceeded)
		over := !late || s.ended.Load() != 0
		if late && over {
			s.rest()
		}
		if s.log != nil {
			s.log.write(s.buf[:s.held])
		}
		s.held = 0
		if over {
			return
		}
	}
}

// take passes n new bytes on, which lie behind those that are held.
func (s *stream) take(n int) {
	if n <= 0 {
		return
	}
	all := s.buf[:s.held+n]
	chunk := all[s.held:]
	s.last.Store(int64(time.Since(s.from)))
	_, _ = s.keep.Write(chunk)
	if s.tap != nil {
		s.tap(chunk)
	}
	if s.log == nil {
		return
	}
	whole := bytes.LastIndexByte(all, '\n') + 1
	if len(all)-whole > lineMax {
		whole = len(all)
	}
	s.log.write(all[:whole])
	s.held = copy(s.buf, all[whole:])
}

// rest takes what lies in the pipe without waiting. It is for a pipe that somebody outside of the tree keeps open, or a
// reader that was too slow for the deadline.
func (s *stream) rest() {
	rc, err := s.f.SyscallConn()
	if err != nil {
		return
	}
	_ = rc.Control(func(fd uintptr) {
		for total := 0; total < drainBytes; {
			n, err := unix.Read(int(fd), s.buf[s.held:])
			if err == unix.EINTR {
				continue
			}
			if err != nil || n <= 0 {
				return
			}
			total += n
			s.take(n)
		}
	})
}

// setDeadline bounds the next read: by lineWait if a piece of a line is held, and by the end of the tree.
func (s *stream) setDeadline() {
	var t time.Time
	if s.held > 0 {
		t = time.Now().Add(lineWait)
	}
	_ = s.f.SetReadDeadline(t)
	// end may have come in between; its deadline must not be lost.
	if at := s.ended.Load(); at != 0 {
		_ = s.f.SetReadDeadline(s.from.Add(time.Duration(at)))
	}
}

// end says that the tree is gone: what it wrote lies in the pipe, and drain returns within drainLimit, however slow the
// log is not counted.
func (s *stream) end() {
	at := time.Since(s.from) + drainLimit
	s.ended.Store(int64(at))
	_ = s.f.SetReadDeadline(s.from.Add(at))
}

// Capture is what was kept of one stream.
type Capture struct {
	Head      []byte // the first bytes, at most Spec.HeadTail
	Tail      []byte // the last bytes of what came after Head, at most Spec.HeadTail
	Bytes     int64  // everything that came
	Truncated bool   // bytes between Head and Tail are left out
}

// Text joins Head and Tail, with a line between them that says how much is missing, if any is.
func (c Capture) Text() string {
	gap := ""
	if c.Truncated {
		gap = gapMark(c.Head, c.Bytes-int64(len(c.Head)+len(c.Tail)))
	}
	return string(c.Head) + gap + string(c.Tail)
}

// gapMark is the line that stands for n missing bytes after before.
func gapMark(before []byte, n int64) string {
	mark := fmt.Sprintf("[superloop: %d bytes left out here]\n", n)
	if len(before) > 0 && before[len(before)-1] != '\n' {
		return "\n" + mark
	}
	return mark
}

// HeadTail collects a Capture in constant memory. It is for one goroutine at a time.
type HeadTail struct {
	head []byte
	tail lastBytes
}

// NewHeadTail keeps at most limit bytes of the beginning, and as many of the end.
func NewHeadTail(limit int) *HeadTail { return &HeadTail{tail: lastBytes{limit: limit}} }

func (h *HeadTail) Write(p []byte) (int, error) {
	room := min(h.tail.limit-len(h.head), len(p))
	h.head = append(h.head, p[:room]...)
	h.tail.write(p[room:])
	return len(p), nil
}

// Capture returns what was kept. No Write may follow.
func (h *HeadTail) Capture() Capture {
	c := Capture{Head: h.head, Tail: bytes.Clone(h.tail.bytes()), Bytes: int64(len(h.head)) + h.tail.total}
	c.Truncated = int64(len(c.Head)+len(c.Tail)) < c.Bytes
	return c
}

// lastBytes keeps the last limit bytes, in memory for at most twice as many.
type lastBytes struct {
	limit int
	buf   []byte
	total int64
}

func (l *lastBytes) write(p []byte) {
	l.total += int64(len(p))
	p = p[max(0, len(p)-l.limit):]
	if len(l.buf)+len(p) > 2*l.limit {
		l.buf = append(l.buf[:0], l.bytes()...)
	}
	l.buf = append(l.buf, p...)
}

func (l *lastBytes) bytes() []byte { return l.buf[max(0, len(l.buf)-l.limit):] }

const (
	defaultLogLimit = 64 << 20
	logTailMax      = 1 << 20
	lineSearch      = 4 << 10 // how far the start of the log's tail is moved to begin at a line
)

// logSink passes the first half of limit bytes to w, keeps the last ones in memory, and writes those at the end after a
// line that says how many are missing. The first error ends the writing, never the reading.
type logSink struct {
	mu      sync.Mutex
	w       io.Writer
	room    int64 // what may still be passed on at once
	tail    lastBytes
	last    byte // the last byte written
	dropped int64
	err     error
}

func newLogSink(w io.Writer, limit int64) *logSink {
	half := cmp.Or(limit, defaultLogLimit) / 2
	return &logSink{w: w, room: half, tail: lastBytes{limit: int(min(half, logTailMax))}, last: '\n'}
}

// write takes the next piece of output. Both streams call it.
func (s *logSink) write(p []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := int64(len(p)); n <= s.room {
		s.room -= n
		s.put(p)
		return
	}
	if s.room > 0 {
		fits := p[:s.room]
		if at := bytes.LastIndexByte(fits, '\n'); at >= 0 {
			fits = fits[:at+1]
		} else if s.last == '\n' {
			fits = nil
		}
		s.put(fits)
		p, s.room = p[len(fits):], 0
	}
	s.tail.write(p)
}

// put writes to w, or counts what cannot be written.
func (s *logSink) put(p []byte) {
	if len(p) == 0 {
		return
	}
	n := 0
	if s.err == nil {
		if n, s.err = s.w.Write(p); s.err == nil && n < len(p) {
			s.err = io.ErrShortWrite
		}
	}
	if s.err != nil {
		s.dropped += int64(len(p) - max(0, min(n, len(p))))
		return
	}
	s.last = p[len(p)-1]
}

// finish writes what was kept for the end. It returns the bytes that did not reach w and the first error of w.
func (s *logSink) finish() (dropped int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	tail := s.tail.bytes()
	if gap := s.tail.total - int64(len(tail)); gap > 0 {
		if at := bytes.IndexByte(tail[:min(len(tail), lineSearch)], '\n'); at >= 0 && at+1 < len(tail) {
			tail = tail[at+1:]
			gap += int64(at + 1)
		}
		s.dropped += gap
		if s.err == nil {
			_, s.err = io.WriteString(s.w, gapMark([]byte{s.last}, gap))
		}
	}
	s.put(tail)
	return s.dropped, s.err
}
