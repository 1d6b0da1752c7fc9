package multiscan

import "slices"

// maxLate bounds what is kept for the end of the stream, in bytes; up to twice
// as much is.
const maxLate = 256 << 10

// late keeps the last texts on which patterns were not tried any more, because
// their budget was spent or because they had been found often enough. The end of
// a log says most about a failure, so at the end these are looked at.
type late struct {
	old, young looks // when young is full, it becomes old
	unit       int64 // number of the text at hand
}

// looks are texts with the patterns that are to be tried on them, in slices that
// are used again.
type looks struct {
	list     []look
	text     []byte
	patterns []int32
}

// look is one text.
type look struct {
	line, offset, unit int64
	text, patterns     int // where they begin, and end with those of the next one
	cut                edges
}

const sizeOfLook = 48

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
		y.list = append(y.list, look{sc.line, sc.offset, l.unit, len(y.text), len(y.patterns), cut})
		y.text = append(y.text, text...)
	}
	y.patterns = append(y.patterns, p)
}

// of gives one of all texts, the oldest first, and the patterns to be tried on it.
func (l *late) of(n int) (at *look, text []byte, patterns []int32) {
	from := &l.old
	if n >= len(l.old.list) {
		n, from = n-len(l.old.list), &l.young
	}
	at = &from.list[n]
	text, patterns = from.text[at.text:], from.patterns[at.patterns:]
	if n+1 < len(from.list) {
		next := &from.list[n+1]
		text, patterns = from.text[at.text:next.text], from.patterns[at.patterns:next.patterns]
	}
	return at, text, patterns
}

// lateHit is a hit that is told when all of them are known.
type lateHit struct {
	look    int
	pattern int32
	loc     []int
}

// finish looks at what was kept, the last text first, and tells the hits in
// order.
func (sc *Scanner) finish() {
	l := &sc.late
	var hits []lateHit
	last := map[int32]int{} // of each pattern: the hit found last, which stands first
	count := map[int32]int{}
	spent := map[int32]int64{}
	left := sc.set.limits.atEnd
	for n := len(l.old.list) + len(l.young.list) - 1; n >= 0; n-- {
		look, text, patterns := l.of(n)
		sc.lower = sc.lower[:0]
		for _, p := range patterns {
			t, pat := &sc.tried[p], &sc.set.patterns[p]
			h, before := last[p]
			again := false
			if before {
				earlier, _, _ := l.of(hits[h].look)
				again = earlier.line == look.line
			}
			cost := int64(1+len(text)) * pat.program
			if t.line >= look.line || count[p] >= LastHits && !again || left < cost || spent[p]+cost > sc.set.limits.eachEnd {
				continue
			}
			if t.hits < MaxHits {
				sc.stats.Skipped--
			}
			if !sc.holds(pat, text) {
				continue
			}
			left -= cost
			spent[p] += cost
			sc.stats.Confirms++
			loc := sc.set.on(p, look.cut).FindSubmatchIndex(text)
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
	slices.SortFunc(hits, func(a, b lateHit) int {
		if a.look != b.look {
			return a.look - b.look
		}
		return int(a.pattern - b.pattern)
	})
	for _, h := range hits {
		look, text, _ := l.of(h.look)
		sc.found(Hit{Pattern: int(h.pattern), Line: look.line, Offset: look.offset, Text: text, Loc: h.loc})
	}
	l.old.reset()
	l.young.reset()
}
