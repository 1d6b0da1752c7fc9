package multiscan

import (
	"encoding/binary"
	"math/bits"
	"slices"
	"strings"
)

const (
	fold32    = 0x20202020
	fold64    = 0x2020202020202020
	hashMul   = 0x9E3779B1
	hashMul64 = 0x9E3779B97F4A7C15

	tableBits   = 16
	contextBits = 18
	// maxFilterLiteral is how much of a literal is compared where it was
	// found; the rest is left to the check of the whole line.
	maxFilterLiteral = 32
)

// filter finds a few thousand literals in a text by looking at every
// stride-th place only. Of each literal one gram (a few bytes) is known for each
// remainder that its offset can leave when divided by the stride; wherever the
// literal stands, just one of these grams is at a place looked at. Three steps thin
// the places out: the gram is in a table, the gram and what is around it are in
// another, and what is left is compared with the literals. The first two have no
// branch that depends on the text. They compare with bit 0x20 of each byte set,
// which joins upper and lower case.
type filter struct {
	shape
	shortest int // of the literals, in bytes
	// table holds for each hash of a gram by how much the list of places
	// grows: by one, in the unit that probe counts in, or not at all. A byte for a
	// hash costs fewer instructions than a bit.
	table    [1 << tableBits]uint8
	contexts [1 << contextBits / 32]uint32
	// marks are bytes of which each literal holds one, if there are any.
	marks []byte

	words     []uint64   // that are known, in the order in which they came
	slots     []wordSlot // open addressing
	slotShift uint
	entries   []entry // of one word in a row
	variants  []variant
}

// wordSlot says in which literals a gram stands, known by its word.
type wordSlot struct {
	word     uint64 // 0: empty
	more     uint64 // what all the literals have beside the word
	moreMask uint64
	first    int32 // of the entries
	count    uint8 // of them
	crowded  uint8 // 1: a word that belongs here is in another slot
	moreAt   int8  // where that is, from the gram on
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

// newFilter builds the filter; the shortest literal, of at least minLiteral
// bytes, says how wide the stride can be. It returns for each of the wanted
// whether the filter compares the literal whole.
func newFilter(want []wanted, r *rarity) (*filter, []bool) {
	shortest := maxFilterLiteral
	for _, w := range want {
		shortest = min(shortest, len(w.lit))
	}
	f := &filter{shape: shapeFor(shortest), shortest: shortest}
	whole, of := make([]bool, len(want)), make([]int, len(want))
	index := map[string]int{}
	for n, w := range want {
		lit := r.rarest(w.lit, maxFilterLiteral)
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
	shared := f.index(r)
	for n := range want {
		if shared[of[n]] {
			whole[n] = false
		}
	}
	return f, whole
}

// builder is what is in the tables while they are filled.
type builder struct {
	f      *filter
	byWord map[uint64][]entry
}

func (b *builder) at(lit []byte, i int) (known bool, shared int) {
	word, _ := b.f.word(lit, i)
	return b.f.table[b.f.hash(lit, i)] != 0, len(b.byWord[word])
}

// index puts the rarest grams of each literal into the tables. It returns the
// literals that are not always told apart.
func (f *filter) index(r *rarity) map[int]bool {
	b := builder{f: f, byWord: map[uint64][]entry{}}
	// Those with the least choice come first: others may share their grams.
	for _, i := range f.byLength() {
		lit := []byte(f.variants[i].lit)
		for rest := range f.stride {
			at, _ := r.gramFor(lit, rest, &f.shape, &b)
			f.table[f.hash(lit, at)] = sizeOfPlace
			word, _ := f.word(lit, at)
			if b.byWord[word] == nil {
				f.words = append(f.words, word)
			}
			b.byWord[word] = append(b.byWord[word], newEntry(f.variants[i].lit, i, at))
		}
	}
	f.makeSlots()
	shared := map[int]bool{}
	for _, word := range f.words {
		entries := b.byWord[word]
		s := f.take(word)
		f.beside(s, entries)
		if len(entries) > maxShared {
			entries = []entry{f.join(entries, shared)}
		}
		s.first, s.count = int32(len(f.entries)), uint8(len(entries))
		f.entries = append(f.entries, entries...)
	}
	return shared
}

// beside notes what all literals with a word have on that side of it on which
// that is more.
func (f *filter) beside(s *wordSlot, entries []entry) {
	known := 0
	for _, at := range []int{after, -before - wordLen} {
		var more, mask uint64
		for n, e := range entries {
			var b, m [wordLen]byte
			lit := f.variants[e.variant].lit
			for i := range b {
				if from := int(e.off) + at + i; from >= 0 && from < len(lit) {
					b[i], m[i] = lit[from]|0x20, 0xff
				}
			}
			word, of := binary.LittleEndian.Uint64(b[:]), binary.LittleEndian.Uint64(m[:])
			if n == 0 {
				more, mask = word, of
			}
			// Bits that differ from one literal to another do not count.
			mask &= of &^ (more ^ word)
		}
		if n := bits.OnesCount64(mask); n > known {
			known = n
			s.more, s.moreMask, s.moreAt = more&mask, mask, int8(at)
		}
	}
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

func (f *filter) byLength() []int {
	order := make([]int, len(f.variants))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return len(f.variants[a].lit) - len(f.variants[b].lit) })
	return order
}

func contextHash(word uint64) uint64 { return word * hashMul64 >> (64 - contextBits) }

// mayBe reports whether a word is one of the contexts, or takes the place of one.
func (f *filter) mayBe(word uint64) uint32 {
	h := contextHash(word)
	return f.contexts[h>>5] >> (h & 31)
}

// home is the slot where a word belongs.
func (f *filter) home(word uint64) int { return int(word * hashMul64 >> f.slotShift) }

// slot gives the slot of a word: its own, or the empty one for it.
func (f *filter) slot(word uint64) *wordSlot {
	mask := len(f.slots) - 1
	for i := f.home(word); ; i = (i + 1) & mask {
		if s := &f.slots[i]; s.word == word || s.word == 0 {
			return s
		}
	}
}

// at appends the literals that stand in b such that one of their grams in the
// table is at place i, known in the given way.
func (f *filter) at(b []byte, i, kind int, to []*variant) []*variant {
	return f.standing(wordAt(b, i)&f.masks[kind], b, i, to)
}

// standing appends the literals with a gram of this word at place i.
func (f *filter) standing(word uint64, b []byte, i int, to []*variant) []*variant {
	s := f.slot(word)
	for n := s.first; n < s.first+int32(s.count); n++ {
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
