package multiscan

import (
	"bytes"
	"slices"
)

const (
	// maxPiece is how much text is worked on at a time: it stays in the processor's cache from one pass to the next.
	maxPiece = 32 << 10
	// maxCarry is how much of an unfinished line is kept as it came; a longer one is cut into units while it comes.
	maxCarry = 64 << 10
)

// Scanner matches one stream, in memory that depends on the number of patterns only. It is not safe for concurrent use.
type Scanner struct {
	set   *Set
	found func(Hit)
	stats Stats

	carry []byte // an unfinished line
	long  bool   // the unfinished line is being cut into units
	units units
	clean []byte // lines without their control sequences

	done   int64 // bytes of the lines that are finished
	line   int64 // number of the line at hand
	offset int64 // its place in the stream

	outer, inner search  // over lines, and over a unit of a line
	every        []int32 // patterns that are tried on every line of the piece at hand
	gathered     []int32 // patterns to be tried on the line at hand
	mark         []uint32
	gen          uint32 // what mark is for a pattern that is gathered

	tried []trial
	total int64 // work spent on confirming
	lower []byte
	late  late
}

var newline = []byte{'\n'}

// Reset makes the scanner ready for another stream.
func (sc *Scanner) Reset(found func(Hit)) {
	sc.found = found
	sc.stats = Stats{}
	sc.carry, sc.long = sc.carry[:0], false
	sc.units = units{win: sc.units.win[:0]}
	sc.done, sc.line, sc.offset, sc.total = 0, 1, 0, 0
	clear(sc.tried)
	sc.late.reset()
	clear(sc.mark)
	sc.gen = 0
}

// Stats returns the counts so far; lines are counted when they end.
func (sc *Scanner) Stats() Stats {
	s := sc.stats
	s.Lines = sc.line - 1
	return s
}

// Write takes the next bytes of the stream, which may be cut anywhere. It finds the hits of the lines that end in p,
// and never fails.
func (sc *Scanner) Write(p []byte) (int, error) {
	n := len(p)
	sc.stats.Bytes += int64(n)
	if sc.long || len(sc.carry) > 0 {
		i := bytes.IndexByte(p, '\n')
		if i < 0 {
			sc.keep(p)
			return n, nil
		}
		sc.keep(p[:i])
		sc.endLine()
		p = p[i+1:]
	}
	whole := bytes.LastIndexByte(p, '\n') + 1
	sc.lines(p[:whole])
	sc.keep(p[whole:])
	return n, nil
}

// Close matches a last line that has no "\n", and the last of the lines on which patterns were not tried any more. It
// never fails.
func (sc *Scanner) Close() error {
	if sc.long || len(sc.carry) > 0 {
		sc.endLine()
	}
	sc.finish()
	return nil
}

// keep takes a part of an unfinished line.
func (sc *Scanner) keep(p []byte) {
	if !sc.long && len(sc.carry)+len(p) > maxCarry {
		sc.long = true
		sc.startLong()
		sc.feed(sc.carry)
		sc.carry = sc.carry[:0]
	}
	if sc.long {
		sc.feed(p)
		return
	}
	sc.carry = append(sc.carry, p...)
}

// endLine finishes the line of which parts were kept.
func (sc *Scanner) endLine() {
	if sc.long {
		sc.endLong()
		sc.long = false
		return
	}
	sc.carry = append(sc.carry, '\n')
	sc.lines(sc.carry)
	sc.carry = sc.carry[:0]
}

func (sc *Scanner) startLong() {
	sc.offset = sc.done
	sc.every = sc.every[:0]
	for _, e := range sc.set.every {
		sc.every = append(sc.every, e.patterns...)
	}
}

func (sc *Scanner) feed(p []byte) {
	sc.units.feed(p, sc)
	sc.done += int64(len(p))
}

func (sc *Scanner) endLong() {
	sc.units.endLine(sc)
	sc.done++
	sc.line++
}

