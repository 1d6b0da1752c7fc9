package price

import (
	"math"
	"math/big"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/superloop/superloop/roles/agent"
)

var november = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func at(s string) time.Time {
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		panic(err)
	}
	return t
}

func ptr[T any](v T) *T { return &v }

// unknown is what a table row says of a cost that has to be unknown.
const unknown = -1

func TestCost(t *testing.T) {
	t.Parallel()
	tab := table(t)
	usage := tokens(3600, 900, 150, 240)
	for _, tt := range []struct {
		name, provider, model string
		u                     agent.Usage
		at                    time.Time
		want                  float64
	}{
		// What Claude Code itself said that this usage cost.
		{"known figure", "anthropic", "claude-sonnet-4-5", usage, november, 0.0152325},
		{"dated name", "anthropic", "claude-sonnet-4-5-20250929", usage, november, 0.0152325},
		{"long context mark", "anthropic", "claude-sonnet-4-5-20250929[1m]", usage, november, 0.0152325},
		{"case and space", "Anthropic", " Claude-Sonnet-4-5 ", usage, november, 0.0152325},
		{"no provider", "", "claude-sonnet-4-5-20250929", usage, november, 0.0152325},
		{"prefix", "", "anthropic/claude-sonnet-4-5", usage, november, 0.0152325},
		{"prefix and provider", "anthropic", "anthropic/claude-sonnet-4-5", usage, november, 0.0152325},
		{"openrouter by prefix", "", "openrouter/anthropic/claude-sonnet-4.5", usage, november, 0.0152325},
		{"openrouter", "openrouter", "anthropic/claude-sonnet-4.5", usage, november, 0.0152325},
		{"another provider's prefix", "anthropic", "openai/gpt-5", usage, november, unknown},
		{"cloud, by its word", "bedrock", "eu.anthropic.claude-sonnet-4-5-20250929-v1:0", usage, november, 0.01675575},
		{"cloud, two prices", "", "eu.anthropic.claude-sonnet-4-5-20250929-v1:0", usage, november, unknown},
		{"cloud sells for its maker", "vertex", "claude-haiku-4-5", usage, november, 0.0050775},

		{"openai", "openai", "gpt-5.2-codex", tokens(1000, 9000, 0, 100), november, 0.004725},
		{"openai, date without dashes", "openai", "gpt-5-20250807", tokens(1000, 0, 0, 100), november, 0.00225},
		{"google", "google", "gemini-3.1-pro-preview", tokens(1000, 0, 0, 100), november, 0.0032},
		{"xai", "xai", "grok-code-fast-1", tokens(1000, 100, 0, 100), november, 0.000352},
		{"two providers, two prices", "", "glm-5.2", tokens(1000, 0, 0, 100), november, unknown},
		{"the one of them", "zai", "glm-5.2", tokens(1000, 0, 0, 100), november, 0.00184},
		{"by another word", "zhipu", "glm-5.2", tokens(1000, 0, 0, 100), november, 0.0014892},

		{"unknown model", "anthropic", "claude-nova-9", usage, november, unknown},
		{"unknown provider", "acme", "claude-sonnet-4-5", usage, november, unknown},
		{"no model", "anthropic", "", usage, november, unknown},
		{"an alias of a CLI", "anthropic", "sonnet", usage, november, unknown},
		{"not paid by text alone", "openai", "gpt-image-1", tokens(10, 0, 0, 10), november, unknown},
		{"a free model is not known to cost 0", "openrouter", "qwen/qwen3-coder:free", tokens(10, 0, 0, 10), november, unknown},

		{"nothing was counted", "anthropic", "claude-sonnet-4-5", agent.Usage{}, november, unknown},
		{"no output", "anthropic", "claude-sonnet-4-5", agent.Usage{Input: ptr(int64(5)), CacheRead: ptr(int64(0)), CacheWrite: ptr(int64(0))}, november, unknown},
		{"no cache write where it costs", "anthropic", "claude-sonnet-4-5", agent.Usage{Input: ptr(int64(5)), Output: ptr(int64(5)), CacheRead: ptr(int64(0))}, november, unknown},
		{"no cache write where there is none", "openai", "gpt-5", agent.Usage{Input: ptr(int64(1000)), Output: ptr(int64(0)), CacheRead: ptr(int64(0))}, november, 0.00125},
		{"a kind without a price", "openai", "gpt-5", tokens(1000, 0, 1, 0), november, unknown},
		{"none of a kind without a price", "openai", "gpt-5-pro", tokens(1000, 0, 0, 0), november, 0.015},
		{"cache read without a price", "openai", "gpt-5-pro", tokens(1000, 1, 0, 0), november, unknown},
		{"below 0", "openai", "gpt-5", tokens(-1, 0, 0, 0), november, unknown},
		{"more than there can be", "openai", "gpt-5", tokens(math.MaxInt64, 0, 0, 0), november, unknown},
		{"nothing used", "openai", "gpt-5", tokens(0, 0, 0, 0), november, 0},

		{"before a change", "openai", "o3", tokens(1000, 0, 0, 0), at("2025-06-09T23:59:59.999Z"), 0.01},
		{"after it", "openai", "o3", tokens(1000, 0, 0, 0), at("2025-06-10T00:00:00Z"), 0.002},
		{"the day is one of UTC", "openai", "o3", tokens(1000, 0, 0, 0), at("2025-06-10T01:00:00+02:00"), 0.01},
		{"before all", "openai", "o3", tokens(1000, 0, 0, 0), time.Time{}, 0.01},
		{"peak hour", "deepseek", "deepseek-v4-flash", tokens(1000000, 0, 0, 0), at("2026-11-21T01:00:00Z"), 0.44},
		{"its end", "deepseek", "deepseek-v4-flash", tokens(1000000, 0, 0, 0), at("2026-11-21T04:00:00Z"), 0.22},

		{"as long as a short one", "anthropic", "claude-sonnet-4-5", tokens(100000, 90000, 10000, 1000), november, 0.3795},
		{"a long one", "anthropic", "claude-sonnet-4-5", tokens(100001, 90000, 10000, 1000), november, 0.751506},
	} {
		got, ok := tab.Cost(tt.provider, tt.model, tt.u, tt.at)
		if want := tt.want; ok != (want != unknown) || ok && got != want {
			t.Errorf("%s: %s %s costs %v (%v), want %v", tt.name, tt.provider, tt.model, got, ok, want)
		}
	}
}

