package jsonstream

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"unicode/utf16"
	"unicode/utf8"
)

// text gathers the decoded text of a string piece by piece. It makes it valid
// UTF-8 and keeps its beginning and its end. buf is the first half bytes, then
// the gone ones are missing, then comes the rest.
type text struct {
	buf  []byte
	max  int
	half int // bytes of the beginning, and of the end, if it is longer than max
	full int // bytes in buf from which on the middle is thrown away
	gone int64

	high rune // a high surrogate that waits for the low one, or 0
	part [utf8.UTFMax]byte
	got  int // bytes of part: a rune that a cut of the stream divided
}

// slack is how much more than max is gathered before the middle is thrown away.
const slack = 4096

func (t *text) begin(limit int) {
	t.buf = t.buf[:0]
	t.max, t.half, t.full = limit, limit/2, limit+slack
	t.gone, t.high, t.got = 0, 0, 0
}

// kept gives the whole text if it has at most limit bytes, else its first and
// its last limit/2 bytes without parts of runes, and how many bytes between
// them are missing. limit is at most max. The text must have been flushed.
func (t *text) kept(limit int) (head, tail []byte, cut int64) {
	total := t.gone + int64(len(t.buf))
	if total <= int64(limit) {
		return t.buf, nil, 0
	}
	head = t.buf[:limit/2]
	head = head[:len(head)-unfinished(head)]
	tail = t.buf[len(t.buf)-limit/2:]
	for len(tail) > 0 && !utf8.RuneStart(tail[0]) {
		tail = tail[1:]
	}
	return head, tail, total - int64(len(head)+len(tail))
}

// decode adds the text that p begins with and says how many bytes of p that
// took: up to a quote, a control byte, or an escape that is bad, unfinished or a
// surrogate alone. It may also stop earlier, but not before the first byte of text.
func (t *text) decode(p []byte) int {
	if t.high != 0 || t.got > 0 {
		n := plain(p[:min(len(p), 8)])
		t.write(p[:n])
		return n
	}
	if t.full-len(t.buf) < slack/2 {
		t.spill()
	}
	p = p[:min(len(p), t.full-len(t.buf))]
	begin := len(t.buf)
	t.buf = grow(t.buf, len(p)+8)
	n, size, wide := unescape(t.buf[begin:cap(t.buf)], p)
	t.buf = t.buf[:begin+size]
	if !wide {
		return n
	}
	if span := t.divide(t.buf[begin:]); valid(span) {
		t.buf = t.buf[:begin+len(span)]
	} else {
		t.buf = t.buf[:begin]
		t.repair(bytes.Clone(span))
	}
	return n
}

// grow makes room for n more bytes.
func grow(b []byte, n int) []byte {
	if cap(b)-len(b) >= n {
		return b
	}
	return append(make([]byte, 0, max(2*cap(b), len(b)+n)), b...)
}

// unescape copies the text that src begins with to dst, which has at least 8
// bytes more than src. It takes n bytes of src and gives size bytes; wide says
// that there may be some beyond ASCII among them.
func unescape(dst, src []byte) (n, size int, wide bool) {
	seen := uint64(0)
	for n+8 <= len(src) {
		w := binary.LittleEndian.Uint64(src[n:])
		binary.LittleEndian.PutUint64(dst[size:], w)
		seen |= w
		m := special(w)
		if m == 0 {
			n += 8
			size += 8
			continue
		}
		k := bits.TrailingZeros64(m) / 8
		n += k
		size += k
		if n+1 < len(src) && src[n] == '\\' && simple[src[n+1]] != 0 {
			dst[size] = simple[src[n+1]] // by far the most frequent
			n += 2
			size++
			continue
		}
		took, gave := oneEscape(dst[size:], src[n:])
		if took == 0 {
			return n, size, seen&highs != 0
		}
		n += took
		size += gave
	}
	for n < len(src) {
		c := src[n]
		if c >= ' ' && c != '"' && c != '\\' {
			seen |= uint64(c)
			dst[size] = c
			n++
			size++
			continue
		}
		took, gave := oneEscape(dst[size:], src[n:])
		if took == 0 {
			break
		}
		n += took
		size += gave
	}
	return n, size, seen&highs != 0
}

