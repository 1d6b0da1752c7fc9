package result

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/superloop/superloop/internal/testkit"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/journal"
)

// FuzzFold: whatever events a journal holds, in any order, its result can be said in eight lines, and is the same twice.
func FuzzFold(f *testing.F) {
	files, err := filepath.Glob("../testdata/*.jsonl")
	if err != nil || len(files) == 0 {
		f.Fatal(files, err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		lines := bytes.SplitAfter(data, []byte("\n"))
		f.Add(bytes.Join(lines[:min(len(lines), 25)], nil))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		said := func() []byte {
			fold := New()
			for raw := range bytes.Lines(data) {
				if line, err := loop.ParseLine(raw); err == nil {
					_ = fold.Add(journal.Event{Timestamp: line.Timestamp, Event: line.Event, LoopID: line.LoopID, RunID: line.RunID, Iteration: line.Iteration, Fields: line.Fields})
				}
			}
			r, _ := fold.Result()
			if n := len(r.Short()); n > MaxShort {
				t.Fatalf("%d lines", n)
			}
			return r.Markdown()
		}
		var first []byte
		testkit.Memory(t, 20*len(data), func() { first = said() })
		if again := said(); !bytes.Equal(first, again) {
			t.Fatalf("%s\n%s", first, again)
		}
	})
}
