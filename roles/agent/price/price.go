// Package price computes the cost of model usage. It uses a built-in table of prices with its source and date. The
// owner's own prices take precedence.
//
// A cost is unknown, never 0 and never a guess, in these cases: the table does not have the model; a kind of token was
// not counted; the model has no price for a kind of token; two providers sell a model of the name at different prices.
// Searches, audio and images are not text tokens and are in no sum.
//
// internal/tools/prices makes the table from a published one.
package price

import (
	"cmp"
	_ "embed"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/superloop/superloop/roles/agent"
)

// To regenerate the table, install its source (internal/tools/prices/source.mjs says how). Then run this command with
// the directory of the source and the release date of its version:
//
//	GENAI_PRICES=DIR GENAI_PRICES_DATE=2006-01-02 go generate ./roles/agent/price
//
//go:generate sh -c "node ../../../internal/tools/prices/source.mjs data | go run ../../../internal/tools/prices -date $GENAI_PRICES_DATE -out prices.json"
//go:generate sh -c "node ../../../internal/tools/prices/source.mjs golden prices.json >testdata/golden.tsv"

//go:embed prices.json
var embedded []byte

// Table holds prices. It is immutable, so any number of goroutines may use it.
type Table struct {
	date      string
	providers []*Provider
	own       map[string]Prices // the owner's prices, by lower-case name
}

// Rate is the price of a model that the owner has configured, in US dollars per million tokens, from 0 to 1,000,000.
// CacheRead and CacheWrite are nil if the owner gave none. Then the price of Input applies to these tokens too.
type Rate struct {
	Input, Output         float64
	CacheRead, CacheWrite *float64
}

// Embedded returns the built-in table. The first call parses it.
func Embedded() (*Table, error) { return parsedOnce() }

var parsedOnce = sync.OnceValues(func() (*Table, error) {
	t, err := parse(embedded)
	if err != nil {
		return nil, fmt.Errorf("reading the built-in prices: %w", err)
	}
	return t, nil
})

// Date returns the day, as 2006-01-02, on which the prices were published.
func (t *Table) Date() string { return t.date }

// With returns a copy of the table with the owner's prices, which take precedence over the built-in ones. A key is the
// exact name of a model, regardless of case, for every provider; or "provider/model", which takes precedence over the
// bare name. If a price of a rate is invalid, the cost of its model is unknown.
func (t *Table) With(overrides map[string]Rate) *Table {
	out := *t
	out.own = map[string]Prices{}
	maps.Copy(out.own, t.own)
	for name, r := range overrides {
		out.own[clean(name)] = r.prices()
	}
	return &out
}

// Cost returns the cost of the usage u at a provider, as if all of it was one request. model is the provider's own name
// of the model. provider is the Provider of an agent.Account; "" searches all providers: first those that make the
// model, then those that sell models of others. If a name then has several different prices, ok is false. Cost also
// understands a date at the end of the name, a prefix "provider/", and Claude Code's suffix "[1m]". at selects among
// prices that changed on a day or that depend on the hour. Before the first known change the oldest price applies.
//
// u must count Input and Output. It must also count CacheRead and CacheWrite, unless the model has no such price or the
// price equals that of input: a CLI that does not distinguish these tokens counts them as input. If u has tokens of a
// kind without a price, ok is false. Cache writes cost the price of a cache entry that lasts five minutes.
//
// Cost computes the sum exactly in decimals and rounds it once, to the nearest float64.
func (t *Table) Cost(provider, model string, u agent.Usage, at time.Time) (usd float64, ok bool) {
	return t.cost(provider, model, u, at, oneRequest)
}

// Range returns the bounds of the cost of a usage that may consist of any number of requests. low is the cost if no
// request was a long one, for which some models have a higher price, and no cache write was for an hour. high is the
// cost if all requests were long and all cache writes were for an hour. ok has the same meaning as for Cost.
func (t *Table) Range(provider, model string, u agent.Usage, at time.Time) (low, high float64, ok bool) {
	low, ok = t.cost(provider, model, u, at, cheapest)
	if ok {
		high, ok = t.cost(provider, model, u, at, dearest)
	}
	return low, high, ok
}

