package journal

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// scanBuffer is large enough that read(2) costs next to nothing, and small enough
// to stay in the processor's cache while its lines are hashed.
const scanBuffer = 64 << 10

var (
	errTorn    = errors.New("the file ends in the middle of the line")
	errTooLong = errors.New("it is longer than 16 MiB")
)

// lines reads a file line by line, in constant memory.
type lines struct {
	r    *bufio.Reader
	long []byte // a line that does not fit r's buffer
	next int64  // offset of the next line
}

func newLines(r io.Reader, at int64) *lines {
	return &lines{r: bufio.NewReaderSize(r, scanBuffer), next: at}
}

func (l *lines) reset(r io.Reader, at int64) {
	l.r.Reset(r)
	l.next = at
}

// read gives the next line without its newline, valid until the next call, and
// the offset of its first byte. At the end the error is io.EOF; for bytes without
// a newline it is errTorn (with these bytes), for too many of them errTooLong.
func (l *lines) read() (line []byte, at int64, err error) {
	at = l.next
	line, err = l.r.ReadSlice('\n')
	if err == bufio.ErrBufferFull {
		l.long = l.long[:0]
		for err == bufio.ErrBufferFull && len(l.long)+len(line) <= MaxLine {
			l.long = append(l.long, line...)
			line, err = l.r.ReadSlice('\n')
		}
		if err == bufio.ErrBufferFull {
			return l.long, at, errTooLong
		}
		l.long = append(l.long, line...)
		line = l.long
	}
	l.next = at + int64(len(line))
	switch {
	case err == io.EOF && len(line) == 0:
		return nil, at, io.EOF
	case len(line) > MaxLine+1:
		return line, at, errTooLong
	case err == io.EOF:
		return line, at, errTorn
	case err != nil:
		return nil, at, err
	}
	return line[:len(line)-1], at, nil
}

// chain is a place in a journal: behind the line seq, whose hash is hash.
type chain struct {
	seq  int64
	hash [hashLen]byte // nothing yet if seq is 0
	// any: the next line may be any; the place is not known because the reading
	// did not begin at the file's start.
	any bool
}

// follow moves behind the line h, or says why it does not come next.
func (c *chain) follow(h *header) string {
	switch {
	case c.any:
		c.any = false
	case h.seq != c.seq+1:
		return "its sequence number does not follow the one before"
	case c.seq == 0 && len(h.prev) > 0, c.seq > 0 && !bytes.Equal(h.prev, c.hash[:]):
		return "its prev is not the hash of the line before"
	}
	c.seq = h.seq
	copy(c.hash[:], h.hash)
	return ""
}

// line is the number of the next line, 0 if it is not known: lines are numbered
// as events are.
func (c *chain) line() int64 {
	if c.any {
		return 0
	}
	return c.seq + 1
}

// last is the hash as a text, "" before the first line.
func (c *chain) last() string {
	if c.seq == 0 {
		return ""
	}
	return string(c.hash[:])
}

// scan is the result of checking a journal from a place in it to its end.
type scan struct {
	chain
	events int64
	begin  int64 // of the last good line
	end    int64 // behind the last good line's newline
	bad    *CorruptError
}

// check reads path from the offset at, where the chain is c, to the end or to the
// first line that is not good. The error is one of reading; what is wrong with
// the content is in scan.bad.
func check(f io.ReaderAt, path string, at int64, c chain) (scan, error) {
	s := scan{chain: c, begin: at, end: at}
	l := newLines(io.NewSectionReader(f, at, 1<<62), at)
	var h header
	for {
		line, begin, err := l.read()
		if err == io.EOF {
			return s, nil
		}
		h.seq = 0
		var why string
		switch {
		case err == errTorn || err == errTooLong:
			why = err.Error()
		case err != nil:
			return s, err
		default:
			if why = h.parse(line); why == "" && !h.hashMatches() {
				why = "its hash is not the hash of its bytes"
			}
			if why == "" {
				why = s.follow(&h)
			}
		}
		if why != "" {
			s.bad = &CorruptError{Path: path, Line: s.line(), Offset: begin, Seq: h.seq, Why: why, Torn: err == errTorn}
			if err == nil && bytes.IndexByte(line, 0) >= 0 {
				s.bad.Torn = l.ends()
				s.bad.Why = "a part of it never reached the disk: it has NUL bytes"
			}
			return s, nil
		}
		s.events++
		s.begin, s.end = begin, l.next
	}
}

// ends reports whether nothing follows.
func (l *lines) ends() bool {
	_, err := l.r.Peek(1)
	return err == io.EOF
}
