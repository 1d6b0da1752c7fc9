package multiscan

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
)

// limits bound the work of a stream. Work is counted in instructions of a program times bytes of text; one unit takes 1
// to 25 ns. Both budgets grow with the stream, so that what is found does not depend on how it comes.
type limits struct {
	pattern, total budget
	atEnd, eachEnd int64 // for what Close looks at: in all, and each pattern
}

// budget is base units and of each 16 bytes of the stream rate more, but never above most.
type budget struct {
	base, rate, most int64
}

func (b budget) at(offset int64) int64 {
	return min(b.most, b.base+offset/16*b.rate)
}

// defaultLimits: a stream of any length costs 2 s at the very worst; of that no pattern alone takes more than a
// quarter. The end of the stream, which says most about a failure, has a part of that for itself.
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

// confirm runs a pattern on a text, if the text holds the pattern's other literals and the budgets allow it. Else the
// text is kept for the end.
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

// spend takes the cost of a look from the pattern's budget, and from the total if that is given, if both allow it.
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

// holds reports whether a text has a literal of each of the pattern's other sets. The text is lowered once: lower is
// emptied when there is another.
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

// maxLate bounds what is kept for the end of the stream, in bytes; up to twice as much is.
const maxLate = 256 << 10

// late keeps the last texts on which patterns were not tried any more, because their budget was spent or because they
// had been found often enough. The end of a log says most about a failure, so at the end these are looked at.
type late struct {
	old, young looks // when young is full, it becomes old
	unit       int64 // number of the text at hand
}

// looks are texts with the patterns that are to be tried on them, in slices that are used again.
type looks struct {
	list     []look
	text     []byte
	patterns []int32
}

// look is one text, with parts of the slices of looks.
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

// of gives one of all texts, the oldest first.
func (l *late) of(n int) *look {
	if n < len(l.old.list) {
		return &l.old.list[n]
	}
	return &l.young.list[n-len(l.old.list)]
}

// lateHit is a hit that is told when all of them are known.
type lateHit struct {
	look    int
	pattern int32
	loc     []int
}

// finish looks at what was kept, the last text first, and tells the hits in order.
func (sc *Scanner) finish() {
	l := &sc.late
	var hits []lateHit
	last := map[int32]int{} // of each pattern: the hit found last, which stands first
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
			case again: // of the texts of a line, the first counts
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
