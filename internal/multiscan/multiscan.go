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
	"regexp"
	"regexp/syntax"
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
