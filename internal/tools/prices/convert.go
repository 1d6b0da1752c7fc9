package main

import (
	"encoding/json"
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strings"
)

// keep is a provider that agent CLIs are used with.
type keep struct {
	id string
	// makes is the provider whose model names are this one's too, for one of
	// which the source does not say what it makes; or sells.
	makes string
	names []string // other words for it
}

// sells is a shop for the models of others: a bare name of a model is not looked
// up there before its maker.
const sells = "-"

var kept = []keep{
	{id: "anthropic"},
	{id: "openai"},
	{id: "google"},
	{id: "x-ai"},
	{id: "mistral"},
	{id: "deepseek"},
	{id: "moonshotai"},
	{id: "zai", makes: "zhipuai", names: []string{"z-ai", "z.ai"}},
	{id: "zhipuai", names: []string{"zhipu", "bigmodel"}},
	{id: "minimax"},
	{id: "groq", makes: sells},
	{id: "github-copilot", makes: sells},
	{id: "azure", makes: sells},
	{id: "aws", makes: sells},
	{id: "openrouter", makes: sells},
}

// vendors are those of openrouter's models that write code.
var vendors = []string{"anthropic", "openai", "google", "x-ai", "mistralai", "deepseek", "moonshotai", "z-ai", "qwen", "minimax",
	"meta-llama", "xiaomi", "stepfun", "~anthropic", "~google", "~moonshotai", "~openai"}

// notText are models that are not paid by the token of text alone, or not for
// chatting, although their prices look like it.
var notText = regexp.MustCompile(`(?i)image|tts|transcribe|realtime|audio|embed|ocr|moderation|whisper|voxtral|sonic|-live-|live-2|guard|omni-flash|computer-use`)

// textKeys are the prices that a usage in tokens of text is computed with, and
// otherKeys those of things that no agent CLI counts: they are left out, and so
// is nothing that text costs.
var (
	textKeys  = []string{"input_mtok", "output_mtok", "cache_read_mtok", "cache_write_mtok", "cache_write_1h_mtok"}
	otherKeys = []string{"web_searches_kcount", "storage_searches_kcount", "input_audio_mtok", "cache_audio_read_mtok", "input_image_mtok",
		"cache_image_read_mtok", "input_video_mtok", "cache_write_5m_mtok"}
)

func convert(src source) (file, error) {
	f := file{Source: "@pydantic/genai-prices", URL: "https://github.com/pydantic/genai-prices",
		License: "MIT, Copyright (c) Pydantic Services Inc. 2025 to present", Version: src.Version, Unit: "US dollars per million tokens"}
	byID := map[string]sourceProvider{}
	for _, p := range src.Providers {
		byID[p.ID] = p
	}
	for _, k := range kept {
		p, ok := byID[k.id]
		if !ok {
			return file{}, fmt.Errorf("the source has no provider %q any more", k.id)
		}
		out := provider{ID: p.ID}
		var err error
		if out.Named, err = translateOpt(p.ProviderMatch); err != nil {
			return file{}, err
		}
		if len(k.names) > 0 {
			if out.Named == nil {
				out.Named = &match{}
			}
			out.Named.Equals = append(out.Named.Equals, k.names...)
		}
		maker := p
		if k.makes != "" && k.makes != sells {
			maker = byID[k.makes]
		}
		if k.makes != sells {
			if out.Makes, err = translateOpt(maker.ModelMatch); err != nil {
				return file{}, err
			}
		}
		for _, id := range p.Fallback {
			if slices.ContainsFunc(kept, func(k keep) bool { return k.id == id }) {
				out.Fallback = append(out.Fallback, id)
			}
		}
		if out.Models, err = models(p); err != nil {
			return file{}, fmt.Errorf("provider %s: %w", p.ID, err)
		}
		f.Providers = append(f.Providers, out)
	}
	return f, nil
}

