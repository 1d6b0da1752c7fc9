package multiscan

import "slices"

// maxLate bounds what is kept for the end of the stream, in bytes.
const maxLate = 256 << 10

// late keeps the last texts on which patterns were not tried any more, because
// their budget was spent or because they had been found often enough. The end of
// a log says most about a failure, so at the end these are looked at.
type late struct {
	looks
	unit int64 // number of the text at hand
}

func (l *late) add(sc *Scanner, p int32, text []byte, cut edges) {
	if sc.dry {
		return
	}
	if n := len(l.list); n == 0 || l.list[n-1].unit != l.unit {
		if l.size()+len(text) > 2*maxLate {
			l.drop()
		}
		l.open(look{line: sc.line, offset: sc.offset, unit: l.unit, cut: cut}, text)
	}
	l.patterns = append(l.patterns, p)
}

// drop forgets the oldest texts, so that at most maxLate bytes stay.
func (l *late) drop() {
	n, size := len(l.list), 0
	for n > 0 {
		text, patterns := l.of(n - 1)
		if size += len(text) + 4*len(patterns) + sizeOfLook; size > maxLate {
			break
		}
		n--
	}
	text, patterns := len(l.text), len(l.patterns)
	if n < len(l.list) {
		text, patterns = l.list[n].text, l.list[n].patterns
	}
	l.text = l.text[:copy(l.text, l.text[text:])]
	l.patterns = l.patterns[:copy(l.patterns, l.patterns[patterns:])]
	l.list = l.list[:copy(l.list, l.list[n:])]
	for i := range l.list {
		l.list[i].text -= text
		l.list[i].patterns -= patterns
	}
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
	for n := len(l.list) - 1; n >= 0; n-- {
		look := &l.list[n]
		text, patterns := l.of(n)
		sc.hay.put(text)
		for _, p := range patterns {
			t, pat := &sc.tried[p], &sc.set.patterns[p]
			h, before := last[p]
			again := before && l.list[hits[h].look].line == look.line
			cost := int64(1+len(text)) * pat.program
			if t.line >= look.line || count[p] >= LastHits && !again || left < cost || spent[p]+cost > sc.set.limits.eachEnd {
				continue
			}
			if t.hits < MaxHits {
				sc.stats.Skipped--
			}
			if !sc.hay.holds(pat) {
				continue
			}
			left -= cost
			spent[p] += cost
			sc.stats.Confirms++
			loc := pat.on(look.cut).FindSubmatchIndex(text)
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
		look := &l.list[h.look]
		text, _ := l.of(h.look)
		sc.found(Hit{Pattern: int(h.pattern), Line: look.line, Offset: look.offset, Text: text, Loc: h.loc})
	}
	l.forget()
}
