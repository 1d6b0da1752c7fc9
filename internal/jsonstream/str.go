package jsonstream

import (
	"encoding/binary"
	"math/bits"
)

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// special finds the bytes of w that do not mean themselves in a string: quote,
// backslash and control bytes. The lowest bit that is set is right; a higher
// one may be spoilt by a borrow.
func special(w uint64) uint64 {
	// A byte below 0x80 gets its high bit if it is below 0x21 once 0x02 is
	// flipped (the control bytes and the quote), or if it is the backslash.
	return (((w ^ 0x02*ones) - 0x21*ones) | ((w ^ '\\'*ones) - ones)) &^ w & highs
}

// simple is what a backslash and a byte mean; 0 for nothing.
var simple = [256]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// plain counts the bytes at the begin of p that mean themselves in a string.
func plain(p []byte) int {
	i := 0
	for ; i+8 <= len(p); i += 8 {
		if m := special(binary.LittleEndian.Uint64(p[i:])); m != 0 {
			return i + bits.TrailingZeros64(m)/8
		}
	}
	for ; i < len(p); i++ {
		if c := p[i]; c < ' ' || c == '"' || c == '\\' {
			break
		}
	}
	return i
}

// skip counts the bytes of text that p begins with: up to a quote, a control
// byte, or an escape that is bad or unfinished.
func skip(p []byte) int {
	i := 0
	for i+8 <= len(p) {
		m := special(binary.LittleEndian.Uint64(p[i:]))
		if m == 0 {
			i += 8
			continue
		}
		i += bits.TrailingZeros64(m) / 8
		if i+1 < len(p) && p[i] == '\\' && simple[p[i+1]] != 0 {
			i += 2 // by far the most frequent
			continue
		}
		n := skipEscape(p[i:])
		if n == 0 {
			return i
		}
		i += n
	}
	for i < len(p) {
		c := p[i]
		if c >= ' ' && c != '"' && c != '\\' {
			i++
			continue
		}
		n := skipEscape(p[i:])
		if n == 0 {
			break
		}
		i += n
	}
	return i
}

// skipEscape gives the length of the escape that p begins with; 0 if there is
// none, or a bad or unfinished one.
func skipEscape(p []byte) int {
	if len(p) < 2 || p[0] != '\\' {
		return 0
	}
	if simple[p[1]] != 0 {
		return 2
	}
	if codeUnit(p) < 0 {
		return 0
	}
	return 6
}

// skipString reads on in a string or key that nobody wants.
func (r *Reader) skipString(p []byte, i int) int {
	for i < len(p) {
		if r.esc != 0 {
			if i, _, _ = r.escape(p, i); r.state == stBroken {
				return i
			}
			continue
		}
		i += skip(p[i:])
		if i == len(p) {
			return i
		}
		switch p[i] {
		case '"':
			if r.state == stSkipKey {
				r.state, r.next = stColon, 0
			} else {
				r.endValue()
			}
			return i + 1
		case '\\':
			r.esc = escBegin
			i++
		default:
			r.state = stBroken
			return i
		}
	}
	return i
}

// readString reads on in a string or key that is wanted.
func (r *Reader) readString(p []byte, i int) int {
	t := &r.value
	if r.state == stLookKey {
		t = &r.key
	}
	for i < len(p) {
		if r.esc != 0 {
			var u rune
			var ok bool
			if i, u, ok = r.escape(p, i); ok {
				t.unit(u)
			} else if r.state == stBroken {
				return i
			}
			continue
		}
		if n := t.decode(p[i:]); n > 0 {
			i += n
			continue
		}
		switch p[i] {
		case '"':
			t.flush()
			if r.state == stLookKey {
				head, tail, _ := t.kept(maxKeyKept)
				r.lookUp(append(head, tail...), true)
			} else {
				r.finishText(nil)
			}
			return i + 1
		case '\\':
			r.esc = escBegin
			i++
		default:
			r.state = stBroken
			return i
		}
	}
	return i
}

// What was read of an escape: the backslash, or \u and 0 to 3 digits.
const (
	escBegin = 1
	escHex   = 2
	escLast  = 5
)

// escape reads on behind a backslash. ok says that the escape is complete and
// means the code unit u. A bad escape makes the line broken.
func (r *Reader) escape(p []byte, i int) (next int, u rune, ok bool) {
	if r.esc == escBegin {
		c := p[i]
		if c == 'u' {
			r.esc, r.hex = escHex, 0
			return i + 1, 0, false
		}
		if simple[c] == 0 {
			r.state = stBroken
			return i, 0, false
		}
		r.esc = 0
		return i + 1, rune(simple[c]), true
	}
	for ; i < len(p); i++ {
		d := digit(p[i])
		if d < 0 {
			r.state = stBroken
			return i, 0, false
		}
		r.hex = r.hex<<4 | d
		if r.esc == escLast {
			r.esc = 0
			return i + 1, r.hex, true
		}
		r.esc++
	}
	return i, 0, false
}

// digit is the value of a hex digit; -1 if c is none.
func digit(c byte) rune {
	switch {
	case '0' <= c && c <= '9':
		return rune(c - '0')
	case 'a' <= c && c <= 'f':
		return rune(c - 'a' + 10)
	case 'A' <= c && c <= 'F':
		return rune(c - 'A' + 10)
	}
	return -1
}
