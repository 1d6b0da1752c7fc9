package price

import (
	"cmp"
	"math/big"
	"slices"
	"strconv"
	"time"

	"github.com/superloop/superloop/roles/agent"
)

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
