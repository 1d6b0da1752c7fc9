package multiscan

import "bytes"

// batch is how many places are looked at in one go.
const batch = 1024

// places has room for all the places of a batch, twice, and for more: the loops
// write first and then see whether to keep it.
type places [4 * batch]place

// place is an index into a text.
type place = uint32

const placeMask = 4*batch - 1

// lane runs a filter over a text: it finds in a go the places in the next
// batch where a literal may stand, and hands them out one by one.
type lane struct {
	f      *filter
	place  int           // where the filter has found something; len(text): nowhere more
	found  []*variant    // what
	from   int           // where the next batch begins
	probed places        // places whose gram is known
	places places        // those of them, with their kind, where a literal may stand
	n, at  int           // places found, and handed out
	marks  [maxMarks]int // the next of each mark, as far as it is known
}

// start begins a text, of which it is known which marks may be in it: has is what occur
// says of it or of more.
func (l *lane) start(text []byte, has uint64) {
	l.from, l.n, l.at = 0, 0, 0
	for i := range l.f.marks {
		if l.marks[i] = -1; has&(hasMark<<i) == 0 {
			l.marks[i] = len(text)
		}
	}
	l.advance(text)
}

func (l *lane) advance(text []byte) {
	l.found = l.found[:0]
	for {
		for l.at < l.n {
			p := l.places[l.at]
			l.at++
			l.place = int(p &^ (1 << kindShift))
			if l.found = l.f.at(text, l.place, int(p>>kindShift), l.found); len(l.found) > 0 && l.prune(text) {
				return
			}
		}
		if l.from+l.f.gram > len(text) {
			l.place = len(text)
			return
		}
		l.at = 0
		l.fill(text)
	}
}

// maxBack is how far back the start of a line is looked for.
const maxBack = 512

// prune drops the literals whose patterns cannot match a line that begins as
// this one does. It reports whether any are left.
func (l *lane) prune(text []byte) bool {
	first, known := byte(0), false
	rest := l.found[:0]
	for _, v := range l.found {
		if v.first != nil {
			if !known {
				known = true
				from := max(0, l.place-maxBack)
				at := from + bytes.LastIndexByte(text[from:l.place], '\n') + 1
				// Each state of a progress bar is a text of its own.
				at += bytes.LastIndexByte(text[at:l.place], '\r') + 1
				if at == from && from > 0 || at >= len(text) {
					return true
				}
				first = text[at]
			}
			if !v.first.has(first) {
				continue
			}
		}
		rest = append(rest, v)
	}
	l.found = rest
	return len(rest) > 0
}

// fill looks at the next batch of places.
func (l *lane) fill(text []byte) {
	f := l.f
	l.n = 0
	stop := len(text)
	if len(f.marks) > 0 {
		mark := l.nextMark(text)
		if mark == len(text) {
			l.from = mark
			return
		}
		l.from = max(l.from, mark-maxFilterLiteral)
		stop = mark + maxFilterLiteral
	}
	last := len(text) - after - wordLen // the last place beside whose word one more can be read
	if l.from < before+wordLen || l.from > last {
		if f.known(text, l.from) {
			l.places[0], l.places[1] = place(l.from), place(l.from)|1<<kindShift
			l.n = 2
		}
		l.from += f.stride
		return
	}
	end := min(l.from+batch*f.stride, last+1, stop)
	l.n, l.from = f.probe(text, l.from, end, &l.probed)
	l.n = f.sift(text, &l.probed, &l.places, l.n)
	l.n = f.check(text, &l.places, l.n)
}

// nextMark gives the first mark of which a literal may reach to where the next
// batch begins, or len(text).
func (l *lane) nextMark(text []byte) int {
	next, from := len(text), max(0, l.from-maxFilterLiteral+1)
	for i, c := range l.f.marks {
		if l.marks[i] < from {
			l.marks[i] = len(text)
			if at := bytes.IndexByte(text[from:], c); at >= 0 {
				l.marks[i] = from + at
			}
		}
		next = min(next, l.marks[i])
	}
	return next
}

// cursor runs the filters of a set over a text side by side.
type cursor struct {
	lanes []lane
	place int // the first place where one of them has found something; len(text): nowhere more
}

func newCursor(filters []*filter) cursor {
	c := cursor{lanes: make([]lane, len(filters))}
	for i, f := range filters {
		c.lanes[i].f = f
	}
	return c
}

func (c *cursor) start(text []byte, has uint64) {
	c.place = len(text)
	for i := range c.lanes {
		c.lanes[i].start(text, has)
		c.place = min(c.place, c.lanes[i].place)
	}
}

// next gives what was found at the place, calling found, and goes on to the next.
func (c *cursor) next(text []byte, sc *Scanner) {
	here := c.place
	c.place = len(text)
	for i := range c.lanes {
		l := &c.lanes[i]
		if l.place == here {
			sc.gather(l.found)
			l.advance(text)
		}
		c.place = min(c.place, l.place)
	}
}

// kindShift is where in a place its kind stands: which of the masks its word is
// to be compared with.
const kindShift = 31

// probe gives the places from i on, before end, whose gram is in the table, and
// the place where to go on. At most batch places are looked at, all of which
// are at least after bytes before the end of b.
func (f *filter) probe(b []byte, i, end int, to *places) (n, next int) {
	n, i = f.probeFast(b, i, end, to)
	for ; i < end; i += f.stride {
		h := (load32(b, i) | fold32) * f.mul >> (32 - tableBits)
		to[n&placeMask] = place(i)
		n += int(f.table[h/32] >> (h % 32) & 1)
	}
	return n, i
}

// sift leaves of the first n places those whose gram may stand in its context,
// once for each of the two ways in which that is known.
func (f *filter) sift(b []byte, in, to *places, n int) int {
	done, k := f.siftFast(b, in, to, n)
	kept := uint(k)
	m0, m1 := f.masks[0], f.masks[1]
	for _, i := range in[done:n] {
		v := load64(b, int(i)-before) | fold64
		to[kept&placeMask] = i
		kept += f.words.passes(v & m0)
		to[kept&placeMask] = i | 1<<kindShift
		kept += f.words.passes(v & m1)
	}
	return int(kept)
}

// check leaves those whose word is known and stands beside what the literals
// have there. One that the sieve let pass by chance is compared with some other word.
func (f *filter) check(b []byte, in *places, n int) int {
	kept := uint(0)
	for _, p := range in[:n] {
		i := int(p &^ (1 << kindShift))
		w := (load64(b, i-before) | fold64) & f.masks[p>>kindShift]
		s := &f.words.list[f.words.place(w)]
		miss := s.word ^ w | (load64(b, i+int(s.moreAt))|fold64)&s.moreMask ^ s.more
		in[kept&placeMask] = p
		pair := uint(s.pair >> pairHash6(load16(b, i+int(s.pairAt))))
		kept += uint(^(miss|-miss)>>63)&pair | uint(s.crowded)
	}
	return int(kept)
}
