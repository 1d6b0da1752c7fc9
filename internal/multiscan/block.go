package multiscan

import (
	"bytes"
	"slices"
)

// cursor runs a filter over a text.
type cursor struct {
	f     *filter
	place int        // where the filter has found something; len(text): nowhere more
	found []*variant // what
}

func (c *cursor) start(text []byte) {
	c.place = -c.f.stride
	c.advance(text)
}

func (c *cursor) advance(text []byte) {
	c.found = c.found[:0]
	for len(c.found) == 0 {
		c.place = c.f.next(text, c.place+c.f.stride)
		if c.place >= len(text) {
			c.place = len(text)
			return
		}
		c.found = c.f.at(text, c.place, c.found)
	}
}

// block scans lines, each with its "\n", that hold no control sequences. raw
// is what the text was made of, if it is not as it came.
func (sc *Scanner) block(text []byte, raw rawText) {
	sc.raw = raw
	c := &sc.outer
	c.start(text)
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
		// A place may be that of the line end itself.
		for ; c.place <= end; c.advance(text) {
			sc.gather(c.found)
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
	for ; r.line < sc.line; r.line++ {
		r.pos += bytes.IndexByte(r.b[r.pos:], '\n') + 1
	}
	return sc.done + int64(r.pos)
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
	for c.start(text); c.place < len(text); c.advance(text) {
		sc.gather(c.found)
	}
	sc.confirmGathered(text, cut)
}

func (sc *Scanner) newGather() {
	sc.gathered = sc.gathered[:0]
	if sc.gen++; sc.gen == 0 {
		clear(sc.mark)
		sc.gen = 1
	}
}

// gather notes the patterns that are still looked for.
func (sc *Scanner) gather(found []*variant) {
	for _, v := range found {
		for _, p := range v.patterns {
			if sc.mark[p] != sc.gen {
				sc.mark[p] = sc.gen
				if sc.tried[p].hits < MaxHits {
					sc.gathered = append(sc.gathered, p)
				}
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
	sc.isLower = false
	for _, p := range sc.gathered {
		sc.confirm(p, text, cut)
	}
}
