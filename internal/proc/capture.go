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
	if !c.Truncated {
		return string(c.Head) + string(c.Tail)
	}
	return string(c.Head) + gapMark(c.Head, c.Bytes-int64(len(c.Head)+len(c.Tail))) + string(c.Tail)
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
	limit int
	head  []byte
	tail  ring
	total int64
}

// NewHeadTail keeps at most limit bytes of the beginning, and as many of the end.
func NewHeadTail(limit int) *HeadTail { return &HeadTail{limit: limit, tail: ring{limit: limit}} }

// Write never fails.
func (h *HeadTail) Write(p []byte) (int, error) {
	n := len(p)
	h.total += int64(n)
	if room := h.limit - len(h.head); room > 0 {
		n := min(room, len(p))
		h.head = append(h.head, p[:n]...)
		p = p[n:]
	}
	h.tail.write(p)
	return n, nil
}

// Capture returns what was kept. No Write may follow.
func (h *HeadTail) Capture() Capture {
	c := Capture{Head: h.head, Tail: h.tail.bytes(), Bytes: h.total}
	c.Truncated = int64(len(c.Head)+len(c.Tail)) < c.Bytes
	return c
}

// ring keeps the last limit bytes. It grows up to that only when there is something to keep.
type ring struct {
	limit int
	buf   []byte
	next  int // the oldest byte, once buf is full
	total int64
}

func (r *ring) write(p []byte) {
	r.total += int64(len(p))
	if len(p) >= r.limit {
		r.buf, r.next = append(r.buf[:0], p[len(p)-r.limit:]...), 0
		return
	}
	if n := min(r.limit-len(r.buf), len(p)); n > 0 {
		r.buf = append(r.buf, p[:n]...)
		p = p[n:]
	}
	for len(p) > 0 {
		n := copy(r.buf[r.next:], p)
		p = p[n:]
		r.next = (r.next + n) % r.limit
	}
}

// bytes returns what is kept, oldest first, in a slice of its own. nil if there is nothing.
func (r *ring) bytes() []byte {
	if len(r.buf) == 0 {
		return nil
	}
	return bytes.Join([][]byte{r.buf[r.next:], r.buf[:r.next]}, nil)
}
