package price

import (
	"math/big"
	"strconv"
	"strings"
	"time"

	"github.com/superloop/superloop/roles/agent"
)

// maxPrice, in dollars per million tokens, keeps every price within an int64 of
// picodollars; maxCount keeps every sum of counts within one.
const (
	maxPrice = 1e6
	maxCount = 1 << 60
)

// prices are in picodollars (1e-12) per million tokens; nil: there is none.
type prices struct {
	in, out, read, write, writeHour *int64
}

// rate is what holds at a time.
type rate struct {
	from time.Time // zero: from ever
	// begin and end bound the hours of the day (UTC) in which it holds; a rate
	// that ends before it begins holds over midnight. Equal: always.
	begin, end time.Duration
	prices
	// long, unless nil, holds for a request of more than above tokens of input.
	above int64
	long  *prices
}

func (r rate) holds(at time.Time) bool {
	at = at.UTC()
	if at.Before(r.from) {
		return false
	}
	if r.begin == r.end {
		return true
	}
	since := at.Sub(time.Date(at.Year(), at.Month(), at.Day(), 0, 0, 0, 0, time.UTC))
	if r.end < r.begin {
		return since >= r.begin || since < r.end
	}
	return since >= r.begin && since < r.end
}

// counts are the kinds of a usage; a pointer that is nil was not counted.
type counts struct {
	in, out     int64
	read, write *int64
	total       int64 // of input, of all kinds
}

// count is false for a usage that cannot be priced whatever the rate: its plain
// kinds are not known, or it holds what is no count.
func count(u agent.Usage) (counts, bool) {
	if u.Input == nil || u.Output == nil {
		return counts{}, false
	}
	for _, p := range []*int64{u.Input, u.Output, u.CacheRead, u.CacheWrite} {
		if p != nil && (*p < 0 || *p > maxCount) {
			return counts{}, false
		}
	}
	n := counts{in: *u.Input, out: *u.Output, read: u.CacheRead, write: u.CacheWrite, total: *u.Input}
	for _, p := range []*int64{n.read, n.write} {
		if p != nil {
			n.total += *p
		}
	}
	return n, true
}

// reading is how a usage is read that does not tell of how many requests it is.
type reading int

const (
	oneRequest reading = iota // all of it was one request
	cheapest                  // no request was a long one
	dearest                   // all were, and every cache write was for an hour
)

// sum is the cost in attodollars (1e-18).
func (r rate) sum(n counts, how reading) (*big.Int, bool) {
	p := r.prices
	if r.long != nil && how != cheapest && n.total > r.above {
		p = *r.long
	}
	if how == dearest && p.write != nil && p.writeHour != nil && *p.writeHour > *p.write {
		p.write = p.writeHour
	}
	total := new(big.Int)
	if p.in == nil || p.out == nil {
		return nil, false // a model of which only the name is known
	}
	for _, k := range []struct{ n, price *int64 }{{&n.in, p.in}, {&n.out, p.out}, {n.read, p.read}, {n.write, p.write}} {
		switch {
		case k.n == nil && k.price != nil && *k.price != *p.in:
			return nil, false
		case k.n == nil || *k.n == 0 && k.price == nil:
		case k.price == nil:
			return nil, false
		default:
			total.Add(total, new(big.Int).Mul(big.NewInt(*k.n), big.NewInt(*k.price)))
		}
	}
	return total, true
}

// usd is the float64 nearest to a sum.
func usd(sum *big.Int) float64 {
	v, _ := new(big.Rat).SetFrac(sum, big.NewInt(1e18)).Float64()
	return v
}

// decimals are those of a price in picodollars.
const decimals = 12

// pico reads a price in dollars, written as plain decimals; ok is false when it
// is none. What is below a picodollar is cut off.
func pico(s string) (v int64, ok bool) {
	whole, part, _ := strings.Cut(s, ".")
	dollars, err := strconv.ParseUint(whole, 10, 64)
	if err != nil || dollars > maxPrice || strings.Trim(part, "0123456789") != "" {
		return 0, false
	}
	part = (part + strings.Repeat("0", decimals))[:decimals]
	rest, err := strconv.ParseUint(part, 10, 64)
	v = int64(dollars*1e12 + rest)
	return v, err == nil && v <= maxPrice*1e12
}

// rate is the owner's as the table keeps it. One that Check refuses has no
// prices.
func (r Rate) rate() rate {
	if r.Check() != nil {
		return rate{}
	}
	of := func(usd float64) *int64 {
		// The shortest decimal that gives this float64 is what the owner wrote.
		v, _ := pico(strconv.FormatFloat(usd, 'f', -1, 64))
		return &v
	}
	own := rate{prices: prices{in: of(r.Input), out: of(r.Output)}}
	own.read, own.write = own.in, own.in
	if r.CacheRead != nil {
		own.read = of(*r.CacheRead)
	}
	if r.CacheWrite != nil {
		own.write = of(*r.CacheWrite)
	}
	return own
}
