package multiscan

import (
	"encoding/binary"
	"math/bits"
)

const (
	// Around a place the filter knows a word of eight bytes: before of them
	// stand before the place.
	wordLen = 8
	before  = 2
	after   = wordLen - before
	// maxStride bounds how many grams of each literal are in the table.
	maxStride = 8
)

// shape says how a filter looks at its literals: by grams of how many bytes, at
// how many places, and with how much of what is around them.
type shape struct {
	gram   int    // bytes of a gram
	mul    uint32 // multiplies a gram's four bytes such that those after the gram do not count
	stride int
	masks  [2]uint64 // parts of a word that are compared: the first that is in the literal
}

// longShape fits literals of goodLiteral bytes and more. Their grams are of four
// bytes, known with the two after them, or with the two before them.
func longShape(shortest int) shape {
	return shape{
		gram: 4, mul: hashMul, stride: min(maxStride, shortest-3),
		masks: [2]uint64{part(before, wordLen), part(0, wordLen-before)},
	}
}

// shortShape fits literals of minLiteral bytes and more: with grams of two bytes
// the stride is still some bytes wide. What is known of what is after or before them
// is as much as fits into the shortest literal wherever the gram stands.
func shortShape(shortest int) shape {
	n := 3
	if shortest > 4 {
		n = 4
	}
	return shape{
		gram: 2, mul: hashMul << 16 & (1<<32 - 1), stride: min(maxStride, shortest-1),
		masks: [2]uint64{part(before, before+n), part(before+2-n, before+2)},
	}
}

// part is a mask of the bytes of a word from one on, before another.
func part(from, to int) uint64 { return 1<<(8*to) - 1 - (1<<(8*from) - 1) }

// hash is the place of the gram at b[i] in the table.
func (s *shape) hash(b []byte, i int) uint32 {
	var gram [4]byte
	copy(gram[:], b[i:])
	return (load32(gram[:], 0) | fold32) * s.mul >> (32 - tableBits)
}

// fits reports whether all that a mask compares around a place of a literal is in the
// literal.
func (s *shape) fits(kind int, lit []byte, at int) bool {
	known := part(max(0, before-at), min(wordLen, before+len(lit)-at))
	return s.masks[kind]&^known == 0
}

// span gives what a mask compares around a place of a literal in which all of it is.
func (s *shape) span(kind int, lit []byte, at int) []byte {
	m := s.masks[kind]
	return lit[at-before+bits.TrailingZeros64(m)/8 : at-before+bits.Len64(m)/8]
}

// wordAt loads the word around a place, wherever it is.
func wordAt(b []byte, i int) uint64 {
	if i >= before && i+after <= len(b) {
		return load64(b, i-before) | fold64
	}
	var w [wordLen]byte
	copy(w[max(0, before-i):], b[max(0, i-before):])
	return binary.LittleEndian.Uint64(w[:]) | fold64
}

func shapeFor(shortest int) shape {
	if shortest >= goodLiteral {
		return longShape(shortest)
	}
	return shortShape(shortest)
}
