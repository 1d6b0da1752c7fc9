package multiscan

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// rarity says how often short pieces of text occur in passing output, letter
// case aside: by counting them in a sample, and, since real output has more words
// than a sample, by how likely each byte of them is after the three before it.
type rarity struct {
	pairs   []uint32 // occurrences of two bytes
	threes  []uint32 // occurrences of so many bytes, by hash
	fours   []uint32
	eights  []uint32
	bytes   [256]int // as they are
	size    int      // of the sample
	perGram float64  // places that one gram more in the table is taken to be at by chance
}

const rarityBits = 19

func newRarity(sample []byte) *rarity {
	table := func() []uint32 { return make([]uint32, 1<<rarityBits) }
	r := &rarity{pairs: make([]uint32, 1<<16), threes: table(), fours: table(), eights: table()}
	r.size = len(sample)
	r.perGram = float64(len(sample)) / (1 << tableBits)
	for _, c := range sample {
		r.bytes[c]++
	}
	for i := 0; i+8 <= len(sample); i++ {
		v := load64(sample, i)
		r.pairs[pairAt(sample, i)]++
		*count(r.threes, v<<40)++
		*count(r.fours, v<<32)++
		*count(r.eights, v)++
	}
	return r
}

// count gives the counter of a text in the high bytes of v.
func count(table []uint32, v uint64) *uint32 {
	return &table[(v|fold64)*hashMul64>>(64-rarityBits)]
}

// expected estimates how often a text of at least two bytes is in as much
// output as the sample.
func (r *rarity) expected(b []byte) float64 {
	if len(b) < 4 {
		return float64(r.pairs[pairAt(b, 0)])
	}
	e := float64(r.four(b, 0)) + 0.5
	for i := 1; i+4 <= len(b); i++ {
		e *= (float64(r.four(b, i)) + 0.2) / (float64(*count(r.threes, uint64(load32(b, i))<<40)) + 4)
	}
	return e
}

func (r *rarity) four(b []byte, i int) uint32 { return *count(r.fours, uint64(load32(b, i))<<32) }

// occurrences estimates how often a literal is in the sample.
func (r *rarity) occurrences(lit string) float64 {
	b := []byte(lit)
	if len(b) < 8 {
		return r.expected(b) + r.plainWord(lit)
	}
	n := uint32(1<<32 - 1)
	for i := 0; i+8 <= len(b); i++ {
		n = min(n, *count(r.eights, load64(b, i)))
	}
	return max(r.expected(b), float64(n)) + r.plainWord(lit)
}

// plainWord is how much more often than in the sample a literal may well be in
// another output: a short word that tells of no failure is common somewhere.
func (r *rarity) plainWord(lit string) float64 {
	word := strings.Trim(lit, " ")
	for i := range len(word) {
		if c := word[i]; c < 'a' || c > 'z' {
			return 0
		}
	}
	return float64(r.size) * wordShare / float64(int(1)<<min(20, len(word)))
}

// wordShare is how often a plain word would be in a byte of text if it had no
// letters; each letter halves that.
const wordShare = 1.0 / 128

func pairAt(b []byte, i int) int { return int(b[i]|0x20)<<8 | int(b[i+1]|0x20) }

// gramCost is the cost of a gram in the table.
func (r *rarity) gramCost(lit []byte, i int, s *shape) float64 {
	if s.gram == 2 {
		return float64(r.pairs[pairAt(lit, i)])
	}
	return float64(r.four(lit, i)) + r.perGram
}

// wordFor gives the mask by which the places with a gram of a literal are told best from
// others, the word that it shows, and the cost of those that it does not tell from them.
// The literal is long enough for the shape.
func (r *rarity) wordFor(lit []byte, i int, s *shape) (kind int, word uint64, cost float64) {
	kind = -1
	for k := range s.masks {
		if s.fits(k, lit, i) {
			if c := costOfPlace * r.expected(s.span(k, lit, i)); kind < 0 || c < cost {
				kind, cost = k, c
			}
		}
	}
	if kind < 0 {
		panic("multiscan: a literal is too short for its filter")
	}
	return kind, wordAt(lit, i) & s.masks[kind], cost
}

// hits estimates how often the filter looks at the literals in vain.
func (r *rarity) hits(set literalSet, s shape) float64 {
	c := newChooser(r, &s, set)
	var sum float64
	for i := range set {
		sum += c.choose(i)
	}
	return sum / float64(s.stride)
}

// rarest gives the part of at most n bytes that the filter hits least often.
func (r *rarity) rarest(lit string, n int) string {
	if len(lit) <= n {
		return lit
	}
	var best float64
	at := 0
	for i := 0; i+n <= len(lit); i += n / 4 {
		if c := r.hits(literalSet{lit[i : i+n]}, shapeFor(n)); i == 0 || c < best {
			at, best = i, c
		}
	}
	return lit[at : at+n]
}

// Costs as multiples of what it costs to find a gram in the table.
const (
	costOfPlace = 10 // to compare the text there with literals
	costOfHit   = 50 // to look at a line with a literal
)

// Lengths of literals, in bytes.
const (
	goodLiteral = 8 // keeps the filter fast
	minLiteral  = 3 // that the filter can find
)

// cost orders sets: first by what their shortest literal allows, then by how
// often the filter hits.
func (r *rarity) cost(set literalSet) (class int, cost float64) {
	n := set.shortest()
	if n < minLiteral {
		return goodLiteral, -float64(n)
	}
	for _, l := range set {
		cost += costOfHit * r.occurrences(l)
	}
	var marks []byte
	if n < goodLiteral && r.mark(set, &marks) {
		return 0, cost
	}
	n = min(n, goodLiteral)
	return goodLiteral - n, cost + r.hits(set, shapeFor(n))
}

func (r *rarity) better(a, b literalSet) bool {
	pa, ca := r.cost(a)
	pb, cb := r.cost(b)
	return pa < pb || pa == pb && ca < cb
}

func (s literalSet) shortest() int {
	n := 1 << 30
	for _, l := range s {
		n = min(n, len(l))
	}
	return n
}

// least gives a shortest literal of the set.
func (s literalSet) least() string {
	for _, l := range s {
		if len(l) == s.shortest() {
			return l
		}
	}
	return ""
}

const (
	maxMarks  = 4
	rareIsOne = 16 << 10 // bytes of text in which a rare byte occurs once
)

// mark reports whether each literal of a short set holds one of the marks, at most
// maxMarks bytes that are rare; it adds to them. They are bytes of characters
// beyond ASCII: what a sample says of the others does not hold for all logs.
func (r *rarity) mark(set literalSet, marks *[]byte) bool {
	have := *marks
	for _, l := range set {
		best, found := byte(0), false
		for _, c := range []byte(l) {
			if slices.Contains(have, c) {
				best, found = c, true
				break
			}
			if c >= utf8.RuneSelf && r.bytes[c] <= r.size/rareIsOne && (!found || r.bytes[c] < r.bytes[best]) {
				best, found = c, true
			}
		}
		if !found {
			return false
		}
		if !slices.Contains(have, best) {
			have = append(slices.Clip(have), best)
		}
	}
	if len(have) > maxMarks {
		return false
	}
	*marks = have
	return true
}
