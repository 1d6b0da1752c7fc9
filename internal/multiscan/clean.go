package multiscan

import (
	"bytes"
	"slices"
	"unicode/utf8"
)

// cleaner removes terminal control sequences from a stream that comes in pieces of any size. Its state is all that it
// keeps between pieces.
type cleaner struct {
	state escape
	n     int // bytes of the control string so far
}

// escape says where inside a control sequence the cleaner is.
type escape uint8

const (
	outside escape = iota
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
	// maxControlString bounds how much a control string without an end can hide; what follows is text again.
	maxControlString = 4096
)

// appendClean appends whole lines without control sequences; "\r" stays, and there is no backspace. Most texts between
// two sequences are short: so many bytes are copied at once.
func appendClean(to, lines []byte) []byte {
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
	for i < len(lines) && c.state != outside {
		if c.swallow(lines[i]) {
			i++
		}
	}
	return i
}

// next returns the plain bytes that p begins with, what ends them ('\r', '\b', or 0 for neither) and what of p is left.
// Sequences before and after the plain bytes are swallowed; a line end is plain, and ends any of them.
func (c *cleaner) next(p []byte) (run []byte, ctl byte, rest []byte) {
	for c.state != outside && len(p) > 0 {
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

// swallow takes one byte of a control sequence. It reports false if b does not belong to it and is to be looked at
// again.
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
	c.state = outside
	return final
}

// Window is the most text, in bytes, that an expression is run on at a time.
const Window = 8 << 10

// step is how far apart the windows of a long text begin: a match of at most Window-step bytes lies whole inside one of
// them.
const step = Window / 2

// edges says which ends of a unit are not ends of the text it was cut from.
type edges uint8

const (
	cutBefore edges = 1 << iota
	cutAfter
)

// unitSink gets the units of a line in order.
type unitSink interface {
	unit(text []byte, cut edges)
}

// units cuts one line that comes in pieces into cleaned units of at most Window bytes: a text begins at the start of
// the line and after each '\r'; texts longer than Window give windows that begin step bytes apart. Empty texts are left
// out unless the line has no other. Memory: one window.
type units struct {
	clean cleaner
	win   []byte
	cut   edges // cutBefore if win does not begin where its text begins
	some  bool  // the line had a unit
}

// feed takes the next piece of the line, without '\n'.
func (u *units) feed(p []byte, to unitSink) {
	for len(p) > 0 {
		run, ctl, rest := u.clean.next(p)
		p = rest
		u.add(run, to)
		switch ctl {
		case '\r':
			u.endText(to)
		case backspace:
			_, size := utf8.DecodeLastRune(u.win)
			u.win = u.win[:len(u.win)-size]
		}
	}
}

// add appends plain bytes to the text. A full window is given out only when more follows: else it is the last one.
func (u *units) add(run []byte, to unitSink) {
	if u.win == nil {
		u.win = make([]byte, 0, Window)
	}
	for len(run) > 0 {
		if len(u.win) == Window {
			to.unit(u.win, u.cut|cutAfter)
			u.some, u.cut = true, cutBefore
			u.win = u.win[:copy(u.win, u.win[step:])]
		}
		n := min(len(run), Window-len(u.win))
		u.win = append(u.win, run[:n]...)
		run = run[n:]
	}
}

func (u *units) endText(to unitSink) {
	if len(u.win) > 0 {
		to.unit(u.win, u.cut)
		u.some = true
	}
	u.win, u.cut = u.win[:0], 0
}

// endLine gives out what is left and is ready for the next line.
func (u *units) endLine(to unitSink) {
	u.endText(to)
	if !u.some {
		to.unit(nil, 0)
	}
	*u = units{win: u.win[:0]}
}
