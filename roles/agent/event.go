package agent

import (
	"iter"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/superloop/superloop/internal/jsonstream"
)

// paths are the values that a reader wants of each line, as in jsonstream.Want, by the bytes that are kept of each.
type paths map[int]string

type layout struct {
	shape *jsonstream.Shape
	wants map[string]int
}

// lazy compiles the paths at the first use.
func (p paths) lazy() func() *layout {
	return sync.OnceValue(func() *layout {
		l := &layout{wants: map[string]int{}}
		var wants []jsonstream.Want
		for _, most := range slices.Sorted(maps.Keys(p)) {
			for _, path := range strings.Fields(p[most]) {
				l.wants[path] = len(wants)
				wants = append(wants, jsonstream.Want{Path: path, Max: most})
			}
		}
		l.shape = jsonstream.MustShape(wants...)
		return l
	})
}

// event is a line whose values are named by their paths. A path that is not in the layout has no value.
type event struct {
	*jsonstream.Line
	wants map[string]int
}

func (e event) want(path string) int {
	if i, ok := e.wants[path]; ok {
		return i
	}
	return -1
}

func (e event) last(path string) (jsonstream.Value, bool) { return e.Last(e.want(path)) }

// str is the last string at the path; "" if there is none.
func (e event) str(path string) string { return e.String(e.want(path)) }

// text is the last value at the path, if it is a string.
func (e event) text(path string) (jsonstream.Value, bool) {
	v, ok := e.last(path)
	return v, ok && v.Type == 's'
}

// int is the last number at the path; 0 if it is no whole one.
func (e event) int(path string) int64 {
	n, _ := e.Int(e.want(path))
	return n
}

// count is the last number at the path; nil if it is no whole one from 0 up.
func (e event) count(path string) *int64 {
	if v, ok := e.last(path); ok {
		if n, ok := number(v); ok {
			return &n
		}
	}
	return nil
}

func (e event) float(path string) (float64, bool) { return e.Float(e.want(path)) }

func (e event) bool(path string) (value, ok bool) { return e.Bool(e.want(path)) }

// all gives the values at the path in order.
func (e event) all(path string) iter.Seq[jsonstream.Value] { return e.All(e.want(path)) }

// counters reads the counters at a path that ends with "*", by their last key.
func (e event) counters(path string, names counterNames) (u Usage) {
	for v := range e.all(path) {
		u.take(v, names)
	}
	return u
}

// number is the value as a whole number from 0 to 2^53.
func number(v jsonstream.Value) (int64, bool) {
	f, ok := fraction(v)
	if !ok || f < 0 || f > 1<<53 || f != math.Trunc(f) {
		return 0, false
	}
	return int64(f), true
}

func fraction(v jsonstream.Value) (float64, bool) {
	if v.Type != 'n' || v.Cut > 0 {
		return 0, false
	}
	f, err := strconv.ParseFloat(string(v.Raw), 64)
	return f, err == nil
}

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
