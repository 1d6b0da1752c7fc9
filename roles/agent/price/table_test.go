package price

import (
	"regexp"
	"strings"
	"testing"
)

func TestDashDate(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"gpt-5-20250807": "gpt-5-2025-08-07", "gpt-5-20250807-x": "gpt-5-2025-08-07-x", "a-20250807:free": "a-2025-08-07:free",
		"a-20250807b": "a-20250807b", "a-20250231": "a-20250231", "a-19990101": "a-19990101", "a20250807": "a20250807",
		"a-20250807-20250808": "a-2025-08-07-2025-08-08", "": "", "-": "-",
	} {
		if got := dashDate(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func TestHours(t *testing.T) {
	t.Parallel()
	r := Tariff{Hours: []string{"22:00:00", "01:30:00"}}
	for s, want := range map[string]bool{
		"2026-01-01T21:59:59.999Z": false, "2026-01-01T22:00:00Z": true, "2026-01-02T00:00:00Z": true,
		"2026-01-02T01:29:59Z": true, "2026-01-02T01:30:00Z": false, "2026-01-02T03:00:00+02:00": true,
	} {
		if r.holds(at(s)) != want {
			t.Errorf("at %s it holds: %v", s, !want)
		}
	}
}

func TestRules(t *testing.T) {
	t.Parallel()
	none := (*Rules)(nil)
	if none.match("x") || (&Rules{}).match("") {
		t.Error("no rule matches nothing")
	}
	r := Rules{All: []Rules{{Starts: []string{"Gemini-"}}, {Not: &Rules{Regex: []*regexp.Regexp{regexp.MustCompile("-tts(?:$|-)")}}}}, Ends: []string{"-X"}}
	for name, want := range map[string]bool{"gemini-2": true, "gemini-2-tts": false, "gemini-2-tts-1": false, "gemini-2-ttss": true, "a-x": true, "a": false} {
		if r.match(name) != want {
			t.Errorf("%s matches: %v", name, !want)
		}
	}
}

func TestPico(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]Price{"0": 0, "3": 3e12, "0.08": 8e10, "0.003625": 3625e6, "1000000": 1e18, "0.0000000000004": 0} {
		var got Price
		if err := got.UnmarshalJSON([]byte(in)); err != nil || got != want {
			t.Errorf("%s: %d (%v)", in, got, err)
		}
	}
	for _, in := range []string{"", "-1", "x", "1000000.1", "9999999", "NaN", "1e-7", "1e40", ".5", "3.x", "12345678"} {
		var got Price
		if err := got.UnmarshalJSON([]byte(in)); err == nil {
			t.Errorf("%s is %d", in, got)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ data, why string }{
		"no json":      {`{`, "EOF"},
		"unknown":      {`{"date":"2026-01-01","prices":1}`, "unknown field"},
		"no date":      {`{"date":"soon"}`, "parsing time"},
		"price":        {`{"date":"2026-01-01","providers":[{"id":"p","models":[{"id":"m","rates":[{"in":-1}]}]}]}`, "provider p: model m: -1 is no price"},
		"long":         {`{"date":"2026-01-01","providers":[{"id":"p","models":[{"id":"m","rates":[{"above":1,"long":{"in":-1}}]}]}]}`, "is no price"},
		"day":          {`{"date":"2026-01-01","providers":[{"id":"p","models":[{"id":"m","rates":[{"from":"x"}]}]}]}`, "parsing time"},
		"one hour":     {`{"date":"2026-01-01","providers":[{"id":"p","models":[{"id":"m","rates":[{"hours":["01:00:00"]}]}]}]}`, "beginning and an end"},
		"no hour":      {`{"date":"2026-01-01","providers":[{"id":"p","models":[{"id":"m","rates":[{"hours":["1","2"]}]}]}]}`, "parsing time"},
		"pattern":      {`{"date":"2026-01-01","providers":[{"id":"p","models":[{"id":"m","is":{"regex":["("]}}]}]}`, "missing closing"},
		"deep pattern": {`{"date":"2026-01-01","providers":[{"id":"p","models":[{"id":"m","is":{"all":[{"not":{"regex":["("]}}]}}]}]}`, "missing closing"},
		"named":        {`{"date":"2026-01-01","providers":[{"id":"p","named":{"regex":["("]}}]}`, "provider p"},
		"makes":        {`{"date":"2026-01-01","providers":[{"id":"p","makes":{"regex":["("]}}]}`, "provider p"},
	} {
		if _, err := parse([]byte(tt.data)); err == nil || !strings.Contains(err.Error(), tt.why) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestEmbeddedHolds what Range promises: a long request is never cheaper.
func TestEmbeddedHolds(t *testing.T) {
	t.Parallel()
	long, dated, hours := 0, 0, 0
	for _, p := range table(t).providers {
		for _, m := range p.Models {
			for _, r := range m.Rates {
				if r.From != "" {
					dated++
				}
				if r.Hours != nil {
					hours++
				}
				if r.Long == nil {
					continue
				}
				long++
				for _, k := range [][2]*Price{{r.In, r.Long.In}, {r.Out, r.Long.Out}, {r.Read, r.Long.Read}, {r.Write, r.Long.Write}, {r.WriteHour, r.Long.WriteHour}} {
					if (k[0] == nil) != (k[1] == nil) || k[0] != nil && *k[1] < *k[0] {
						t.Errorf("%s of %s: a long request is cheaper", m.ID, p.ID)
					}
				}
			}
		}
	}
	if long < 20 || dated < 10 || hours < 4 {
		t.Errorf("%d with long prices, %d with a day, %d with hours", long, dated, hours)
	}
}

func BenchmarkCost(b *testing.B) {
	tab, u := table(b), tokens(3600, 900, 0, 240)
	for b.Loop() {
		if _, ok := tab.Cost("", "openrouter/z-ai/glm-5.2", u, november); !ok {
			b.Fatal("unknown")
		}
	}
}

func BenchmarkParse(b *testing.B) {
	for b.Loop() {
		if _, err := parse(embedded); err != nil {
			b.Fatal(err)
		}
	}
}
