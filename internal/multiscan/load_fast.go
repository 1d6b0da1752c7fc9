//go:build amd64 || arm64

package multiscan

import "unsafe"

// load32 reads four bytes in the order of both these machines,
// little-endian. The caller has seen to it
// that i >= 0 and i+4 <= len(b): here, in the two below and in what is
// written in assembly the bounds are not checked again, since the filter spends its time there.
func load32(b []byte, i int) uint32 {
	return *(*uint32)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(b)), i))
}

// load64 reads eight bytes likewise: i >= 0 and i+8 <= len(b).
func load64(b []byte, i int) uint64 {
	return *(*uint64)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(b)), i))
}

// load16 reads two bytes likewise: i >= 0 and i+2 <= len(b).
func load16(b []byte, i int) uint16 {
	return *(*uint16)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(b)), i))
}
