package multiscan

import (
	"bytes"
	"unicode/utf8"
)

// cleanGap is how many bytes without control sequences end a stretch of lines
// that is cleaned: shorter ones are cleaned too, rather than scanned alone.
const cleanGap = 16 << 10

// rawText is what a cleaned stretch was made of: it gives the place of a line
// in the stream as it came.
type rawText struct {
	b    []byte
	pos  int   // of the start of line
	line int64 // number of a line in b
}

// piece takes at most maxPiece bytes of whole lines. Stretches of lines without
// control sequences are scanned where they are, the others in a cleaned copy.
func (sc *Scanner) piece(b []byte) {
	sc.has = occur(b, &sc.set.asked)
	dirt := dirtFinder{b: b, esc: -1, back: -1}
	if sc.has&hasEsc == 0 {
		dirt.esc = len(b)
	}
	if sc.has&hasBackspace == 0 {
		dirt.back = len(b)
	}
	for pos := 0; pos < len(b); {
		d := dirt.from(pos)
		start := len(b)
		if d < len(b) {
			start = pos + bytes.LastIndexByte(b[pos:d], '\n') + 1
		}
		if start > pos {
			sc.block(b[pos:start], rawText{})
			sc.done += int64(start - pos)
		}
		pos = sc.stretch(b, start, &dirt)
	}
}

// stretch cleans and scans lines from start on for as long as they hold
// control sequences, and returns where they end.
func (sc *Scanner) stretch(b []byte, start int, dirt *dirtFinder) int {
	pos := start
	for pos < len(b) {
		d := dirt.from(pos)
		if pos > start && (d == len(b) || d-pos > cleanGap) {
			break
		}
		// Lines of at most Window bytes, as many as are in one.
		end := pos + bytes.LastIndexByte(b[pos:min(len(b), pos+Window+1)], '\n') + 1
		var n int
		sc.clean, n = appendUncoloured(sc.clean, b[pos:end])
		if pos += n; n > 0 && pos == end {
			continue
		}
		// A line that is longer, or that holds more than colours.
		d = dirt.from(pos)
		line := pos + bytes.LastIndexByte(b[pos:d], '\n') + 1
		sc.clean = append(sc.clean, b[pos:line]...)
		end = line + bytes.IndexByte(b[line:], '\n')
		if end-line > Window {
			// Only a line that is cut while it is cleaned knows how far a
			// backspace reaches back.
			sc.cleaned(b[start:line])
			sc.longLine(b[line:end])
			return end + 1
		}
		sc.clean = appendClean(sc.clean, b[line:end])
		sc.clean = append(sc.clean, '\n')
		pos = end + 1
	}
	sc.cleaned(b[start:pos])
	return pos
}

// cleaned scans the cleaned copy of raw.
func (sc *Scanner) cleaned(raw []byte) {
	if len(raw) > 0 {
		sc.block(sc.clean, rawText{b: raw, line: sc.line})
		sc.done += int64(len(raw))
		sc.clean = sc.clean[:0]
	}
}

// appendClean appends a line without control sequences; "\r" stays.
func appendClean(to, line []byte) []byte {
	var c cleaner
	text := len(to)
	for len(line) > 0 {
		run, ctl, rest := c.next(line)
		line = rest
		to = append(to, run...)
		switch ctl {
		case '\r':
			to = append(to, '\r')
			text = len(to)
		case backspace:
			_, size := utf8.DecodeLastRune(to[text:])
			to = to[:len(to)-size]
		}
	}
	return to
}

// dirtFinder finds the next ESC or backspace, looking at each byte about
// once.
type dirtFinder struct {
	b         []byte
	esc, back int // the next ones at or after the place asked for last; -1: not looked for
}

func (d *dirtFinder) from(pos int) int {
	d.esc = d.find(esc, d.esc, pos)
	d.back = d.find(backspace, d.back, pos)
	return min(d.esc, d.back)
}

func (d *dirtFinder) find(c byte, known, pos int) int {
	if known >= pos {
		return known
	}
	if i := bytes.IndexByte(d.b[pos:], c); i >= 0 {
		return pos + i
	}
	return len(d.b)
}
