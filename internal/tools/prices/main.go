// Command prices makes prices.json, which roles/agent/price embeds, from the prices in the npm package
// @pydantic/genai-prices (MIT). It reads the output of source.mjs on standard input. The go:generate directives in
// price.go run both.
package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/big"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/roles/agent/price"
)

func main() {
	date := flag.String("date", "", "the day of the source's release, as 2006-01-02")
	out := flag.String("out", "prices.json", "the file to write")
	flag.Parse()
	if err := run(os.Stdin, *date, *out); err != nil {
		fmt.Fprintln(os.Stderr, "prices:", err)
		os.Exit(1)
	}
}

func run(in io.Reader, date, out string) error {
	if _, err := time.Parse(time.DateOnly, date); err != nil {
		return fmt.Errorf("-date %q: %w; `npm view @pydantic/genai-prices time` tells it", date, err)
	}
	var src source
	if err := json.NewDecoder(in).Decode(&src); err != nil {
		return fmt.Errorf("reading the source: %w", err)
	}
	f, err := convert(src)
	if err != nil {
		return err
	}
	f.Date = date
	data, err := encode(f)
	if err != nil {
		return err
	}
	if err := durable.OS().WriteFile("prices", out, data, 0o644); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "%s: %d bytes\n", out, len(data))
	return nil
}

// encode writes one model per line, so that the changes of a new version can be read as a diff.
func encode(f price.File) ([]byte, error) {
	var failed error
	line := func(v any) string {
		var out strings.Builder
		enc := json.NewEncoder(&out)
		enc.SetEscapeHTML(false)
		failed = errors.Join(failed, enc.Encode(v))
		return strings.TrimSpace(out.String())
	}
	// whole returns v as a JSON object to which the list is added as its last member.
	whole := func(v any, name string, list []string) string {
		return fmt.Sprintf("%s,%s:[\n%s\n]}", strings.TrimSuffix(line(v), "}"), name, strings.Join(list, ",\n"))
	}
	var providers []string
	for _, p := range f.Providers {
		var models []string
		for _, m := range p.Models {
			models = append(models, line(m))
		}
		head := *p
		head.Models = nil
		providers = append(providers, whole(head, `"models"`, models))
	}
	f.Providers = nil
	return []byte(whole(f, "\n\"providers\"", providers) + "\n"), failed
}

// keep is a provider that agent CLIs are used with.
type keep struct {
	id string
	// makes is the id of the provider whose rules for its own models apply to this provider too, where the source has
	// none. sells marks a provider that only sells models of others.
	makes string
	names []string // other names of the provider
}

// sells marks a provider that sells models of other makers. A model's name without a provider is looked up at the
// model's maker first.
const sells = "-"

var kept = []keep{
	{id: "anthropic"}, {id: "openai"}, {id: "google"}, {id: "x-ai"}, {id: "mistral"}, {id: "deepseek"}, {id: "moonshotai"},
	{id: "zai", makes: "zhipuai", names: []string{"z-ai", "z.ai"}}, {id: "zhipuai", names: []string{"zhipu", "bigmodel"}}, {id: "minimax"},
	{id: "groq", makes: sells}, {id: "github-copilot", makes: sells}, {id: "azure", makes: sells}, {id: "aws", makes: sells},
	{id: "openrouter", makes: sells},
}

// vendors are the makers of those of openrouter's models that are used for coding.
var vendors = []string{"anthropic", "openai", "google", "x-ai", "mistralai", "deepseek", "moonshotai", "z-ai", "qwen", "minimax",
	"meta-llama", "xiaomi", "stepfun", "~anthropic", "~google", "~moonshotai", "~openai"}

// notText matches models whose prices look like those of a text model but also cover other kinds of input or output.
var notText = regexp.MustCompile(`(?i)image|tts|transcribe|realtime|audio|embed|ocr|moderation|whisper|voxtral|sonic|-live-|live-2|guard|omni-flash|computer-use`)

// textKeys are the prices from which the cost of text tokens is computed. otherKeys are prices of things that no agent
// CLI counts. The table leaves them out, which changes no price of text.
var (
	textKeys  = []string{"input_mtok", "output_mtok", "cache_read_mtok", "cache_write_mtok", "cache_write_1h_mtok"}
	otherKeys = []string{"web_searches_kcount", "storage_searches_kcount", "input_audio_mtok", "cache_audio_read_mtok", "input_image_mtok",
		"cache_image_read_mtok", "input_video_mtok", "cache_write_5m_mtok"}
)

