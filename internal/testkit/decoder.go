// Package testkit holds what the fuzz targets of decoders share: the properties of every decoder of bytes that agents,
// disks, services and child processes hand in.
package testkit

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime/metrics"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// Decoder is one decoder under test.
type Decoder[T any] struct {
	Decode func(data []byte) (T, error)
	// Encode writes what Decode reads. It is nil for a format that superloop only reads.
	Encode func(T) ([]byte, error)
	// Exact says that Decode refuses everything but the bytes that Encode writes.
	Exact bool
}

// The bounds of Decoder.Check, in bytes. A decoder may allocate freeMemory and, for each byte of its input,
// memoryPerByte. A value of an interface takes some 50 bytes for two bytes of JSON, and a decoder copies it a few times.
const (
	freeMemory    = 4 << 20
	memoryPerByte = 400
	mostError     = 1000
)

// Check decodes data and fails t if one of these does not hold:
//
//   - the memory is bounded by the length of the input;
//   - the text of an error has at most 1,000 bytes, and shows neither control characters nor broken UTF-8;
//   - two readings give the same;
//   - what was decoded is encoded to bytes that are decoded again, to what gives the same bytes.
//
// ok is false if Decode has refused the input.
func (d Decoder[T]) Check(t *testing.T, data []byte) (v T, ok bool) {
	t.Helper()
	kept := bytes.Clone(data)
	var err error
	Memory(t, len(data), func() { v, err = d.Decode(data) })
	if !bytes.Equal(kept, data) {
		t.Fatal("the decoder has changed its input")
	}
	if err != nil {
		Message(t, err)
		if _, again := d.Decode(data); again == nil || again.Error() != err.Error() {
			t.Fatalf("refused once with %q, and then: %v", err, again)
		}
		return v, false
	}
	if d.Encode == nil {
		return v, true
	}
	first, err := d.Encode(v)
	if err != nil {
		t.Fatalf("decoded and not encoded: %v", err)
	}
	if d.Exact && !bytes.Equal(first, data) {
		t.Fatalf("took what it does not write:\n%q\nwrites\n%q", data, first)
	}
	again, err := d.Decode(first)
	if err != nil {
		t.Fatalf("refuses what it has written: %v\n%q\nfrom\n%q", err, first, data)
	}
	if second, err := d.Encode(again); err != nil || !bytes.Equal(first, second) {
		t.Fatalf("written, read and written again it differs (%v):\n%q\n%q", err, first, second)
	}
	return v, true
}

// Message fails t if the text of an error could flood or confuse a log.
func Message(t *testing.T, err error) {
	t.Helper()
	text := err.Error()
	if len(text) > mostError {
		t.Fatalf("an error of %d bytes: %.200s...", len(text), text)
	}
	Plain(t, text)
}

func allocated(do func()) uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	before := sample[0].Value.Uint64()
	do()
	metrics.Read(sample)
	return sample[0].Value.Uint64() - before
}

// Seed adds good inputs, and what a power cut, a full disk or a broken transfer makes of each.
func Seed(f *testing.F, good ...[]byte) {
	f.Add([]byte{})
	for _, data := range good {
		f.Add(data)
		f.Add(data[:len(data)/2])
		f.Add(make([]byte, len(data)))
		f.Add(slices.Concat(data[:len(data)/2], make([]byte, len(data)-len(data)/2)))
		f.Add(slices.Concat(data, data))
		flipped := bytes.Clone(data)
		if len(data) > 0 {
			flipped[len(data)/2] ^= 1
		}
		f.Add(flipped)
	}
}

// File returns a function that puts bytes into a file of the given name, of mode 0600 in a private directory, for
// decoders that read a file. The function returns the file's path.
func File(f *testing.F, name string) func(data []byte) (path string) {
	path := filepath.Join(f.TempDir(), name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		f.Fatal(err)
	}
	return func(data []byte) string {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			f.Fatal(err)
		}
		return path
	}
}

// Pieces calls feed with the pieces of data, of n bytes each; n below 1 stands for the whole.
func Pieces(data []byte, n int, feed func(piece []byte)) {
	if n < 1 {
		n = max(1, len(data))
	}
	for piece := range slices.Chunk(data, n) {
		feed(bytes.Clone(piece)) // a decoder that kept the piece would see it change
	}
}

// Memory fails t if do, which decodes n bytes, allocates more than a decoder may.
func Memory(t *testing.T, n int, do func()) {
	t.Helper()
	if used := allocated(do); used > freeMemory+memoryPerByte*uint64(n) {
		t.Fatalf("decoding %d bytes took %d bytes of memory", n, used)
	}
}

// Plain fails t if a text that superloop shows holds control characters or broken UTF-8. The errors of Go's libraries
// quote all of them but DEL, which no screen acts on.
func Plain(t *testing.T, text string) {
	t.Helper()
	if !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != 0x7f }) {
		t.Fatalf("no plain text: %q", text)
	}
}
