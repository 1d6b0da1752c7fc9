package multiscan

import "bytes"

// limits bound the work of a stream. Work is counted in instructions of a
// program times bytes of text; one unit takes 1 to 25 ns. Both budgets grow
// with the stream, so that what is found does not depend on how it comes.
type limits struct {
	pattern, total budget
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
// no pattern alone takes more than a quarter.
var defaultLimits = limits{
	pattern: budget{base: 4 << 20, rate: 16, most: 25_000_000},
	total:   budget{base: 16 << 20, rate: 40, most: 100_000_000},
}

// trial is what a stream has seen of one pattern.
type trial struct {
	line  int64 // of the last hit
	spent int64 // work
	lines int64 // lines that were to be confirmed, in a dry run
	hits  int
}

// confirm runs a pattern on a text, if the text holds the pattern's other
// literals and the budgets allow it.
func (sc *Scanner) confirm(p int32, text []byte, cut edges) {
	t := &sc.tried[p]
	if t.line == sc.line || t.hits >= MaxHits {
		return
	}
	pat := &sc.set.patterns[p]
	if len(pat.also) > 0 {
		if !sc.spend(t, int64(4+len(text)/16), nil) || !sc.holds(pat, text) {
			return
		}
	}
	if !sc.spend(t, int64(1+len(text))*pat.program, &sc.total) {
		return
	}
	if sc.dry {
		t.line = sc.line
		t.lines++
		return
	}
	sc.stats.Confirms++
	loc := pat.on(cut).FindSubmatchIndex(text)
	if loc == nil {
		return
	}
	t.line = sc.line
	t.hits++
	sc.found(Hit{Pattern: int(p), Line: sc.line, Offset: sc.offset, Text: text, Loc: loc})
}

// spend takes the cost of a look from the pattern's budget, and from the
// total if that is given; if one does not allow it, the look is counted as skipped.
func (sc *Scanner) spend(t *trial, cost int64, total *int64) bool {
	if sc.dry {
		return true
	}
	l := &sc.set.limits
	if t.spent+cost > l.pattern.at(sc.offset) || total != nil && *total+cost > l.total.at(sc.offset) {
		sc.stats.Skipped++
		return false
	}
	t.spent += cost
	if total != nil {
		*total += cost
	}
	return true
}

// holds reports whether the text has a literal of each of the pattern's other
// sets.
func (sc *Scanner) holds(pat *pattern, text []byte) bool {
	if !sc.isLower {
		sc.isLower = true
		sc.lower = appendLower(sc.lower[:0], text)
	}
sets:
	for _, set := range pat.also {
		for _, l := range set {
			if bytes.Contains(sc.lower, l) {
				continue sets
			}
		}
		return false
	}
	return true
}

// appendLower lowers ASCII letters.
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
