package multiscan

import (
	"bytes"
	"slices"
	"unicode/utf8"
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

// isDirty reports whether there is anything to be removed from whole lines.
func isDirty(b []byte) bool {
	return bytes.IndexByte(b, esc) >= 0 || bytes.IndexByte(b, backspace) >= 0
}

// appendClean appends whole lines without control sequences; "\r" stays.
func appendClean(to, lines []byte) []byte {
	if bytes.IndexByte(lines, backspace) < 0 {
		return appendPlain(to, lines)
	}
	var c cleaner
	// Where the text begins of which a backspace takes away, as far as was looked.
	text, seen := len(to), len(to)
	for len(lines) > 0 {
		run, ctl, rest := c.next(lines)
		to, lines = append(to, run...), rest
		switch ctl {
		case '\r':
			to = append(to, '\r')
			text, seen = len(to), len(to)
		case backspace:
			if i := bytes.LastIndexByte(to[seen:], '\n'); i >= 0 {
				text = seen + i + 1
			}
			_, size := utf8.DecodeLastRune(to[text:])
			to = to[:len(to)-size]
			seen = len(to)
		}
	}
	return to
}

// appendPlain is appendClean for lines without a backspace. Most texts between two
// sequences are short: so many bytes are copied at once.
func appendPlain(to, lines []byte) []byte {
	const short = 16
	n := len(to)
	to = slices.Grow(to, len(lines)+short)
	to = to[:cap(to)]
	for {
		i := bytes.IndexByte(lines, esc)
		if i < 0 {
			return to[:n+copy(to[n:], lines)]
		}
		if i <= short && len(lines) >= short {
			*(*[short]byte)(to[n:]) = *(*[short]byte)(lines)
		} else {
			copy(to[n:], lines[:i])
		}
		n += i
		lines = lines[i+sequence(lines[i:]):]
	}
}

// sequence is the length of the control sequence that lines begin with.
func sequence(lines []byte) int {
	if len(lines) > 2 && lines[1] == '[' { // nearly always, and whole
		i := 2
		for i < len(lines) && lines[i]-0x20 < 0x20 {
			i++
		}
		if i < len(lines) && lines[i]-0x40 < 0x3f {
			return i + 1
		}
	}
	c := cleaner{state: afterEsc}
	i := 1
	for i < len(lines) && c.state != ground {
		if c.swallow(lines[i]) {
			i++
		}
	}
	return i
}

// next returns the plain bytes that p begins with, what ends them ('\r',
// '\b', or 0 for neither) and what of p is left. Sequences before and after the
// plain bytes are swallowed; a line end is plain, and ends any of them.
func (c *cleaner) next(p []byte) (run []byte, ctl byte, rest []byte) {
	for c.state != ground && len(p) > 0 {
		if c.swallow(p[0]) {
			p = p[1:]
		}
	}
	for i, b := range p {
		switch b {
		case '\r', backspace:
			return p[:i], b, p[i+1:]
		case esc:
			c.state = afterEsc
			return p[:i], 0, p[i+1:]
		}
	}
	return p, 0, nil
}

// swallow takes one byte of a control sequence. It reports false if b does
// not belong to it and is to be looked at again.
func (c *cleaner) swallow(b byte) bool {
	final := b >= 0x30 && b <= 0x7e
	switch c.state {
	case afterEsc:
		switch {
		case b == '[':
			c.state = csi
			return true
		case b == ']' || b == 'P' || b == 'X' || b == '^' || b == '_':
			c.state, c.n = controlString, 0
			return true
		case b >= 0x20 && b <= 0x2f:
			c.state = intermediate
			return true
		case b == esc:
			return true
		}
	case intermediate:
		if b >= 0x20 && b <= 0x2f {
			return true
		}
	case csi:
		if b >= 0x20 && b <= 0x3f {
			return true
		}
	case controlString:
		c.n++
		switch {
		case b == esc:
			c.state = stringEsc
			return true
		case b != bel && b != '\r' && b != '\n' && c.n <= maxControlString:
			return true
		}
		final = b == bel
	case stringEsc:
		if b != '\\' {
			c.state = afterEsc
			return false
		}
		final = true
	}
	c.state = ground
	return final
}
