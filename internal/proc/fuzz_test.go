package proc

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"testing"
	"testing/iotest"

	"github.com/superloop/superloop/internal/testkit"
)

// FuzzFrame: a frame is decoded whole or is an error, however it arrives; a length that is only claimed costs no memory.
func FuzzFrame(f *testing.F) {
	testkit.Seed(f, frame(event{Kind: evSwept, Text: "x", PID: 7, Code: -1, UserUS: 1 << 60}), frame(event{}),
		frame(request{Op: opRun, Path: []byte("/bin/\xff"), Argv: pack([]string{"a", ""}), Env: pack(nil), KillLimitMS: 1}))
	f.Add(binary.BigEndian.AppendUint32(nil, maxFrame))
	f.Add(binary.BigEndian.AppendUint32(nil, maxFrame+1))
	f.Fuzz(func(t *testing.T, data []byte) {
		checkFrame[event](t, data)
		if r, ok := checkFrame[request](t, data); ok {
			for _, list := range [][]byte{r.Argv, r.Env} {
				if again := pack(unpack(list)); !bytes.HasPrefix(list, again) || bytes.IndexByte(list[len(again):], 0) >= 0 {
					t.Fatalf("%q became %q", list, again)
				}
			}
		}
	})
}

func checkFrame[T any](t *testing.T, data []byte) (v T, ok bool) {
	v, ok = testkit.Decoder[T]{
		Decode: func(data []byte) (v T, err error) { err = readFrame(bytes.NewReader(data), &v); return v, err },
		Encode: func(v T) ([]byte, error) { return frame(v), nil },
	}.Check(t, data)
	var slow T
	if err := readFrame(iotest.OneByteReader(bytes.NewReader(data)), &slow); ok != (err == nil) || ok && !bytes.Equal(frame(slow), frame(v)) {
		t.Fatalf("byte by byte it is %+v, %v", slow, err)
	}
	// Two frames in a row are two frames, and then nothing.
	if r := bytes.NewReader(slices.Concat(frame(v), frame(v))); ok {
		var first, second T
		err := errors.Join(readFrame(r, &first), readFrame(r, &second))
		if end := readFrame(r, &first); err != nil || end != io.EOF {
			t.Fatalf("%v, then %v", err, end)
		}
	}
	return v, ok
}

// FuzzStat: a process can give itself any name, and its numbers are still its numbers.
func FuzzStat(f *testing.F) {
	const rest = " S 1 2 3 0 -1 4194304 1 0 0 0 1 2 0 0 20 0 1 0 12345 1 2 3"
	testkit.Seed(f, []byte("7 (bash)"+rest), []byte("7 (a) S 9 (b"+rest))
	f.Fuzz(func(t *testing.T, data []byte) {
		parseStat(data)
		name := bytes.Map(func(r rune) rune {
			if r == 0 {
				return -1
			}
			return r
		}, data[:min(len(data), 15)])
		s, ok := parseStat(slices.Concat([]byte("7 ("), name, []byte(")"+rest)))
		if !ok || s.pid != 7 || s.ppid != 1 || s.group != 2 || s.session != 3 || s.start != 12345 || s.state != 'S' {
			t.Fatalf("the name %q makes it %+v, %v", name, s, ok)
		}
	})
}
