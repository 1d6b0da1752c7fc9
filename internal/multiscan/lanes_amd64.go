package multiscan

import (
	"math/bits"
	"unsafe"

	"golang.org/x/sys/cpu"
)

// width is how many places the vectors hold.
const width = 8

// lanes is what the loops that look at several places at once know of a shape. The
// assembly reads it by the offsets of the fields.
type lanes struct {
	near, far [32]byte      // where each byte of a gram is in the text read for it; 0x80: in the other one
	at        [width]uint32 // the places, from the first on
	mask0     [4]uint64     // of the words
	mask1     [4]uint64
	step      uint32 // from the first place to the first of the next
	mul       uint32
	half      int64 // from the first place to the fifth
	second    int64 // from the first place to the second text read
	usable    bool
}

func (l *lanes) set(s *shape) {
	l.usable = cpu.X86.HasAVX2 && cpu.X86.HasPOPCNT && s.stride >= 4
	if !l.usable {
		return
	}
	l.step, l.mul = uint32(width*s.stride), s.mul
	l.half, l.second = int64(4*s.stride), int64(3*s.stride-12)
	for i := range l.at {
		l.at[i] = uint32(i * s.stride)
		lane, from := i/4*16, i%4*s.stride
		for n := range 4 {
			near, far := byte(0x80), byte(0x80)
			if from+4 <= 16 {
				near = byte(from + n)
			} else {
				far = byte(from + n - int(l.second))
			}
			l.near[lane+i%4*4+n], l.far[lane+i%4*4+n] = near, far
		}
	}
	for i := range l.mask0 {
		l.mask0[i], l.mask1[i] = s.masks[0], s.masks[1]
	}
}

// packing says of each choice of eight elements where these are, one after the other.
var packing = func() (p [1 << width]uint64) {
	for choice := range p {
		n := 0
		for c := uint(choice); c != 0; c &= c - 1 {
			p[choice] |= uint64(bits.TrailingZeros(c)) << (8 * n)
			n++
		}
	}
	return p
}()

//go:noescape
func probeAVX2(text *byte, i, groups int, l *lanes, table *uint32, packing *uint64, to *place) int

//go:noescape
func siftAVX2(text *byte, in *place, groups int, l *lanes, table *uint32, packing *uint64, to *place) int

// probeFast does what probe does for as many places as fit.
func (f *filter) probeFast(b []byte, i, end int, to *places) (n, next int) {
	if !f.lanes.usable || i >= end {
		return 0, i
	}
	groups := ((end-i-1)/f.stride + 1) / width
	if groups == 0 {
		return 0, i
	}
	n = probeAVX2(unsafe.SliceData(b), i, groups, &f.lanes, &f.table[0], &packing[0], &to[0])
	return n, i + groups*width*f.stride
}

// siftFast does what sift does for as many places as fit.
func (f *filter) siftFast(b []byte, in, to *places, n int) (done, kept int) {
	if !f.lanes.usable || n < width/2 {
		return 0, 0
	}
	return n &^ (width/2 - 1), siftAVX2(unsafe.SliceData(b), &in[0], n/(width/2), &f.lanes, &f.words.sieve[0], &packing[0], &to[0])
}