// knows reports whether plain input and output of a model have a price on the
// table's date.
func knows(t *testing.T, tab *Table, provider, model string) bool {
	_, ok := tab.Cost(provider, model, tokens(1e6, 0, 0, 1e6), at(tab.Date()+"T00:00:00Z"))
	return ok
}

func TestKnows(t *testing.T) {
	t.Parallel()
	tab := table(t)
	for name, want := range map[[2]string]bool{
		{"anthropic", "claude-opus-4-8"}: true, {"", "claude-opus-4-8"}: true, {"", "gpt-5.6-sol"}: true, {"", "kimi-k3"}: true,
		{"", "glm-5.2"}: false, {"", "claude-nova-9"}: false, {"openai", "gpt-image-1"}: false, {"", ""}: false,
	} {
		if got := knows(t, tab, name[0], name[1]); got != want {
			t.Errorf("Knows(%q, %q) is %v", name[0], name[1], got)
		}
	}
	if tab.Date() < "2026-01-01" || !strings.Contains(string(embedded), "genai-prices") {
		t.Errorf("the table is of %s: %.100s", tab.Date(), embedded)
	}
	if len(embedded) > 150<<10 {
		t.Errorf("the table has %d bytes", len(embedded))
	}
}

func TestOverrides(t *testing.T) {
	t.Parallel()
	base := table(t)
	tab := base.With(map[string]Rate{
		"GPT-5":          {Input: 0.1, Output: 0.3},
		"house/tiny":     {Input: 2, Output: 3, CacheRead: ptr(0.0), CacheWrite: ptr(4.5)},
		"openai/o3":      {Input: 7, Output: 7},
		"filled":         {Input: 2, Output: 3, CacheRead: ptr(0.2), CacheWrite: ptr(2.0)},
		"claude-opus-5":  {Input: math.NaN(), Output: 1},
		"third-of-a-mil": {Input: 0.333333333333, Output: 123456.789},
	})
	for _, tt := range []struct {
		provider, model string
		u               agent.Usage
		want            float64
	}{
		{"openai", "gpt-5", tokens(10, 20, 30, 40), 0.000018},
		{"", "gpt-5", agent.Usage{Input: ptr(int64(10)), Output: ptr(int64(40))}, 0.000013},
		{"anyone", "gpt-5", tokens(10, 0, 0, 0), 0.000001},
		{"house", "tiny", tokens(1, 1000, 2, 3), 0.00002},
		{"", "house/tiny", tokens(1, 1000, 2, 3), 0.00002},
		{"house", "tiny", agent.Usage{Input: ptr(int64(1)), Output: ptr(int64(1)), CacheRead: ptr(int64(1))}, unknown},
		{"openai", "o3", tokens(1, 1, 1, 1), 0.000028},
		{"x", "filled", agent.Usage{Input: ptr(int64(1)), Output: ptr(int64(1)), CacheRead: ptr(int64(10))}, 0.000007},
		{"x", "filled", agent.Usage{Input: ptr(int64(1)), Output: ptr(int64(1))}, unknown},
		{"azure", "o3", tokens(1000, 0, 0, 0), 0.002},
		{"anthropic", "claude-opus-5", tokens(1, 1, 1, 1), unknown},
		{"", "third-of-a-mil", tokens(3000000, 0, 0, 1000000), 123457.788999999999},
		{"anthropic", "claude-sonnet-4-5", tokens(3600, 900, 150, 240), 0.0152325},
	} {
		got, ok := tab.Cost(tt.provider, tt.model, tt.u, november)
		if ok != (tt.want != unknown) || ok && got != tt.want {
			t.Errorf("%s %s costs %v (%v), want %v", tt.provider, tt.model, got, ok, tt.want)
		}
	}
	if got, ok := base.Cost("openai", "gpt-5", tokens(1000000, 0, 0, 0), november); !ok || got != 1.25 {
		t.Errorf("the table itself has changed: %v", got)
	}
	again := tab.With(map[string]Rate{"gpt-5": {Input: 9, Output: 9}})
	if got, _ := again.Cost("openai", "o3", tokens(1000000, 0, 0, 0), november); got != 7 {
		t.Errorf("a second With forgets the first: %v", got)
	}
	if got, _ := tab.Cost("openai", "gpt-5", tokens(1000000, 0, 0, 0), november); got != 0.1 {
		t.Errorf("a second With changes the first: %v", got)
	}
	if !knows(t, tab, "house", "tiny") || knows(t, tab, "", "claude-opus-5") {
		t.Error("Knows does not see the owner's prices")
	}
}

