//go:build amd64 || arm64

package multiscan

import "unsafe"

// place is an index into a text.
type place = uint32

// sizeOfPlace is what the table holds for a gram that is known.
const sizeOfPlace = uint8(unsafe.Sizeof(place(0)))

// usual is the stride of a set whose shortest literal is of goodLiteral bytes.
// With a stride that is known here the places looked at need less arithmetic.
const usual = goodLiteral - 3

// probe gives the places from i on, before end, whose gram is in the table, and
// the place where to go on. At most batch places are looked at, all of which
// are at least after bytes before the end of b.
func (f *filter) probe(b []byte, i, end int, to *places) (n, next int) {
	k, mul := f.stride, f.mul
	p := unsafe.Pointer(to)
	if k == usual {
		text := unsafe.Pointer(unsafe.SliceData(b))
		for ; i+7*usual < end; i += 8 * usual {
			at := unsafe.Add(text, i)
			h0 := (at32(at, 0) | fold32) * mul >> (32 - tableBits)
			h1 := (at32(at, usual) | fold32) * mul >> (32 - tableBits)
			h2 := (at32(at, 2*usual) | fold32) * mul >> (32 - tableBits)
			h3 := (at32(at, 3*usual) | fold32) * mul >> (32 - tableBits)
			*(*place)(p) = place(i)
			p = unsafe.Add(p, f.table[h0])
			*(*place)(p) = place(i + usual)
			p = unsafe.Add(p, f.table[h1])
			*(*place)(p) = place(i + 2*usual)
			p = unsafe.Add(p, f.table[h2])
			*(*place)(p) = place(i + 3*usual)
			p = unsafe.Add(p, f.table[h3])
			h0 = (at32(at, 4*usual) | fold32) * mul >> (32 - tableBits)
			h1 = (at32(at, 5*usual) | fold32) * mul >> (32 - tableBits)
			h2 = (at32(at, 6*usual) | fold32) * mul >> (32 - tableBits)
			h3 = (at32(at, 7*usual) | fold32) * mul >> (32 - tableBits)
			*(*place)(p) = place(i + 4*usual)
			p = unsafe.Add(p, f.table[h0])
			*(*place)(p) = place(i + 5*usual)
			p = unsafe.Add(p, f.table[h1])
			*(*place)(p) = place(i + 6*usual)
			p = unsafe.Add(p, f.table[h2])
			*(*place)(p) = place(i + 7*usual)
			p = unsafe.Add(p, f.table[h3])
		}
	}
	for ; i < end; i += k {
		h := (load32(b, i) | fold32) * mul >> (32 - tableBits)
		*(*place)(p) = place(i)
		p = unsafe.Add(p, f.table[h])
	}
	return int(uintptr(p)-uintptr(unsafe.Pointer(to))) / int(sizeOfPlace), i
}

func at32(p unsafe.Pointer, i int) uint32 { return *(*uint32)(unsafe.Add(p, i)) }
