package proc

import (
	"bytes"
	"errors"
	"os"
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

// drain reads everything and closes the pipe.
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