// oneEscape decodes the escape that src begins with, or two that are a pair of
// surrogates, into dst. It takes nothing if there is none, or one that is bad,
// unfinished or a surrogate alone.
func oneEscape(dst, src []byte) (took, gave int) {
	if len(src) < 2 || src[0] != '\\' {
		return 0, 0
	}
	if c := simple[src[1]]; c != 0 {
		dst[0] = c
		return 2, 1
	}
	u := codeUnit(src)
	if u < 0 {
		return 0, 0
	}
	if !utf16.IsSurrogate(u) {
		return 6, utf8.EncodeRune(dst, u)
	}
	r := utf16.DecodeRune(u, codeUnit(src[6:]))
	if r == utf8.RuneError {
		return 0, 0
	}
	return 12, utf8.EncodeRune(dst, r)
}

// codeUnit is what the \u escape means that p begins with; -1 if there is none.
func codeUnit(p []byte) rune {
	if len(p) < 6 || p[0] != '\\' || p[1] != 'u' {
		return -1
	}
	a, b, c, d := digit(p[2]), digit(p[3]), digit(p[4]), digit(p[5])
	if a|b|c|d < 0 {
		return -1
	}
	return a<<12 | b<<8 | c<<4 | d
}

// write adds plain text of the string.
func (t *text) write(b []byte) {
	if len(b) > 0 {
		t.repair(t.divide(t.resume(b)))
	}
}

// divide takes from the end of b a rune that may go on behind it.
func (t *text) divide(b []byte) []byte {
	if n := unfinished(b); n > 0 {
		t.got = copy(t.part[:], b[len(b)-n:])
		return b[:len(b)-n]
	}
	return b
}

// repair adds any bytes.
func (t *text) repair(b []byte) {
	for len(b) > 0 {
		r, size := utf8.DecodeRune(b)
		t.addRune(r)
		b = b[size:]
	}
}

// unit adds a UTF-16 code unit of a \u escape, or the byte of another escape.
func (t *text) unit(u rune) {
	for ; t.got > 0; t.got-- {
		t.addRune(utf8.RuneError)
	}
	if high := t.high; high != 0 {
		t.high = 0
		if r := utf16.DecodeRune(high, u); r != utf8.RuneError {
			t.addRune(r)
			return
		}
		t.addRune(utf8.RuneError)
	}
	if 0xd800 <= u && u < 0xdc00 {
		t.high = u
		return
	}
	t.addRune(u)
}

// flush ends what waits for more: it stays alone.
func (t *text) flush() {
	if t.high != 0 {
		t.high = 0
		t.addRune(utf8.RuneError)
	}
	for ; t.got > 0; t.got-- {
		t.addRune(utf8.RuneError)
	}
}

// resume completes a divided rune from b and returns the rest of b.
func (t *text) resume(b []byte) []byte {
	if t.high != 0 {
		t.flush()
	}
	for t.got > 0 && len(b) > 0 {
		t.part[t.got] = b[0]
		t.got++
		b = b[1:]
		for t.got > 0 && utf8.FullRune(t.part[:t.got]) {
			r, size := utf8.DecodeRune(t.part[:t.got])
			t.addRune(r)
			t.got = copy(t.part[:], t.part[size:t.got])
		}
	}
	return b
}

func (t *text) addRune(r rune) {
	if len(t.buf)+utf8.UTFMax > t.full {
		t.spill()
	}
	t.buf = utf8.AppendRune(t.buf, r)
}

// spill makes room: the text is longer than max, so of its end only half bytes
// matter.
func (t *text) spill() {
	if n := len(t.buf) - 2*t.half; n > 0 {
		t.gone += int64(n)
		t.buf = append(t.buf[:t.half], t.buf[t.half+n:]...)
	}
}

// valid is utf8.Valid, faster where few runes are beyond ASCII.
func valid(b []byte) bool {
	for len(b) >= 8 {
		m := binary.LittleEndian.Uint64(b) & highs
		if m == 0 {
			b = b[8:]
			continue
		}
		b = b[bits.TrailingZeros64(m)/8:]
		for len(b) > 0 && b[0] >= utf8.RuneSelf {
			_, size := utf8.DecodeRune(b)
			if size == 1 {
				return false
			}
			b = b[size:]
		}
	}
	return utf8.Valid(b)
}

// unfinished counts the bytes at the end of b that begin a rune which needs
// more.
func unfinished(b []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(b); n++ {
		if last := b[len(b)-n:]; utf8.RuneStart(last[0]) {
			if utf8.FullRune(last) {
				return 0
			}
			return n
		}
	}
	return 0
}
