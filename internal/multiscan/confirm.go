package multiscan

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
)

// limits bounds the work on a stream. The unit of work is one instruction of a program times one byte of text, which
// takes 1 to 25 ns. Both budgets grow with the stream, so the hits do not depend on how the stream is cut into writes.
type limits struct {
	pattern, total budget
	atEnd, eachEnd int64 // the work that Close may do: in total, and for each pattern
}

// budget is an amount of work: base, and rate more for each 16 bytes of the stream, but at most most.
type budget struct {
	base, rate, most int64
}

func (b budget) at(offset int64) int64 {
	return min(b.most, b.base+offset/16*b.rate)
}

// defaultLimits bounds the work on a stream of any length to 2 s in the worst case. A single pattern takes at most a
// quarter of that. A part of the work is reserved for the end of the stream, which says most about a failure.
var defaultLimits = limits{
	pattern: budget{base: 4 << 20, rate: 16, most: 22_000_000},
	total:   budget{base: 16 << 20, rate: 40, most: 84_000_000},
	atEnd:   16_000_000,
	eachEnd: 3_000_000,
}

// trial holds the counts of one pattern in a stream.
type trial struct {
	line  int64 // the line of the last hit
	spent int64 // the work done for the pattern
	hits  int
}

// confirm runs a pattern's expression on a text and reports a hit. It does so only if the text contains the pattern's
// other literals. If a budget is spent or the pattern has MaxHits hits, it keeps the text for the end of the stream.
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
	left := pat.also == "" || sc.spend(t, int64(len(text)+15)/16, nil)
	if left && pat.also != "" && !sc.holds(pat, text) {
		return
	}
	if !left || !sc.spend(t, int64(1+len(text))*pat.program, &sc.total) {
		sc.stats.Skipped++
		sc.late.add(sc, p, text, cut)
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

// spend adds a cost to the work of a pattern, and to total unless that is nil. It returns false and adds nothing if the
// cost would exceed a budget.
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

// holds reports whether a text contains a literal of each of the pattern's other sets. It lowers the text only once;
// the caller empties sc.lower before the next text.
func (sc *Scanner) holds(pat *pattern, text []byte) bool {
	if len(sc.lower) == 0 {
		sc.lower = appendLower(sc.lower, text)
		sc.pairs.fill(sc.lower)
	}
	return holds(pat.also, sc.lower, &sc.pairs)
}

// pairs is a set of pairs of bytes that follow each other in a text: a text without the first pair of a literal is seen
// not to contain it without a search. Pairs with the same hash are one.
type pairs [64]uint64

func pairOf(a, b byte) (word, bit uint64) {
	h := uint64(a)*31 + uint64(b)
	return h >> 6 & 63, 1 << (h & 63)
}

func (p *pairs) fill(text []byte) {
	*p = pairs{}
	for i := 1; i < len(text); i++ {
		word, bit := pairOf(text[i-1], text[i])
		p[word] |= bit
	}
}

// may reports whether a text may contain a literal. nil may contain everything.
func (p *pairs) may(literal string) bool {
	if p == nil || len(literal) < 2 {
		return true
	}
	word, bit := pairOf(literal[0], literal[1])
	last, end := pairOf(literal[len(literal)-2], literal[len(literal)-1])
	return p[word]&bit != 0 && p[last]&end != 0
}

func holds(sets string, lower []byte, has *pairs) bool {
next:
	for set := range strings.SplitSeq(sets, betweenSets) {
		for l := range strings.SplitSeq(set, betweenLiterals) {
			if has.may(l) && bytes.Contains(lower, []byte(l)) {
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

// maxLate bounds each of the two halves of late, in bytes.
const maxLate = 256 << 10

// late keeps the last texts on which patterns were not tried, because their budget was spent or because they had
// MaxHits hits. The end of a log says most about a failure, so the scanner tries the patterns on these texts after the
// end.
type late struct {
	old, young looks // when young is full, it replaces old
	unit       int64 // the number of the current text
}

// looks holds texts with the patterns to try on them. Its slices are reused.
type looks struct {
	list     []look
	text     []byte
	patterns []int32
}

// look is one text and its patterns. Its slices are parts of those of looks.
type look struct {
	line, offset, unit int64
	text               []byte
	patterns           []int32
	cut                edges
}

const sizeOfLook = 80

func (l *looks) size() int { return len(l.text) + 4*len(l.patterns) + sizeOfLook*len(l.list) }

func (l *looks) reset() { l.list, l.text, l.patterns = l.list[:0], l.text[:0], l.patterns[:0] }

func (l *late) reset() {
	l.old.reset()
	l.young.reset()
	l.unit = 0
}

func (l *late) add(sc *Scanner, p int32, text []byte, cut edges) {
	y := &l.young
	if n := len(y.list); n == 0 || y.list[n-1].unit != l.unit {
		if y.size()+len(text) > maxLate {
			l.old, l.young = l.young, l.old
			y.reset()
		}
		y.text = append(y.text, text...)
		y.list = append(y.list, look{sc.line, sc.offset, l.unit, y.text[len(y.text)-len(text):], nil, cut})
	}
	y.patterns = append(y.patterns, p)
	last := &y.list[len(y.list)-1]
	last.patterns = y.patterns[len(y.patterns)-len(last.patterns)-1:]
}

// of returns the text number n, counted from the oldest.
func (l *late) of(n int) *look {
	if n < len(l.old.list) {
		return &l.old.list[n]
	}
	return &l.young.list[n-len(l.old.list)]
}

// lateHit is a hit that finish has found and not yet reported.
type lateHit struct {
	look    int
	pattern int32
	loc     []int
}

// finish tries the patterns on the texts in late, the last text first, and then reports the hits in order.
func (sc *Scanner) finish() {
	l := &sc.late
	var hits []lateHit
	last := map[int32]int{} // by pattern: the index of the hit found last, which is the earliest in the stream
	count := map[int32]int{}
	spent := map[int32]int64{}
	left := sc.set.limits.atEnd
	for n := len(l.old.list) + len(l.young.list) - 1; n >= 0; n-- {
		look := l.of(n)
		sc.lower = sc.lower[:0]
		for _, p := range look.patterns {
			t, pat := &sc.tried[p], &sc.set.patterns[p]
			h, before := last[p]
			again := before && l.of(hits[h].look).line == look.line
			cost := int64(1+len(look.text)) * pat.program
			if t.line >= look.line || count[p] >= LastHits && !again || left < cost || spent[p]+cost > sc.set.limits.eachEnd {
				continue
			}
			if t.hits < MaxHits {
				sc.stats.Skipped--
			}
			if !sc.holds(pat, look.text) {
				continue
			}
			left -= cost
			spent[p] += cost
			sc.stats.Confirms++
			loc := sc.set.on(p, look.cut).FindSubmatchIndex(look.text)
			switch {
			case loc == nil:
			case again: // if several texts of a line match, the first one counts
				hits[h].look, hits[h].loc = n, loc
			default:
				last[p] = len(hits)
				count[p]++
				hits = append(hits, lateHit{n, p, loc})
			}
		}
	}
	slices.SortFunc(hits, func(a, b lateHit) int { return cmp.Or(a.look-b.look, int(a.pattern-b.pattern)) })
	for _, h := range hits {
		look := l.of(h.look)
		sc.found(Hit{Pattern: int(h.pattern), Line: look.line, Offset: look.offset, Text: look.text, Loc: h.loc})
	}
	l.old.reset()
	l.young.reset()
}
