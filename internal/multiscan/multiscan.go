package multiscan

import (
	"regexp"
	"sync"
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
	filters  []*filter // for long literals, for short ones, for marked ones: as far as there are any
	variants int32     // of all filters
	every    []int32   // patterns that have no literal: tried on every line
	asked    [8]byte   // for each piece of text, see askedFor
	limits   limits
	exprs    []string // it was made of
	bound    int      // of their size

	blocks  sync.Pool // *Block
	lookers sync.Pool // *Scanner that look ahead
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
func (s *Set) Names(pattern int) []string { return s.patterns[pattern].names }

// Bytes is about how much memory the set takes, with the expressions that were
// needed so far.
func (s *Set) Bytes() int {
	n := 0
	for _, f := range s.filters {
		n += f.size()
	}
	for i := range s.patterns {
		n += s.patterns[i].size()
	}
	return n
}

// NewScanner returns a scanner that calls found for each hit, in order of
// lines, then of the text's parts, then of patterns; those that only Close finds
// come in the same order after all others. The hits of one pattern are always in
// order. The Hit is valid during
// the call only. The hits of a line are found in the Write that ends it.
func (s *Set) NewScanner(found func(Hit)) *Scanner {
	sc := &Scanner{
		set:   s,
		tried: make([]trial, len(s.patterns)),
		mark:  make([]uint32, len(s.patterns)),
		seen:  make([]uint32, s.variants),
		outer: newCursor(s.filters),
		inner: newCursor(s.filters),
		hay:   haystack{lower: make([]byte, 0, Window)},
	}
	sc.Reset(found)
	return sc
}

// pattern is one expression.
type pattern struct {
	expr    string
	names   []string                      // nil: rejected
	re      atomic.Pointer[regexp.Regexp] // compiled when first wanted: most never are
	program int64                         // instructions
	asks    edges                         // the ends of the text it asks for
	ends    ends
	also    [][]needle // the sets that the filter did not see to
	// branches are the sets of each alternative, if that says more.
	branches [][][]needle
	cut      *cutVariants // nil if it asks for no end
}

// whole gives the expression for a text that is not cut.
func (p *pattern) whole() *regexp.Regexp {
	re := p.re.Load()
	if re == nil {
		re = regexp.MustCompile(p.expr) // what parsed and compiled before
		p.re.Store(re)
	}
	return re
}
