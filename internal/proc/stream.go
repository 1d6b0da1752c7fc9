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
	// drainBytes bounds what is taken from such a pipe after that: what a pipe can hold.
	drainBytes = pipeSize
)

// stream reads one output pipe of a command until nobody can write to it any more. One goroutine (drain) owns it;
// end may be called from another one.
type stream struct {
	f    *os.File
	buf  []byte
	tap  func([]byte)
	keep *HeadTail
	log  *logSink      // nil: none
	last *atomic.Int64 // nanoseconds from start to the last output, of both streams
	from time.Time

	ended atomic.Int64  // nanoseconds from start to the moment to stop at, 0 while the tree lives
	armed bool          // a read deadline is set
	done  chan struct{} // closed when everything is read
}

// drain reads everything and closes the pipe. The front of buf holds the beginning of a line that the log
// does not have yet.
func (s *stream) drain() {
	defer close(s.done)
	defer s.f.Close()
	held := 0
	for {
		s.setDeadline(held > 0)
		n, err := s.f.Read(s.buf[held:])
		held = s.take(held, n)
		switch {
		case err == nil:
			continue
		case errors.Is(err, os.ErrDeadlineExceeded) && s.ended.Load() == 0:
			held = s.flush(held)
			continue
		case errors.Is(err, os.ErrDeadlineExceeded):
			held = s.rest(held)
		}
		s.flush(held)
		return
	}
}

// take passes n new bytes at buf[held:] on and returns how many bytes are held now.
func (s *stream) take(held, n int) int {
	if n <= 0 {
		return held
	}
	chunk := s.buf[held : held+n]
	s.last.Store(int64(time.Since(s.from)))
	_, _ = s.keep.Write(chunk)
	if s.tap != nil {
		s.tap(chunk)
	}
	if s.log == nil {
		return 0
	}
	all := s.buf[:held+n]
	whole := bytes.LastIndexByte(chunk, '\n') + 1
	if whole > 0 {
		whole += held
	}
	if len(all)-whole > lineMax {
		whole = len(all)
	}
	s.log.write(all[:whole])
	return copy(s.buf, all[whole:])
}

func (s *stream) flush(held int) int {
	if s.log != nil {
		s.log.write(s.buf[:held])
	}
	return 0
}

// rest takes what lies in the pipe, without waiting for more. It is for a pipe that somebody outside of
// the tree keeps open, or a reader that was too slow for the deadline.
func (s *stream) rest(held int) int {
	rc, err := s.f.SyscallConn()
	if err != nil {
		return held
	}
	_ = rc.Control(func(fd uintptr) {
		for total := 0; total < drainBytes; {
			n, err := unix.Read(int(fd), s.buf[held:])
			if err == unix.EINTR {
				continue
			}
			if err != nil || n <= 0 {
				return
			}
			total += n
			held = s.take(held, n)
		}
	})
	return held
}

// setDeadline bounds the next read: by lineWait if a piece of a line is held, and by the end of the tree.
func (s *stream) setDeadline(holding bool) {
	if holding || s.armed {
		var t time.Time
		if holding {
			t = time.Now().Add(lineWait)
		}
		_ = s.f.SetReadDeadline(t)
		s.armed = holding
	}
	// end may have come in between; its deadline must not be lost.
	if at := s.ended.Load(); at != 0 {
		_ = s.f.SetReadDeadline(s.from.Add(time.Duration(at)))
	}
}

// end says that the tree is gone: what it wrote lies in the pipe, and drain returns within drainLimit, however
// slow the log is not counted.
func (s *stream) end() {
	at := time.Since(s.from) + drainLimit
	s.ended.Store(int64(at))
	_ = s.f.SetReadDeadline(s.from.Add(at))
}
