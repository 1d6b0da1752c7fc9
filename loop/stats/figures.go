package stats

import (
	"encoding/json"
	"iter"
	"math"
	"reflect"
)

// fields are the fields of all events that are counted. A field that another version of superloop may write in another
// type is a RawMessage and is decoded separately.
type fields struct {
	Role         string          `json:"role"`
	Runner       string          `json:"runner"`
	Model        string          `json:"model"`
	Outcome      string          `json:"outcome"`
	DurationMS   json.RawMessage `json:"duration_ms"`
	CostUSD      json.RawMessage `json:"cost_usd"`
	CostSource   json.RawMessage `json:"cost_source"`
	Usage        json.RawMessage `json:"usage"`
	N            int64           `json:"n"`
	ID           string          `json:"id"`
	Source       string          `json:"source"`
	Category     string          `json:"category"`
	Digest       string          `json:"digest"`
	Verdict      string          `json:"verdict"`
	Rule         string          `json:"rule"`
	Result       string          `json:"result"`
	Fallback     bool            `json:"fallback"`
	ExitCode     int64           `json:"exit_code"`
	Ended        string          `json:"ended"`
	EscalationID string          `json:"escalation_id"`
	Type         string          `json:"type"`
	Method       string          `json:"method"`
	Status       string          `json:"status"`
	ChainID      string          `json:"chain_id"`
	Infra        bool            `json:"infra"`
	Code         bool            `json:"code"`
	Attempts     int             `json:"attempts"`
	SavedMS      int64           `json:"time_saved_ms"`
}

// figures are Figures with the cost in nanodollars.
type figures struct {
	Figures
	nano Sum[int64]
}

// figures returns the figures of one attempt.
func (e fields) figures() figures {
	f := figures{Figures: Figures{Runs: 1}}
	if ms := number(e.DurationMS); ms != nil {
		f.DurationMS = *ms
	}
	switch e.Outcome {
	case "ok":
	case "interrupted":
		f.Interrupted = 1
	default:
		f.Failures = 1
	}
	if e.Outcome == "not_started" {
		return f // it took nothing, and that is known
	}
	var usage map[string]json.RawMessage
	_ = json.Unmarshal(e.Usage, &usage) // a usage that is no object reports nothing
	t := &f.Tokens
	for i, kind := range []string{"input", "cache_read_input", "cache_creation_input", "output", "reasoning_output"} {
		*t.list()[i] = one(number(usage[kind+"_tokens"]))
	}
	t.Total = Sum[int64]{Unknown: 1}
	if t.Input.Known != nil || t.Output.Known != nil {
		t.Total.Unknown = 0
		for _, kind := range t.list()[:4] {
			t.Total.add(Sum[int64]{Known: kind.Known})
		}
	}
	f.nano = one(nanodollars(e.CostUSD))
	if src := string(e.CostSource); f.nano.Known != nil && src != "" && src != `""` && src != "null" && src != `"runner"` {
		f.CostComputed = 1
	}
	return f
}

// list returns the sums in the order of the fields.
func (t *Tokens) list() []*Sum[int64] {
	return []*Sum[int64]{&t.Input, &t.CacheRead, &t.CacheWrite, &t.Output, &t.Reasoning, &t.Total}
}

// one returns the sum of one number. nil means that the run did not report it.
func one(n *int64) Sum[int64] {
	if n == nil {
		return Sum[int64]{Unknown: 1}
	}
	return Sum[int64]{Known: n}
}

// number decodes a count: an integer of 0 or more. It returns nil for anything else.
func number(raw json.RawMessage) *int64 {
	var n *int64
	if json.Unmarshal(raw, &n) != nil || n == nil || *n < 0 {
		return nil
	}
	return n
}

// maxCost is the highest cost in US dollars that superloop accepts for one run. A higher one counts as unknown.
const maxCost = 1e6

// nanodollars decodes a cost in US dollars. It returns nil for anything but a number from 0 to maxCost.
func nanodollars(raw json.RawMessage) *int64 {
	var v *float64
	if json.Unmarshal(raw, &v) != nil || v == nil || !(*v >= 0 && *v <= maxCost) {
		return nil
	}
	return new(int64(math.Round(*v * 1e9)))
}

// add adds o to s. It never changes the number that Known points to, because reports share that pointer.
func (s *Sum[T]) add(o Sum[T]) {
	s.Unknown += o.Unknown
	if o.Known == nil {
		return
	}
	n := *o.Known
	if s.Known != nil {
		n = T(plus(int64(*s.Known), int64(n)))
	}
	s.Known = &n
}

func (f *figures) add(o figures) {
	addNumbers(&f.Figures, o.Figures)
	for i, to := range f.Tokens.list() {
		to.add(*o.Tokens.list()[i])
	}
	f.nano.add(o.nano)
}

func (f *figures) report() Figures {
	out := f.Figures
	out.Cost.Unknown = f.nano.Unknown
	if f.nano.Known != nil {
		out.Cost.Known = new(float64(*f.nano.Known) / 1e9)
	}
	return out
}

// plus adds two numbers that are not negative. The sum stops at the largest int64.
func plus(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// addNumbers adds b to the value that a points to: an integer, or each integer field of a struct.
func addNumbers[T any](a *T, b T) {
	to, from := reflect.ValueOf(a).Elem(), reflect.ValueOf(b)
	if to.CanInt() {
		to.SetInt(plus(to.Int(), from.Int()))
		return
	}
	for i := range to.NumField() {
		if f := to.Field(i); f.CanInt() {
			f.SetInt(plus(f.Int(), from.Field(i).Int()))
		}
	}
}

// tally keeps a figure for each name, in the order in which the names came.
type tally[T any] struct {
	names []string
	of    map[string]*T
}

// at returns the figure of a name, and creates it if there is none.
func (t *tally[T]) at(name string) *T {
	if v, ok := t.of[name]; ok {
		return v
	}
	if t.of == nil {
		t.of = map[string]*T{}
	}
	t.of[name] = new(T)
	t.names = append(t.names, name)
	return t.of[name]
}

func (t *tally[T]) plus(o tally[T]) {
	for name, of := range o.all() {
		addNumbers(t.at(name), *of)
	}
}

func (t *tally[T]) all() iter.Seq2[string, *T] {
	return func(yield func(string, *T) bool) {
		for _, name := range t.names {
			if !yield(name, t.of[name]) {
				return
			}
		}
	}
}
