package multiscan

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

//go:noescape
func occurAVX2(p *byte, n int, want *[8]byte) uint64

// occur says which of the first six of some bytes are in b: bit i stands for byte i.
// One look at the text for all of them costs as much as one for one of them.
func occur(b []byte, want *[8]byte) uint64 {
	n := len(b) &^ 31
	if n == 0 || !cpu.X86.HasAVX2 {
		return occurIn(b, want)
	}
	return occurAVX2(unsafe.SliceData(b), n, want) | occurIn(b[n:], want)
}
