package multiscan

import (
	"encoding/binary"
	"math/bits"
)

const (
	fold32    = 0x20202020
	fold64    = 0x2020202020202020
	hashMul   = 0x9E3779B1
	hashMul64 = 0x9E3779B97F4A7C15

	bitmapBits = 17
	widerBits  = 15
	maxWindow  = 8
	// maxFilterLiteral is how much of a literal is compared where its window
	// was found; the rest is left to the check of the whole line.
	maxFilterLiteral = 32
	// maxVariants literals of one window are told apart where it was found.
	maxVariants = 4
)

// filter finds a few thousand literals of at least m bytes in a text by
// looking at every stride-th place only. Of each literal one window of m bytes
// is wanted; wherever it lies, one of its stride 4-grams is at a place looked
// at, since stride = m-3. A hit in the bitmap of these grams is looked up in a
// table that says where in a window the gram stands, then the window in
// another, then the literal is compared. The cost of a hit does not grow with
// the number of patterns. Everything is compared with bit 0x20 of each byte set
// (which joins upper and lower case), but the literal at last as it is.
type filter struct {
	bitmap [1 << bitmapBits / 32]uint32 // of grams
	wider  [1 << widerBits / 32]uint32  // of grams with their neighbours
	wide   uint                         // 64 less the bits of such a gram
	m      int
	stride int
	mask   uint64 // the bytes of a window in a word

	grams     []gramSlot // open addressing
	gramShift uint
	slots     []windowSlot // open addressing
	slotShift uint
	windows   [][]variant
}

type gramSlot struct {
	gram  uint32
	where uint32 // bit j: the gram is at offset j of a window; 0: empty
}

type windowSlot struct {
	key   uint64
	index int32 // into windows; -1: empty
}

// variant is one literal around a window.
type variant struct {
	lit      string // empty: the window alone
	off      int    // of the window in lit
	patterns []int32
}

// wanted is one literal of a pattern.
type wanted struct {
	lit     string
	pattern int32
}

// newFilter builds the filter; every literal has at least m bytes,
// minLiteral <= m <= maxWindow. It returns for each of the wanted whether the filter
// compares the literal whole.
func newFilter(want []wanted, m int, r *rarity) (*filter, []bool) {
	f := &filter{m: m, stride: m - 3, wide: 32 - 8*uint(extent(m))}
	var ones [8]byte
	for i := range m {
		ones[i] = 0xff
	}
	f.mask = load64(ones[:], 0)

	index := map[uint64]int{}
	whole := make([]bool, len(want))
	place := make([]int, len(want))
	for n, w := range want {
		at, _ := r.window(w.lit, m)
		from := max(0, min(at-(maxFilterLiteral-m)/2, len(w.lit)-maxFilterLiteral))
		lit := w.lit[from:min(len(w.lit), from+maxFilterLiteral)]
		whole[n] = len(lit) == len(w.lit)
		at -= from
		var word [8]byte
		copy(word[:], lit[at:at+m])
		key := f.key(load64(word[:], 0))
		i, ok := index[key]
		if !ok {
			i = len(f.windows)
			index[key] = i
			f.windows = append(f.windows, nil)
		}
		place[n] = i
		f.addVariant(i, lit, at, w.pattern)
	}
	f.collapse()
	for n := range want {
		if f.windows[place[n]][0].lit == "" {
			whole[n] = false
		}
	}
	f.index(index)
	return f, whole
}

// extent is how many bytes after or before any gram of a window of m bytes
// lie in the window.
func extent(m int) int {
	switch m - 3 {
	case 1:
		return 0
	case 2, 3:
		return 1
	}
	return 2
}

func (f *filter) key(v uint64) uint64 { return (v | fold64) & f.mask }

func (f *filter) addVariant(i int, lit string, off int, pattern int32) {
	for n := range f.windows[i] {
		v := &f.windows[i][n]
		if v.lit == lit && v.off == off {
			if v.patterns[len(v.patterns)-1] != pattern {
				v.patterns = append(v.patterns, pattern)
			}
			return
		}
	}
	f.windows[i] = append(f.windows[i], variant{lit, off, []int32{pattern}})
}

// collapse leaves of a window with many literals the window alone, so that
// the cost of finding it is bounded.
func (f *filter) collapse() {
	for i, vs := range f.windows {
		if len(vs) <= maxVariants {
			continue
		}
		seen := map[int32]bool{}
		one := variant{}
		for _, v := range vs {
			for _, p := range v.patterns {
				if !seen[p] {
					seen[p] = true
					one.patterns = append(one.patterns, p)
				}
			}
		}
		f.windows[i] = []variant{one}
	}
}

