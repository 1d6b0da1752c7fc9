package stats

import (
	"encoding/json"
	"fmt"
	"math"

	"github.com/superloop/superloop/loop/journal"
)

// ended is an outcome as the journal has it, and as much of a beginning. What
// may be of another kind in a journal of another version is read by itself.
type ended struct {
	Role       string          `json:"role"`
	Runner     string          `json:"runner"`
	Model      string          `json:"model"`
	Outcome    string          `json:"outcome"`
	DurationMS json.RawMessage `json:"duration_ms"`
	CostUSD    json.RawMessage `json:"cost_usd"`
	CostSource json.RawMessage `json:"cost_source"`
	Usage      json.RawMessage `json:"usage"`
}

func decode(ev journal.Event) (ended, error) {
	var e ended
	if len(ev.Fields) > 0 {
		if err := json.Unmarshal(ev.Fields, &e); err != nil {
			return ended{}, fmt.Errorf("reading event %d (%s): %w", ev.Seq, ev.Event, err)
		}
	}
	return e, nil
}

// The kinds of tokens; those before reasoning are disjoint.
const (
	input = iota
	cacheRead
	cacheWrite
	output
	reasoning
	kinds
)

// taken is what one attempt took.
type taken struct {
	failed, interrupted bool
	ms                  int64
	used                bool // there was a process: what follows is told or unknown
	tokens              [kinds]told
	total, nano         told
	computed            bool // the cost, by a table
}

// told is a number, if there is one.
type told struct {
	n  int64
	ok bool
}

func (e ended) taken() taken {
	t := taken{failed: e.Outcome != "ok" && e.Outcome != "interrupted", interrupted: e.Outcome == "interrupted",
		ms: number(e.DurationMS).n, used: e.Outcome != "not_started", nano: nanodollars(e.CostUSD)}
	src := string(e.CostSource)
	t.computed = t.nano.ok && src != "" && src != `""` && src != "null" && src != `"runner"`
	if len(e.Usage) == 0 {
		return t
	}
	var u struct {
		Input      json.RawMessage `json:"input_tokens"`
		Output     json.RawMessage `json:"output_tokens"`
		CacheRead  json.RawMessage `json:"cache_read_input_tokens"`
		CacheWrite json.RawMessage `json:"cache_creation_input_tokens"`
		Reasoning  json.RawMessage `json:"reasoning_output_tokens"`
	}
	_ = json.Unmarshal(e.Usage, &u) // what is no object tells nothing
	for kind, raw := range [kinds]json.RawMessage{input: u.Input, cacheRead: u.CacheRead, cacheWrite: u.CacheWrite, output: u.Output, reasoning: u.Reasoning} {
		n := number(raw)
		t.tokens[kind] = n
		if n.ok && kind != reasoning {
			t.total.n = plus(t.total.n, n.n)
		}
	}
	t.total.ok = t.tokens[input].ok || t.tokens[output].ok
	return t
}

// number is a count: an integer from 0.
func number(raw json.RawMessage) told {
	var n *int64
	if len(raw) == 0 || json.Unmarshal(raw, &n) != nil || n == nil || *n < 0 {
		return told{}
	}
	return told{*n, true}
}

// maxCost is what no single run can cost, in dollars.
const maxCost = 1e6

func nanodollars(raw json.RawMessage) told {
	var v *float64
	if len(raw) == 0 || json.Unmarshal(raw, &v) != nil || v == nil || !(*v >= 0 && *v <= maxCost) {
		return told{}
	}
	return told{int64(math.Round(*v * 1e9)), true}
}

// figures are Figures while they grow.
type figures struct {
	runs, failures, interrupted, computed int
	ms                                    int64
	tokens                                [kinds]sum
	total, nano                           sum
}

type sum struct {
	n             int64
	told, unknown int
}

func (s *sum) add(v told) {
	if !v.ok {
		s.unknown++
		return
	}
	s.told++
	s.n = plus(s.n, v.n)
}

// plus does not wrap.
func plus(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

func (f *figures) add(t *taken) {
	f.runs++
	if t.failed {
		f.failures++
	}
	if t.interrupted {
		f.interrupted++
	}
	f.ms = plus(f.ms, t.ms)
	if !t.used {
		return // nothing was taken, and that is known
	}
	for kind := range t.tokens {
		f.tokens[kind].add(t.tokens[kind])
	}
	f.total.add(t.total)
	f.nano.add(t.nano)
	if t.computed {
		f.computed++
	}
}

func (f *figures) report() Figures {
	out := Figures{Runs: f.runs, Failures: f.failures, Interrupted: f.interrupted, DurationMS: f.ms, CostComputed: f.computed,
		Tokens: Tokens{Input: f.tokens[input].report(), CacheRead: f.tokens[cacheRead].report(), CacheWrite: f.tokens[cacheWrite].report(),
			Output: f.tokens[output].report(), Reasoning: f.tokens[reasoning].report(), Total: f.total.report()},
		Cost: Sum[float64]{Unknown: f.nano.unknown}}
	if f.nano.told > 0 {
		usd := float64(f.nano.n) / 1e9
		out.Cost.Known = &usd
	}
	return out
}

func (s sum) report() Sum[int64] {
	if s.told == 0 {
		return Sum[int64]{Unknown: s.unknown}
	}
	return Sum[int64]{Known: &s.n, Unknown: s.unknown}
}
