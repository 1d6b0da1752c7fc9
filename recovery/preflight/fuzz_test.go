package preflight

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/superloop/superloop/internal/door"
	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/internal/testkit"
	"github.com/superloop/superloop/recovery/failures"
)

// FuzzStore: a file of learned checks or of the agents' health is what it says, or a *door.StateError that names it.
func FuzzStore(f *testing.F) {
	testkit.Seed(f, []byte(`{"list":[{"id":"a","kind":"file","file":"x","added":"2026-01-02T03:04:05Z"}]}`),
		[]byte(`{"agents":[{"runner":"claude","failures":3,"since":"2026-01-02T03:04:05Z"}]}`))
	write := testkit.File(f, "store.json")
	f.Fuzz(func(t *testing.T, data []byte) {
		store[failures.Preventions](t, data, write)
		store[failures.Health](t, data, write)
	})
}

func store[T any](t *testing.T, data []byte, write func([]byte) string) {
	load := func(data []byte) (T, error) { return Store[T]{Disk: durable.OS(), Path: write(data)}.Load() }
	if _, ok := (testkit.Decoder[T]{Decode: load, Encode: func(v T) ([]byte, error) { return json.MarshalIndent(v, "", " ") }}).Check(t, data); !ok {
		var damaged *door.StateError
		if _, err := load(data); !errors.As(err, &damaged) {
			t.Fatal(err)
		}
	}
}
