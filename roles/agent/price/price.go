// Package price knows what models cost: a table that is built in, with its source and its date, and the owner's own
// prices above it.
//
// It answers only what it knows. A model that the table does not have, a kind of tokens that was not counted, a kind
// that the model has no price for, a name that two providers sell at different prices: all of that is "unknown", never
// 0 and never a guess. Searches, audio and images are no tokens of text and are not in any sum.
//
// The table is made of a published one by internal/tools/prices.
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

// To make the table anew, install the source (internal/tools/prices/source.mjs says how), then type, with the place and
// the day of the version's release:
//
//	GENAI_PRICES=DIR GENAI_PRICES_DATE=2006-01-02 go generate ./roles/agent/price
//
//go:generate sh -c "node ../../../internal/tools/prices/source.mjs data | go run ../../../internal/tools/prices -date $GENAI_PRICES_DATE -out prices.json"
//go:generate sh -c "node ../../../internal/tools/prices/source.mjs golden prices.json >testdata/golden.tsv"

//go:embed prices.json
var embedded []byte

// Table holds prices. It is never changed, so any number of goroutines may use it.
type Table struct {
	date      string
	providers []*Provider
	own       map[string]Prices // the owner's, by lower-case name
}

// Rate is what a model costs by its owner's word, in US dollars per million tokens, from 0 to 1,000,000. CacheRead and
// CacheWrite are nil when the owner gave none: then Input is taken for these tokens too.
type Rate struct {
	Input, Output         float64
	CacheRead, CacheWrite *float64
}

// Embedded is the built-in table. It is read when it is first asked for, once.
func Embedded() (*Table, error) { return parsedOnce() }

var parsedOnce = sync.OnceValues(func() (*Table, error) {
	t, err := parse(embedded)
	if err != nil {
		return nil, fmt.Errorf("reading the built-in prices: %w", err)
	}
	return t, nil
})

// Date is the day, as 2006-01-02, on which the prices were published.
func (t *Table) Date() string { return t.date }

// With is the table with the owner's prices, which win over its own. A key is the exact name of a model, in whatever
// case of letters, for every provider; or "provider/model", which wins over the bare name. A rate with a price that is
// none makes its model's cost unknown.
func (t *Table) With(overrides map[string]Rate) *Table {
	out := *t
	out.own = map[string]Prices{}
	maps.Copy(out.own, t.own)
	for name, r := range overrides {
		out.own[clean(name)] = r.prices()
	}
	return &out
}

// Cost is what u costs at a provider, for a model in the provider's own name for it, if all of it was one request. A
// provider is a word as agent.Account has it; "" searches all: makers of models before those who sell models of others,
// and a name of which there are several prices has none. A date at the name's end, a "provider/" before it and Claude
// Code's "[1m]" behind it are understood. at chooses between prices that changed on a day, or that depend on the hour;
// before the first known change the oldest price holds.
//
// Input and Output have to be known; CacheRead and CacheWrite too, unless the model has no such price or it is that of
// input: who does not tell them apart counts them there. If u has tokens of a kind without a price, ok is false. Cache
// writes are taken at the price of those that last five minutes.
//
// The sum is exact, in decimals, and rounded once: to the nearest float64.
func (t *Table) Cost(provider, model string, u agent.Usage, at time.Time) (usd float64, ok bool) {
	return t.cost(provider, model, u, at, oneRequest)
}

// Range bounds the cost of a usage that counts any number of requests: low is what it costs if none of them was a long
// one, which some models have a higher price for, and no cache write was for an hour; high if all of them were. ok is
// as Cost has it.
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

// clean is a name as the rules compare it: in lower case, without the mark of Claude Code for a long context.
func clean(name string) string {
	return strings.TrimSuffix(strings.ToLower(strings.TrimSpace(name)), "[1m]")
}

// maxCount keeps every sum of counts within an int64.
const maxCount = 1 << 60

// at is the rate that holds; one without prices if the model has none.
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

// holds compares times as texts, which are in their order.
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

// input is how many tokens of input a usage has, of all kinds. ok is false for a usage that has no price whatever the
// rate: its plain kinds are not known, or it holds what is no count.
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

// reading is how a usage is read that does not tell of how many requests it is.
type reading int

const (
	oneRequest reading = iota // all of it was one request
	cheapest                  // no request was a long one
	dearest                   // all were, and every cache write was for an hour
)

// sum is the cost in attodollars (1e-18).
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
		return nil, false // of such a model only the name is known
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

// prices are the owner's as the table keeps them; none when one of them is no price.
func (r Rate) prices() Prices {
	read, write := cmp.Or(r.CacheRead, &r.Input), cmp.Or(r.CacheWrite, &r.Input)
	out := Prices{In: new(Price), Out: new(Price), Read: new(Price), Write: new(Price)}
	for i, to := range []*Price{out.In, out.Out, out.Read, out.Write} {
		usd := *[]*float64{&r.Input, &r.Output, read, write}[i]
		// The shortest decimal that gives this float64 is what the owner wrote.
		if to.UnmarshalJSON(strconv.AppendFloat(nil, usd, 'f', -1, 64)) != nil {
			return Prices{}
		}
	}
	return out
}