func convert(src source) (price.File, error) {
	f := price.File{Source: "@pydantic/genai-prices", URL: "https://github.com/pydantic/genai-prices",
		License: "MIT, Copyright (c) Pydantic Services Inc. 2025 to present", Version: src.Version, Unit: "US dollars per million tokens"}
	byID := map[string]sourceProvider{}
	for _, p := range src.Providers {
		byID[p.ID] = p
	}
	for _, k := range kept {
		p, ok := byID[k.id]
		if !ok {
			return f, fmt.Errorf("the source has no provider %q any more", k.id)
		}
		out := &price.Provider{ID: p.ID}
		var err error
		if out.Named, err = translateOpt(p.ProviderMatch); err != nil {
			return f, err
		}
		if len(k.names) > 0 {
			if out.Named == nil {
				out.Named = &price.Rules{}
			}
			out.Named.Equals = append(out.Named.Equals, k.names...)
		}
		if k.makes != sells {
			if out.Makes, err = translateOpt(byID[cmp.Or(k.makes, k.id)].ModelMatch); err != nil {
				return f, err
			}
		}
		for _, id := range p.Fallback {
			if slices.ContainsFunc(kept, func(k keep) bool { return k.id == id }) {
				out.Fallback = append(out.Fallback, id)
			}
		}
		for _, m := range p.Models {
			line, err := model(p.ID, m)
			if err != nil {
				return f, fmt.Errorf("provider %s: model %s: %w", p.ID, m.ID, err)
			}
			if line != nil {
				out.Models = append(out.Models, line)
			}
		}
		f.Providers = append(f.Providers, out)
	}
	return f, nil
}

// model converts a model of a provider. A model without a price for text keeps its name but gets no rates, so that its
// name does not match another model. At openrouter, whose names are unambiguous, model leaves out such a model, and
// models of other vendors, and returns nil.
func model(provider string, m sourceModel) (*price.Model, error) {
	router := provider == "openrouter"
	if vendor, _, _ := strings.Cut(m.ID, "/"); router && !slices.Contains(vendors, vendor) {
		return nil, nil
	}
	is, err := translate(m.Match)
	if err != nil {
		return nil, err
	}
	out := &price.Model{ID: m.ID}
	if !reflect.DeepEqual(is, price.Rules{Equals: []string{m.ID}}) {
		out.Is = &is
	}
	if !notText.MatchString(m.ID) {
		if out.Rates, err = rates(m); err != nil {
			return nil, err
		}
	}
	if router && len(out.Rates) == 0 {
		return nil, nil
	}
	return out, nil
}

// rates converts the prices of a model. It returns none if text tokens are not the only thing that the model's users
// pay for.
func rates(m sourceModel) ([]price.Tariff, error) {
	list, err := m.prices()
	if err != nil {
		return nil, err
	}
	var out []price.Tariff
	for _, p := range list {
		for key := range p.Prices {
			if !slices.Contains(textKeys, key) && !slices.Contains(otherKeys, key) {
				return nil, nil
			}
		}
		r, err := rate(p)
		if err != nil || r.In == nil || r.Out == nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, nil
}

func rate(p sourcePrices) (r price.Tariff, err error) {
	if c := p.Constraint; c != nil {
		switch c.Type {
		case "start_date":
			r.From = c.StartDate
		case "time_of_date":
			for _, at := range []string{c.StartTime, c.EndTime} {
				hour, utc := strings.CutSuffix(at, "Z")
				if !utc || len(hour) != len("15:04:05") {
					return r, fmt.Errorf("the time %q is not one of UTC in whole seconds", at)
				}
				r.Hours = append(r.Hours, hour)
			}
		default:
			return r, fmt.Errorf("unknown constraint %q", c.Type)
		}
	}
	var long price.Prices
	tiered := false
	for i, key := range textKeys {
		of, ok := p.Prices[key]
		if !ok {
			continue
		}
		above := of.base
		if len(of.tiers) > 1 {
			return r, fmt.Errorf("%s has %d tiers, one is what package price knows", key, len(of.tiers))
		}
		for _, tier := range of.tiers {
			if tiered && r.Above != tier.Start {
				return r, fmt.Errorf("%s has a tier at %d, another price one at %d", key, tier.Start, r.Above)
			}
			tiered, r.Above, above = true, tier.Start, tier.Price
		}
		for to, v := range map[*price.Prices]json.Number{&r.Prices: of.base, &long: above} {
			if *textPrices(to)[i], err = decimal(v); err != nil {
				return r, fmt.Errorf("%s: %w", key, err)
			}
		}
	}
	if tiered {
		r.Long = &long
	}
	return r, nil
}

// textPrices returns pointers to the prices, in the order of textKeys.
func textPrices(p *price.Prices) []**price.Price {
	return []**price.Price{&p.In, &p.Out, &p.Read, &p.Write, &p.WriteHour}
}

// decimal rounds v to the precision of package price.
func decimal(v json.Number) (*price.Price, error) {
	r, ok := new(big.Rat).SetString(v.String())
	if !ok {
		return nil, fmt.Errorf("%q is no price", v)
	}
	out := new(price.Price)
	return out, out.UnmarshalJSON([]byte(r.FloatString(12)))
}
