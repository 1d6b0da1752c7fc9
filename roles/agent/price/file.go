package price

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// File is prices.json, which the generator writes.
type File struct {
	Source    string      `json:"source"`
	URL       string      `json:"url"`
	License   string      `json:"license"`
	Version   string      `json:"version"`
	Date      string      `json:"date"`
	Unit      string      `json:"unit"`
	Providers []*Provider `json:"providers,omitempty"`
}

// Provider is one who sells models.
type Provider struct {
	ID string `json:"id"`
	// Named are other words for it, and Makes the models that it makes itself.
	Named *Rules `json:"named,omitempty"`
	Makes *Rules `json:"makes,omitempty"`
	// Fallback are those whose models it sells at their price, when it has none of its own.
	Fallback []string `json:"fallback,omitempty"`
	Models   []*Model `json:"models,omitempty"` // the first that matches counts
}

// Model is one that a provider sells.
type Model struct {
	ID    string   `json:"id"`
	Is    *Rules   `json:"is,omitempty"`    // in the file absent when the name is ID
	Rates []Tariff `json:"rates,omitempty"` // the last that holds counts, else the first; none: not known
}

// Rules match a name in lower case when any of them does; nil matches none.
type Rules struct {
	Equals   []string         `json:"equals,omitempty"`
	Starts   []string         `json:"starts,omitempty"`
	Ends     []string         `json:"ends,omitempty"`
	Contains []string         `json:"contains,omitempty"`
	Regex    []*regexp.Regexp `json:"regex,omitempty"`
	All      []Rules          `json:"all,omitempty"`
	Not      *Rules           `json:"not,omitempty"`
}

// Tariff is what holds at a time.
type Tariff struct {
	From string `json:"from,omitempty"` // a day, of UTC; "": from ever
	// Hours are the two times of the day (UTC) between which it holds, also over midnight. None: always.
	Hours []string `json:"hours,omitempty"`
	Prices
	// Long, unless nil, holds for a request of more than Above tokens of input.
	Above int64   `json:"above,omitempty"`
	Long  *Prices `json:"long,omitempty"`
}

// Prices are by the kind of tokens; nil: there is none.
type Prices struct {
	In        *Price `json:"in,omitempty"`
	Read      *Price `json:"read,omitempty"`
	Write     *Price `json:"write,omitempty"`
	WriteHour *Price `json:"write_1h,omitempty"`
	Out       *Price `json:"out,omitempty"`
}

// Price is in picodollars (1e-12) per million tokens; in JSON in dollars, of which less than a picodollar is cut off.
type Price int64

const (
	maxPrice = 1e6 // dollars per million tokens: every price is within an int64 of picodollars
	decimals = 12  // of a price in dollars
)

// UnmarshalJSON refuses what is no price from 0 to 1,000,000 dollars.
func (p *Price) UnmarshalJSON(b []byte) error {
	whole, part, _ := strings.Cut(string(b), ".")
	dollars, err := strconv.ParseUint(whole, 10, 64)
	if err != nil || dollars > maxPrice || strings.Trim(part, "0123456789") != "" {
		return fmt.Errorf("%s is no price", b)
	}
	rest, err := strconv.ParseUint((part + strings.Repeat("0", decimals))[:decimals], 10, 64)
	if *p = Price(dollars*1e12 + rest); err != nil || *p > maxPrice*1e12 {
		return fmt.Errorf("%s is no price", b)
	}
	return nil
}

// MarshalJSON writes dollars.
func (p Price) MarshalJSON() ([]byte, error) {
	s := big.NewRat(int64(p), 1e12).FloatString(decimals)
	return []byte(strings.TrimSuffix(strings.TrimRight(s, "0"), ".")), nil
}

// parse reads a table; anything in it that is not understood is an error.
func parse(data []byte) (*Table, error) {
	var f File
	err := strict(data, &f)
	if err == nil {
		_, err = time.Parse(time.DateOnly, f.Date)
	}
	return &Table{date: f.Date, providers: f.Providers}, err
}

func strict(data []byte, v any) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	return dec.Decode(v)
}

// UnmarshalJSON names the provider in an error.
func (p *Provider) UnmarshalJSON(data []byte) error {
	type plain Provider
	if err := strict(data, (*plain)(p)); err != nil {
		return fmt.Errorf("provider %s: %w", p.ID, err)
	}
	return nil
}

// UnmarshalJSON names the model in an error.
func (m *Model) UnmarshalJSON(data []byte) error {
	type plain Model
	err := strict(data, (*plain)(m))
	for _, r := range m.Rates {
		if r.From != "" && err == nil {
			_, err = time.Parse(time.DateOnly, r.From)
		}
		if n := len(r.Hours); n != 0 && n != 2 {
			err = fmt.Errorf("hours %q are not a beginning and an end", r.Hours)
		}
		for _, hour := range r.Hours {
			if err == nil {
				_, err = time.Parse(time.TimeOnly, hour)
			}
		}
	}
	if err != nil {
		return fmt.Errorf("model %s: %w", m.ID, err)
	}
	if m.Is == nil {
		m.Is = &Rules{Equals: []string{m.ID}}
	}
	return nil
}

func (r *Rules) match(name string) bool {
	some := func(list []string, has func(string, string) bool) bool {
		return slices.ContainsFunc(list, func(s string) bool { return has(name, strings.ToLower(s)) })
	}
	switch {
	case r == nil:
		return false
	case some(r.Equals, func(a, b string) bool { return a == b }), some(r.Starts, strings.HasPrefix),
		some(r.Ends, strings.HasSuffix), some(r.Contains, strings.Contains),
		slices.ContainsFunc(r.Regex, func(re *regexp.Regexp) bool { return re.MatchString(name) }),
		len(r.All) > 0 && !slices.ContainsFunc(r.All, func(sub Rules) bool { return !sub.match(name) }):
		return true
	}
	return r.Not != nil && !r.Not.match(name)
}
