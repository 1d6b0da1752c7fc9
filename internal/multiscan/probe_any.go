//go:build !amd64 && !arm64

package multiscan

// place is an index into a text.
type place = uint32

// sizeOfPlace is what the table holds for a gram that is known.
const sizeOfPlace = 1

// probe gives the places from i on, before end, whose gram is in the table, and
// the place where to go on. At most batch places are looked at, all of which
// are at least after bytes before the end of b.
func (f *filter) probe(b []byte, i, end int, to *places) (n, next int) {
	for ; i < end; i += f.stride {
		to[n&placeMask] = place(i)
		n += int(f.table[(load32(b, i)|fold32)*f.mul>>(32-tableBits)])
	}
	return n, i
}
