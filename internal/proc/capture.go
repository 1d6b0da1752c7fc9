package proc

import (
	"bytes"
	"fmt"
)

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

// Write never fails.
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
