package multiscan

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

// blockOfText is what is looked at in one go.
const blockOfText = 64

//go:noescape
func stripCSI(to, from *byte, blocks int, state *[2]uint64, packing *uint64) int

// uncolour copies whole lines without the CSI sequences in them, if they hold nothing else
// that is to be removed, and gives how many bytes that are. There is room for
// uncolourRoom bytes more than the lines have.
func uncolour(to, lines []byte) (n int, ok bool) {
	if !cpu.X86.HasAVX2 || !cpu.X86.HasPOPCNT || len(lines) == 0 {
		return 0, false
	}
	var state [2]uint64
	whole := len(lines) &^ (blockOfText - 1)
	if whole > 0 {
		if n = stripCSI(unsafe.SliceData(to), unsafe.SliceData(lines), whole/blockOfText, &state, &packing[0]); n < 0 {
			return 0, false
		}
	}
	if rest := lines[whole:]; len(rest) > 0 {
		// The rest ends with a line end, which no sequence goes over: what fills the block up is
		// text.
		var last [blockOfText]byte
		for i := copy(last[:], rest); i < len(last); i++ {
			last[i] = ' '
		}
		m := stripCSI(&to[n], &last[0], 1, &state, &packing[0])
		if m < 0 {
			return 0, false
		}
		n += m - (len(last) - len(rest))
	}
	return n, true
}
