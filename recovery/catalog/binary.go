package catalog

import (
	"cmp"
	"encoding/binary"
	"math"
	"math/bits"
	"reflect"
	"slices"
)

// binaryForm reads or writes the compiled form: a struct is a number with a bit for each field that is not zero, and
// these fields; a text, a list and a map begin with their length. Texts are not copied when they are read. There is
// nothing that makes an old form readable: it is made anew with the program.
type binaryForm struct {
	reading bool
	short   bool // there was less than was to be read
	rest    string
	written []byte
}

// writeBinary gives the form of what a pointer points to: strings, numbers, bools, slices, maps, structs and pointers.
func writeBinary(v any) string {
	b := binaryForm{}
	b.value(reflect.ValueOf(v).Elem())
	return string(b.written)
}

// readBinary reads what writeBinary wrote of a value of the type that v points to, and reports whether it is whole.
func readBinary(form string, v any) bool {
	b := binaryForm{reading: true, rest: form}
	b.value(reflect.ValueOf(v).Elem())
	return !b.short && b.rest == ""
}

// number reads a number; or it writes n and gives it back.
func (b *binaryForm) number(n uint64) uint64 {
	if !b.reading {
		b.written = binary.AppendUvarint(b.written, n)
		return n
	}
	n, size := binary.Uvarint([]byte(b.rest[:min(len(b.rest), binary.MaxVarintLen64)]))
	b.rest, b.short = b.rest[max(size, 0):], b.short || size <= 0
	return n
}

// length is number for how many things of a byte or more follow.
func (b *binaryForm) length(n int) int {
	long := b.number(uint64(n))
	if b.reading && long > uint64(len(b.rest)) {
		b.rest, b.short = "", true
		return 0
	}
	return int(long)
}

// value reads a value that can be set, or writes it.
func (b *binaryForm) value(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		n := b.length(v.Len())
		if !b.reading {
			b.written = append(b.written, v.String()...)
			return
		}
		v.SetString(b.rest[:n])
		b.rest = b.rest[n:]
	case reflect.Bool:
		v.SetBool(b.number(map[bool]uint64{true: 1}[v.Bool()]) == 1)
	case reflect.Int:
		n := b.number(uint64(v.Int()<<1 ^ v.Int()>>63))
		v.SetInt(int64(n>>1) ^ -int64(n&1))
	case reflect.Uint64:
		v.SetUint(b.number(v.Uint()))
	case reflect.Float64:
		v.SetFloat(math.Float64frombits(b.number(math.Float64bits(v.Float()))))
	case reflect.Slice:
		n := b.length(v.Len())
		if b.reading && n > 0 {
			v.Set(reflect.MakeSlice(v.Type(), n, n))
		}
		for i := range n {
			b.value(v.Index(i))
		}
	case reflect.Pointer: // of a field, so not nil
		if b.reading {
			v.Set(reflect.New(v.Type().Elem()))
		}
		b.value(v.Elem())
	case reflect.Map:
		keys := slices.SortedFunc(slices.Values(v.MapKeys()), func(a, b reflect.Value) int { return cmp.Compare(a.String(), b.String()) })
		n := b.length(len(keys))
		if b.reading && n > 0 {
			v.Set(reflect.MakeMapWithSize(v.Type(), n))
		}
		for i := range n {
			key, elem := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			if !b.reading {
				key.Set(keys[i])
				elem.Set(v.MapIndex(key))
			}
			b.value(key)
			b.value(elem)
			v.SetMapIndex(key, elem)
		}
	case reflect.Struct:
		set := uint64(0)
		for i := 0; !b.reading && i < v.NumField(); i++ {
			if !v.Field(i).IsZero() {
				set |= 1 << i
			}
		}
		for set = b.number(set); set != 0 && !b.short; set &= set - 1 {
			if i := bits.TrailingZeros64(set); i < v.NumField() {
				b.value(v.Field(i))
			}
		}
	default:
		panic("the compiled catalog cannot hold a " + v.Type().String())
	}
}
