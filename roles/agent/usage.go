package agent

import (
	"slices"

	"github.com/superloop/superloop/internal/jsonstream"
)

// Usage counts tokens of one run; nil is unknown. Whatever the CLI's own way of counting, the first four are disjoint:
// Input is neither read from nor written to a cache, Output includes all reasoning, of which Reasoning is a part.
type Usage struct {
	Input, Output, CacheRead, CacheWrite, Reasoning *int64
}

// Totals are counters that a CLI keeps over a whole session.
type Totals struct {
	Usage   Usage    `json:"usage"`
	CostUSD *float64 `json:"cost_usd,omitempty"`
}

// Total is the sum of the four disjoint kinds; ok is false when none is known.
func (u Usage) Total() (n int64, ok bool) {
	for _, p := range u.kinds()[:4] {
		ok = ok || *p != nil
		n += deref(*p)
	}
	return n, ok
}

// kinds are the fields, in the order of counterNames.
func (u *Usage) kinds() []**int64 {
	return []**int64{&u.Input, &u.Output, &u.CacheRead, &u.CacheWrite, &u.Reasoning}
}

// counterNames are a CLI's names of the fields of Usage, in their order; "" where it has none.
type counterNames [5]string

// take sets the counter that the last key of v names, if v is a number.
func (u *Usage) take(v jsonstream.Value, names counterNames) {
	i := slices.Index(names[:], v.Keys[len(v.Keys)-1])
	if n, ok := number(v); ok && i >= 0 {
		*u.kinds()[i] = &n
	}
}

// combined applies f to each kind that one of them knows; unknown is 0 then.
func (u Usage) combined(v Usage, f func(a, b int64) int64) (out Usage) {
	a, b := u.kinds(), v.kinds()
	for i, to := range out.kinds() {
		if *a[i] != nil || *b[i] != nil {
			n := f(deref(*a[i]), deref(*b[i]))
			*to = &n
		}
	}
	return out
}

func (u Usage) plus(v Usage) Usage { return u.combined(v, func(a, b int64) int64 { return a + b }) }

// minus is what was used since before; ok is false when a counter went back.
func (u Usage) minus(before Usage) (since Usage, ok bool) {
	now, had := u.kinds(), before.kinds()
	ok = true
	for i, to := range since.kinds() {
		if *now[i] != nil {
			left := **now[i] - deref(*had[i])
			ok, *to = ok && left >= 0, &left
		}
	}
	return since, ok
}

func deref(p *int64) int64 {
	if p == nil {
		return 0
	}
	return *p
}