// models keeps the order of the source, where the first that matches counts. A
// model without a price for text stays as a name without rates, so that its
// name is not taken for another model's; of openrouter, whose names are whole
// and each its own, it is left out.
func models(p sourceProvider) ([]model, error) {
	var out []model
	for _, m := range p.Models {
		if vendor, _, _ := strings.Cut(m.ID, "/"); p.ID == "openrouter" && !slices.Contains(vendors, vendor) {
			continue
		}
		is, err := translate(m.Match)
		if err != nil {
			return nil, fmt.Errorf("model %s: %w", m.ID, err)
		}
		line := model{ID: m.ID, Is: &is}
		if slices.Equal(is.Equals, []string{m.ID}) && is.only() {
			line.Is = nil
		}
		if !notText.MatchString(m.ID) {
			if line.Rates, err = rates(m); err != nil {
				return nil, fmt.Errorf("model %s: %w", m.ID, err)
			}
		}
		if len(line.Rates) > 0 || p.ID != "openrouter" {
			out = append(out, line)
		}
	}
	return out, nil
}

// rates gives none when the model is not paid by tokens of text alone.
func rates(m sourceModel) ([]rate, error) {
	list, err := m.prices()
	if err != nil {
		return nil, err
	}
	var out []rate
	for _, p := range list {
		for key := range p.Prices {
			if !slices.Contains(textKeys, key) && !slices.Contains(otherKeys, key) {
				return nil, nil
			}
		}
		var r rate
		if err := r.fill(p); err != nil {
			return nil, err
		}
		if r.Input == "" || r.Output == "" {
			return nil, nil
		}
		out = append(out, r)
	}
	return out, nil
}

func (r *rate) fill(p sourcePrices) error {
	if c := p.Constraint; c != nil {
		switch c.Type {
		case "start_date":
			r.From = c.StartDate
		case "time_of_date":
			for _, at := range []string{c.StartTime, c.EndTime} {
				hour, utc := strings.CutSuffix(at, "Z")
				if !utc || len(hour) != len("15:04:05") {
					return fmt.Errorf("the time %q is not one of UTC in whole seconds", at)
				}
				r.Hours = append(r.Hours, hour)
			}
		default:
			return fmt.Errorf("unknown constraint %q", c.Type)
		}
	}
	long := prices{}
	tiered := false
	for _, key := range textKeys {
		price, ok := p.Prices[key]
		if !ok {
			continue
		}
		base, err := decimal(price.base)
		if err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		above := base
		switch len(price.tiers) {
		case 0:
		case 1:
			if tiered && r.Above != price.tiers[0].Start {
				return fmt.Errorf("%s has a tier at %d, another price one at %d", key, price.tiers[0].Start, r.Above)
			}
			tiered, r.Above = true, price.tiers[0].Start
			if above, err = decimal(price.tiers[0].Price); err != nil {
				return fmt.Errorf("%s: %w", key, err)
			}
		default:
			return fmt.Errorf("%s has %d tiers, one is what package price knows", key, len(price.tiers))
		}
		r.prices.put(key, base)
		long.put(key, above)
	}
	if tiered {
		r.Long = &long
	}
	return nil
}

func (p *prices) put(key string, v json.Number) {
	switch key {
	case "input_mtok":
		p.Input = v
	case "output_mtok":
		p.Output = v
	case "cache_read_mtok":
		p.Read = v
	case "cache_write_mtok":
		p.Write = v
	case "cache_write_1h_mtok":
		p.WriteAnHour = v
	}
}

// decimal is v without an exponent and with at most 12 decimals, which is what
// package price computes with.
func decimal(v json.Number) (json.Number, error) {
	r, ok := new(big.Rat).SetString(v.String())
	if !ok || r.Sign() < 0 {
		return "", fmt.Errorf("%q is no price", v)
	}
	s := r.FloatString(12)
	s = strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
	return json.Number(s), nil
}
