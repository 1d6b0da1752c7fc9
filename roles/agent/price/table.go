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

	"github.com/superloop/superloop/internal/text"
)

// File is the content of prices.json, which internal/tools/prices writes.
type File struct {
	Source    string      `json:"source"`
	URL       string      `json:"url"`
	License   string      `json:"license"`
	Version   string      `json:"version"`
	Date      string      `json:"date"`
	Unit      string      `json:"unit"`
	Providers []*Provider `json:"providers,omitempty"`
}

// Provider sells models.
type Provider struct {
	ID string `json:"id"`
	// Named matches other names of the provider. Makes matches the names of the models that it makes itself.
	Named *Rules `json:"named,omitempty"`
	Makes *Rules `json:"makes,omitempty"`
	// Fallback lists other providers. The provider sells their models at their prices if it has no price of its own.
	Fallback []string `json:"fallback,omitempty"`
	Models   []*Model `json:"models,omitempty"` // the first model that matches a name counts
}

// Model is a model that a provider sells.
type Model struct {
	ID    string   `json:"id"`
	Is    *Rules   `json:"is,omitempty"`    // matches the names of the model; absent in the file if the only name is ID
	Rates []Tariff `json:"rates,omitempty"` // the last that applies counts, else the first; empty: unknown
}

// Rules match a name in lower case if any of its rules does. A nil Rules matches no name.
type Rules struct {
	Equals   []string         `json:"equals,omitempty"`
	Starts   []string         `json:"starts,omitempty"`
	Ends     []string         `json:"ends,omitempty"`
	Contains []string         `json:"contains,omitempty"`
	Regex    []*regexp.Regexp `json:"regex,omitempty"`
	All      []Rules          `json:"all,omitempty"`
	Not      *Rules           `json:"not,omitempty"`
}

// Tariff holds the prices that apply from a day on, or at hours of the day.
type Tariff struct {
	From string `json:"from,omitempty"` // the first day (UTC); "": without a beginning
	// Hours are the beginning and the end of the time of day (UTC) at which the tariff applies, possibly over midnight.
	// Empty: always.
	Hours []string `json:"hours,omitempty"`
	Prices
	// Long, unless nil, applies to a request of more than Above input tokens.
	Above int64   `json:"above,omitempty"`
	Long  *Prices `json:"long,omitempty"`
}

// Prices holds a price for each kind of token. nil: the kind has no price.
type Prices struct {
	In        *Price `json:"in,omitempty"`
	Read      *Price `json:"read,omitempty"`
	Write     *Price `json:"write,omitempty"`
	WriteHour *Price `json:"write_1h,omitempty"`
	Out       *Price `json:"out,omitempty"`
}

// Price is in picodollars (1e-12) per million tokens. In JSON it is in dollars; decimals below a picodollar are cut
// off.
type Price int64

const (
	maxPrice = 1e6 // dollars per million tokens, so that every price in picodollars fits an int64
	decimals = 12  // decimals of a price in dollars
)

// UnmarshalJSON accepts a decimal number of dollars from 0 to 1,000,000.
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

// MarshalJSON writes the price in dollars.
func (p Price) MarshalJSON() ([]byte, error) {
	s := big.NewRat(int64(p), 1e12).FloatString(decimals)
	return []byte(strings.TrimSuffix(strings.TrimRight(s, "0"), ".")), nil
}

// parse reads a table. A field that it does not know is an error.
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
	return text.Reason(dec.Decode(v))
}

// UnmarshalJSON reads a provider strictly and names it in an error.
func (p *Provider) UnmarshalJSON(data []byte) error {
	type plain Provider
	if err := strict(data, (*plain)(p)); err != nil {
		return fmt.Errorf("provider %s: %w", p.ID, err)
	}
	return nil
}

// UnmarshalJSON reads a model strictly, checks its dates and hours, and names the model in an error. A model without Is
// matches its ID.
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

// find returns the models that a name may stand for. For a named provider it is at most one model. If id is "", find
// prefers the makers of the model and otherwise returns a model of each provider that sells one of that name.
func (t *Table) find(id, name string) (out []*Model) {
	if name == "" {
		return nil
	}
	add := func(m *Model) {
		if m != nil {
			out = append(out, m)
		}
	}
	var prefix *Provider
	before, after, slash := strings.Cut(name, "/")
	if slash {
		prefix = t.provider(before)
	}
	if id != "" {
		p := t.provider(id)
		if add(t.sold(p, name, true)); len(out) == 0 && p == prefix {
			add(t.sold(p, after, true))
		}
		return out
	}
	for _, p := range t.providers {
		if !slash && p.Makes.match(name) {
			add(t.sold(p, name, false))
		}
	}
	if len(out) > 0 {
		return out
	}
	add(t.sold(prefix, after, true))
	for _, p := range t.providers {
		add(t.sold(p, name, false))
	}
	return out
}

// provider finds a provider by its id or another name.
func (t *Table) provider(word string) *Provider {
	i := slices.IndexFunc(t.providers, func(p *Provider) bool { return p.ID == word })
	if i < 0 {
		i = slices.IndexFunc(t.providers, func(p *Provider) bool { return p.Named.match(word) })
	}
	if i < 0 {
		return nil
	}
	return t.providers[i]
}

// sold returns the provider's own model of that name. If there is none and others is true, sold returns the model of a
// provider in Fallback.
func (t *Table) sold(p *Provider, name string, others bool) *Model {
	if p == nil {
		return nil
	}
	sellers := []*Provider{p}
	for _, id := range p.Fallback {
		if other := t.provider(id); others && other != nil {
			sellers = append(sellers, other)
		}
	}
	for _, name := range []string{name, dashDate(name)} {
		for _, p := range sellers {
			if i := slices.IndexFunc(p.Models, func(m *Model) bool { return m.Is.match(name) }); i >= 0 {
				return p.Models[i]
			}
		}
	}
	return nil
}

// dashDate writes the dates in a name with dashes: -20250807 becomes -2025-08-07. Some providers write the dates with
// dashes while some CLIs do not.
func dashDate(name string) string {
	const digits = 8
	for i := 0; i+1+digits <= len(name); i++ {
		end := i + 1 + digits
		if name[i] != '-' || end < len(name) && name[end] != '-' && name[end] != ':' {
			continue
		}
		if at, err := time.Parse("20060102", name[i+1:end]); err == nil && at.Year() >= 2000 && at.Year() <= 2099 {
			name = name[:i+1] + at.Format(time.DateOnly) + name[end:]
		}
	}
	return name
}
