package stats

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/superloop/superloop/internal/testkit"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/journal"
)

// FuzzFold: whatever events a journal holds, in any order, the report can be written down, and is the same twice.
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
		report := func() []byte {
			fold := New()
			for raw := range bytes.Lines(data) {
				line, err := loop.ParseLine(raw)
				if err != nil {
					continue
				}
				if err := fold.Add(journal.Event{Timestamp: line.Timestamp, Event: line.Event, LoopID: line.LoopID, RunID: line.RunID, Iteration: line.Iteration, Fields: line.Fields}); err != nil {
					testkit.Plain(t, err.Error())
				}
			}
			out, err := json.Marshal(fold.Report())
			if err != nil {
				t.Fatal(err)
			}
			return out
		}
		var first []byte
		testkit.Memory(t, 10*len(data), func() { first = report() })
		if again := report(); !bytes.Equal(first, again) {
			t.Fatalf("%s\n%s", first, again)
		}
	})
}
