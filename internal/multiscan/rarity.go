package multiscan

import (
	"bytes"
	_ "embed" // for the sample
	"math"
	"slices"
	"sync"
)

// sample is output of builds and tests that pass: their words, and their habits (paths, durations, counts, names of
// tests that speak of errors). Lines may be added to it.
//
//go:embed sample.txt
var sample []byte

// rarity says how often each gram occurs in the sample, by the hash of the filter.
type rarity [1 << gramBits]uint16

var sampled = sync.OnceValue(func() *rarity { return newRarity(sample) })

func newRarity(of []byte) *rarity {
	r := new(rarity)
	for i := 0; i+minLiteral <= len(of); i++ {
		r[hashGram(fold(of[i:]))]++
	}
	return r
}

// of gives how often a literal occurs, at most: as often as its rarest gram.
func (r *rarity) of(b []byte) int {
	n := math.MaxUint16
	for i := 0; i+gram <= len(b); i++ {
		n = min(n, int(r[hashGram(foldEnd(b[i:]))]))
	}
	return n
}

// costOfGram is what it costs to know a gram, as a multiple of what it costs to compare one more literal where it
// stands.
const costOfGram = 5

// Costs as multiples of what it costs to know one more literal. The sample has few of the words of the world: a plain
// one may well be common elsewhere.
const (
	costOfHit   = 20      // to look at a line that has a literal
	costOfShort = 1 << 20 // that a literal is a byte too short for the filter
	costOfMark  = 1000    // to look for a mark
)

func (r *rarity) cost(set literalSet) (cost int) {
	for _, l := range set {
		b := []byte(l)
		cost += 1 + costOfHit*r.occurrences(b)
		_, least := r.rarest(l, nil)
		cost += least
	}
	if n := set.shortest(); n < minLiteral {
		cost = costOfShort * (minLiteral - n)
		if markOf(set) != 0 {
			cost = costOfMark
		}
	}
	return cost
}

func (r *rarity) occurrences(b []byte) int {
	word := bytes.Trim(b, " ")
	if len(word) < 10 && !bytes.ContainsFunc(word, func(c rune) bool { return c < 'a' || c > 'z' }) {
		return r.of(b) + 1024>>len(word)
	}
	return r.of(b)
}

// rarest gives the place of the word of a literal whose grams let the fewest places pass, and how many; none of a
// literal that is too short. A gram that the filter knows already lets no more pass; one that it does not know costs
// more than what it lets pass, as others may be taken for it. Without a filter all are taken to be known.
func (r *rarity) rarest(literal string, f *filter) (place, cost int) {
	for at := range len(literal) - minLiteral + 1 {
		c := 0
		for i := range stride {
			h := hashGram(foldEnd([]byte(literal[at+i:])))
			c += int(r[h])
			if f != nil && f.hasGram(h) == 0 {
				c += costOfGram*int(r[h]) + 4
			}
		}
		if at == 0 || c < cost {
			place, cost = at, c
		}
	}
	return place, cost
}

// common gives how many lines of each MB of the sample hold literals of all sets.
func common(sets []literalSet) float64 {
	n := 0
	for line := range bytes.Lines(lowered()) {
		if holds(textOf(sets), line) {
			n++
		}
	}
	return float64(n) * 1e6 / float64(len(sample))
}

var lowered = sync.OnceValue(func() []byte { return appendLower(nil, sample) })

// markOf gives a byte beyond ASCII that is in each literal of a set that is not empty, the last one since that tells
// characters apart; 0 if there is none.
func markOf(set literalSet) byte {
	for _, c := range slices.Backward([]byte(set[0])) {
		if c >= 0x80 && !slices.ContainsFunc(set, func(l string) bool { return !bytes.Contains([]byte(l), []byte{c}) }) {
			return c
		}
	}
	return 0
}
