//go:build !amd64 && !arm64

package multiscan

import "encoding/binary"

// load32 reads four bytes in little-endian order.
func load32(b []byte, i int) uint32 { return binary.LittleEndian.Uint32(b[i:]) }

// load64 reads eight bytes in little-endian order.
func load64(b []byte, i int) uint64 { return binary.LittleEndian.Uint64(b[i:]) }

// load16 reads two bytes in little-endian order.
func load16(b []byte, i int) uint16 { return binary.LittleEndian.Uint16(b[i:]) }
