package agent

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/superloop/superloop/internal/jsonstream"
)

const (
	maxModels = 64 // models of one run
	maxIDs    = 64 // messages that may be under way at a time
)

// claudeCounts is what the stream tells of tokens and money.
//
// What is exact are the counters per model: they have all requests, also those
// of sub-agents, on the side, and of the last turn before a budget ends the
// run, which result.usage leaves out. Newer releases count them by session and
// tell those of the run in model_usage_since_last_result; 2.1.197 counts them
// by run.
type claudeCounts struct {
	turns    modelCount             // result.usage of all results
	models   map[string]*modelCount // modelUsage of the last result
	since    map[string]*modelCount // model_usage_since_last_result of all results
	cost     *float64               // total_cost_usd of the last result
	results  int
	hasSince bool

	// What the messages told before a result came: the input is known when an
	// answer begins, the output is not.
	started  modelCount
	messages recent
	first    string // id of the first message
	answerer string
}

// modelCount counts what one model did, or several.
type modelCount struct {
	name                                string
	input, output, read, written, think int64
	thinks                              bool
	cost                                float64
	unpriced                            bool
}

func (a modelCount) plus(b modelCount) modelCount {
	return modelCount{
		input: a.input + b.input, output: a.output + b.output, read: a.read + b.read, written: a.written + b.written,
		think: a.think + b.think, thinks: a.thinks || b.thinks, cost: a.cost + b.cost, unpriced: a.unpriced || b.unpriced,
	}
}

func (a modelCount) kinds() [4]int64 { return [4]int64{a.input, a.output, a.read, a.written} }

func (a modelCount) usage() Usage {
	u := Usage{Input: &a.input, Output: &a.output, CacheRead: &a.read, CacheWrite: &a.written}
	if a.thinks {
		think := min(a.think, a.output)
		u.Reasoning = &think
	}
	return u
}

// message notes the usage that the beginning of an answer tells. It comes again
// with every block of the answer.
func (c *claudeCounts) message(l *jsonstream.Line, model string) {
	if model != "" {
		c.answerer = model
	}
	id := l.String(claudeID)
	if id == "" || !c.messages.add(id) {
		return
	}
	if c.first == "" {
		c.first = id
	}
	c.started = c.started.plus(readTurn(l, claudeMessageUsage))
}

func (c *claudeCounts) result(l *jsonstream.Line) {
	turn := readTurn(l, claudeTurnUsage)
	if n, ok := l.Int(claudeThought); ok && n >= 0 {
		turn.think, turn.thinks = n, true
	}
	c.turns = c.turns.plus(turn)
	c.models = map[string]*modelCount{}
	readModels(l, claudeModels, c.models)
	if c.since == nil {
		c.since = map[string]*modelCount{}
	}
	readModels(l, claudeSince, c.since)
	if v, ok := l.Last(claudeHasSince); ok && v.Type == 'o' {
		c.hasSince = true
	}
	c.cost = nil
	if cost, ok := l.Float(claudeCost); ok && cost >= 0 && !math.IsInf(cost, 0) {
		c.cost = &cost
	}
	c.results++
}

// learned gives this run's figures and the session's.
func (c *claudeCounts) learned(resumed bool, before *Totals) (u Usage, cost *float64, totals *Totals, model string) {
	model = strings.TrimSuffix(c.answerer, "[1m]")
	if c.results == 0 {
		if c.first != "" {
			u = c.started.usage()
			u.Output = nil
		}
		return u, nil, before, model
	}
	all, run := total(c.models), c.turns
	switch {
	case c.hasSince:
		run = total(c.since)
		cost = &run.cost
		if run.unpriced {
			cost = nil
		}
	case len(c.models) == 0:
		if !resumed {
			cost = c.cost
		}
	case !resumed, all.kinds() == c.turns.kinds():
		run, cost = all, c.cost
	case before == nil: // the counters may be of the session
	case holds(all, before, c.turns):
		run = all.less(before.Usage)
		if c.cost != nil && before.CostUSD != nil {
			left := max(0, *c.cost-*before.CostUSD)
			cost = &left
		}
	default:
		run, cost = all, c.cost
	}
	if all.unpriced && !c.hasSince {
		cost = nil
	}
	if len(c.models) > 0 {
		totals = &Totals{Usage: all.usage(), CostUSD: c.cost}
	}
	if name := mostOutput(c.models); name != "" && !c.hasSince {
		model = name
	} else if name := mostOutput(c.since); name != "" {
		model = name
	}
	return run.usage(), cost, totals, model
}

