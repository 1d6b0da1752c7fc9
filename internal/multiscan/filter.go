package multiscan

import (
	"encoding/binary"
	"math/bits"
	"slices"
)

const (
	minLiteral = 8  // bytes of a literal that the filter needs
	maxLiteral = 64 // bytes that it takes: the rest is left to the expression
	gram       = 5  // bytes that it looks at in one place
	// stride is how far these places are apart: a literal of minLiteral bytes holds
	// a whole gram at one of them wherever it stands.
	stride    = minLiteral - gram + 1
	tableBits = 19
	fold64    = 0x2020202020202020
)

// filter finds thousands of literals in a text by looking at every stride-th
// place only. Of each literal one gram is known for each remainder that its
// offset can leave when divided by the stride; wherever the literal stands, one
// of these is at a place looked at. A bit says whether a gram is known, which
// few are; there the bytes beside it are looked at, and all literals with such a
// gram are compared. Grams are compared with bit 0x20 of each byte set, which joins
// upper and lower case.
type filter struct {
	known    [1 << tableBits / 64]uint64 // a bit for each hash of a gram
	before   [1 << tableBits / 64]uint32 // how many bits are set in all words before this one
	grams    []grams                     // of each bit that is set, in order, and one more
	entries  []entry
	literals []literal
}

// grams are those with one bit.
type grams struct {
	first      uint32 // of their entries, which go on to the first of the next bit
	prev, next uint32 // a bit for each byte that stands before them and after them, by its lowest five bits
}

// literal is what the filter looks for, in lower case.
type literal struct {
	text     string
	patterns []int32
}

// entry is a gram of a literal.
type entry struct {
	word     uint64 // wordLen bytes at the end of the literal that is farther away
	literal  uint32
	at       uint8 // offset of the gram
	wordFrom int8  // where the word is, from the gram on
}

const wordLen = 8

// fold loads wordLen bytes with letter case joined.
func fold(b []byte) uint64 { return binary.LittleEndian.Uint64(b) | fold64 }

// foldEnd is fold where there may be fewer bytes.
func foldEnd(b []byte) uint64 {
	if len(b) >= wordLen {
		return fold(b)
	}
	var w [wordLen]byte
	copy(w[:], b)
	return fold(w[:])
}

// hash is the bit of the gram that a word begins with.
func hash(word uint64) uint32 {
	return uint32(word << (64 - 8*gram) * 0x9E3779B97F4A7C15 >> (64 - tableBits))
}

// number counts the bits that are set before that of a hash.
func (f *filter) number(h uint32) uint32 {
	return f.before[h/64] + uint32(bits.OnesCount64(f.known[h/64]&(1<<(h%64)-1)))
}

// newFilter takes literals of minLiteral to maxLiteral bytes.
func newFilter(literals []literal, r *rarity) *filter {
	f := &filter{literals: literals}
	order := make([]uint32, len(literals))
	for i := range order {
		order[i] = uint32(i)
	}
	// Those with the least choice come first: others may share their grams.
	slices.SortStableFunc(order, func(a, b uint32) int { return len(literals[a].text) - len(literals[b].text) })
	hashes := make([]uint32, 0, stride*len(literals))
	entries := make([]entry, 0, stride*len(literals))
	for _, i := range order {
		text := []byte(literals[i].text)
		for rest := range stride {
			at, _ := r.rarest(text, rest, f)
			word := 0
			if at < len(text)/2 {
				word = len(text) - wordLen
			}
			entries = append(entries, entry{fold(text[word:]), i, uint8(at), int8(word - at)})
			h := hash(foldEnd(text[at:]))
			f.known[h/64] |= 1 << (h % 64)
			hashes = append(hashes, h)
		}
	}
	n := uint32(0)
	for i, word := range f.known {
		f.before[i] = n
		n += uint32(bits.OnesCount64(word))
	}
	f.grams = make([]grams, n+1)
	for _, h := range hashes {
		f.grams[f.number(h)].first++
	}
	end := uint32(0)
	for i := range f.grams {
		end += f.grams[i].first
		f.grams[i].first = end
	}
	f.entries = make([]entry, len(entries))
	for i, h := range hashes {
		e, g := entries[i], &f.grams[f.number(h)]
		g.first--
		f.entries[g.first] = e
		text := literals[e.literal].text
		g.prev |= beside(text, int(e.at)-1)
		g.next |= beside(text, int(e.at)+gram)
	}
	return f
}

