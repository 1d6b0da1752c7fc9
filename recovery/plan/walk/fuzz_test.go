package walk

import (
	"errors"
	"testing"

	"github.com/superloop/superloop/internal/testkit"
	"github.com/superloop/superloop/recovery/plan"
	"github.com/superloop/superloop/schemas"
)

// FuzzChain: a file is a chain that can be walked on and saved again, or a *BrokenError with its place.
// Conforms: 000-5.6-form
func FuzzChain(f *testing.F) {
	for _, c := range []plan.Chain{newChain(option("ci")), deep()} {
		data, err := plan.Record(c)
		if err != nil {
			f.Fatal(err)
		}
		testkit.Seed(f, data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > schemas.Chain.Limit() {
			return // Store.read cuts it off
		}
		c, ok := testkit.Decoder[plan.Chain]{
			Decode: func(data []byte) (plan.Chain, error) { return parse("c-1", "c-1.json", data) },
			Encode: plan.Record,
		}.Check(t, data)
		if !ok {
			var broken *BrokenError
			if _, err := parse("c-1", "c-1.json", data); errors.As(err, &broken) && (broken.Why == "" || broken.Path != "c-1.json") {
				t.Fatalf("%+v", broken)
			}
			return
		}
		if err := c.Check(); err != nil || c.ID != "c-1" {
			t.Fatalf("%q: %v", c.ID, err)
		}
		if m, _ := c.Advance(start); m.Kind == plan.Run {
			c.Begin(m, start)
			c.Failed("it failed", failure("s"), []plan.Choice{option("next")}, start)
		}
		on, err := plan.Record(c)
		if err == nil {
			_, err = parse("c-1", "c-1.json", on)
		}
		if err != nil {
			t.Fatalf("one step on: %v\n%s", err, on)
		}
	})
}
