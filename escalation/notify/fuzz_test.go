package notify

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/superloop/superloop/internal/testkit"
)

// FuzzEntry: a file of the outbox is one of its entries, or is listed as unreadable.
func FuzzEntry(f *testing.F) {
	m := opened("e1")
	good := func(state State) []byte {
		s := stored{Version: entryVersion, Seq: 7, Message: &m, Item: Item{ID: m.ID, Channel: "slack", Kind: m.Kind, State: state}}
		data, err := json.Marshal(s)
		if err != nil {
			f.Fatal(err)
		}
		return append(data, '\n')
	}
	testkit.Seed(f, good(Pending), good(Delivered))
	write := testkit.File(f, entryName("slack", m.ID))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, ok := testkit.Decoder[stored]{
			Decode: func(data []byte) (stored, error) { return read(write(data)) },
			Encode: func(s stored) ([]byte, error) { return json.Marshal(s) },
		}.Check(t, data)
		if ok && (s.ID != m.ID || s.Channel != "slack" || s.State == Pending && s.Message == nil) {
			t.Fatalf("%+v", s)
		}
		items, err := List(filepath.Dir(write(data)))
		if err != nil || len(items) != 1 || ok == (items[0].State == Unreadable) && s.State != Unreadable {
			t.Fatalf("%+v, %v", items, err)
		}
		testkit.Plain(t, items[0].Reason)
	})
}
