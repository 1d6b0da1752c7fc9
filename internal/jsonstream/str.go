package jsonstream

import (
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

const (
	maxKeyKept = 2 * maxKeyLen // bytes kept of a key
	slack      = 4096          // bytes by which a text may exceed max before its middle is dropped
)

// str is the string or key that the Reader reads. If it is wanted, str collects its decoded text as valid UTF-8. Of a
// long text it keeps the beginning and the end.
type str struct {
	wanted, key bool
	begin       int64 // position of a value in the line
	esc         int   // bytes read of an escape, including the backslash; 0: not in an escape
	hex         rune  // the value of the hex digits of \u so far

	buf  []byte // the text; if gone is not 0, that many bytes are missing after the first max/2
	max  int
	gone int64
	high rune              // a high surrogate that waits for the low one, or 0
	part [utf8.UTFMax]byte // the first bytes of a rune whose other bytes have not come yet
	got  int               // number of bytes in part
	one  [utf8.UTFMax]byte // buffer for addRune
}

func (r *Reader) beginString(wanted, key bool, limit int) {
	s := &r.str
	r.state, s.wanted, s.key, s.esc = stString, wanted, key, 0
	s.buf, s.max, s.gone, s.high, s.got = s.buf[:0], limit, 0, 0, 0
}

// readString continues to read a string or key at p[i]. It returns the index at which it stopped.
func (r *Reader) readString(p []byte, i int) int {
	s := &r.str
	for ; i < len(p); i++ {
		if s.esc > 0 {
			if !s.escape(p[i]) {
				r.state = stBroken
				return i
			}
			continue
		}
		n := i
		for n < len(p) && p[n] >= ' ' && p[n] != '"' && p[n] != '\\' {
			n++
		}
		if s.wanted && n > i {
			s.write(p[i:n])
		}
		if i = n; i == len(p) {
			return i
		}
		switch p[i] {
		case '\\':
			s.esc = 1
		case '"':
			r.endString(p, i+1)
			return i + 1
		default:
			r.state = stBroken
			return i
		}
	}
	return i
}

// endString ends a key or string before p[i]. It stores a wanted string.
func (r *Reader) endString(p []byte, i int) {
	s := &r.str
	s.flush()
	switch {
	case !s.key:
		r.endValue(p, i)
		if !s.wanted {
			return
		}
		for _, w := range r.shape.nodes[r.next].ends {
			head, tail, cut := s.kept(r.shape.wants[w].max)
			r.store(Value{Want: w, Type: 's', Cut: cut, begin: s.begin}, head, tail)
		}
	case s.wanted:
		head, tail, _ := s.kept(maxKeyKept)
		l := r.level()
		l.key = append(append(l.key[:0], head...), tail...)
		r.next = r.shape.nodes[l.node].child(l.key)
		r.state = stColon
	default:
		r.state = stColon
	}
}

// escape reads one byte of an escape, after the backslash. It returns false if the byte is not valid there.
func (s *str) escape(c byte) bool {
	var u rune
	if s.esc == 1 {
		if c == 'u' {
			s.esc, s.hex = 2, 0
			return true
		}
		at := strings.IndexByte(`"\/bfnrt`, c)
		if at < 0 {
			return false
		}
		u = rune("\"\\/\b\f\n\r\t"[at])
	} else {
		digit := strings.IndexByte("0123456789abcdefABCDEF", c)
		if digit < 0 {
			return false
		}
		if digit > 15 {
			digit -= 6
		}
		s.hex = s.hex<<4 | rune(digit)
		if s.esc++; s.esc < len(`\uXXXX`) {
			return true
		}
		u = s.hex
	}
	s.esc = 0
	if s.wanted {
		s.unit(u)
	}
	return true
}

// write adds bytes that are no escape.
func (s *str) write(b []byte) {
	if s.high != 0 {
		s.flush()
	}
	if s.got == 0 && utf8.Valid(b) {
		s.add(b)
		return
	}
	for _, c := range b {
		s.part[s.got] = c
		s.got++
		for s.got > 0 && utf8.FullRune(s.part[:s.got]) {
			u, size := utf8.DecodeRune(s.part[:s.got])
			s.addRune(u)
			s.got = copy(s.part[:], s.part[size:s.got])
		}
	}
}

// unit adds a UTF-16 code unit of a \u escape, or the byte of another escape.
func (s *str) unit(u rune) {
	if pair := utf16.DecodeRune(s.high, u); pair != utf8.RuneError {
		s.high = 0
		s.addRune(pair)
		return
	}
	s.flush()
	if 0xd800 <= u && u < 0xdc00 {
		s.high = u
		return
	}
	s.addRune(u)
}

// flush adds U+FFFD for a high surrogate without a low one, and for each byte of an incomplete rune.
func (s *str) flush() {
	if s.high != 0 {
		s.addRune(utf8.RuneError)
	}
	for range s.got {
		s.addRune(utf8.RuneError)
	}
	s.high, s.got = 0, 0
}

func (s *str) addRune(u rune) { s.add(utf8.AppendRune(s.one[:0], u)) }

// add appends valid UTF-8. If the text becomes longer than max+slack, it drops the middle and keeps max/2 bytes at each
// end.
func (s *str) add(b []byte) {
	s.buf = append(s.buf, b...)
	if len(s.buf) > s.max+slack {
		half := s.max / 2
		n := len(s.buf) - 2*half
		s.gone += int64(n)
		s.buf = slices.Delete(s.buf, half, half+n)
	}
}

// kept returns the whole text as head if it has at most limit bytes. Else it returns the first and the last limit/2
// bytes without parts of runes, and in cut the number of bytes that are missing between them. limit must be at most
// max. The caller must call flush first.
func (s *str) kept(limit int) (head, tail []byte, cut int64) {
	total := s.gone + int64(len(s.buf))
	if total <= int64(limit) {
		return s.buf, nil, 0
	}
	head, tail = s.buf[:limit/2], s.buf[len(s.buf)-limit/2:]
	for n := 1; n < utf8.UTFMax && n <= len(head); n++ {
		if last := head[len(head)-n:]; utf8.RuneStart(last[0]) {
			if !utf8.FullRune(last) {
				head = head[:len(head)-n]
			}
			break
		}
	}
	for len(tail) > 0 && !utf8.RuneStart(tail[0]) {
		tail = tail[1:]
	}
	return head, tail, total - int64(len(head)+len(tail))
}