// lines takes whole lines, each with its "\n", as many at a time as are in a piece.
func (sc *Scanner) lines(p []byte) {
	for len(p) > 0 {
		n := wholeLines(p, maxPiece)
		switch {
		case n == 0, bytes.IndexByte(p[:n], backspace) >= 0: // the units know how far back it reaches
			n = sc.longLine(p)
		case bytes.IndexByte(p[:n], esc) >= 0:
			sc.clean = appendClean(sc.clean[:0], p[:n])
			sc.block(sc.clean, p[:n])
		default:
			sc.block(p[:n], nil)
		}
		p = p[n:]
	}
}

// wholeLines gives how many bytes of lines fit into a number of bytes.
func wholeLines(p []byte, most int) int {
	return bytes.LastIndexByte(p[:min(len(p), most)], '\n') + 1
}

// longLine cuts the first line into units, and gives its length with its "\n".
func (sc *Scanner) longLine(p []byte) int {
	n := bytes.IndexByte(p, '\n')
	sc.startLong()
	sc.feed(p[:n])
	sc.endLong()
	return n + 1
}

// block scans lines that hold no control sequences; raw are the same lines as they came, nil if they came so.
func (sc *Scanner) block(text, raw []byte) {
	sc.every = sc.every[:0]
	for _, e := range sc.set.every {
		if e.mark == 0 || bytes.IndexByte(text, e.mark) >= 0 {
			sc.every = append(sc.every, e.patterns...)
		}
	}
	s := &sc.outer
	s.begin(text)
	p := s.next()
	pos, rawStart, rawLine := 0, 0, sc.line // where the line at hand begins, and where a line of raw does
	for pos < len(text) && (p >= 0 || len(sc.every) > 0) {
		if len(sc.every) == 0 {
			start := pos + bytes.LastIndexByte(text[pos:s.place], '\n') + 1
			sc.line += int64(bytes.Count(text[pos:start], newline))
			pos = start
		}
		end := pos + bytes.IndexByte(text[pos:], '\n')
		sc.newGather()
		for ; p >= 0 && s.place < end; p = s.next() {
			sc.gather(p)
		}
		rawPos := pos
		if raw != nil {
			for ; rawLine < sc.line; rawLine++ {
				rawStart += bytes.IndexByte(raw[rawStart:], '\n') + 1
			}
			rawPos = rawStart
		}
		sc.offset = sc.done + int64(rawPos)
		sc.textLine(text[pos:end])
		sc.line++
		pos = end + 1
	}
	sc.line += int64(bytes.Count(text[pos:], newline))
	if raw == nil {
		raw = text
	}
	sc.done += int64(len(raw))
}

// textLine tries the gathered patterns on a line.
func (sc *Scanner) textLine(line []byte) {
	line = bytes.TrimRight(line, "\r")
	if len(line) > Window || bytes.IndexByte(line, '\r') >= 0 {
		sc.units.feed(line, sc)
		sc.units.endLine(sc)
		return
	}
	sc.try(line, 0)
}

// unit scans a text of a line that has several.
func (sc *Scanner) unit(text []byte, cut edges) {
	sc.newGather()
	sc.inner.begin(text)
	for p := sc.inner.next(); p >= 0; p = sc.inner.next() {
		sc.gather(p)
	}
	sc.try(text, cut)
}

func (sc *Scanner) newGather() {
	sc.gathered = sc.gathered[:0]
	if sc.gen++; sc.gen == 0 {
		clear(sc.mark)
		sc.gen = 1
	}
}

// gather notes a pattern of which a literal was found.
func (sc *Scanner) gather(p int32) {
	if sc.mark[p] != sc.gen {
		sc.mark[p] = sc.gen
		sc.gathered = append(sc.gathered, p)
	}
}

// try tries the gathered patterns, and those of every line, on a text.
func (sc *Scanner) try(text []byte, cut edges) {
	sc.gathered = append(sc.gathered, sc.every...)
	slices.Sort(sc.gathered)
	sc.lower = sc.lower[:0]
	sc.late.unit++
	for _, p := range sc.gathered {
		sc.confirm(p, text, cut)
	}
}
