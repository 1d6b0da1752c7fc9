package multiscan

import (
	"encoding/binary"
	"slices"
	"strings"
)

const (
	fold32    = 0x20202020
	fold64    = 0x2020202020202020
	hashMul   = 0x9E3779B1
	hashMul2  = 0x85EBCA77
	hashMul64 = 0x9E3779B97F4A7C15

	tableBits = 18
	// maxFilterLiteral is how much of a literal is compared where it was
	// found; the rest is left to the check of the whole line.
	maxFilterLiteral = 32
)

// filter finds a few thousand literals in a text by looking at every
// stride-th place only. Of each literal one gram (a few bytes) is known for each
// remainder that its offset can leave when divided by the stride; wherever the
// literal stands, just one of these grams is at a place looked at. Three steps thin
// the places out: the gram is in a table, the gram and what is around it pass a
// sieve, and they are a word that is known, beside what its literals have there. What is
// left is compared with the literals. None of the steps has a branch that depends on the
// text, and the first two, which see most places, look at several at once where
// the machine can (AVX2): the time goes with the number of instructions. All compare with
// bit 0x20 of each byte set, which joins upper and lower case.
type filter struct {
	shape
	shortest int // of the literals, in bytes
	literals int // of variants: all but those that join others; of a filter to which nothing was added later
	// table holds a bit for each hash of a gram. It fits into the cache nearest to the
	// processor.
	table [1 << tableBits / 32]uint32
	words words
	lanes lanes
	// marks are bytes of which each literal holds one, if there are any.
	marks []byte

	entries  []entry // of one word in a row
	variants []variant
}

// entry is a place in a literal.
type entry struct {
	far     uint64 // the eight bytes at the end of the literal that is farther from the gram
	farMask uint64 // those of them that are in the literal
	farAt   int32  // where they are, from the gram on
	variant int32
	off     int32 // of the gram
}

// newEntry notes a place in a literal, by the gram's offset there.
func newEntry(lit string, variant, off int) entry {
	e := entry{variant: int32(variant), off: int32(off)}
	n := min(wordLen, len(lit))
	at := 0
	if off < len(lit)/2 {
		at = len(lit) - n
	}
	var b [wordLen]byte
	copy(b[:], lit[at:at+n])
	e.farMask = part(0, n)
	e.far = (binary.LittleEndian.Uint64(b[:]) | fold64) & e.farMask
	e.farAt = int32(at - off)
	return e
}

// mayStand reports whether the far end of the literal is where it has to be, if that
// can be seen in one look.
func (e *entry) mayStand(b []byte, i int) bool {
	at := i + int(e.farAt)
	if at < 0 || at+wordLen > len(b) {
		return true
	}
	return (load64(b, at)|fold64)&e.farMask == e.far
}

// variant is a literal, or a part of one.
type variant struct {
	lit      string // empty: what was found is enough
	id       int32  // among those of all filters of the set
	patterns []int32
	first    *byteSet // what a line with a match can begin with; nil: anything
}

// wanted is one literal of a pattern.
type wanted struct {
	lit     string
	pattern int32
}

// maxShared literals with a gram in the same context are told apart there.
const maxShared = 32

// newFilter makes an empty filter; the shortest literal that it is for, of at least
// minLiteral bytes, says how wide the stride can be. If there are marks, each literal
// has one.
func newFilter(shortest int, marks []byte) *filter {
	f := &filter{shape: shapeFor(shortest), shortest: shortest, marks: marks}
	f.lanes.set(&f.shape)
	return f
}

// add puts literals into the filter, none of them shorter than those it is for. It
// returns for each whether the filter compares the literal whole, and of which patterns
// that it had before it does not tell all literals apart any more.
func (f *filter) add(want []wanted, r *rarity) (whole []bool, joined map[int32]bool) {
	known := len(f.variants)
	whole, of := make([]bool, len(want)), make([]int, len(want))
	index := map[string]int{}
	for n, w := range want {
		var lit string
		if len(f.marks) > 0 {
			lit = partWith(w.lit, f.marks)
		} else {
			lit = r.rarest(w.lit, maxFilterLiteral)
		}
		whole[n] = len(lit) == len(w.lit)
		i, ok := index[lit]
		if !ok {
			i = len(f.variants)
			index[lit] = i
			f.variants = append(f.variants, variant{lit: lit})
		}
		of[n] = i
		v := &f.variants[i]
		if last := len(v.patterns) - 1; last < 0 || v.patterns[last] != w.pattern {
			v.patterns = append(v.patterns, w.pattern)
		}
	}
	f.literals = len(f.variants)
	shared := f.index(known, r)
	for n := range want {
		if shared[of[n]] {
			whole[n] = false
		}
	}
	joined = map[int32]bool{}
	for i := range known {
		if shared[i] {
			for _, p := range f.variants[i].patterns {
				joined[p] = true
			}
		}
	}
	return whole, joined
}

// choices gives back what each pattern was given to a new filter with, but for the ends
// of long literals.
func (f *filter) choices() (list []choice) {
	at := map[int32]int{}
	for i := range f.literals {
		for _, p := range f.variants[i].patterns {
			n, ok := at[p]
			if !ok {
				n, list = len(list), append(list, choice{pattern: p})
				at[p] = n
			}
			list[n].set = append(list[n].set, f.variants[i].lit)
		}
	}
	return list
}

// partWith gives a part of a literal that a filter compares, with the first of the marks
// in it: only around marks the filter looks at all.
func partWith(lit string, marks []byte) string {
	if len(lit) <= maxFilterLiteral {
		return lit
	}
	at := max(0, slices.IndexFunc([]byte(lit), func(c byte) bool { return slices.Contains(marks, c) }))
	from := min(max(0, at-maxFilterLiteral/2), len(lit)-maxFilterLiteral)
	return lit[from : from+maxFilterLiteral]
}

