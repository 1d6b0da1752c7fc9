package stats

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/superloop/superloop/loop/journal"
)

// What is not known is counted and is no 0; what was never started took nothing; the bounds of the time hold.
func TestSpending(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	s := Spending{From: noon, To: noon.Add(3 * time.Hour), Step: time.Hour, Name: func(role, _ string) string { return role }}
	for _, e := range []struct {
		at     time.Duration
		event  string
		fields string
	}{
		{-time.Second, "role_end", `{"role":"a","outcome":"ok","cost_usd":100}`},
		{0, "role_start", `{"role":"a"}`},
		{0, "role_end", `{"role":"a","outcome":"ok","cost_usd":0.25,"usage":{"input_tokens":10,"output_tokens":5}}`},
		{time.Minute, "role_failed", `{"role":"a","outcome":"exit","cost_usd":0.5}`},
		{2 * time.Hour, "role_end", `{"role":"a","outcome":"ok"}`},
		{time.Hour, "role_timeout", `{"role":"b","outcome":"timeout"}`},
		{time.Hour, "role_failed", `{"role":"c","outcome":"not_started"}`},
		{3 * time.Hour, "role_end", `{"role":"b","outcome":"ok","cost_usd":100}`},
	} {
		if err := s.Add(journal.Event{Event: e.event, Timestamp: noon.Add(e.at), Fields: json.RawMessage(e.fields)}); err != nil {
			t.Fatal(err)
		}
	}
	got := map[string]Spend{}
	steps := map[string]map[time.Time]Spend{}
	s.Each(func(name string, total Spend, at map[time.Time]Spend) { got[name], steps[name] = total, at })
	a, b, c := got["a"], got["b"], got["c"]
	if len(got) != 3 || a.Runs != 3 || *a.Cost.Known != 0.75 || a.Cost.Unknown != 1 || *a.Tokens.Known != 15 || a.Tokens.Unknown != 2 {
		t.Errorf("a: %+v", a)
	}
	if b.Runs != 1 || b.Cost.Known != nil || b.Cost.Unknown != 1 || c.Runs != 1 || c.Cost.Known != nil || c.Cost.Unknown != 0 {
		t.Errorf("b: %+v, c: %+v", b, c)
	}
	first, last := steps["a"][noon], steps["a"][noon.Add(2*time.Hour)]
	if len(steps["a"]) != 2 || first.Runs != 2 || *first.Cost.Known != 0.75 || last.Runs != 1 || last.Cost.Known != nil {
		t.Errorf("%+v", steps["a"])
	}
	if err := s.Add(journal.Event{Event: "role_end", Timestamp: noon, Fields: json.RawMessage(`{"role":7}`)}); err == nil {
		t.Error("a role that is no name was taken")
	}
}
