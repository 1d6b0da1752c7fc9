package journal

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/superloop/superloop/internal/durable"
)

// FuzzRead reads any bytes as a journal, in every way there is. Nothing panics;
// the ways agree with each other; and what Verify calls whole is whole: Open
// accepts it unchanged.
//
// Open flushes, so fuzz on a file system in memory:
//
//	TMPDIR=/dev/shm go test -run '^$' -fuzz FuzzRead -fuzzminimizetime 20x ./loop/journal
func FuzzRead(f *testing.F) {
	_, data := journalOf(f, 3)
	golden, err := os.ReadFile(filepath.Join("testdata", "golden.jsonl"))
	if err != nil {
		f.Fatal(err)
	}
	lines := bytes.SplitAfter(data, []byte("\n"))
	for _, seed := range [][]byte{nil, data, golden, data[:len(data)-5], lines[1], []byte("{}\n"), []byte("\n\n"),
		bytes.Replace(data, []byte(`"prev":"`), []byte(`"prev":"}`), 2), []byte(`{"seq":1,"timestamp":"` + "\n"),
		append(bytes.Clone(lines[0]), lines[2]...), make([]byte, 300)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(t.TempDir(), "events.jsonl")
		mustWrite(t, path, data)
		rep, err := Verify(path)
		if err != nil {
			t.Fatal(err)
		}
		var got []Event
		readErr := Read(path, 0, func(ev Event) error { got = append(got, ev); return nil })
		var bad *CorruptError
		if readErr != nil && !errors.As(readErr, &bad) {
			t.Fatal(readErr)
		}
		// Read asks for less than Verify: the good lines are read, all of them.
		if int64(len(got)) < rep.Events || rep.Events > 0 && got[rep.Events-1].Hash != rep.LastHash {
			t.Fatalf("%d events read, %d are good", len(got), rep.Events)
		}
		for i, ev := range got {
			if ev.Seq != int64(i)+1 {
				t.Fatalf("event %d has number %d", i+1, ev.Seq)
			}
		}
		if readErr == nil {
			tail, err := Tail(path, len(got)+1)
			if err != nil || len(tail) != len(got) {
				t.Fatalf("Tail gives %d events of %d, %v", len(tail), len(got), err)
			}
		}
		j, err := Open(durable.OS(), path, Options{})
		if refused := errors.As(err, &bad); refused != (rep.FirstBad != nil && !rep.FirstBad.Torn) || err != nil && !refused {
			t.Fatalf("Verify found %v, Open says %v", rep.FirstBad, err)
		}
		now := mustRead(t, path)
		if err != nil {
			if !bytes.Equal(now, data) {
				t.Fatal("a file that was refused was changed")
			}
			return
		}
		defer j.Close()
		if j.LastSeq() != rep.LastSeq || j.end().hash != rep.LastHash || !bytes.HasPrefix(data, now) ||
			int64(len(data)-len(now)) != j.Repaired().Cut {
			t.Fatalf("opened at %d, %+v, Verify says %+v", j.LastSeq(), j.Repaired(), rep)
		}
	})
}
