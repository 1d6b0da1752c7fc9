package sandbox

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"

	"github.com/superloop/superloop/internal/testkit"
)

// FuzzReport: what a shim says before it dies is a report or an error.
func FuzzReport(f *testing.F) {
	encode := func(rep report) ([]byte, error) { return json.Marshal(rep) }
	good, err := encode(report{Level: None, LandlockABI: 4, Notes: []string{"a \u202e"}})
	if err != nil {
		f.Fatal(err)
	}
	bad, err := encode(report{Failure: broken, Text: "executing: no such file"})
	if err != nil {
		f.Fatal(err)
	}
	testkit.Seed(f, good, append(bytes.Clone(good), bad...))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > maxReport {
			return // the pipe would be full
		}
		testkit.Decoder[report]{Encode: encode, Decode: func(data []byte) (report, error) {
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			if _, err := w.Write(data); err != nil {
				t.Fatal(err)
			}
			w.Close()
			return readReport(r)
		}}.Check(t, data)
	})
}
