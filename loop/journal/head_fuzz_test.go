package journal

import (
	"testing"

	"github.com/superloop/superloop/internal/testkit"
)

// FuzzHead: a record is the head that superloop has written, byte for byte, or none.
func FuzzHead(f *testing.F) {
	testkit.Seed(f, place{seq: 3, begin: 100, end: 300, hash: "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"[:hashLen]}.encode())
	f.Fuzz(func(t *testing.T, data []byte) {
		p, ok := testkit.Decoder[place]{
			Decode: func(data []byte) (place, error) { return decodePlace(data, "head") },
			Encode: func(p place) ([]byte, error) { return p.encode(), nil },
			Exact:  true,
		}.Check(t, data)
		if ok && (p.seq < 1 || p.begin < 0 || p.end <= p.begin || p.end-p.begin > MaxLine+1) {
			t.Fatalf("%+v", p)
		}
	})
}
