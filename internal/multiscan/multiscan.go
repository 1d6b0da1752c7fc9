// Package multiscan finds which of many regular expressions match the lines of a log that streams by, in constant
// memory: a literal filter runs over the text at a speed near that of memory, and an expression is run only on a line
// that holds all the literals it cannot match without.
//
// # What is matched
//
// The stream is cut into lines at "\n". From a line terminal control sequences are removed (CSI, OSC and the other
// control strings, ESC with its final byte; a backspace takes the character before it away), and a "\r" begins the text
// of the line anew, as a progress bar does, so that "\r\n" ends a line and each state of a progress bar is matched by
// itself. A text longer than [Window] is matched in windows that overlap by half; "^" and "$" match only at the true
// ends of the text. A pattern is found at most once per line, and at most [MaxHits] times while the stream goes by. The
// lines after that, and those for which a budget was spent, are not forgotten: the last of them, as many as fit into
// 256 KiB or more, are looked at when the stream ends, the last line first, and [LastHits] more are told of each
// pattern, since the end of a log says most about a failure. NUL bytes and invalid UTF-8 are ordinary text.
//
// # What it may cost
//
// Expressions are bounded in size, and the work of running them is counted (in bytes of text times instructions of the
// program) against a budget of each pattern and one of the whole stream, both of which grow with the stream. What was
// not run because a budget was spent, not at the end either, is counted in [Stats].Skipped. The outcome depends on the
// stream only, not on how it was cut into writes.
//
// # Letters
//
// Literals are compared without regard to the case of ASCII letters. The two other characters that fold to ASCII,
// U+017F (long s) and U+212A (Kelvin), are not taken for "s" and "k" by the filter.
package multiscan

import (
	"bytes"
	"regexp"
	"regexp/syntax"
	"slices"
	"sync"
)

// MaxHits is how often one pattern is found in a stream while that goes by.
const MaxHits = 64

// LastHits is how often one pattern is found when the stream ends, among the last lines on which it was not tried any
// more.
const LastHits = 4

// Set is a compiled set of patterns, safe for use by many scanners at once.
type Set struct {
	patterns []pattern
	filter   *filter
	every    []marked // patterns without a long literal
	limits   limits
	compiled sync.Map // of cutPattern: the expressions that were wanted
}

// marked are patterns that are tried on every line that has a byte.
type marked struct {
	mark     byte // 0: on every line
	patterns []int32
}

// Hit is one line that a pattern matches.
type Hit struct {
	Pattern int
	Line    int64  // from 1
	Offset  int64  // of the line in the stream as it came
	Text    []byte // the line after cleaning, or its window
	Loc     []int  // pairs of indices into Text, as regexp.FindSubmatchIndex gives them
}

// Stats are the counts of one stream.
type Stats struct {
	Bytes, Lines int64
	Confirms     int64 // runs of an expression; how many are needed depends on how the stream is cut into writes
	Skipped      int64 // looks not taken, not at the end either, because a budget was spent: something may be missed
}

// Names returns the names of the groups of a pattern, as regexp.SubexpNames does; nil for a rejected one.
func (s *Set) Names(pattern int) []string {
	if s.patterns[pattern].program == 0 {
		return nil
	}
	return s.on(int32(pattern), 0).SubexpNames()
}

// NewScanner returns a scanner that calls found for each hit, in order of lines, then of the text's parts, then of
// patterns; those that only Close finds come in the same order after all others. The hits of one pattern are always in
// order. The Hit is valid during the call only. The hits of a line are found in the Write that ends it.
func (s *Set) NewScanner(found func(Hit)) *Scanner {
	sc := &Scanner{set: s, tried: make([]trial, len(s.patterns)), mark: make([]uint32, len(s.patterns))}
	sc.outer.f, sc.inner.f = s.filter, s.filter
	sc.Reset(found)
	return sc
}

// pattern is one expression.
type pattern struct {
	expr    string
	program int64  // instructions; 0: the pattern is rejected
	also    string // sets of literals: a text that matches has one of each
	mark    byte   // if not 0: a line without this byte cannot match
}

// cutPattern is a pattern for a text that is cut at these ends.
type cutPattern struct {
	pattern int32
	cut     edges
}

// on gives a pattern for a text that is cut at these ends: there "^", or "$", cannot match. It is compiled when it is
// first wanted: most never are.
func (s *Set) on(p int32, cut edges) *regexp.Regexp {
	if re, ok := s.compiled.Load(cutPattern{p, cut}); ok {
		return re.(*regexp.Regexp)
	}
	re := regexp.MustCompile(s.patterns[p].expr) // it parsed and compiled before
	if cut != 0 {
		if tree, err := syntax.Parse(s.patterns[p].expr, syntax.Perl); err == nil {
			without(tree, cut)
			if other, err := regexp.Compile(tree.String()); err == nil {
				re = other
			}
		}
	}
	s.compiled.Store(cutPattern{p, cut}, re)
	return re
}

// without replaces the assertions about the ends that are cut by what matches nothing.
func without(re *syntax.Regexp, cut edges) {
	switch re.Op {
	case syntax.OpBeginLine, syntax.OpBeginText:
		cut &= cutBefore
	case syntax.OpEndLine, syntax.OpEndText:
		cut &= cutAfter
	default:
		for _, sub := range re.Sub {
			without(sub, cut)
		}
		return
	}
	if cut != 0 {
		re.Op, re.Sub, re.Rune = syntax.OpNoMatch, nil, nil
	}
}

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
