package multiscan

import (
	"bytes"
	"strings"
)

// limits bound the work of a stream. Work is counted in instructions of a
// program times bytes of text; one unit takes 1 to 25 ns. Both budgets grow
// with the stream, so that what is found does not depend on how it comes.
type limits struct {
	pattern, total budget
	atEnd, eachEnd int64 // for what Close looks at: in all, and each pattern
}

// budget is base units and of each 16 bytes of the stream rate more, but never
// above most.
type budget struct {
	base, rate, most int64
}

func (b budget) at(offset int64) int64 {
	return min(b.most, b.base+offset/16*b.rate)
}

// defaultLimits: a stream of any length costs 2 s at the very worst; of that
// no pattern alone takes more than a quarter. The end of the stream, which says
// most about a failure, has a part of that for itself.
var defaultLimits = limits{
	pattern: budget{base: 4 << 20, rate: 16, most: 22_000_000},
	total:   budget{base: 16 << 20, rate: 40, most: 84_000_000},
	atEnd:   16_000_000,
	eachEnd: 3_000_000,
}

// trial is what a stream has seen of one pattern.
type trial struct {
	line  int64 // of the last hit
	spent int64 // work
	hits  int
}

// confirm runs a pattern on a text, if the text holds the pattern's other
// literals and the budgets allow it. Else the text is kept for the end.
func (sc *Scanner) confirm(p int32, text []byte, cut edges) {
	t := &sc.tried[p]
	pat := &sc.set.patterns[p]
	if t.line == sc.line || pat.mark != 0 && bytes.IndexByte(text, pat.mark) < 0 {
		return
	}
	if t.hits >= MaxHits {
		sc.late.add(sc, p, text, cut)
		return
	}
	if pat.also != "" {
		if !sc.spend(t, int64(len(text)+15)/16, nil) {
			sc.skip(p, text, cut)
			return
		}
		if !sc.holds(pat, text) {
			return
		}
	}
	if !sc.spend(t, int64(1+len(text))*pat.program, &sc.total) {
		sc.skip(p, text, cut)
		return
	}
	sc.stats.Confirms++
	loc := sc.set.on(p, cut).FindSubmatchIndex(text)
	if loc == nil {
		return
	}
	t.line = sc.line
	t.hits++
	sc.found(Hit{Pattern: int(p), Line: sc.line, Offset: sc.offset, Text: text, Loc: loc})
}

// spend takes the cost of a look from the pattern's budget, and from the
// total if that is given, if both allow it.
func (sc *Scanner) spend(t *trial, cost int64, total *int64) bool {
	l := &sc.set.limits
	if t.spent+cost > l.pattern.at(sc.offset) || total != nil && *total+cost > l.total.at(sc.offset) {
		return false
	}
	t.spent += cost
	if total != nil {
		*total += cost
	}
	return true
}

func (sc *Scanner) skip(p int32, text []byte, cut edges) {
	sc.stats.Skipped++
	sc.late.add(sc, p, text, cut)
}

// holds reports whether a text has a literal of each of the pattern's other sets.
// The text is lowered once: lower is emptied when there is another.
func (sc *Scanner) holds(pat *pattern, text []byte) bool {
	if len(sc.lower) == 0 {
		sc.lower = appendLower(sc.lower, text)
	}
	return holds(pat.also, sc.lower)
}

func holds(sets string, lower []byte) bool {
next:
	for set := range strings.SplitSeq(sets, betweenSets) {
		for l := range strings.SplitSeq(set, betweenLiterals) {
			if bytes.Contains(lower, []byte(l)) {
				continue next
			}
		}
		return false
	}
	return true
}

// appendLower appends text with its ASCII letters lowered.
func appendLower(to, text []byte) []byte {
	n := len(to)
	to = append(to, text...)
	for i, c := range to[n:] {
		if c-'A' < 26 {
			to[n+i] = c + 'a' - 'A'
		}
	}
	return to
}
