package control

import (
	"encoding/json"
	"testing"

	"github.com/superloop/superloop/internal/testkit"
)

// FuzzIntent: a file in the control directory is an intent, or an error that names it.
func FuzzIntent(f *testing.F) {
	testkit.Seed(f, []byte(`{"id":"a1","kind":"cancel","by":"ada","note":"x","at":"2026-01-02T03:04:05Z","run_id":"r"}`))
	write := testkit.File(f, "a1.json")
	f.Fuzz(func(t *testing.T, data []byte) {
		testkit.Decoder[Intent]{
			Decode: func(data []byte) (Intent, error) { return readIntent(write(data)) },
			Encode: func(in Intent) ([]byte, error) { return json.Marshal(in) },
		}.Check(t, data)
	})
}
