package watch

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/loop/config/trust"
)

// Kind says what a look at the file came to.
type Kind string

// The kinds. Each is given once for what it is about, not at every look.
const (
	Unchanged Kind = "unchanged" // what is in force is as before, and there is nothing new to say of the file
	Reloaded  Kind = "reloaded"  // another configuration is in force
	Rejected  Kind = "rejected"  // the file is wrong; what was in force is in force
	// Held: the file loosens something that nobody has trusted. That is not in force; everything else of the file is.
	Held Kind = "held"
)

// Codes of problems that only a running loop has.
const (
	CodeRunning = "running_loop" // a loop that runs, and what it stands on, cannot change
	CodeTrust   = "trust"        // what is trusted cannot be read, kept or put in force
)

// Outcome is what a look at the file came to. Nothing in it shows a secret.
type Outcome struct {
	Kind Kind
	// Config is what is in force from now on; never nil.
	Config *config.Config
	// Changes are those of what is in force, by Reloaded and Held, sorted by path.
	Changes []config.Change
	// Diff is the difference between the pin and the file, by Held, and by Reloaded when a loosening was taken
	// because the agents cannot have made it.
	Diff trust.Diff
	// Digest is that of the file's trusted part: what `superloop config trust --digest` wants. "" when the file was
	// Rejected.
	Digest string
	// Problems are why the file was Rejected, in the order of the file. Warnings are about the pin, with any Kind.
	Problems, Warnings []config.Problem
	// Again, unless 0: the file is not whole, as if it were being written; look again after that time. Watch sends by
	// then.
	Again time.Duration
}

// Bounds of what an Outcome puts into the journal.
const (
	maxShort      = 40      // entries of a list
	maxShortValue = 2 << 10 // bytes of one value
)

// Short is o in a size that a journal can live with: the beginning of each list, and the sizes of long values.
// `superloop config diff` shows the whole difference.
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
	out := append([]T{}, in[:min(len(in), maxShort)]...)
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
