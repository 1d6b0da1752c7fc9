package multiscan

// rarity says how often short pieces of text occur in passing output, letter
// case aside, by a sample.
type rarity struct {
	quads   []uint32 // occurrences by hash of four bytes
	pairs   []uint32 // occurrences of two bytes
	singles [256]float64
}

const quadBits = 17

func newRarity(sample []byte) *rarity {
	r := &rarity{quads: make([]uint32, 1<<quadBits), pairs: make([]uint32, 1<<16)}
	for i := 0; i+4 <= len(sample); i++ {
		v := load32(sample, i) | fold32
		r.quads[v*hashMul>>(32-quadBits)]++
		r.pairs[pairAt(sample, i)]++
		r.singles[sample[i]|0x20]++
	}
	return r
}

func pairAt(b []byte, i int) int { return int(b[i]|0x20)<<8 | int(b[i+1]|0x20) }

// gram estimates how often the four bytes at i occur in as much text as the
// sample. To the occurrences a share of what the pairs of bytes let expect is
// added, since real output has more words than a sample.
func (r *rarity) gram(b []byte, i int) float64 {
	expected := float64(r.pairs[pairAt(b, i)])
	for j := i + 1; j <= i+2; j++ {
		expected *= float64(r.pairs[pairAt(b, j)]) / max(1, r.singles[b[j]|0x20])
	}
	return float64(r.quads[(load32(b, i)|fold32)*hashMul>>(32-quadBits)]) + expected/2
}

// window gives the place of the m bytes of lit that the filter hits least
// often, and how often that is: each of their 4-grams is looked for.
// len(lit) >= m >= 4.
func (r *rarity) window(lit string, m int) (at int, cost float64) {
	b := []byte(lit)
	for i := 0; i+m <= len(b); i++ {
		var c float64
		for j := i; j+4 <= i+m; j++ {
			c += r.gram(b, j)
		}
		if i == 0 || c < cost {
			at, cost = i, c
		}
	}
	return at, cost
}

// Lengths of literals, in bytes.
const (
	goodLiteral = 7 // keeps the filter fast
	minLiteral  = 4 // that the filter can find
)

// cost orders sets: first by what their shortest literal allows, then by how
// often the filter hits.
func (r *rarity) cost(set literalSet) (class int, cost float64) {
	n := set.shortest()
	if n < minLiteral {
		return goodLiteral, -float64(n)
	}
	n = min(n, goodLiteral)
	for _, s := range set {
		_, c := r.window(s, n)
		// A literal more is a gram more in the bitmap, found by chance.
		cost += c + 0.01
	}
	return goodLiteral - n, cost
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
