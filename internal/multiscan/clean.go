package multiscan

import (
	"bytes"
	"slices"
	"unicode/utf8"
)

// cleaner removes terminal control sequences from a stream that comes in pieces of any size. Between two pieces it
// keeps only its state, no text.
type cleaner struct {
	state escape
	n     int // bytes of the control string so far
}

// escape is the position of the cleaner inside or outside a control sequence.
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
	// maxControlString bounds the length of a control string, in bytes. If it has no end by then, the bytes that follow
	// are text again.
	maxControlString = 4096
)

// appendClean appends whole lines without their control sequences. It keeps "\r". The lines must have no backspace.
// Most texts between two sequences are short, so it copies a fixed number of bytes for them, which is faster.
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

// sequence returns the length of the control sequence at the beginning of lines.
func sequence(lines []byte) int {
	if len(lines) > 2 && lines[1] == '[' { // the fast path for the usual case: a whole CSI sequence
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

// next returns the plain bytes at the beginning of p, the control byte that ends them ('\r', '\b', or 0 for neither)
// and the rest of p. It removes a control sequence before them and begins one after them. A line end is a plain byte,
// and ends a control sequence.
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

// swallow consumes one byte of a control sequence. It returns false if b does not belong to the sequence, so that the
// caller must read b again.
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

// Window is the length, in bytes, of the longest text on which the scanner runs an expression.
const Window = 8 << 10

// step is the distance between the beginnings of two windows of a long text, in bytes. So a match of at most
// Window-step bytes lies completely inside one of the windows.
const step = Window / 2

// edges says which ends of a unit are not ends of the text from which it was cut.
type edges uint8

const (
	cutBefore edges = 1 << iota
	cutAfter
)

// unitSink receives the units of a line in order.
type unitSink interface {
	unit(text []byte, cut edges)
}

// units cuts one line that comes in pieces into cleaned units of at most Window bytes. A text begins at the start of
// the line and after each '\r'. A text longer than Window becomes several windows that begin step bytes apart. An empty
// text is a unit only if the line has no other text. units needs the memory of one window.
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

// add appends plain bytes to the text. It passes on a full window only when more bytes follow, because endText passes
// on the last window.
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

// endLine passes on the last unit of the line and prepares for the next line.
func (u *units) endLine(to unitSink) {
	u.endText(to)
	if !u.some {
		to.unit(nil, 0)
	}
	*u = units{win: u.win[:0]}
}
