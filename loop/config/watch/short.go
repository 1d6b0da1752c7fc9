package watch

import (
	"encoding/json"
	"fmt"

	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/loop/config/trust"
)

// Bounds of what an Outcome puts into the journal.
const (
	maxShort      = 40      // entries of a list
	maxShortValue = 2 << 10 // bytes of one value
)

// Short is o in a size that a journal can live with: the beginning of each list, and
// the sizes of long values. `superloop config diff` shows the whole difference.
func (o Outcome) Short() Outcome {
	o.Problems, o.Warnings = Few(o.Problems), Few(o.Warnings)
	o.Changes = short(o.Changes, func(c *config.Change) { c.From, c.To = shortValue(c.From), shortValue(c.To) })
	change := func(c *trust.Change) { c.From, c.To = shortValue(c.From), shortValue(c.To) }
	o.Diff.Tightening, o.Diff.Loosening = short(o.Diff.Tightening, change), short(o.Diff.Loosening, change)
	return o
}

// Few are the first of some problems, as many as an event holds.
func Few(list []config.Problem) []config.Problem { return list[:min(len(list), maxShort)] }

func short[T any](in []T, shorten func(*T)) []T {
	out := append(make([]T, 0, min(len(in), maxShort)), in[:min(len(in), maxShort)]...)
	for i := range out {
		shorten(&out[i])
	}
	return out
}

func shortValue(v any) any {
	raw, err := json.Marshal(v)
	if err != nil || len(raw) > maxShortValue {
		return fmt.Sprintf("(%d bytes; superloop config diff shows it)", len(raw))
	}
	return v
}
