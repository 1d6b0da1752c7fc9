package multiscan

import "regexp"

// MaxHits is how often one pattern is found in one stream.
const MaxHits = 64

// Set is a compiled set of patterns, safe for use by many scanners at once.
type Set struct {
	patterns []pattern
	filter   *filter
	every    []int32 // patterns that have no literal: tried on every line
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
	Confirms     int64 // runs of an expression
	Skipped      int64 // looks not taken because a budget was spent: something may be missed
}

// Names returns the names of the groups of a pattern, as regexp.SubexpNames
// does; nil for a rejected one.
func (s *Set) Names(pattern int) []string {
	if s.patterns[pattern].re == nil {
		return nil
	}
	return s.patterns[pattern].re.SubexpNames()
}

// Bytes is about how much memory the set takes.
func (s *Set) Bytes() int {
	n := s.filter.size()
	for i := range s.patterns {
		n += s.patterns[i].size()
	}
	return n
}

// NewScanner returns a scanner that calls found for each hit, in order of
// lines, then of the text's parts, then of patterns. The Hit is valid during
// the call only. The hits of a line are found in the Write that ends it.
func (s *Set) NewScanner(found func(Hit)) *Scanner {
	sc := &Scanner{
		set:   s,
		tried: make([]trial, len(s.patterns)),
		mark:  make([]uint32, len(s.patterns)),
		outer: cursor{f: s.filter},
		inner: cursor{f: s.filter},
		lower: make([]byte, Window),
	}
	sc.Reset(found)
	return sc
}

// pattern is one compiled expression.
type pattern struct {
	re      *regexp.Regexp // nil: rejected
	expr    string
	program int64        // instructions
	asks    edges        // the ends of the text it asks for
	also    [][][]byte   // the sets that the filter did not see to
	cut     *cutVariants // nil if it asks for no end
}
