package multiscan

import (
	"encoding/binary"
	"math/bits"
)

// cleaner removes terminal control sequences from a stream that comes in
// pieces of any size. Its state is all that it keeps between pieces.
type cleaner struct {
	state escape
	n     int // bytes of the control string so far
}

// escape says where inside a control sequence the cleaner is.
type escape uint8

const (
	ground escape = iota
	afterEsc
	intermediate // ESC and bytes 0x20-0x2f: a final byte follows
	csi
	controlString // OSC, DCS, SOS, PM, APC
	stringEsc     // an ESC inside a control string
)

const (
	esc       = 0x1b
	bel       = 0x07
	backspace = '\b'
	// maxControlString bounds how much a control string without an end can
	// hide; what follows is text again.
	maxControlString = 4096
)

// next returns the plain bytes that p begins with, what ends them ('\r',
// '\b', or 0 for neither) and what of p is left. Sequences before and after the
// plain bytes are swallowed. p holds no '\n'; the caller calls reset there.
func (c *cleaner) next(p []byte) (run []byte, ctl byte, rest []byte) {
	if c.state == afterEsc {
		p = c.swallowColour(p)
	}
	i := 0
	for c.state != ground && i < len(p) {
		if c.swallow(p[i]) {
			i++
		}
	}
	p = p[i:]
	for i = plain(p); i < len(p); i++ {
		switch b := p[i]; b {
		case '\r', backspace:
			return p[:i], b, p[i+1:]
		case esc:
			c.state = afterEsc
			return p[:i], 0, p[i+1:]
		}
		i += plain(p[i+1:])
	}
	return p, 0, nil
}

// swallowColour takes what follows an ESC at once if it is a CSI that ends in p,
// as nearly all are.
func (c *cleaner) swallowColour(p []byte) []byte {
	if len(p) == 0 || p[0] != '[' {
		return p
	}
	i := 1
	for i < len(p) && p[i]-0x20 < 0x20 {
		i++
	}
	if i == len(p) || p[i]-0x40 >= 0x3f {
		return p
	}
	c.state = ground
	return p[i+1:]
}

// plain gives how many bytes p begins with that are not control characters,
// eight at a time where it can; it may stop at others.
func plain(p []byte) int {
	const ones = 0x0101010101010101
	for i := 0; ; i += 8 {
		if i+8 > len(p) {
			for ; i < len(p) && p[i] > esc; i++ {
			}
			return i
		}
		v := binary.LittleEndian.Uint64(p[i:])
		if low := (v - 0x20*ones) &^ v & (0x80 * ones); low != 0 {
			return i + bits.TrailingZeros64(low)/8
		}
	}
}

// reset ends whatever sequence is open: a new line begins.
func (c *cleaner) reset() { *c = cleaner{} }

// swallow takes one byte of a control sequence. It reports false if b does
// not belong to it and is to be looked at again.
func (c *cleaner) swallow(b byte) bool {
	switch c.state {
	case afterEsc:
		switch {
		case b == '[':
			c.state = csi
		case b == ']' || b == 'P' || b == 'X' || b == '^' || b == '_':
			c.state, c.n = controlString, 0
		case b >= 0x20 && b <= 0x2f:
			c.state = intermediate
		case b == esc:
		case b >= 0x30 && b <= 0x7e:
			c.state = ground
		default:
			c.state = ground
			return false
		}
	case intermediate:
		switch {
		case b >= 0x20 && b <= 0x2f:
		case b >= 0x30 && b <= 0x7e:
			c.state = ground
		default:
			c.state = ground
			return false
		}
	case csi:
		switch {
		case b >= 0x20 && b <= 0x3f:
		case b >= 0x40 && b <= 0x7e:
			c.state = ground
		default:
			c.state = ground
			return false
		}
	case controlString:
		c.n++
		switch {
		case b == bel:
			c.state = ground
		case b == esc:
			c.state = stringEsc
		case b == '\r' || c.n > maxControlString:
			c.state = ground
			return false
		}
	case stringEsc:
		c.state = ground
		if b != '\\' {
			c.state = afterEsc
			return false
		}
	}
	return true
}
