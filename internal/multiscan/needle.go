package multiscan

import "bytes"

// needle is a literal that is looked for in a lowered text.
type needle struct {
	lit   []byte
	pairs [3]uint16 // of its bytes, as a digest has them; of a single byte there are none
}

func newNeedle(lit string) needle {
	n := needle{lit: []byte(lit)}
	if last := len(lit) - 2; last >= 0 {
		for i, at := range [...]int{0, last / 2, last} {
			n.pairs[i] = pairHash(lit[at], lit[at+1])
		}
	}
	return n
}

// needles makes the literals of sets ready to be looked for.
func needles(sets []literalSet) [][]needle {
	out := make([][]needle, len(sets))
	for i, set := range sets {
		for _, l := range set {
			out[i] = append(out[i], newNeedle(l))
		}
	}
	return out
}

const digestBits = 10

// digest says of each pair of neighbouring bytes whether a text may hold it. To
// make one costs about as much as to look for two literals; it rules most others
// out at once.
type digest [1 << digestBits / 64]uint64

func pairHash(a, b byte) uint16 {
	return uint16((uint32(a)<<8 | uint32(b)) * hashMul >> (32 - digestBits))
}

func (d *digest) of(text []byte) {
	clear(d[:])
	for i := 1; i < len(text); i++ {
		h := pairHash(text[i-1], text[i])
		d[h/64] |= 1 << (h % 64)
	}
}

func (d *digest) mayHold(n *needle) bool {
	if len(n.lit) < 2 {
		return true
	}
	a, b, c := n.pairs[0], n.pairs[1], n.pairs[2]
	return d[a/64]>>(a%64)&(d[b/64]>>(b%64))&(d[c/64]>>(c%64))&1 != 0
}

// haystack is a text in which literals are looked for, whatever their letter case.
type haystack struct {
	text   []byte // as it is
	lower  []byte // if ready: in lower case
	digest digest // of lower, if digested
	ready  bool

	digested bool
}

// put exchanges the text; nothing is done with it until something is looked for.
func (h *haystack) put(text []byte) { h.text, h.ready, h.digested = text, false, false }

func (h *haystack) prepare() {
	if !h.ready {
		h.ready = true
		h.lower = appendLower(h.lower[:0], h.text)
	}
}

// holds reports whether the text has a literal of each of the pattern's other
// sets, and of those of one of its branches.
func (h *haystack) holds(pat *pattern) bool {
	h.prepare()
	if !h.hasAll(pat.also) {
		return false
	}
	for _, sets := range pat.branches {
		if h.hasAll(sets) {
			return true
		}
	}
	return len(pat.branches) == 0
}

func (h *haystack) hasAll(sets [][]needle) bool {
	for _, set := range sets {
		if !h.hasOne(set) {
			return false
		}
	}
	return true
}

// fewNeedles are looked for without a digest.
const fewNeedles = 4

func (h *haystack) hasOne(set []needle) bool {
	if len(set) <= fewNeedles && !h.digested {
		for i := range set {
			if bytes.Contains(h.lower, set[i].lit) {
				return true
			}
		}
		return false
	}
	if !h.digested {
		h.digested = true
		h.digest.of(h.lower)
	}
	for i := range set {
		if n := &set[i]; h.digest.mayHold(n) && bytes.Contains(h.lower, n.lit) {
			return true
		}
	}
	return false
}
