package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/superloop/superloop/roles/agent/price"
)

// source is the output of source.mjs, in the structure of the npm package's data.
type source struct {
	Version   string           `json:"version"`
	Providers []sourceProvider `json:"providers"`
}

type sourceProvider struct {
	ID            string        `json:"id"`
	ModelMatch    *sourceMatch  `json:"model_match"`
	ProviderMatch *sourceMatch  `json:"provider_match"`
	Fallback      []string      `json:"fallback_model_providers"`
	Models        []sourceModel `json:"models"`
}

type sourceModel struct {
	ID    string      `json:"id"`
	Match sourceMatch `json:"match"`
	// Prices is one set of prices, or a list of sets with constraints. The last set whose constraint holds counts.
	Prices json.RawMessage `json:"prices"`
}

// sourceMatch is a rule that matches names. It has exactly one member.
type sourceMatch struct {
	Equals   *string       `json:"equals"`
	Starts   *string       `json:"starts_with"`
	Ends     *string       `json:"ends_with"`
	Contains *string       `json:"contains"`
	Regex    *string       `json:"regex"`
	Or       []sourceMatch `json:"or"`
	And      []sourceMatch `json:"and"`
}

type sourcePrices struct {
	Constraint *struct {
		Type      string `json:"type"`
		StartDate string `json:"start_date"`
		StartTime string `json:"start_time"`
		EndTime   string `json:"end_time"`
	} `json:"constraint"`
	Prices map[string]sourcePrice `json:"prices"`
}

// sourcePrice is one price, or a base price with tiers.
type sourcePrice struct {
	base  json.Number
	tiers []sourceTier
}

type sourceTier struct {
	Start int64       `json:"start"` // the tier applies above this number of input tokens
	Price json.Number `json:"price"`
}

func (p *sourcePrice) UnmarshalJSON(b []byte) error {
	if json.Unmarshal(b, &p.base) == nil {
		return nil
	}
	var t struct {
		Base  json.Number  `json:"base"`
		Tiers []sourceTier `json:"tiers"`
	}
	if err := json.Unmarshal(b, &t); err != nil {
		return err
	}
	p.base, p.tiers = t.Base, t.Tiers
	return nil
}

func (m sourceModel) prices() (list []sourcePrices, err error) {
	if len(m.Prices) > 0 && m.Prices[0] == '[' {
		err = json.Unmarshal(m.Prices, &list)
		return list, err
	}
	var one sourcePrices
	err = json.Unmarshal(m.Prices, &one.Prices)
	return []sourcePrices{one}, err
}

func translateOpt(m *sourceMatch) (*price.Rules, error) {
	if m == nil {
		return nil, nil
	}
	out, err := translate(*m)
	return &out, err
}

// translate turns the source's tree of conditions into Rules, of which one match is enough.
func translate(m sourceMatch) (out price.Rules, err error) {
	switch {
	case m.Regex != nil:
		return translateRegex(*m.Regex)
	case m.Equals != nil:
		out.Equals = []string{*m.Equals}
	case m.Starts != nil:
		out.Starts = []string{*m.Starts}
	case m.Ends != nil:
		out.Ends = []string{*m.Ends}
	case m.Contains != nil:
		out.Contains = []string{*m.Contains}
	case m.And == nil && m.Or == nil:
		return out, errors.New("a match rule of an unknown kind")
	}
	for _, sub := range append(m.And, m.Or...) {
		one, err := translate(sub)
		if err != nil {
			return out, err
		}
		if m.And != nil {
			out.All = append(out.All, one)
			continue
		}
		if one.All != nil && out.All != nil || one.Not != nil && out.Not != nil {
			return out, errors.New("an or of two ands: package price knows one")
		}
		out = price.Rules{Equals: append(out.Equals, one.Equals...), Starts: append(out.Starts, one.Starts...),
			Ends: append(out.Ends, one.Ends...), Contains: append(out.Contains, one.Contains...), Regex: append(out.Regex, one.Regex...),
			All: append(out.All, one.All...), Not: cmp.Or(out.Not, one.Not)}
	}
	return out, nil
}

// translateRegex translates a regular expression. Go has no lookahead, so ^(?!X)REST becomes two rules: no match of ^X,
// and a match of ^REST.
func translateRegex(s string) (price.Rules, error) {
	inner, rest, ok := lookahead(s)
	if !ok {
		re, err := regexp.Compile(s)
		if err != nil {
			err = fmt.Errorf("the pattern %s: %w", s, err)
		}
		return price.Rules{Regex: []*regexp.Regexp{re}}, err
	}
	no, err := translateRegex("^(?:" + inner + ")")
	all := []price.Rules{{Not: &no}}
	if rest != "" && err == nil {
		var yes price.Rules
		yes, err = translateRegex("^" + rest)
		all = append(all, yes)
	}
	return price.Rules{All: all}, err
}

func lookahead(s string) (inner, rest string, ok bool) {
	s, ok = strings.CutPrefix(s, "^(?!")
	if !ok {
		return "", "", false
	}
	depth, class := 1, false
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\\':
			i++
		case class:
			class = c != ']'
		case c == '[':
			class = true
		case c == '(':
			depth++
		case c == ')':
			if depth--; depth == 0 {
				return s[:i], s[i+1:], true
			}
		}
	}
	return "", "", false
}
