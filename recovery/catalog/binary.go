package catalog

import (
	"cmp"
	"encoding/binary"
	"math"
	"math/bits"
	"reflect"
	"slices"
)

// The compiled form is binary: a struct is a number with a bit for each field that is not zero, and these fields; a
// text, a list and a map begin with their length. Texts are not copied when they are read. There is nothing that makes
// an old form readable: it is made anew with the program.

// appendBinary appends a value of strings, numbers, bools, slices, maps, structs and pointers to these.
func appendBinary(to []byte, v reflect.Value) []byte {
	switch v.Kind() {
	case reflect.String:
		return append(binary.AppendUvarint(to, uint64(v.Len())), v.String()...)
	case reflect.Bool:
		if v.Bool() {
			return append(to, 1)
		}
		return append(to, 0)
	case reflect.Int, reflect.Int64:
		return binary.AppendVarint(to, v.Int())
	case reflect.Uint64:
		return binary.AppendUvarint(to, v.Uint())
	case reflect.Float64:
		return binary.AppendUvarint(to, math.Float64bits(v.Float()))
	case reflect.Slice:
		to = binary.AppendUvarint(to, uint64(v.Len()))
		for i := range v.Len() {
			to = appendBinary(to, v.Index(i))
		}
		return to
	case reflect.Pointer: // of a field, so not nil
		return appendBinary(to, v.Elem())
	case reflect.Map:
		keys := v.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int { return cmp.Compare(a.String(), b.String()) })
		to = binary.AppendUvarint(to, uint64(len(keys)))
		for _, k := range keys {
			to = appendBinary(appendBinary(to, k), v.MapIndex(k))
		}
		return to
	case reflect.Struct:
		set := uint64(0)
		for i := range v.NumField() {
			if !v.Field(i).IsZero() {
				set |= 1 << i
			}
		}
		to = binary.AppendUvarint(to, set)
		for i := range v.NumField() {
			if set>>i&1 == 1 {
				to = appendBinary(to, v.Field(i))
			}
		}
		return to
	}
	panic("the compiled catalog cannot hold a " + v.Type().String())
}

// readBinary reads what appendBinary wrote of a value of the type that v points to, and reports whether it is whole.
func readBinary(form string, v any) bool {
	r := binaryReader{rest: form}
	r.read(reflect.ValueOf(v).Elem())
	return !r.short && r.rest == ""
}

// binaryReader reads a compiled form from its beginning to its end.
type binaryReader struct {
	rest  string
	short bool // there was less than was to be read
}

func (r *binaryReader) number() (n uint64) {
	for i := 0; i < len(r.rest) && i < binary.MaxVarintLen64; i++ {
		n |= uint64(r.rest[i]&0x7f) << (7 * i)
		if r.rest[i] < 0x80 {
			r.rest = r.rest[i+1:]
			return n
		}
	}
	r.rest, r.short = "", true
	return 0
}

// length is a number of things of a byte or more.
func (r *binaryReader) length() int {
	n := r.number()
	if n > uint64(len(r.rest)) {
		r.rest, r.short = "", true
		return 0
	}
	return int(n)
}

func (r *binaryReader) read(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		n := r.length()
		v.SetString(r.rest[:n])
		r.rest = r.rest[n:]
	case reflect.Bool:
		v.SetBool(r.number() == 1)
	case reflect.Int, reflect.Int64:
		n := r.number()
		v.SetInt(int64(n>>1) ^ -int64(n&1))
	case reflect.Uint64:
		v.SetUint(r.number())
	case reflect.Float64:
		v.SetFloat(math.Float64frombits(r.number()))
	case reflect.Slice:
		if n := r.length(); n > 0 {
			v.Set(reflect.MakeSlice(v.Type(), n, n))
			for i := range n {
				r.read(v.Index(i))
			}
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		r.read(v.Elem())
	case reflect.Map:
		if n := r.length(); n > 0 {
			v.Set(reflect.MakeMapWithSize(v.Type(), n))
			for range n {
				key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
				r.read(key)
				r.read(value)
				v.SetMapIndex(key, value)
			}
		}
	case reflect.Struct:
		for set := r.number(); set != 0 && !r.short; set &= set - 1 {
			if i := bits.TrailingZeros64(set); i < v.NumField() {
				r.read(v.Field(i))
			}
		}
	}
}
