package replay

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/superloop/superloop/internal/testkit"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/journal"
	"github.com/superloop/superloop/recovery"
)

// FuzzFold: lines in any order are judged or refused, twice the same; and no verdict is auto that nobody listed.
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
		f.Add(data)
	}
	p := policy(f, func(*recovery.Settings) {})
	f.Fuzz(func(t *testing.T, data []byte) {
		again := func() Report {
			f := New(Options{Policy: p})
			for raw := range bytes.Lines(data) {
				l, err := loop.ParseLine(raw)
				if err != nil {
					continue
				}
				if err := f.Add(journal.Event{Seq: l.Seq, Timestamp: l.Timestamp, Event: l.Event, LoopID: l.LoopID, RunID: l.RunID, Iteration: l.Iteration, Fields: l.Fields}); err != nil {
					testkit.Message(t, err)
				}
			}
			return f.Report()
		}
		r := again()
		for _, d := range r.Decisions {
			if d.Now.Verdict == "auto" && d.Command != "npm ci" || d.Now.Reason == "" || (d.Now.Verdict == Unknown) != (len(d.Missing) > 0) {
				t.Fatalf("%+v", d)
			}
		}
		if other := again(); !reflect.DeepEqual(r, other) {
			t.Fatal("two readings differ")
		}
	})
}
