package classify

import "bytes"

// place looks at the lines around the hits that wait, as soon as enough of what follows them is there.
func (rd *reading) place(final bool) {
	end := rd.base + int64(len(rd.window))
	rest := rd.pending[:0]
	for _, p := range rd.pending {
		list := rd.out.hits[p.pattern]
		if list[p.index].line != p.line {
			continue // another took its slot
		}
		if !final && p.offset+aheadSize > end {
			rest = append(rest, p)
			continue
		}
		k := &list[p.index]
		at, known := rd.known[p.line]
		if known && (at.located || p.index >= keptPlaces) {
			k.voice, k.file, k.fileLine = at.voice, at.file, at.fileLine
			continue
		}
		from := p.offset - rd.base
		if from < 0 || from > int64(len(rd.window)) || rd.placed >= maxPlaced {
			continue // a line longer than the window: nothing is known of its place
		}
		rd.placed++
		back := rd.window[max(0, from-backSize/2):from]
		after := rd.window[from:]
		if i := bytes.IndexByte(after, '\n'); i >= 0 {
			after = after[i+1 : min(len(after), i+1+aheadSize)]
		} else {
			after = nil
		}
		if !final && p.index >= keptFirst && rd.save(p, back, after) {
			continue
		}
		rd.know(k, p, back, after, at, known)
	}
	rd.pending = rest
	if final {
		for key, s := range rd.saved {
			if k := &rd.out.hits[key.pattern][key.index]; k.line == s.spot.line {
				at, known := rd.known[k.line]
				rd.know(k, s.spot, s.text[:s.back], s.text[s.back:], at, known)
			}
		}
	}
}

// slot is a place among the kept hits that later hits take over.
type slot struct{ pattern, index int }

// surrounding is what stood around a hit in such a place; it is looked at when no later hit can take it over any
// more.
type surrounding struct {
	spot spot
	text []byte
	back int // so much of it stood before
}

// save keeps what stands around a hit for later; false if too much is kept.
func (rd *reading) save(p spot, back, after []byte) bool {
	key := slot{p.pattern, p.index}
	c := rd.saved[key]
	if c == nil {
		if len(rd.saved) >= maxSaved {
			return false
		}
		c = &surrounding{}
		rd.saved[key] = c
	}
	c.spot, c.back = p, len(back)
	c.text = append(append(c.text[:0], back...), after...)
	return true
}

// know looks at what stands around a hit. What is known of its line already is not looked at again.
func (rd *reading) know(k *hit, p spot, back, after []byte, at placed, known bool) {
	before := cleanLines(back, lookFirst, true)
	next := cleanLines(after, 60, false)
	if !known {
		line := k.text
		if len(line) > contextLen {
			line = line[:contextLen]
		}
		said, decided := speaker(before, line, next)
		if !decided && len(before) == lookFirst {
			said, _ = speaker(cleanLines(back, lookBack, true), line, next)
		}
		at.voice = said
	}
	if p.index < keptPlaces {
		at.file, at.fileLine = codePlace(k.text, before, next)
		at.located = true
	}
	k.voice, k.file, k.fileLine = at.voice, at.file, at.fileLine
	rd.known[p.line] = at
}
