package proc

import (
	"bytes"
	"fmt"
	"io"
)

// Sift looks at the bytes for which a bounded log or capture has no room. The result receives them in order, and calls
// keep for each line that is worth keeping, with its offset in these bytes. Its Close returns an error if it has not
// looked at all of them. keep copies the line.
type Sift func(keep func(offset int64, line []byte)) io.WriteCloser

// siftedMax bounds the lines that a Sift keeps, in bytes.
const siftedMax = 1 << 20

// lastBytes keeps the last limit bytes. It needs memory for at most twice as many, and for the lines that sift keeps.
type lastBytes struct {
	limit int
	buf   []byte
	total int64
	sift  Sift // nil: what does not fit is lost
	sieve io.WriteCloser
	kept  []siftedLine
	size  int // bytes in kept
}

type siftedLine struct {
	offset int64
	text   []byte
}

func (l *lastBytes) write(p []byte) {
	if l.sift != nil && l.sieve == nil && l.total+int64(len(p)) > int64(l.limit) {
		l.sieve = l.sift(l.keep)
		_, _ = l.sieve.Write(l.buf) // an error shows at Close
	}
	if l.sieve != nil {
		_, _ = l.sieve.Write(p)
	}
	l.total += int64(len(p))
	p = p[max(0, len(p)-l.limit):]
	if len(l.buf)+len(p) > 2*l.limit {
		l.buf = append(l.buf[:0], l.bytes()...)
	}
	l.buf = append(l.buf, p...)
}

func (l *lastBytes) bytes() []byte { return l.buf[max(0, len(l.buf)-l.limit):] }

// keep takes a line of the sieve. Several rules may know the same line.
func (l *lastBytes) keep(offset int64, line []byte) {
	if n := len(l.kept); n > 0 && l.kept[n-1].offset == offset || l.size+len(line) > siftedMax {
		return
	}
	l.kept = append(l.kept, siftedLine{offset, bytes.Clone(bytes.TrimRight(line, "\r\n"))})
	l.size += len(line)
}

// gap returns what stands for the first n bytes, which are missing: a line with their number, and the lines of them
// that the sieve has kept. before is what stands before it. Nothing may be written after it.
func (l *lastBytes) gap(before []byte, n int64) []byte {
	var out []byte
	if len(before) > 0 && before[len(before)-1] != '\n' {
		out = append(out, '\n')
	}
	if l.sieve == nil || l.sieve.Close() != nil {
		return fmt.Appendf(out, GapLine, n)
	}
	out = fmt.Appendf(out, "[superloop: %d bytes left out here, but for the lines that a rule knows]\n", n)
	for _, k := range l.kept {
		if k.offset < n {
			out = append(append(out, k.text...), '\n')
		}
	}
	return out
}

// GapLine is the format of the line that stands for a number of bytes at which nothing has looked.
const GapLine = "[superloop: %d bytes left out here]\n"