func TestRateCheck(t *testing.T) {
	t.Parallel()
	tab := table(t)
	costs := func(r Rate) bool {
		_, ok := tab.With(map[string]Rate{"mine": r}).Cost("", "mine", tokens(1, 1, 1, 1), november)
		return ok
	}
	for _, r := range []Rate{{Input: -1}, {Output: math.Inf(1)}, {CacheRead: ptr(math.NaN())}, {CacheWrite: ptr(1e6 + 1)}} {
		if costs(r) {
			t.Errorf("%v has a cost", r)
		}
	}
	if !costs(Rate{Input: 1e6, CacheRead: ptr(0.0)}) {
		t.Error("a good rate has no cost")
	}
}

func TestRange(t *testing.T) {
	t.Parallel()
	tab := table(t)
	// A run of many requests: 2.5 million tokens of input in sum.
	low, high, ok := tab.Range("openai", "gpt-5.5", tokens(500000, 2000000, 0, 30000), november)
	if !ok || low != 4.4 || high != 8.35 {
		t.Errorf("from %v to %v (%v)", low, high, ok)
	}
	// Writes for an hour cost more than those for five minutes.
	low, high, ok = tab.Range("anthropic", "claude-opus-5", tokens(0, 0, 1000000, 0), november)
	if !ok || low != 6.25 || high != 10 {
		t.Errorf("from %v to %v (%v)", low, high, ok)
	}
	if _, _, ok = tab.Range("", "nothing", tokens(1, 1, 1, 1), november); ok {
		t.Error("a range of nothing")
	}
}

// anyModel draws a model of the table, by a name that its rule takes.
func anyModel(tab *Table) *rapid.Generator[[2]string] {
	return rapid.Custom(func(t *rapid.T) [2]string {
		p := rapid.SampledFrom(tab.providers).Draw(t, "provider")
		return [2]string{p.ID, rapid.SampledFrom(p.Models).Draw(t, "model").ID}
	})
}

