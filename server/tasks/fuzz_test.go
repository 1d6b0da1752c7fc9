package tasks

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/internal/testkit"
	"github.com/superloop/superloop/server/registry"
)

// FuzzWatch: a watch is read, or the error says why not.
func FuzzWatch(f *testing.F) {
	testkit.Seed(f, []byte(`{"repo":"/r","source":"github","remote":"https://github.com/a/b","label":"superloop","most":4,"by":"eve","since":"2026-01-02T03:04:05Z"}`))
	write := testkit.File(f, "w.json")
	f.Fuzz(func(t *testing.T, data []byte) {
		testkit.Decoder[Watch]{
			Decode: func(data []byte) (Watch, error) { return readWatch(write(data)) },
			Encode: func(w Watch) ([]byte, error) { return json.Marshal(w) },
		}.Check(t, data)
	})
}

// FuzzTask: a task is read, or the error says why not.
func FuzzTask(f *testing.F) {
	testkit.Seed(f, []byte(`{"repo":"/r","id":"17","loop":"issue-17","claim":{"item":"github-17","id":"17","loop":"issue-17","holder":"a","name":"a@b","state":"working","term":1,"beat":1,"since":"2026-01-02T03:04:05Z"},"at":"a1","renewed":"2026-01-02T03:04:05Z","round":1,"waits":true}`))
	write := testkit.File(f, "t.json")
	f.Fuzz(func(t *testing.T, data []byte) {
		testkit.Decoder[Task]{
			Decode: func(data []byte) (Task, error) { return readTask(write(data)) },
			Encode: func(v Task) ([]byte, error) { return json.Marshal(v) },
		}.Check(t, data)
	})
}

// FuzzStatus: what was told of a tracker is read, or the error says why not.
func FuzzStatus(f *testing.F) {
	testkit.Seed(f, []byte(`{"repo":"/r","at":"2026-01-02T03:04:05Z","next":"2026-01-02T03:04:05Z","items":[{"repo":"/r","id":"17","title":"x","state":"waits"}]}`))
	s := Store{registry.Store{Disk: durable.OS(), State: f.TempDir()}}
	if err := s.tell(Status{}); err != nil {
		f.Fatal(err)
	}
	file := s.dir("status") + "/" + name("", "")
	f.Fuzz(func(t *testing.T, data []byte) {
		testkit.Decoder[Status]{
			Decode: func(data []byte) (Status, error) {
				if err := os.WriteFile(file, data, 0o600); err != nil {
					t.Fatal(err)
				}
				return s.Status(Watch{})
			},
			Encode: func(st Status) ([]byte, error) { return json.Marshal(st) },
		}.Check(t, data)
	})
}
