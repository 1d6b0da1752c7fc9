package multiscan

import "unicode/utf8"

// Window is the most text, in bytes, that an expression is run on at a time.
const Window = 8 << 10

// step is how far apart the windows of a long text begin: a match of at most
// Window-step bytes lies whole inside one of them.
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

// units cuts one line that comes in pieces into cleaned units of at most
// Window bytes: a text begins at the start of the line and after each '\r';
// texts longer than Window give windows that begin step bytes apart. Empty
// texts are left out unless the line has no other. Memory: one window.
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

// add appends plain bytes to the text. A full window is given out only when
// more follows: else it is the last one.
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
	u.reset()
}

func (u *units) reset() { *u = units{win: u.win[:0]} }