// seenWord is a word, and which of the masks it is known by.
type seenWord struct {
	word uint64
	kind int
}

// index puts the grams of each literal from one on into the tables. It returns the
// literals that are not always told apart.
func (f *filter) index(from int, r *rarity) map[int]bool {
	at := f.grams(from, r)
	byWord := map[uint64][]entry{}
	var order []seenWord // keys of byWord
	for _, i := range f.byLength(from) {
		lit := []byte(f.variants[i].lit)
		for _, p := range at[i-from] {
			f.know(f.hash(lit, p))
			kind, word, _ := r.wordFor(lit, p, &f.shape)
			if byWord[word] == nil {
				order = append(order, seenWord{word, kind})
			}
			byWord[word] = append(byWord[word], newEntry(f.variants[i].lit, i, p))
		}
	}
	shared := map[int]bool{}
	list, place := slices.Clone(f.words.all()), map[uint64]int{}
	for n := range list {
		place[list[n].word] = n
	}
	for _, word := range order {
		entries := byWord[word.word]
		n, ok := place[word.word]
		if ok {
			had := f.entries[list[n].first:]
			entries = slices.Concat(had[:list[n].count], entries)
		} else {
			n, list = len(list), append(list, wordPlaces{word: word.word})
		}
		p := &list[n]
		p.first = int32(len(f.entries))
		p.around(entries, f.variants, f.masks[word.kind])
		if len(entries) > maxShared {
			entries = f.joined(entries, shared)
		}
		p.count = uint8(len(entries))
		f.entries = append(f.entries, entries...)
	}
	f.words = words{}
	f.words.know(list)
	return shared
}

// know puts the hash of a gram into the table.
func (f *filter) know(h uint32) { f.table[h/32] |= 1 << (h % 32) }

// knows reports whether the hash of a gram is in the table.
func (f *filter) knows(h uint32) bool { return f.table[h/32]>>(h%32)&1 != 0 }

// known reports whether the gram at a place may be in the table.
func (f *filter) known(b []byte, i int) bool { return f.knows(f.hash(b, i)) }

// joined makes the entries fewer: the literals of one pattern, of which some have very
// many, become one, and all of them if that is not enough.
func (f *filter) joined(entries []entry, shared map[int]bool) []entry {
	var groups [][]entry
	for _, e := range entries {
		n := slices.IndexFunc(groups, func(g []entry) bool {
			return slices.Equal(f.variants[g[0].variant].patterns, f.variants[e.variant].patterns)
		})
		if n < 0 {
			n, groups = len(groups), append(groups, nil)
		}
		groups[n] = append(groups[n], e)
	}
	if len(groups) > maxShared {
		groups = [][]entry{entries}
	}
	var out []entry
	for _, g := range groups {
		if len(g) > 1 {
			g = []entry{f.join(g, shared)}
		}
		out = append(out, g...)
	}
	return out
}

// join makes one variant of many, whose literal is what they have in common
// there, so that the cost of a place is bounded.
func (f *filter) join(entries []entry, shared map[int]bool) entry {
	var patterns []int32
	first := entries[0]
	lit := f.variants[first.variant].lit
	head, tail := lit[:first.off], lit[first.off:]
	for _, e := range entries {
		shared[int(e.variant)] = true
		v := &f.variants[e.variant]
		patterns = append(patterns, v.patterns...)
		for !strings.HasSuffix(v.lit[:e.off], head) {
			head = head[1:]
		}
		for !strings.HasPrefix(v.lit[e.off:], tail) {
			tail = tail[:len(tail)-1]
		}
	}
	slices.Sort(patterns)
	f.variants = append(f.variants, variant{lit: head + tail, patterns: slices.Compact(patterns)})
	return newEntry(head+tail, len(f.variants)-1, len(head))
}

// byLength gives the literals from one on, short ones first.
func (f *filter) byLength(from int) []int {
	order := make([]int, len(f.variants)-from)
	for i := range order {
		order[i] = from + i
	}
	slices.SortStableFunc(order, func(a, b int) int { return len(f.variants[a].lit) - len(f.variants[b].lit) })
	return order
}

// at appends the literals that stand in b such that one of their grams in the
// table is at place i, known in the given way.
func (f *filter) at(b []byte, i, kind int, to []*variant) []*variant {
	return f.standing(wordAt(b, i)&f.masks[kind], b, i, to)
}

// standing appends the literals with a gram of this word at place i.
func (f *filter) standing(word uint64, b []byte, i int, to []*variant) []*variant {
	p := f.words.at(word)
	if p == nil {
		return to
	}
	for n := p.first; n < p.first+int32(p.count); n++ {
		e := &f.entries[n]
		if !e.mayStand(b, i) {
			continue
		}
		if v := &f.variants[e.variant]; v.standsAt(b, i-int(e.off)) {
			to = append(to, v)
		}
	}
	return to
}

func (v *variant) standsAt(b []byte, i int) bool {
	if i < 0 || i+len(v.lit) > len(b) {
		return false
	}
	if v.lit == "" {
		return true
	}
	b = b[i : i+len(v.lit)]
	last := len(v.lit) - 1
	if (b[0]^v.lit[0]|b[last]^v.lit[last])&^0x20 != 0 {
		return false
	}
	for n := range len(v.lit) {
		c := b[n]
		if c-'A' < 26 {
			c += 'a' - 'A'
		}
		if c != v.lit[n] {
			return false
		}
	}
	return true
}