func (t *Table) cost(provider, model string, u agent.Usage, at time.Time, how reading) (float64, bool) {
	name := clean(model)
	var may []Tariff
	for _, key := range []string{name, clean(provider) + "/" + name} {
		if p, ok := t.own[key]; ok {
			may = []Tariff{{Prices: p}}
		}
	}
	if may == nil {
		for _, m := range t.find(clean(provider), name) {
			may = append(may, m.at(at))
		}
	}
	var sum *big.Int
	for _, r := range may {
		one, ok := r.sum(u, how)
		if !ok || sum != nil && sum.Cmp(one) != 0 {
			return 0, false
		}
		sum = one
	}
	if sum == nil {
		return 0, false
	}
	usd, _ := new(big.Rat).SetFrac(sum, big.NewInt(1e18)).Float64()
	return usd, true
}

// clean returns a name as the rules compare it: in lower case, and without Claude Code's suffix for a long context.
func clean(name string) string {
	return strings.TrimSuffix(strings.ToLower(strings.TrimSpace(name)), "[1m]")
}

// maxCount is the largest count of tokens that is believed. It keeps every sum of counts within an int64.
const maxCount = 1 << 60

// at returns the tariff that applies at a time, or an empty one if the model has none.
func (m *Model) at(at time.Time) Tariff {
	for _, r := range slices.Backward(m.Rates) {
		if r.holds(at) {
			return r
		}
	}
	if len(m.Rates) == 0 {
		return Tariff{}
	}
	return m.Rates[0]
}

// holds reports whether the tariff applies at a time. It compares days and times of day as texts, which sort
// chronologically.
func (r Tariff) holds(at time.Time) bool {
	day, hour := at.UTC().Format(time.DateOnly), at.UTC().Format(time.TimeOnly)
	switch {
	case day < r.From:
		return false
	case len(r.Hours) == 0 || r.Hours[0] == r.Hours[1]:
		return true
	case r.Hours[1] < r.Hours[0]:
		return hour >= r.Hours[0] || hour < r.Hours[1]
	}
	return hour >= r.Hours[0] && hour < r.Hours[1]
}

// input returns the number of input tokens of a usage, including cached ones. ok is false if the usage can have no cost
// at any rate: Input or Output is not counted, or a count is out of range.
func input(u agent.Usage) (total int64, ok bool) {
	for _, p := range []*int64{u.Input, u.CacheRead, u.CacheWrite, u.Output} {
		switch {
		case p == nil:
		case *p < 0 || *p > maxCount:
			return 0, false
		case p != u.Output:
			total += *p
		}
	}
	return total, u.Input != nil && u.Output != nil
}

// reading is an assumption about the number of requests in a usage, which the usage does not tell.
type reading int

const (
	oneRequest reading = iota // the usage is that of one request
	cheapest                  // no request was a long one
	dearest                   // all requests were long, and every cache write was for an hour
)

// sum returns the cost of a usage in attodollars (1e-18).
func (r Tariff) sum(u agent.Usage, how reading) (*big.Int, bool) {
	all, ok := input(u)
	p := r.Prices
	if r.Long != nil && how != cheapest && all > r.Above {
		p = *r.Long
	}
	if how == dearest && p.Write != nil && p.WriteHour != nil && *p.WriteHour > *p.Write {
		p.Write = p.WriteHour
	}
	if !ok || p.In == nil || p.Out == nil {
		return nil, false // the table has no price for this model, or the usage is incomplete
	}
	total := new(big.Int)
	for _, k := range []struct {
		n     *int64
		price *Price
	}{{u.Input, p.In}, {u.Output, p.Out}, {u.CacheRead, p.Read}, {u.CacheWrite, p.Write}} {
		switch {
		case k.n == nil && k.price != nil && *k.price != *p.In:
			return nil, false
		case k.n == nil || *k.n == 0 && k.price == nil:
		case k.price == nil:
			return nil, false
		default:
			total.Add(total, new(big.Int).Mul(big.NewInt(*k.n), big.NewInt(int64(*k.price))))
		}
	}
	return total, true
}

// prices converts a rate of the owner for the table. If one of its values is no valid price, the result has no price at
// all.
func (r Rate) prices() Prices {
	read, write := cmp.Or(r.CacheRead, &r.Input), cmp.Or(r.CacheWrite, &r.Input)
	out := Prices{In: new(Price), Out: new(Price), Read: new(Price), Write: new(Price)}
	for i, to := range []*Price{out.In, out.Out, out.Read, out.Write} {
		usd := *[]*float64{&r.Input, &r.Output, read, write}[i]
		// The shortest decimal that gives this float64 is the number that the owner wrote.
		if to.UnmarshalJSON(strconv.AppendFloat(nil, usd, 'f', -1, 64)) != nil {
			return Prices{}
		}
	}
	return out
}
