package server

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/superloop/superloop/internal/testkit"
)

// FuzzView: what a daemon does is read, or the error says why not.
func FuzzView(f *testing.F) {
	testkit.Seed(f, []byte(`{"pid":4,"at":"2026-01-02T03:04:05Z","limits":{"Loops":2},"loops":[{"repo":"/r","loop":"l","phase":"queued","ahead":1,"why":"x"}]}`))
	state := f.TempDir()
	if err := os.MkdirAll(filepath.Dir(ViewFile(state)), 0o700); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		testkit.Decoder[View]{
			Decode: func(data []byte) (View, error) {
				if err := os.WriteFile(ViewFile(state), data, 0o600); err != nil {
					t.Fatal(err)
				}
				return ReadView(state)
			},
			Encode: func(v View) ([]byte, error) { return json.Marshal(v) },
		}.Check(t, data)
	})
}
