package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// sourceWith is a source that has every kept provider, of which anthropic has the
// given models.
func sourceWith(models string) string {
	var all []string
	for _, k := range kept {
		list := "[]"
		if k.id == "anthropic" {
			list = models
		}
		all = append(all, fmt.Sprintf(`{"id":%q,"models":%s}`, k.id, list))
	}
	return `{"version":"9.9.9","providers":[` + strings.Join(all, ",") + `]}`
}

func TestRun(t *testing.T) {
	t.Parallel()
	out := filepath.Join(t.TempDir(), "prices.json")
	src := sourceWith(`[
 {"id":"plain","match":{"equals":"plain"},"prices":{"input_mtok":3,"output_mtok":15.50,"web_searches_kcount":10}},
 {"id":"both","match":{"or":[{"equals":"both"},{"or":[{"starts_with":"b-"},{"contains":"-b-"}]},{"ends_with":"-b"},{"regex":"^b\\d$"}]},
  "prices":{"input_mtok":{"base":1,"tiers":[{"start":200000,"price":2}]},"output_mtok":5,"cache_read_mtok":0.08333333333333334,"cache_write_mtok":1.25,"cache_write_1h_mtok":2}},
 {"id":"dated","match":{"and":[{"starts_with":"d"},{"regex":"^(?!.*-tts(?:$|[)]))"}]},
  "prices":[{"prices":{"input_mtok":1,"output_mtok":2}},{"constraint":{"type":"start_date","start_date":"2026-01-02"},"prices":{"input_mtok":2,"output_mtok":3}},
   {"constraint":{"type":"time_of_date","start_time":"01:00:00Z","end_time":"04:00:00Z"},"prices":{"input_mtok":4,"output_mtok":5}}]},
 {"id":"mixed","match":{"regex":"^(?![^/]+/)(?:m|n)ixed"},"prices":{"input_mtok":1,"output_mtok":2,"output_image_mtok":9}},
 {"id":"some-embed","match":{"contains":"embed"},"prices":{"input_mtok":1,"output_mtok":1}},
 {"id":"free","match":{"equals":"free"},"prices":{}}]`)
	if err := run(strings.NewReader(src), "2026-09-23", out); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		`"version":"9.9.9","date":"2026-09-23","unit":"US dollars per million tokens",`,
		`{"id":"plain","rates":[{"in":3,"out":15.5}]},`,
		`{"id":"both","is":{"equals":["both"],"starts":["b-"],"ends":["-b"],"contains":["-b-"],"regex":["^b\\d$"]},"rates":[{"in":1,"read":0.083333333333,"write":1.25,"write_1h":2,"out":5,"above":200000,"long":{"in":2,"read":0.083333333333,"write":1.25,"write_1h":2,"out":5}}]},`,
		`{"id":"dated","is":{"all":[{"starts":["d"]},{"all":[{"not":{"regex":["^(?:.*-tts(?:$|[)]))"]}}]}]},"rates":[{"in":1,"out":2},{"from":"2026-01-02","in":2,"out":3},{"hours":["01:00:00","04:00:00"],"in":4,"out":5}]},`,
		`{"id":"mixed","is":{"all":[{"not":{"regex":["^(?:[^/]+/)"]}},{"regex":["^(?:m|n)ixed"]}]}},`,
		`{"id":"some-embed","is":{"contains":["embed"]}},`,
		`{"id":"free"}`,
	} {
		if !strings.Contains(string(got), line+"\n") {
			t.Errorf("there is no line\n%s", line)
		}
	}
	if !json.Valid(got) {
		t.Error("it is no JSON")
	}
	if t.Failed() {
		t.Logf("%s", got)
	}
}

func TestRunRefuses(t *testing.T) {
	t.Parallel()
	one := func(match, prices string) string {
		return sourceWith(fmt.Sprintf(`[{"id":"m","match":%s,"prices":%s}]`, match, prices))
	}
	const eq, plain = `{"equals":"m"}`, `{"input_mtok":1,"output_mtok":1}`
	for name, tt := range map[string]struct{ src, date, why string }{
		"no date":         {sourceWith("[]"), "soon", "-date"},
		"no JSON":         {"{", "2026-01-02", "reading the source"},
		"no provider":     {`{"providers":[]}`, "2026-01-02", "no provider \"anthropic\""},
		"no rule":         {one(`{}`, plain), "2026-01-02", "unknown kind"},
		"bad pattern":     {one(`{"regex":"(?<=x)"}`, plain), "2026-01-02", "the pattern"},
		"two ands":        {one(`{"or":[{"and":[{"equals":"a"}]},{"and":[{"equals":"b"}]}]}`, plain), "2026-01-02", "an or of two ands"},
		"two tiers":       {one(eq, `{"input_mtok":{"base":1,"tiers":[{"start":1,"price":2},{"start":2,"price":3}]},"output_mtok":1}`), "2026-01-02", "2 tiers"},
		"other tiers":     {one(eq, `{"input_mtok":{"base":1,"tiers":[{"start":1,"price":2}]},"output_mtok":{"base":1,"tiers":[{"start":2,"price":3}]}}`), "2026-01-02", "has a tier at 2"},
		"below 0":         {one(eq, `{"input_mtok":-1,"output_mtok":1}`), "2026-01-02", "is no price"},
		"tier below 0":    {one(eq, `{"input_mtok":{"base":1,"tiers":[{"start":1,"price":-2}]},"output_mtok":1}`), "2026-01-02", "is no price"},
		"constraint":      {one(eq, `[{"constraint":{"type":"moon"},"prices":{"input_mtok":1,"output_mtok":1}}]`), "2026-01-02", "unknown constraint"},
		"local time":      {one(eq, `[{"constraint":{"type":"time_of_date","start_time":"01:00:00+02:00","end_time":"02:00:00Z"},"prices":{"input_mtok":1,"output_mtok":1}}]`), "2026-01-02", "not one of UTC"},
		"prices are text": {one(eq, `"1"`), "2026-01-02", "model m"},
	} {
		out := filepath.Join(t.TempDir(), "prices.json")
		if err := run(strings.NewReader(tt.src), tt.date, out); err == nil || !strings.Contains(err.Error(), tt.why) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Stat(out); err == nil {
			t.Errorf("%s: something was written", name)
		}
	}
}
