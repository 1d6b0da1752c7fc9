package proc

import (
	"bytes"
	"io"
	"sync"
)

const (
	defaultLogLimit = 64 << 20
	logTailMax      = 1 << 20
	lineSearch      = 4 << 10 // how far the start of the log's tail is moved to begin at a line
)

// logSink passes the first half of limit bytes to w, keeps the last ones in memory, and writes those at the
// end after a line that says how many are missing. The first error ends the writing, never the reading.
type logSink struct {
	mu      sync.Mutex
	w       io.Writer
	room    int64 // what may still be passed on at once
	tail    ring
	last    byte // the last byte written
	dropped int64
	err     error
}

func newLogSink(w io.Writer, limit int64) *logSink {
	if limit <= 0 {
		limit = defaultLogLimit
	}
	return &logSink{w: w, room: limit / 2, tail: ring{limit: int(min(limit/2, logTailMax))}, last: '\n'}
}

// write takes the next piece of output. Both streams call it.
func (s *logSink) write(p []byte) {
	if len(p) == 0 {
		return
	}
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
		if len(fits) > 0 {
			s.put(fits)
		}
		p, s.room = p[len(fits):], 0
	}
	s.tail.write(p)
}

// put writes to w, or counts what cannot be written.
func (s *logSink) put(p []byte) {
	if s.err != nil {
		s.dropped += int64(len(p))
		return
	}
	n, err := s.w.Write(p)
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	if err != nil {
		s.err = err
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
	if len(tail) > 0 {
		s.put(tail)
	}
	return s.dropped, s.err
}
