package durable

import (
	"bytes"
	"os"
	"testing"

	"github.com/superloop/superloop/internal/testkit"
)

// FuzzSlots: whatever is in a file of slots, a record stored next is read back, and what was read before it was valid.
func FuzzSlots(f *testing.F) {
	path := testkit.File(f, "slots")(nil)
	s, err := OS().OpenSlots("slots", path, 0o600)
	if err != nil {
		f.Fatal(err)
	}
	for _, record := range []string{"first", "second", ""} {
		if err := s.Store([]byte(record)); err != nil {
			f.Fatal(err)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		testkit.Seed(f, data)
	}
	f.Add(bytes.Repeat([]byte("slot\x00\x00\x00\x00\xff\xff\xff\xff\xff\xff\xff\xff\x00\x00"), 500))
	if err := s.Close(); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		record, ok, err := ReadSlots(path)
		if err != nil || len(record) > MaxRecord || ok && !bytes.Contains(data, record) || !ok && record != nil {
			t.Fatalf("%v, %q, %v", ok, record, err)
		}
		s, err := OS().OpenSlots("slots", path, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if err := s.Store([]byte("next")); err != nil {
			t.Fatal(err)
		}
		if record, ok, err = ReadSlots(path); err != nil || !ok || string(record) != "next" {
			t.Fatalf("stored, and %v, %q, %v", ok, record, err)
		}
	})
}
