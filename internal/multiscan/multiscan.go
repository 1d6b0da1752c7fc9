package multiscan

import (
	"regexp"
	"regexp/syntax"
	"sync/atomic"
)

// MaxHits is how often one pattern is found in a stream while that goes by.
const MaxHits = 64

// LastHits is how often one pattern is found when the stream ends, among the
// last lines on which it was not tried any more.
const LastHits = 4

// Set is a compiled set of patterns, safe for use by many scanners at once.
type Set struct {
	patterns []pattern
	filter   *filter
	every    []int32 // patterns without a long literal: tried on every line
	limits   limits
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

// Names returns the names of the groups of a pattern, as regexp.SubexpNames
// does; nil for a rejected one.
func (s *Set) Names(pattern int) []string {
	p := &s.patterns[pattern]
	if p.program == 0 {
		return nil
	}
	return p.on(0).SubexpNames()
}

// NewScanner returns a scanner that calls found for each hit, in order of
// lines, then of the text's parts, then of patterns; those that only Close finds
// come in the same order after all others. The hits of one pattern are always in
// order. The Hit is valid during the call only. The hits of a line are found in
// the Write that ends it.
func (s *Set) NewScanner(found func(Hit)) *Scanner {
	sc := &Scanner{set: s, tried: make([]trial, len(s.patterns)), mark: make([]uint32, len(s.patterns))}
	sc.outer.f, sc.inner.f = s.filter, s.filter
	sc.Reset(found)
	return sc
}

// pattern is one expression.
type pattern struct {
	expr    string
	program int64        // instructions; 0: the pattern is rejected
	also    []literalSet // a text that matches has a literal of each of these sets
	mark    byte         // if not 0: a line without this byte cannot match
	// on holds the expression for each way in which a text can be cut, compiled
	// when first wanted: most never are.
	cuts [cutBefore | cutAfter + 1]atomic.Pointer[regexp.Regexp]
}

// on gives the expression for a text that is cut at these ends: there "^", or
// "$", cannot match.
func (p *pattern) on(cut edges) *regexp.Regexp {
	if re := p.cuts[cut].Load(); re != nil {
		return re
	}
	re := regexp.MustCompile(p.expr) // it parsed and compiled before
	if cut != 0 {
		if tree, err := syntax.Parse(p.expr, syntax.Perl); err == nil {
			without(tree, cut)
			if other, err := regexp.Compile(tree.String()); err == nil {
				re = other
			}
		}
	}
	p.cuts[cut].Store(re)
	return re
}

// without replaces the assertions about the ends that are cut by what matches
// nothing.
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
