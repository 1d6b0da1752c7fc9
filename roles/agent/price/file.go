package price

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"time"
)

// file is prices.json, which the generator writes.
type file struct {
	Source    string         `json:"source"`
	URL       string         `json:"url"`
	License   string         `json:"license"`
	Version   string         `json:"version"`
	Date      string         `json:"date"`
	Unit      string         `json:"unit"`
	Providers []fileProvider `json:"providers"`
}

type fileProvider struct {
	ID       string      `json:"id"`
	Named    *fileRules  `json:"named"`
	Makes    *fileRules  `json:"makes"`
	Fallback []string    `json:"fallback"`
	Models   []fileModel `json:"models"`
}

type fileModel struct {
	ID    string     `json:"id"`
	Is    *fileRules `json:"is"` // nil: the name is ID
	Rates []fileRate `json:"rates"`
}

type fileRules struct {
	Equals   []string    `json:"equals"`
	Starts   []string    `json:"starts"`
	Ends     []string    `json:"ends"`
	Contains []string    `json:"contains"`
	Regex    []string    `json:"regex"`
	All      []fileRules `json:"all"`
	Not      *fileRules  `json:"not"`
}

type fileRate struct {
	From  string   `json:"from"`  // a day
	Hours []string `json:"hours"` // two times of the day, UTC
	filePrices
	Above int64       `json:"above"`
	Long  *filePrices `json:"long"`
}

// filePrices are in dollars per million tokens.
type filePrices struct {
	Input     json.Number `json:"in"`
	Read      json.Number `json:"read"`
	Write     json.Number `json:"write"`
	WriteHour json.Number `json:"write_1h"`
	Output    json.Number `json:"out"`
}

// parse reads a table; anything in it that is not understood is an error.
func parse(data []byte) (*Table, error) {
	var f file
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&f); err != nil {
		return nil, err
	}
	if _, err := time.Parse(time.DateOnly, f.Date); err != nil {
		return nil, err
	}
	t := &Table{source: f.Source, version: f.Version, date: f.Date}
	for _, fp := range f.Providers {
		p := &provider{id: fp.ID, fallback: fp.Fallback}
		var err error
		if p.named, err = fp.Named.rules(); err != nil {
			return nil, fmt.Errorf("provider %s: %w", fp.ID, err)
		}
		if p.makes, err = fp.Makes.rules(); err != nil {
			return nil, fmt.Errorf("provider %s: %w", fp.ID, err)
		}
		for _, fm := range fp.Models {
			m, err := fm.model()
			if err != nil {
				return nil, fmt.Errorf("model %s of %s: %w", fm.ID, fp.ID, err)
			}
			p.models = append(p.models, m)
		}
		t.providers = append(t.providers, p)
	}
	return t, nil
}

func (f fileModel) model() (*model, error) {
	if f.Is == nil {
		f.Is = &fileRules{Equals: []string{f.ID}}
	}
	is, err := f.Is.rules()
	if err != nil {
		return nil, err
	}
	m := &model{id: f.ID, is: *is}
	for _, fr := range f.Rates {
		r, err := fr.rate()
		if err != nil {
			return nil, err
		}
		m.rates = append(m.rates, r)
	}
	return m, nil
}

func (f *fileRules) rules() (*rules, error) {
	if f == nil {
		return nil, nil
	}
	r := &rules{equals: lower(f.Equals), starts: lower(f.Starts), ends: lower(f.Ends), contains: lower(f.Contains)}
	for _, s := range f.Regex {
		re, err := regexp.Compile(s)
		if err != nil {
			return nil, err
		}
		r.regex = append(r.regex, re)
	}
	for _, sub := range f.All {
		one, err := sub.rules()
		if err != nil {
			return nil, err
		}
		r.all = append(r.all, *one)
	}
	var err error
	r.not, err = f.Not.rules()
	return r, err
}

func lower(list []string) []string {
	for i, s := range list {
		list[i] = strings.ToLower(s)
	}
	return list
}

func (f fileRate) rate() (r rate, err error) {
	if r.prices, err = f.prices(); err != nil {
		return rate{}, err
	}
	if f.From != "" {
		if r.from, err = time.Parse(time.DateOnly, f.From); err != nil {
			return rate{}, err
		}
	}
	if len(f.Hours) > 0 {
		if len(f.Hours) != 2 {
			return rate{}, fmt.Errorf("hours %q are not a beginning and an end", f.Hours)
		}
		for i, to := range []*time.Duration{&r.begin, &r.end} {
			at, err := time.Parse(time.TimeOnly, f.Hours[i])
			if err != nil {
				return rate{}, err
			}
			*to = at.Sub(time.Date(at.Year(), at.Month(), at.Day(), 0, 0, 0, 0, time.UTC))
		}
	}
	if f.Long != nil {
		long, err := f.Long.prices()
		if err != nil {
			return rate{}, err
		}
		r.above, r.long = f.Above, &long
	}
	return r, nil
}

func (f filePrices) prices() (p prices, err error) {
	for _, x := range []struct {
		from json.Number
		to   **int64
	}{{f.Input, &p.in}, {f.Output, &p.out}, {f.Read, &p.read}, {f.Write, &p.write}, {f.WriteHour, &p.writeHour}} {
		if x.from == "" {
			continue
		}
		v, ok := pico(x.from.String())
		if !ok {
			return prices{}, fmt.Errorf("%s is no price", x.from)
		}
		*x.to = &v
	}
	return p, nil
}
