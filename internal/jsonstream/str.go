package jsonstream

import (
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

const (
	maxKeyKept = 2 * maxKeyLen // bytes of a key
	slack      = 4096          // bytes over max from which on the middle of a text is thrown away
)

// str is a string or key that is being read. If it is wanted, its decoded text is gathered: it is made valid UTF-8, and
// its beginning and its end are kept.
type str struct {
	wanted, key bool
	begin       int64 // position of a value in the line
	esc         int   // bytes that were read of an escape, the backslash among them
	hex         rune  // the hex digits of \u so far

	buf  []byte // the first max/2 bytes, then gone ones are missing, then comes the rest
	max  int
	gone int64
	high rune              // a high surrogate that waits for the low one, or 0
	part [utf8.UTFMax]byte // a rune that a cut of the stream divided
	got  int               // bytes of part
	one  [utf8.UTFMax]byte // the rune that is being added
}

func (r *Reader) beginString(wanted, key bool, limit int) {
	s := &r.str
	r.state, s.wanted, s.key, s.esc = stString, wanted, key, 0
	s.buf, s.max, s.gone, s.high, s.got = s.buf[:0], limit, 0, 0, 0
}

// readString reads on in a string or key from p[i] and says where it stopped.
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

// endString takes a key or string that is complete and ends before p[i].
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

// escape takes a byte behind a backslash; false if it is a bad one.
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

// write adds what means itself.
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

// flush ends what waits for more: a surrogate, or the bytes of a rune.
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

// add adds valid UTF-8. When the text is longer than max, only half of max matters of its end.
func (s *str) add(b []byte) {
	s.buf = append(s.buf, b...)
	if len(s.buf) > s.max+slack {
		half := s.max / 2
		n := len(s.buf) - 2*half
		s.gone += int64(n)
		s.buf = slices.Delete(s.buf, half, half+n)
	}
}

// kept gives the whole text if it has at most limit bytes, else its first and its last limit/2 bytes without parts of
// runes, and how many bytes between them are missing. limit is at most max. The text must have been flushed.
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