// beside gives the bit of a byte of a literal, all bits outside of it.
func beside(text string, at int) uint32 {
	if at < 0 || at >= len(text) {
		return 1<<32 - 1
	}
	return 1 << (text[at] % 32)
}

// has is 1 if the bit of a hash is set, else 0.
func (f *filter) has(h uint32) uint { return uint(f.known[h/64] >> (h % 64) & 1) }

// stands reports whether the literal is at a place of b.
func (l *literal) stands(b []byte, at int) bool {
	if at < 0 || at+len(l.text) > len(b) {
		return false
	}
	for i := range len(l.text) {
		c := b[at+i]
		if c-'A' < 26 {
			c += 'a' - 'A'
		}
		if c != l.text[i] {
			return false
		}
	}
	return true
}

// batch is how many places are looked at in one go.
const batch = 1024

// search runs a filter over a text.
type search struct {
	f         *filter
	text      []byte
	place     int             // of a byte of the literal that was given
	from      int             // the next place to be looked at
	spots     [2 * batch]spot // of grams that are known; one more is written than there are
	n, at     uint            // how many these are, and the next
	next, end uint32          // entries of the one at hand that are still to be compared
}

type spot struct{ place, hash uint32 }

// start begins a text of less than 4 GiB.
func (s *search) start(text []byte) {
	s.text, s.from, s.n, s.at, s.next, s.end = text, 0, 0, 0, 0, 0
}

// literal gives the next literal that stands in the text, nil after the last one. A
// literal may be given more than once.
func (s *search) literal() *literal {
	for {
		for s.next < s.end {
			e := &s.f.entries[s.next]
			s.next++
			if at := s.place + int(e.wordFrom); at >= 0 && at+wordLen <= len(s.text) && fold(s.text[at:]) == e.word {
				if l := &s.f.literals[e.literal]; l.stands(s.text, s.place-int(e.at)) {
					return l
				}
			}
		}
		if s.at == s.n && !s.look() {
			return nil
		}
		g := s.spots[s.at]
		s.at++
		s.place = int(g.place)
		n := s.f.number(g.hash)
		s.next, s.end = s.f.grams[n].first, s.f.grams[n+1].first
	}
}

// look fills spots, and reports whether there are any.
func (s *search) look() bool {
	f, text, i, n := s.f, s.text, s.from, uint(0)
	for n == 0 && i+gram <= len(text) {
		// Nothing in the loop depends on what the text is, so that no branch of it is
		// foretold wrongly.
		for rest := text[i:min(len(text), i+batch*stride+wordLen-stride)]; len(rest) >= 3*stride+wordLen; rest = rest[4*stride:] {
			a, b, c, d := hash(fold(rest)), hash(fold(rest[stride:])), hash(fold(rest[2*stride:])), hash(fold(rest[3*stride:]))
			s.spots[n%(2*batch)] = spot{uint32(i), a}
			n += f.has(a)
			s.spots[n%(2*batch)] = spot{uint32(i + stride), b}
			n += f.has(b)
			s.spots[n%(2*batch)] = spot{uint32(i + 2*stride), c}
			n += f.has(c)
			s.spots[n%(2*batch)] = spot{uint32(i + 3*stride), d}
			n += f.has(d)
			i += 4 * stride
		}
		for ; i+gram <= len(text) && i > len(text)-3*stride-wordLen; i += stride {
			h := hash(foldEnd(text[i:]))
			s.spots[n%(2*batch)] = spot{uint32(i), h}
			n += f.has(h)
		}
		looked := s.spots[:n]
		n = 0
		for _, g := range looked {
			// At an end of the text any byte will do: a literal that has one there is not in it.
			prev, next := text[max(int(g.place)-1, 0)], text[min(int(g.place)+gram, len(text)-1)]
			k := &f.grams[f.number(g.hash)]
			s.spots[n%(2*batch)] = g
			n += uint(k.prev >> (prev % 32) & (k.next >> (next % 32)) & 1)
		}
	}
	s.from, s.n, s.at = i, n, 0
	return n > 0
}
