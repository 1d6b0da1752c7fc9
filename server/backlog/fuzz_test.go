package backlog

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/internal/testkit"
	"github.com/superloop/superloop/loop/layout"
	"github.com/superloop/superloop/server/registry"
)

// FuzzWatch: a watch is read, or the error says why not.
func FuzzWatch(f *testing.F) {
	testkit.Seed(f, []byte(`{"repo":"/r","by":"eve","since":"2026-01-02T03:04:05Z"}`))
	s := Store{registry.Store{Disk: durable.OS(), State: f.TempDir()}}
	if err := os.MkdirAll(s.Dir(), 0o700); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		testkit.Decoder[Watch]{
			Decode: func(data []byte) (Watch, error) {
				if err := os.WriteFile(filepath.Join(s.Dir(), "x.json"), data, 0o600); err != nil {
					t.Fatal(err)
				}
				all, errs := s.All()
				if len(errs) > 0 {
					return Watch{}, errs[0]
				}
				return all[0], nil
			},
			Encode: func(w Watch) ([]byte, error) { return json.Marshal(w) },
		}.Check(t, data)
	})
}

// FuzzRecord: the record of an item is read, or the error says why not.
func FuzzRecord(f *testing.F) {
	testkit.Seed(f, []byte(`{"file":"a.md","sha256":"00","at":"2026-01-02T03:04:05Z"}`))
	p := layout.Paths{Private: f.TempDir()}
	f.Fuzz(func(t *testing.T, data []byte) {
		testkit.Decoder[record]{
			Decode: func(data []byte) (record, error) {
				if err := os.WriteFile(p.Item(), data, 0o600); err != nil {
					t.Fatal(err)
				}
				return recordOf(p)
			},
			Encode: func(r record) ([]byte, error) { return json.Marshal(r) },
		}.Check(t, data)
	})
}
