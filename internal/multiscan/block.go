package multiscan

import (
	"bytes"
	"slices"
)

// block scans lines, each with its "\n", that hold no control sequences. raw
// is what the text was made of, if it is not as it came.
func (sc *Scanner) block(text []byte, raw rawText) {
	sc.raw = raw
	c := &sc.outer
	c.start(text, sc.has)
	next := 0 // start of the next line
	for {
		place := c.place
		if sc.everyLine {
			place = next
		}
		if place == len(text) {
			break
		}
		start := next + bytes.LastIndexByte(text[next:place], '\n') + 1
		end := place + bytes.IndexByte(text[place:], '\n')
		sc.line += int64(bytes.Count(text[next:start], newline))
		sc.newGather()
		// A place may be that of the line end itself: it differs from a "*" in
		// the bit that the filter does not see.
		for c.place <= end {
			c.next(text, sc)
		}
		if len(sc.gathered) > 0 || sc.everyLine {
			sc.offset = sc.offsetOf(start)
			sc.textLine(text[start:end])
		}
		sc.line++
		next = end + 1
	}
	sc.line += int64(bytes.Count(text[next:], newline))
	sc.raw = rawText{} // it points into what Write was given
}

var newline = []byte{'\n'}

// offsetOf gives the place in the stream of the line at hand, which begins at
// start in the block.
func (sc *Scanner) offsetOf(start int) int64 {
	r := &sc.raw
	if r.b == nil {
		return sc.done + int64(start)
	}
	r.pos += afterLines(r.b[r.pos:], int(sc.line-r.line))
	r.line = sc.line
	return sc.done + int64(r.pos)
}

// countedAtOnce is how many bytes are looked at to see how many lines they hold: to count
// line ends costs far less for each than to find them.
const countedAtOnce = 1024

// afterLines gives where the first n lines of b end, which has as many.
func afterLines(b []byte, n int) int {
	pos := 0
	for pos+countedAtOnce < len(b) {
		lines := bytes.Count(b[pos:pos+countedAtOnce], newline)
		if lines >= n {
			break
		}
		n, pos = n-lines, pos+countedAtOnce
	}
	for ; n > 0; n-- {
		pos += bytes.IndexByte(b[pos:], '\n') + 1
	}
	return pos
}

// textLine confirms the gathered patterns on a line.
func (sc *Scanner) textLine(line []byte) {
	for len(line) > 0 && line[len(line)-1] == '\r' {
		line = line[:len(line)-1]
	}
	if len(line) > Window || bytes.IndexByte(line, '\r') >= 0 {
		sc.units.feed(line, sc)
		sc.units.endLine(sc)
		return
	}
	sc.confirmGathered(line, 0)
}

// unit scans a text of a line that has several.
func (sc *Scanner) unit(text []byte, cut edges) {
	sc.newGather()
	c := &sc.inner
	for c.start(text, occur(text, &sc.set.asked)); c.place < len(text); {
		c.next(text, sc)
	}
	sc.confirmGathered(text, cut)
}

func (sc *Scanner) newGather() {
	sc.gathered = sc.gathered[:0]
	if sc.gen++; sc.gen == 0 {
		clear(sc.mark)
		clear(sc.seen)
		sc.gen = 1
	}
}

// gather notes the patterns of the literals found.
func (sc *Scanner) gather(found []*variant) {
	for _, v := range found {
		if sc.seen[v.id] == sc.gen {
			continue
		}
		sc.seen[v.id] = sc.gen
		for _, p := range v.patterns {
			if sc.mark[p] != sc.gen {
				sc.mark[p] = sc.gen
				sc.gathered = append(sc.gathered, p)
			}
		}
	}
}

func (sc *Scanner) confirmGathered(text []byte, cut edges) {
	if sc.everyLine {
		sc.gathered = append(sc.gathered, sc.set.every...)
	}
	if len(sc.gathered) > 1 {
		slices.Sort(sc.gathered)
	}
	if sc.ahead != nil {
		sc.ahead.add(sc, text, cut)
		return
	}
	sc.try(sc.gathered, text, cut)
}

// try tries patterns on a text of the line at hand.
func (sc *Scanner) try(patterns []int32, text []byte, cut edges) {
	sc.hay.put(text)
	sc.late.unit++
	for _, p := range patterns {
		sc.confirm(p, text, cut)
	}
}
