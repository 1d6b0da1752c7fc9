package loop

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/superloop/superloop/internal/testkit"
)

// FuzzFact: a line of a journal is a fact, a record, or an error; the machine takes any fact in any order, and comes to the
// same state each time.
func FuzzFact(f *testing.F) {
	files, err := filepath.Glob("testdata/*.jsonl")
	if err != nil || len(files) == 0 {
		f.Fatal(files, err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		lines := bytes.SplitAfter(data, []byte("\n"))
		f.Add(bytes.Join(lines[:min(len(lines), 12)], nil))
		f.Add(bytes.Join(lines[max(0, len(lines)-6):], nil))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		replay := func() *Replay {
			r := NewReplay()
			for raw := range bytes.Lines(data) {
				line, ok := testkit.Decoder[Line]{Decode: ParseLine}.Check(t, raw)
				if !ok {
					continue
				}
				if err := r.Add(line); err != nil {
					testkit.Message(t, err)
				}
			}
			return r
		}
		r, again := replay(), replay()
		if !reflect.DeepEqual(r.State, again.State) || r.Events != again.Events {
			t.Fatalf("%+v\n%+v", r, again)
		}
		if _, err := Encode(ViewOf(r.State, r.Events, 0)); err != nil {
			t.Fatal(err)
		}
	})
}
