// Package multiscan finds which of many regular expressions match the lines of a stream, in constant memory. A filter
// searches the text for literals, nearly as fast as memory can be read. The scanner runs an expression only on a line
// that contains all literals without which the expression cannot match.
//
// # Matching
//
// The scanner cuts the stream into lines at "\n". It removes terminal control sequences from a line (CSI, OSC and the
// other control strings, ESC with its final byte). A backspace removes the character before it. A "\r" begins a new
// text of the line: so "\r\n" ends a line, and each state of a progress bar is a text of its own. A text longer than
// [Window] is matched in windows that overlap by half; "^" and "$" match only at the true ends of the text. NUL bytes
// and invalid UTF-8 are ordinary text.
//
// A pattern has at most one hit in a line, and at most [MaxHits] before the end of the stream. The scanner keeps the
// last of the lines on which it did not try a pattern, 256 KiB of them or more. When the stream ends, it tries the
// patterns on these lines, the last line first, and reports up to [LastHits] more hits of each pattern, because the end
// of a log says most about a failure.
//
// # Cost
//
// The size of an expression is bounded. The work of running expressions is counted in bytes of text times instructions
// of the program. Each pattern has a budget of work, and so has the whole stream; both grow with the stream.
// [Stats].Skipped counts the runs that a spent budget has prevented for good. The hits depend on the stream only, not
// on how it is cut into writes.
//
// # Letters
//
// The filter ignores the case of ASCII letters. It does not take the two other characters that fold to ASCII, U+017F
// (long s) and U+212A (Kelvin), for "s" and "k".
package multiscan

import (
	"bytes"
	"regexp"
	"regexp/syntax"
	"slices"
	"sync"
)

// MaxHits bounds the hits of one pattern before the end of a stream.
const MaxHits = 64

// LastHits bounds the hits of one pattern that Close adds, from the last lines on which the pattern was not tried.
const LastHits = 4

// Set is a compiled set of patterns, safe for use by many scanners at once.
type Set struct {
	patterns []pattern
	filter   *filter
	every    []marked // the patterns without a literal that is long enough for the filter
	limits   limits
	compiled sync.Map // by cutPattern: the expressions that on has compiled
}

// marked holds the patterns to try on every line that contains a byte.
type marked struct {
	mark     byte // the byte; 0: the patterns are tried on every line
	patterns []int32
}

// Hit is one line that a pattern matches.
type Hit struct {
	Pattern int
	Line    int64  // from 1
	Offset  int64  // the offset of the line in the raw stream, in bytes
	Text    []byte // the cleaned text of the line, or the window that matches
	Loc     []int  // pairs of indices into Text, as regexp.FindSubmatchIndex returns them
}

// Stats holds the counts of one stream.
type Stats struct {
	Bytes, Lines int64
	Confirms     int64 // runs of an expression; the number depends on how the stream is cut into writes
	Skipped      int64 // runs that a spent budget has prevented, at the end of the stream too: a hit may be missing
}

// Names returns the names of the groups of a pattern, as regexp.SubexpNames does; nil for a rejected one.
func (s *Set) Names(pattern int) []string {
	if s.patterns[pattern].program == 0 {
		return nil
	}
	return s.on(int32(pattern), 0).SubexpNames()
}

// NewScanner returns a scanner that calls found for each hit. It orders the hits by line, then by text of the line,
// then by pattern. The hits that only Close finds come in the same order after all others. The hits of one pattern are
// always in the order of the lines. A Hit is valid only during the call. The Write that ends a line reports its hits.
func (s *Set) NewScanner(found func(Hit)) *Scanner {
	sc := &Scanner{set: s, tried: make([]trial, len(s.patterns)), mark: make([]uint32, len(s.patterns))}
	sc.outer.f, sc.inner.f = s.filter, s.filter
	sc.Reset(found)
	return sc
}

// pattern is one expression.
type pattern struct {
	expr    string
	program int64  // number of instructions; 0: the pattern is rejected
	also    string // literal sets, see textOf: a matching text contains a literal of each set
	mark    byte   // if not 0: a line without this byte cannot match
}

// cutPattern names a pattern for a text that is cut at these ends.
type cutPattern struct {
	pattern int32
	cut     edges
}

// on returns the expression of a pattern for a text that is cut at these ends, where "^" or "$" must not match. It
// compiles an expression at the first call, because most are never needed.
func (s *Set) on(p int32, cut edges) *regexp.Regexp {
	if re, ok := s.compiled.Load(cutPattern{p, cut}); ok {
		return re.(*regexp.Regexp)
	}
	re := regexp.MustCompile(s.patterns[p].expr) // Compile has compiled it before
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

// without replaces the assertions "^" or "$" at the cut ends by an expression that matches nothing.
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
	// maxPiece bounds the text of one pass, in bytes, so that it stays in the processor's cache.
	maxPiece = 32 << 10
	// maxCarry bounds the raw bytes kept of an unfinished line. A longer line is cut into units while it comes.
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

	done   int64 // bytes of the finished lines
	line   int64 // number of the current line
	offset int64 // offset of the current line in the raw stream

	outer, inner search  // over many lines, and over one unit of a line
	every        []int32 // patterns to try on every line of the current piece
	gathered     []int32 // patterns to try on the current line
	mark         []uint32
	gen          uint32 // the value of mark for a pattern that is in gathered

	tried []trial
	total int64 // work done by confirm
	lower []byte
	pairs pairs // of lower
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

// Stats returns the counts so far. A line counts when it ends.
func (sc *Scanner) Stats() Stats {
	s := sc.stats
	s.Lines = sc.line - 1
	return s
}

// Write takes the next bytes of the stream, which may be cut anywhere. It reports the hits of the lines that end in p.
// Write never returns an error.
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

// Close scans a last line without "\n", and tries the patterns again on the lines kept for the end. It never returns an
// error.
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

// endLine scans the line whose parts keep has kept.
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

// lines scans whole lines, each with its "\n", in pieces of at most maxPiece bytes.
func (sc *Scanner) lines(p []byte) {
	for len(p) > 0 {
		n := wholeLines(p, maxPiece)
		switch {
		case n == 0, bytes.IndexByte(p[:n], backspace) >= 0: // only units can remove the character before it
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

// wholeLines returns the length of the whole lines in the first most bytes of p.
func wholeLines(p []byte, most int) int {
	return bytes.LastIndexByte(p[:min(len(p), most)], '\n') + 1
}

// longLine scans the first line of p in units, and returns its length with its "\n".
func (sc *Scanner) longLine(p []byte) int {
	n := bytes.IndexByte(p, '\n')
	sc.startLong()
	sc.feed(p[:n])
	sc.endLong()
	return n + 1
}

// block scans lines without control sequences. raw holds the same lines before cleaning; nil if there was nothing to
// clean.
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
	pos, rawStart, rawLine := 0, 0, sc.line // the beginning of the current line in text, and of line rawLine in raw
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

// unit scans one text, or one window of it, of a line that has several.
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

// gather adds a pattern to those that are tried on the current line, because the filter has found one of its literals.
func (sc *Scanner) gather(p int32) {
	if sc.mark[p] != sc.gen {
		sc.mark[p] = sc.gen
		sc.gathered = append(sc.gathered, p)
	}
}

// try tries the gathered patterns and the patterns for every line on a text.
func (sc *Scanner) try(text []byte, cut edges) {
	sc.gathered = append(sc.gathered, sc.every...)
	slices.Sort(sc.gathered)
	sc.lower = sc.lower[:0]
	sc.late.unit++
	for _, p := range sc.gathered {
		sc.confirm(p, text, cut)
	}
}
