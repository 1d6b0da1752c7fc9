package proc

import (
	"bytes"
	"cmp"
	"errors"
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
	lineWait   = 250 * time.Millisecond // how long the log waits for the rest of a line
	drainLimit = time.Second            // from the end of the tree to giving up on a pipe that another process holds open
	drainBytes = 1 << 20                // the most bytes read from such a pipe after that: its largest capacity
)

// stream reads an output pipe of a command until nobody can write to it any more. Only the goroutine drain uses it,
// except for end.
type stream struct {
	f    *os.File
	buf  []byte
	held int // the length of an incomplete line at the front of buf, which the log has not received
	tap  func([]byte)
	keep *HeadTail
	log  *logSink      // nil: no log
	last *atomic.Int64 // nanoseconds from start to the last output of either stream
	from time.Time

	ended atomic.Int64  // nanoseconds from start to the deadline for reading; 0 while the tree lives
	done  chan struct{} // closed when drain has finished
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

// take handles n new bytes, which are in buf behind the held ones.
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

// rest reads the content of the pipe without waiting. It is needed if a process outside of the tree keeps the pipe
// open, or if reading was too slow for the deadline.
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

// setDeadline limits the next read: to lineWait if part of a line is held, and to the deadline after the end of the
// tree.
func (s *stream) setDeadline() {
	var t time.Time
	if s.held > 0 {
		t = time.Now().Add(lineWait)
	}
	_ = s.f.SetReadDeadline(t)
	// end may have set its deadline in between, which must not be lost.
	if at := s.ended.Load(); at != 0 {
		_ = s.f.SetReadDeadline(s.from.Add(time.Duration(at)))
	}
}

// end says that the tree is gone. Its output is in the pipe, and drain returns within drainLimit, plus the time that a
// slow log needs.
func (s *stream) end() {
	at := time.Since(s.from) + drainLimit
	s.ended.Store(int64(at))
	_ = s.f.SetReadDeadline(s.from.Add(at))
}

// Capture holds the kept parts of one stream.
type Capture struct {
	Head      []byte // the first bytes, at most Spec.HeadTail
	Tail      []byte // the last bytes after Head, at most Spec.HeadTail
	Bytes     int64  // the number of all bytes of the stream
	Truncated bool   // bytes between Head and Tail are missing
	gap       []byte // the lines that stand for them
}

// Text joins Head and Tail. If bytes are missing, a line between them says how many; the lines that Spec.Sift has kept
// follow it.
func (c Capture) Text() string { return string(c.Head) + string(c.gap) + string(c.Tail) }

// HeadTail collects a Capture in constant memory. Only one goroutine at a time may use it.
type HeadTail struct {
	head []byte
	tail lastBytes
}

// NewHeadTail returns a HeadTail that keeps at most limit bytes of the beginning and limit bytes of the end.
func NewHeadTail(limit int) *HeadTail { return &HeadTail{tail: lastBytes{limit: limit}} }

func (h *HeadTail) Write(p []byte) (int, error) {
	room := min(h.tail.limit-len(h.head), len(p))
	h.head = append(h.head, p[:room]...)
	h.tail.write(p[room:])
	return len(p), nil
}

// Capture returns the kept bytes. No Write may follow.
func (h *HeadTail) Capture() Capture {
	c := Capture{Head: h.head, Tail: bytes.Clone(h.tail.bytes()), Bytes: int64(len(h.head)) + h.tail.total}
	if missing := c.Bytes - int64(len(c.Head)+len(c.Tail)); missing > 0 {
		c.Truncated, c.gap = true, h.tail.gap(c.Head, missing)
	}
	return c
}

const (
	defaultLogLimit = 64 << 20
	logTailMax      = 1 << 20
	lineSearch      = 4 << 10 // how far the log's tail may be shortened to begin at a line
)

// logSink passes the first half of limit bytes to w and keeps the last bytes in memory. At the end it writes a line
// with the number of missing bytes, and then the kept bytes. The first error of w ends the writing, but not the reading
// of the output.
type logSink struct {
	mu      sync.Mutex
	w       io.Writer
	room    int64 // bytes that may still be passed on at once
	tail    lastBytes
	last    byte // the last byte written
	dropped int64
	err     error
}

func newLogSink(w io.Writer, limit int64, sift Sift) *logSink {
	half := cmp.Or(limit, defaultLogLimit) / 2
	return &logSink{w: w, room: half, tail: lastBytes{limit: int(min(half, logTailMax)), sift: sift}, last: '\n'}
}

// write receives the next piece of output of either stream.
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

// put writes to w, and counts the bytes that cannot be written.
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

// finish writes the kept bytes. It returns the number of bytes that did not reach w, and the first error of w.
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
			_, s.err = s.w.Write(s.tail.gap([]byte{s.last}, gap))
		}
	}
	s.put(tail)
	return s.dropped, s.err
}
