package multiscan

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"slices"
)

// uncolourRoom is how many bytes more than there are may be written, to be written over.
const uncolourRoom = 64

// appendUncoloured appends whole lines without the CSI sequences in them, which is
// what most lines with control sequences have. It stops before the
// first line that holds anything else to be removed, and returns how far it came.
func appendUncoloured(to, lines []byte) ([]byte, int) {
	start := len(to)
	to = slices.Grow(to, len(lines)+uncolourRoom)
	if n, ok := uncolour(to[start:cap(to)], lines); ok {
		return to[:start+n], len(lines)
	}
	return appendByEights(to, lines)
}

// appendByEights is appendUncoloured with eight bytes at a time, for any machine. There is
// room for uncolourRoom bytes more than the lines have.
func appendByEights(to, lines []byte) ([]byte, int) {
	const ones = 0x0101010101010101
	start, i, n := len(to), 0, len(to)
	to = to[:cap(to)]
	for {
		control := uint64(0)
		for i+8 <= len(lines) {
			v := binary.LittleEndian.Uint64(lines[i:])
			binary.LittleEndian.PutUint64(to[n:], v)
			e, b := v^esc*ones, v^backspace*ones
			// The lowest of these bits is that of an ESC or a backspace.
			control = ((e-ones)&^e | (b-ones)&^b) & (0x80 * ones)
			if control != 0 {
				k := bits.TrailingZeros64(control) / 8
				i, n = i+k, n+k
				break
			}
			i, n = i+8, n+8
		}
		if control == 0 {
			for i < len(lines) && lines[i] != esc && lines[i] != backspace {
				to[n] = lines[i]
				i, n = i+1, n+1
			}
			if i == len(lines) {
				return to[:n], i
			}
		}
		end := i + 2 // of the parameters
		for end < len(lines) && lines[end]-0x20 < 0x20 {
			end++
		}
		if end >= len(lines) || lines[i] != esc || lines[i+1] != '[' || lines[end]-0x40 >= 0x3f {
			return to[:start+bytes.LastIndexByte(to[start:n], '\n')+1], bytes.LastIndexByte(lines[:i], '\n') + 1
		}
		i = end + 1
	}
}
