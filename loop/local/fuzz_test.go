package local

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/superloop/superloop/internal/testkit"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/layout"
)

// FuzzView: whatever stands in state.json, which agents can write, it is a view or an error that names the file.
func FuzzView(f *testing.F) {
	good, err := os.ReadFile("../../schemas/testdata/valid/state.running.json")
	if err != nil {
		f.Fatal(err)
	}
	testkit.Seed(f, good)
	f.Add(append(append([]byte(`{"status":`), bytes.Repeat([]byte("["), 200)...), bytes.Repeat([]byte("]"), 200)...))
	write := testkit.File(f, "state.json")
	f.Fuzz(func(t *testing.T, data []byte) {
		testkit.Decoder[loop.View]{
			Decode: func(data []byte) (loop.View, error) {
				return ReadView(layout.Paths{Loop: filepath.Dir(write(data))})
			},
			Encode: func(v loop.View) ([]byte, error) { return encodeView(v) },
		}.Check(t, data)
	})
}
