package journal

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/internal/testkit"
)

// FuzzBlock: a gzip header is one that superloop has written, byte for byte, or
// none of a block.
func FuzzBlock(f *testing.F) {
	b := block{place: place{seq: 9, begin: 900, end: 1000, hash: "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"}, first: 5, from: 400,
		prev: "f123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", size: 300}
	begins := b
	begins.first, begins.from, begins.prev = 1, 0, ""
	testkit.Seed(f, b.header(), begins.header())
	f.Fuzz(func(t *testing.T, data []byte) {
		b, ok := testkit.Decoder[block]{
			Decode: func(data []byte) (block, error) {
				if len(data) > headSize {
					return block{}, errNoBlock
				}
				return decodeBlock(data, 0)
			},
			Encode: func(b block) ([]byte, error) { return b.header(), nil },
			Exact:  true,
		}.Check(t, data)
		if ok && (b.first < 1 || b.seq < b.first || b.from < 0 || b.begin < b.from || b.end <= b.begin || b.end-b.begin > MaxLine+1 || b.size <= int64(headSize)) {
			t.Fatalf("%+v", b)
		}
	})
}

// FuzzSegment puts any bytes in the place of a segment, and beside the head in
// the place of what is known. Nothing panics, the ways to read agree, and what
// Open accepts is what was written.
func FuzzSegment(f *testing.F) {
	path, head := sealed(f, 2)
	second, active, anchor := mustRead(f, segmentPath(path, 2)), mustRead(f, path), mustRead(f, head)
	want := all(f, path, 0)
	known := mustRead(f, knownPath(head))
	for _, seed := range [][]byte{nil, second, mustRead(f, segmentPath(path, 1)), second[:len(second)/2], append(second[:len(second):len(second)], second...), []byte(gzipHead), make([]byte, 300)} {
		f.Add(seed, known)
	}
	f.Add(second, []byte(`{"version":1,"segments":1}`))
	first := mustRead(f, segmentPath(path, 1))
	f.Fuzz(func(t *testing.T, data, known []byte) {
		dir := t.TempDir()
		path, head := filepath.Join(dir, "events.jsonl"), filepath.Join(dir, "head")
		must(t, os.Mkdir(Segments(path), 0o700))
		mustWrite(t, path, active)
		mustWrite(t, head, anchor)
		mustWrite(t, knownPath(head), known)
		mustWrite(t, segmentPath(path, 1), first)
		mustWrite(t, segmentPath(path, 2), data)
		rep, err := Verify(path)
		if err != nil {
			t.Fatal(err)
		}
		var got []Event
		err = Read(path, 0, func(ev Event) error { got = append(got, ev); return nil })
		if _, corrupt := errors.AsType[*CorruptError](err); err != nil && !corrupt {
			t.Fatal(err)
		}
		if int64(len(got)) < rep.Events && err == nil || rep.FirstBad == nil && (err != nil || !reflect.DeepEqual(got, want)) {
			t.Fatalf("%d events read with %v, Verify says %+v", len(got), err, rep)
		}
		j, err := Open(durable.OS(), path, small(head))
		if (err == nil) != (rep.FirstBad == nil) {
			t.Fatalf("Verify found %v, Open says %v", rep.FirstBad, err)
		}
		if err == nil {
			must(t, j.Close())
		}
	})
}
