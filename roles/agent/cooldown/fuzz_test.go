package cooldown

import (
	"encoding/json"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/internal/testkit"
)

// FuzzCooldown: whatever stands in the file of an account, no loop waits longer than the longest limit, and the account
// can be given free.
func FuzzCooldown(f *testing.F) {
	good, err := json.Marshal(file{version, limit(Longest / 2)})
	if err != nil {
		f.Fatal(err)
	}
	testkit.Seed(f, good)
	s := New(durable.OS(), f.TempDir())
	s.now = func() time.Time { return noon }
	put := func(data []byte) {
		if err := os.WriteFile(s.path(alice), data, 0o600); err != nil {
			f.Fatal(err)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, ok := testkit.Decoder[Cooldown]{
			Decode: func(data []byte) (Cooldown, error) { put(data); return s.read(s.path(alice)) },
			Encode: func(c Cooldown) ([]byte, error) {
				err := s.write(c)
				data, rerr := os.ReadFile(s.path(alice))
				return data, errors.Join(err, rerr)
			},
		}.Check(t, data)
		if ok && (c.Account != alice || c.Strikes < 0) {
			t.Fatalf("%+v", c)
		}
		put(data)
		if c, ok, err := s.Get(alice); ok && (err != nil || c.Until.Sub(noon) > Longest || !c.Until.After(noon)) {
			t.Fatalf("limited until %v: %v", c.Until, err)
		}
		if err := s.Set(limit(1e9)); err != nil {
			t.Fatal(err)
		}
		if err := s.Clear(alice); err != nil {
			t.Fatal(err)
		}
		if c, ok, err := s.Get(alice); ok || err != nil || c != (Cooldown{}) {
			t.Fatalf("cleared, and %+v, %v", c, err)
		}
	})
}