// holds reports whether the counters are those of the session: they then have
// at least what it had before and what the turns of this run told.
func holds(all modelCount, before *Totals, turns modelCount) bool {
	had := [4]int64{deref(before.Usage.Input), deref(before.Usage.Output), deref(before.Usage.CacheRead), deref(before.Usage.CacheWrite)}
	now, told := all.kinds(), turns.kinds()
	for i := range now {
		if now[i] < had[i]+told[i] {
			return false
		}
	}
	return true
}

func (a modelCount) less(u Usage) modelCount {
	a.input, a.output = a.input-deref(u.Input), a.output-deref(u.Output)
	a.read, a.written = a.read-deref(u.CacheRead), a.written-deref(u.CacheWrite)
	a.think = max(0, a.think-deref(u.Reasoning))
	return a
}

func deref(p *int64) int64 {
	if p == nil {
		return 0
	}
	return *p
}

func total(models map[string]*modelCount) (sum modelCount) {
	for _, m := range models {
		sum = sum.plus(*m)
	}
	return sum
}

func mostOutput(models map[string]*modelCount) string {
	best := modelCount{output: -1}
	for _, m := range models {
		if m.output > best.output || m.output == best.output && m.name < best.name {
			best = *m
		}
	}
	return strings.TrimSuffix(best.name, "[1m]")
}

func readTurn(l *jsonstream.Line, want int) (c modelCount) {
	for v := range l.All(want) {
		n, ok := number(v)
		if !ok {
			continue
		}
		switch v.Keys[0] {
		case "input_tokens":
			c.input = n
		case "output_tokens":
			c.output = n
		case "cache_read_input_tokens":
			c.read = n
		case "cache_creation_input_tokens":
			c.written = n
		}
	}
	return c
}

// readModels adds the counters per model.
func readModels(l *jsonstream.Line, want int, into map[string]*modelCount) {
	now := map[string]*modelCount{}
	of := func(model string) *modelCount {
		if now[model] == nil {
			now[model] = &modelCount{name: model}
		}
		return now[model]
	}
	for v := range l.All(want) {
		if len(now) == maxModels && now[v.Keys[0]] == nil {
			continue
		}
		n, _ := number(v)
		switch v.Keys[1] {
		case "inputTokens":
			of(v.Keys[0]).input = n
		case "outputTokens":
			of(v.Keys[0]).output = n
		case "cacheReadInputTokens":
			of(v.Keys[0]).read = n
		case "cacheCreationInputTokens":
			of(v.Keys[0]).written = n
		case "thinkingTokens":
			m := of(v.Keys[0])
			m.think, m.thinks = n, true
		case "canonicalModel":
			if v.Type == 's' && len(v.Raw) > 0 {
				of(v.Keys[0]).name = string(v.Raw)
			}
		case "costBasis":
			if string(v.Raw) == "unknown" {
				of(v.Keys[0]).unpriced = true
			}
		case "costUSD":
			m := of(v.Keys[0])
			cost, ok := fraction(v)
			if m.cost = cost; !ok || cost < 0 {
				m.unpriced = true
			}
		}
	}
	for key, m := range now {
		sum := *m
		if old := into[key]; old != nil {
			sum = old.plus(*m)
			sum.name = m.name
		}
		if into[key] != nil || len(into) < maxModels {
			into[key] = &sum
		}
	}
}

// number is a count that can be meant.
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

// recent holds the last maxIDs different ids.
type recent struct{ ids []string }

// add reports whether the id is new.
func (r *recent) add(id string) bool {
	if slices.Contains(r.ids, id) {
		return false
	}
	if len(r.ids) == maxIDs {
		r.ids = slices.Delete(r.ids, 0, 1)
	}
	r.ids = append(r.ids, id)
	return true
}
