package learn

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/internal/testkit"
)

// FuzzMemory: whatever the file holds, it is damaged, or one more outcome is added to it and counts.
func FuzzMemory(f *testing.F) {
	var m Memory
	m.Version = version
	m.Add(Outcome{Signature: "s", Option: "o", Command: "npm ci", Result: Verified, At: time.Unix(1_800_000_000, 0).UTC()})
	good, err := json.Marshal(m)
	if err != nil {
		f.Fatal(err)
	}
	testkit.Seed(f, good)
	write := testkit.File(f, "learned.json")
	f.Fuzz(func(t *testing.T, data []byte) {
		m, ok := testkit.Decoder[Memory]{
			Decode: func(data []byte) (Memory, error) { return Store{Disk: durable.OS(), Path: write(data)}.Load() },
			Encode: func(m Memory) ([]byte, error) { return json.MarshalIndent(m, "", " ") },
		}.Check(t, data)
		if !ok {
			return
		}
		before := len(m.Entries)
		m.Add(Outcome{Signature: "s", Option: "o", Command: "npm ci", Result: Verified, At: time.Unix(1_800_000_001, 0).UTC()})
		if len(m.Entries) > max(before+1, 1) || len(m.Entries) == 0 {
			t.Fatalf("%d entries became %d", before, len(m.Entries))
		}
	})
}