func anyUsage(t *rapid.T) agent.Usage {
	n := rapid.OneOf(rapid.Int64Range(0, 500000), rapid.Just(int64(0)), rapid.Int64Range(0, 1<<58))
	return tokens(n.Draw(t, "in"), n.Draw(t, "read"), n.Draw(t, "write"), n.Draw(t, "out"))
}

func TestCostProperties(t *testing.T) {
	t.Parallel()
	tab := table(t)
	rapid.Check(t, func(t *rapid.T) {
		m, u := anyModel(tab).Draw(t, "model"), anyUsage(t)
		when := november.Add(time.Duration(rapid.Int64Range(-2*365*24, 365*24).Draw(t, "hours")) * time.Hour)
		usd, ok := tab.Cost(m[0], m[1], u, when)
		low, high, ranged := tab.Range(m[0], m[1], u, when)
		if ok != ranged || !ok && usd != 0 {
			t.Fatalf("a cost %v (%v), a range %v", usd, ok, ranged)
		}
		if !(low <= usd && usd <= high) || math.IsInf(usd, 0) {
			t.Fatalf("%v is not from %v to %v", usd, low, high)
		}
		// A kind less is known, or costs nothing here; it is never more.
		for _, drop := range []func(*agent.Usage){
			func(u *agent.Usage) { u.Input = nil }, func(u *agent.Usage) { u.Output = nil },
			func(u *agent.Usage) { u.CacheRead = nil }, func(u *agent.Usage) { u.CacheWrite = nil },
		} {
			less := u
			drop(&less)
			if got, still := tab.Cost(m[0], m[1], less, when); still && (!ok || got > usd) && *zero(u.CacheWrite)+*zero(u.CacheRead) == 0 {
				t.Fatalf("%v with a kind less, %v (%v) with it", got, usd, ok)
			}
		}
	})
}

func zero(p *int64) *int64 {
	if p == nil {
		return new(int64)
	}
	return p
}

// TestCostAdds: below any tier the cost of a sum is the sum of the costs, to the
// last digit.
func TestCostAdds(t *testing.T) {
	t.Parallel()
	tab := table(t)
	rapid.Check(t, func(t *rapid.T) {
		r := tab.sold(tab.provider("anthropic"), "claude-sonnet-4-5", false).Rates[0]
		whole, parts := agent.Usage{Input: new(int64), Output: new(int64), CacheRead: new(int64), CacheWrite: new(int64)}, new(big.Int)
		for range rapid.IntRange(1, 50).Draw(t, "runs") {
			n := rapid.Int64Range(0, 4000)
			u := tokens(n.Draw(t, "in"), n.Draw(t, "read"), n.Draw(t, "write"), n.Draw(t, "out"))
			*whole.Input += *u.Input
			*whole.Output += *u.Output
			*whole.CacheRead += *u.CacheRead
			*whole.CacheWrite += *u.CacheWrite
			one, ok := r.sum(u, cheapest)
			if !ok {
				t.Fatal("unknown")
			}
			parts.Add(parts, one)
		}
		if sum, ok := r.sum(whole, cheapest); !ok || sum.Cmp(parts) != 0 {
			t.Fatalf("the whole is %v, the parts %v", sum, parts)
		}
	})
}

// TestFindStable: a bare name, and nonsense, give the same answer each time and
// never another provider's model when one is named.
func TestFindStable(t *testing.T) {
	t.Parallel()
	tab := table(t)
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.OneOf(rapid.String(), rapid.StringMatching(`(claude|gpt|gemini|o3|grok|anthropic/|[0-9/-])(-?[a-z0-9.@:/-]{0,20})(\[1m\])?`)).Draw(t, "name")
		id := rapid.SampledFrom([]string{"", "anthropic", "openai", "google", "aws", "azure", "openrouter", "x", "Bedrock"}).Draw(t, "provider")
		got := tab.find(clean(id), clean(name))
		if id != "" && len(got) > 1 {
			t.Fatalf("%q of %q is %d models", name, id, len(got))
		}
		again := tab.find(clean(id), clean(name))
		for i, m := range got {
			if m != again[i] {
				t.Fatalf("%q of %q is not always the same", name, id)
			}
		}
	})
}