func (f *filter) index(keys map[uint64]int) {
	gramBits := bits.Len(uint(len(keys) * f.stride * 2))
	f.grams, f.gramShift = make([]gramSlot, 1<<gramBits), uint(32-gramBits)
	slotBits := bits.Len(uint(len(keys) * 2))
	f.slots, f.slotShift = make([]windowSlot, 1<<slotBits), uint(64-slotBits)
	for i := range f.slots {
		f.slots[i].index = -1
	}
	for key, i := range keys {
		s := f.slotOf(key)
		f.slots[s] = windowSlot{key, int32(i)}
		// The window with room for neighbours that are not looked at.
		var word [2 + maxWindow + 2]byte
		binary.LittleEndian.PutUint64(word[2:], key)
		for j := range f.stride {
			gram := load32(word[:], 2+j) | fold32
			h := gram * hashMul >> (32 - bitmapBits)
			f.bitmap[h>>5] |= 1 << (h & 31)
			if j+4+extent(f.m) <= f.m {
				// before finds the same bytes from a gram further on.
				wide := f.after(load64(word[:], j) | fold64)
				f.wider[wide>>5] |= 1 << (wide & 31)
			}
			g := f.gramOf(gram)
			f.grams[g].gram = gram
			f.grams[g].where |= 1 << j
		}
	}
}

// gramOf gives the slot of a gram: its own, or the empty one for it.
func (f *filter) gramOf(gram uint32) int {
	mask := len(f.grams) - 1
	for i := int(gram * hashMul >> f.gramShift); ; i = (i + 1) & mask {
		if f.grams[i].where == 0 || f.grams[i].gram == gram {
			return i
		}
	}
}

func (f *filter) slotOf(key uint64) int {
	mask := len(f.slots) - 1
	for i := int(key * hashMul64 >> f.slotShift); ; i = (i + 1) & mask {
		if f.slots[i].index < 0 || f.slots[i].key == key {
			return i
		}
	}
}

// next gives the first place at or after i, in steps of the stride, where
// a window may be, or len(b).
func (f *filter) next(b []byte, i int) int {
	k := f.stride
	last := len(b) - 4
	for ; i+3*k <= last; i += 4 * k {
		h0 := (load32(b, i) | fold32) * hashMul >> (32 - bitmapBits)
		h1 := (load32(b, i+k) | fold32) * hashMul >> (32 - bitmapBits)
		h2 := (load32(b, i+2*k) | fold32) * hashMul >> (32 - bitmapBits)
		h3 := (load32(b, i+3*k) | fold32) * hashMul >> (32 - bitmapBits)
		if f.bitmap[h0>>5]&(1<<(h0&31)) != 0 && f.likely(b, i) {
			return i
		}
		if f.bitmap[h1>>5]&(1<<(h1&31)) != 0 && f.likely(b, i+k) {
			return i + k
		}
		if f.bitmap[h2>>5]&(1<<(h2&31)) != 0 && f.likely(b, i+2*k) {
			return i + 2*k
		}
		if f.bitmap[h3>>5]&(1<<(h3&31)) != 0 && f.likely(b, i+3*k) {
			return i + 3*k
		}
	}
	for ; i <= last; i += k {
		h := (load32(b, i) | fold32) * hashMul >> (32 - bitmapBits)
		if f.bitmap[h>>5]&(1<<(h&31)) != 0 && f.likely(b, i) {
			return i
		}
	}
	return len(b)
}

// likely looks at the gram at i together with the bytes after it and with
// those before it: one of the two lies in the window, if there is one.
func (f *filter) likely(b []byte, i int) bool {
	if i < 2 || i+6 > len(b) {
		return true
	}
	v := load64(b, i-2) | fold64
	h := f.after(v)
	if f.wider[h>>5]&(1<<(h&31)) != 0 {
		return true
	}
	h = f.before(v)
	return f.wider[h>>5]&(1<<(h&31)) != 0
}

// after hashes the gram that is the middle of v and up to two bytes after it.
func (f *filter) after(v uint64) uint64 { return v >> 16 << f.wide * hashMul64 >> (64 - widerBits) }

// before hashes the gram and up to two bytes before it.
func (f *filter) before(v uint64) uint64 {
	return v << 16 >> f.wide << f.wide * hashMul64 >> (64 - widerBits)
}

// at appends the variants that stand in b such that place i lies in their
// window.
func (f *filter) at(b []byte, i int, to []*variant) []*variant {
	g := f.gramOf(load32(b, i) | fold32)
	for where := f.grams[g].where; where != 0; where &= where - 1 {
		from := i - bits.TrailingZeros32(where)
		if from < 0 || from+f.m > len(b) {
			continue
		}
		s := f.slotOf(f.key(loadUpTo8(b, from)))
		if f.slots[s].index < 0 {
			continue
		}
		vs := f.windows[f.slots[s].index]
		for n := range vs {
			if vs[n].standsAt(b, from-vs[n].off) {
				to = append(to, &vs[n])
			}
		}
	}
	return to
}

func loadUpTo8(b []byte, i int) uint64 {
	if i+8 <= len(b) {
		return load64(b, i)
	}
	var word [8]byte
	copy(word[:], b[i:])
	return load64(word[:], 0)
}

func (v *variant) standsAt(b []byte, i int) bool {
	if i < 0 || i+len(v.lit) > len(b) {
		return false
	}
	for n := range len(v.lit) {
		c := b[i+n]
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != v.lit[n] {
			return false
		}
	}
	return true
}
