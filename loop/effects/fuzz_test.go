package effects

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/superloop/superloop/internal/testkit"
	"github.com/superloop/superloop/loop/layout"
)

// recordOf fuzzes the reader of one of superloop's own small records.
func recordOf[T any](f *testing.F, path func(layout.Paths) string, read func(*Host) (T, error), good ...string) {
	h := &Host{Paths: layout.Paths{Private: f.TempDir()}}
	file := path(h.Paths)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		f.Fatal(err)
	}
	for _, text := range good {
		testkit.Seed(f, []byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		testkit.Decoder[T]{
			Decode: func(data []byte) (T, error) {
				if err := os.WriteFile(file, data, 0o600); err != nil {
					t.Fatal(err)
				}
				return read(h)
			},
			Encode: func(v T) ([]byte, error) { return json.Marshal(v) },
		}.Check(t, data)
	})
}

// FuzzOwnCommit: the record of superloop's commit is one, or an error that names the file.
func FuzzOwnCommit(f *testing.F) {
	recordOf(f, layout.Paths.Commit, func(h *Host) (ownCommit, error) { return (&Commits{Host: h}).own() },
		`{"run_id":"r","iteration":3,"sha":"0123456789012345678901234567890123456789"}`)
}

// FuzzFirstTree: so is the record of the tree before the first role.
func FuzzFirstTree(f *testing.F) {
	recordOf(f, layout.Paths.Baseline, func(h *Host) (baseline, error) { return (&Tree{Host: h}).baseline() },
		`{"tree":"0123","dirty":["a","b\n"],"tests_wrote":["c"]}`)
}

// FuzzTotals: the counters of a session, as a journal has them, are written again as they were read.
func FuzzTotals(f *testing.F) {
	testkit.Seed(f, []byte(`{"usage":{"Input":5,"Output":7,"CacheRead":null},"cost_usd":0.5}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		told := totalsOf(data)
		if told == nil {
			return
		}
		again, err := json.Marshal(told)
		if err != nil {
			t.Fatal(err)
		}
		if twice, err := json.Marshal(totalsOf(again)); err != nil || string(twice) != string(again) {
			t.Fatalf("%s became %s, %v", again, twice, err)
		}
	})
}
