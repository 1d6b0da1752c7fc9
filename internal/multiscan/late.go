package multiscan

import "slices"

// maxLate bounds what is kept for the end of the stream, in bytes.
const maxLate = 256 << 10

// late keeps the last texts on which patterns were not tried any more, because
// their budget was spent or because they had been found often enough. The end of
// a log says most about a failure, so at the end these are looked at.
type late struct {
	looks    []lateLook
	text     []byte
	patterns []int32
	unit     int64 // number of the text at hand
}

// lateLook is one text.
type lateLook struct {
	line, offset, unit int64
	text               int // where it begins, and ends with that of the next one
	patterns           int // likewise
	cut                edges
}

const sizeOfLook = 48

func (l *late) add(sc *Scanner, p int32, text []byte, cut edges) {
	if sc.dry {
		return
	}
	if n := len(l.looks); n == 0 || l.looks[n-1].unit != l.unit {
		if l.size()+len(text) > 2*maxLate {
			l.drop()
		}
		l.looks = append(l.looks, lateLook{sc.line, sc.offset, l.unit, len(l.text), len(l.patterns), cut})
		l.text = append(l.text, text...)
	}
	l.patterns = append(l.patterns, p)
}

func (l *late) size() int { return len(l.text) + 4*len(l.patterns) + sizeOfLook*len(l.looks) }

// drop forgets the oldest texts, so that at most maxLate bytes stay.
func (l *late) drop() {
	n, size := len(l.looks), 0
	for n > 0 {
		text, patterns := l.of(n - 1)
		if size += len(text) + 4*len(patterns) + sizeOfLook; size > maxLate {
			break
		}
		n--
	}
	text, patterns := len(l.text), len(l.patterns)
	if n < len(l.looks) {
		text, patterns = l.looks[n].text, l.looks[n].patterns
	}
	l.text = l.text[:copy(l.text, l.text[text:])]
	l.patterns = l.patterns[:copy(l.patterns, l.patterns[patterns:])]
	l.looks = l.looks[:copy(l.looks, l.looks[n:])]
	for i := range l.looks {
		l.looks[i].text -= text
		l.looks[i].patterns -= patterns
	}
}

// of gives a text and the patterns that were to be tried on it.
func (l *late) of(n int) (text []byte, patterns []int32) {
	look := &l.looks[n]
	if n+1 == len(l.looks) {
		return l.text[look.text:], l.patterns[look.patterns:]
	}
	next := &l.looks[n+1]
	return l.text[look.text:next.text], l.patterns[look.patterns:next.patterns]
}

func (l *late) reset() {
	l.looks, l.text, l.patterns, l.unit = l.looks[:0], l.text[:0], l.patterns[:0], 0
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
	for n := len(l.looks) - 1; n >= 0; n-- {
		look := &l.looks[n]
		text, patterns := l.of(n)
		sc.hay.put(text)
		for _, p := range patterns {
			t, pat := &sc.tried[p], &sc.set.patterns[p]
			h, before := last[p]
			again := before && l.looks[hits[h].look].line == look.line
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
		look := &l.looks[h.look]
		text, _ := l.of(h.look)
		sc.found(Hit{Pattern: int(h.pattern), Line: look.line, Offset: look.offset, Text: text, Loc: h.loc})
	}
	l.reset()
}
