package main

import "encoding/json"

// source is what source.mjs prints: the shape of the npm package's data.
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
	// Prices is one set of prices, or a list of them with constraints, of which the last that holds counts.
	Prices json.RawMessage `json:"prices"`
}

// sourceMatch has exactly one member.
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

// sourcePrice is a number, or a base with tiers.
type sourcePrice struct {
	base  json.Number
	tiers []sourceTier
}

type sourceTier struct {
	Start int64       `json:"start"` // the tier holds above so many input tokens
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

func (m sourceModel) prices() ([]sourcePrices, error) {
	if len(m.Prices) > 0 && m.Prices[0] == '[' {
		var list []sourcePrices
		err := json.Unmarshal(m.Prices, &list)
		return list, err
	}
	var one sourcePrices
	err := json.Unmarshal(m.Prices, &one.Prices)
	return []sourcePrices{one}, err
}
