package selftest

import (
	"fmt"
	"slices"
)

// Status says how far what was seen is what was expected.
type Status string

// The statuses, from good to bad.
const (
	// OK: as expected.
	OK Status = "ok"
	// Differs: not as expected, and a loop still does what is right.
	Differs Status = "differs"
	// Failed: a loop would do something wrong with this version.
	Failed Status = "failed"
)

func worse(a, b Status) Status {
	order := []Status{OK, Differs, Failed}
	return order[max(slices.Index(order, a), slices.Index(order, b))]
}

// Check compares one thing.
type Check struct {
	What     string `json:"what"`
	Status   Status `json:"status"`
	Expected string `json:"expected"`
	Seen     string `json:"seen"`
}

// Case is how one case went.
type Case struct {
	Name   string `json:"name"`
	Status Status `json:"status"`
	WallMS int64  `json:"wall_ms"`
	// Requests counts the model requests that the mock answered, Side those of
	// them that were on the side.
	Requests int     `json:"requests"`
	Side     int     `json:"side_requests"`
	Checks   []Check `json:"checks"`
}

// Card says what works of one version of one CLI.
type Card struct {
	CLI     string `json:"cli"`
	Program string `json:"program"`
	Version string `json:"version"`
	Adapter string `json:"adapter"`
	// MissingFlags are flags that superloop would use and that the program's
	// help does not know; Unchecked says why they were not checked.
	MissingFlags []string `json:"missing_flags"`
	Unchecked    string   `json:"unchecked,omitempty"`
	Cases        []Case   `json:"cases"`
	Status       Status   `json:"status"`
	// Verdict is Status in a sentence.
	Verdict string `json:"verdict"`
}

// conclude gives the card its status and its verdict.
func (c *Card) conclude() {
	count := map[Status]int{}
	c.Status = OK
	for _, k := range c.Cases {
		count[k.Status]++
		c.Status = worse(c.Status, k.Status)
	}
	name := c.CLI
	if c.Version != "" {
		name += " (" + c.Version + ")"
	}
	switch {
	case len(c.Cases) == 0:
		c.Status, c.Verdict = Failed, name+" was not tested"
	case c.Status == Failed:
		c.Verdict = fmt.Sprintf("%s does not work as superloop needs it: %d of %d cases failed", name, count[Failed], len(c.Cases))
	case c.Status == Differs || len(c.MissingFlags) > 0:
		c.Status = Differs
		c.Verdict = fmt.Sprintf("%s works, but not all is as expected: %d of %d cases ok", name, count[OK], len(c.Cases))
	default:
		c.Verdict = fmt.Sprintf("%s works with superloop: %d of %d cases ok", name, count[OK], len(c.Cases))
	}
}
