//go:build !amd64

package multiscan

// occur says which of the first six of some bytes are in b: bit i stands for byte i.
func occur(b []byte, want *[8]byte) uint64 { return occurIn(b, want) }
