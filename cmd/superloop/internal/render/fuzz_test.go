package render

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/superloop/superloop/internal/testkit"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/journal"
)

// FuzzDescribe: whatever an event holds, its sentence is one line without control characters, in bounded memory.
func FuzzDescribe(f *testing.F) {
	files, err := filepath.Glob("../../../../loop/testdata/*.jsonl")
	if err != nil || len(files) == 0 {
		f.Fatal(files, err)
	}
	seen := map[string]bool{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for raw := range bytes.Lines(data) {
			if line, err := loop.ParseLine(raw); err == nil && !seen[line.Event] {
				seen[line.Event] = true
				f.Add(line.Event, []byte(line.Fields))
			}
		}
	}
	f.Add("role_end", []byte(`{"role":"\u001b[2J\u009b2J\u202e","usage":{"input_tokens":1e99},"error":{"a":[{"b":"\n"}]}}`))
	f.Add("\x1b[2J", bytes.Repeat([]byte(`{"a":`), 99))
	f.Fuzz(func(t *testing.T, event string, fields []byte) {
		if len(fields) > 1<<20 {
			return
		}
		ev := journal.Event{Event: event, LoopID: event, Fields: json.RawMessage(fields)}
		var said string
		testkit.Memory(t, 10*len(fields), func() { said = Describe(ev) })
		if said != text.Plain(said) || strings.ContainsAny(said, "\n\t") {
			t.Fatalf("%q", said)
		}
		if again := Describe(ev); again != said {
			t.Fatalf("%q, then %q", said, again)
		}
		if role := Role(ev); len(role) > len(fields) {
			t.Fatalf("%q", role)
		}
	})
}
