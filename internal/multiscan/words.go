package multiscan

import (
	"cmp"
	"encoding/binary"
	"math/bits"
	"slices"
)

// contextBits is how many bits say whether a word may be known: some twenty for each
// word of the largest catalog, in memory that stays in the cache.
const contextBits = 18

// words knows the words around the grams of a filter's literals, and which places in
// literals each of them is.
type words struct {
	// sieve holds two bits for each word, both in one place of 32, by which it tells nearly
	// all other words from those that are known.
	sieve [1 << contextBits / 32]uint32
	// bits holds one for each word, at its hash.
	bits [1 << contextBits / 64]uint64
	// before counts the bits in all of bits that stand before: with it the bit of a word
	// says where the word stands in list.
	before [1 << contextBits / 64]uint32
	list   []wordPlaces // in the order of the bits; after them those whose bit is another's, and one of no word
}

// wordPlaces are the places in literals that have one word, and what these literals
// have in common around it.
type wordPlaces struct {
	word     uint64
	more     uint64 // what all of them have beside the word
	moreMask uint64
	pair     uint64 // bits of the pairs of bytes that they have at pairAt
	first    int32  // of the entries
	other    int32  // if not 0: where in list another word with the same bit stands
	count    uint8  // of the entries
	crowded  uint8  // 1: other is not 0
	moreAt   int8   // where more is, from the gram on
	pairAt   int8   // likewise
}

const pairBits = 6

// The pairs of bytes that can be asked for stand where more can be, from the gram on.
const (
	firstPair = -before - wordLen
	lastPair  = after + wordLen - 2
)

// mix gives 32 bits that depend on a word, the highest most. It multiplies halves, since there
// are instructions for many of these at once.
func mix(word uint64) uint32 { return uint32(word)*hashMul + uint32(word>>32)*hashMul2 }

// contextHash is the place of a word among the bits.
func contextHash(word uint64) uint64 { return uint64(mix(word) >> (32 - contextBits)) }

// inSieve says where in the sieve a word is: in which place, and at which two bits of it.
func inSieve(word uint64) (place, first, second uint32) {
	h := mix(word)
	return h >> (32 - contextBits + 5), h >> (32 - contextBits) % 32, h >> (32 - contextBits - 5) % 32
}

// byBit is the order of words by their bits.
func byBit(a, b wordPlaces) int {
	return cmp.Or(cmp.Compare(contextHash(a.word), contextHash(b.word)), cmp.Compare(a.word, b.word))
}

// know makes the tables of the words, which are all different.
func (w *words) know(list []wordPlaces) {
	list = slices.Clone(list)
	slices.SortFunc(list, byBit)
	var more []wordPlaces
	for i := range list {
		list[i].other, list[i].crowded = 0, 0
		place, first, second := inSieve(list[i].word)
		w.sieve[place] |= 1<<first | 1<<second
		h := contextHash(list[i].word)
		if w.bits[h/64]>>(h%64)&1 != 0 {
			more = append(more, list[i])
			continue
		}
		w.bits[h/64] |= 1 << (h % 64)
		w.list = append(w.list, list[i])
	}
	n := uint32(0)
	for i, b := range w.bits {
		w.before[i] = n
		n += uint32(bits.OnesCount64(b))
	}
	for _, p := range more {
		first := &w.list[w.place(p.word)]
		p.other = first.other
		first.other, first.crowded = int32(len(w.list)), 1
		w.list = append(w.list, p)
	}
	w.list = append(w.list, wordPlaces{})
}

// all gives those of words.
func (w *words) all() []wordPlaces { return w.list[:max(0, len(w.list)-1)] }

// mayBe reports whether a word is known, or has the bit of one that is, in the lowest
// bit.
func (w *words) mayBe(word uint64) uint64 {
	h := contextHash(word)
	return w.bits[h/64] >> (h % 64)
}

// passes reports whether a word may be known, as 1 or 0.
func (w *words) passes(word uint64) uint {
	place, first, second := inSieve(word)
	return uint(w.sieve[place] >> first & (w.sieve[place] >> second) & 1)
}

// place is where in list the first word stands whose bit a word has; of a word that has no
// bit, some place.
func (w *words) place(word uint64) int {
	h := contextHash(word)
	return int(w.before[h/64]) + bits.OnesCount64(w.bits[h/64]&(1<<(h%64)-1))
}

// at gives the places of a word, nil if it is not known.
func (w *words) at(word uint64) *wordPlaces {
	if w.mayBe(word)&1 == 0 {
		return nil
	}
	p := &w.list[w.place(word)]
	for p.word != word {
		if p.other == 0 {
			return nil
		}
		p = &w.list[p.other]
	}
	return p
}

// pairHash6 is the bit of two bytes.
func pairHash6(pair uint16) uint32 { return uint32(pair|0x2020) * hashMul >> (32 - pairBits) }

// around notes what the literals of all the entries have around the word; covered are
// the bytes of the word, as a mask.
func (p *wordPlaces) around(entries []entry, variants []variant, covered uint64) {
	known := 0
	for _, at := range []int{after, -before - wordLen} {
		var more, mask uint64
		for n, e := range entries {
			var b, m [wordLen]byte
			lit := variants[e.variant].lit
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
			p.more, p.moreMask, p.moreAt = more&mask, mask, int8(at)
		}
	}
	p.pair, p.pairAt = 1<<64-1, -before
	for at := firstPair; at <= lastPair; at++ {
		if p.said(at, covered) && p.said(at+1, covered) {
			continue
		}
		if pairs := pairsAt(entries, variants, at); bits.OnesCount64(pairs) < bits.OnesCount64(p.pair) {
			p.pair, p.pairAt = pairs, int8(at)
		}
	}
}

// said reports whether the byte at a place is compared already.
func (p *wordPlaces) said(at int, covered uint64) bool {
	return has(covered, at+before) || has(p.moreMask, at-int(p.moreAt))
}

func has(mask uint64, i int) bool { return i >= 0 && i < wordLen && mask>>(8*i)&0xff == 0xff }

// pairsAt gives the bits of the pairs that the literals have at a place; all of them
// if one does not reach so far.
func pairsAt(entries []entry, variants []variant, at int) uint64 {
	var pairs uint64
	for _, e := range entries {
		lit := variants[e.variant].lit
		from := int(e.off) + at
		if from < 0 || from+1 >= len(lit) {
			return 1<<64 - 1
		}
		pairs |= 1 << pairHash6(uint16(lit[from])|uint16(lit[from+1])<<8)
	}
	return pairs
}
