package failures

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func ended(at time.Time, task int, failed bool, category string) Sample {
	return Sample{At: at, Task: fmt.Sprintf("l%d/r/%d", task%2, task), Loop: fmt.Sprint("l", task%2), Agent: alice, Failed: failed, Category: category}
}

func names(as []Alert) string {
	out := ""
	for _, a := range as {
		out += a.Trigger + ":" + a.Severity + " "
	}
	return out
}

func add(w *Watch, s Sample, now time.Time) []Alert {
	w.Note(s)
	return w.Look(now)
}

// TestRates: above a fifth a warning, above a half critical, each once a window.
// Conforms: 003-c4-trigger-rate, 003-alert-20, 003-alert-50
func TestRates(t *testing.T) {
	t.Parallel()
	var w Watch
	at := noon
	add := func(failed bool) string {
		at = at.Add(time.Minute)
		return names(add(&w, ended(at, len(w.Samples), failed, ""), at))
	}
	for range 8 {
		if got := add(false); got != "" {
			t.Fatal(got)
		}
	}
	add(true)
	add(true) // 2 of 10: a fifth is not above a fifth
	if got := add(true); got != "failure_rate:warning " {
		t.Errorf("3 of 11: %q", got)
	}
	if got := add(true); got != "" {
		t.Errorf("it warns twice: %q", got)
	}
	for range 4 {
		if got := add(true); got != "" {
			t.Errorf("half is not above half: %q", got)
		}
	}
	if got := add(true); got != "failure_rate:critical " {
		t.Errorf("9 of 17: %q", got)
	}
	at = at.Add(2 * time.Hour)
	got := ""
	for range 4 {
		got += add(true)
	}
	if got != "no_success:emergency " {
		t.Errorf("too few runs for a rate: %q", got)
	}
	if got := add(true); got != "failure_rate:critical " {
		t.Errorf("a window later: %q", got)
	}
}

// TestCategory: more than five of one category make one alert, over several tasks or in one.
// Conforms: 002-future-4, 003-c4-trigger-class, 003-alert-class
func TestCategory(t *testing.T) {
	t.Parallel()
	play := func(tasks int) string {
		var w Watch
		got := ""
		for n := range 12 {
			at := noon.Add(time.Duration(n) * time.Minute)
			got += names(add(&w, ended(at, n%tasks, n%2 == 0, "network_error"), at))
		}
		return got
	}
	if got := play(6); got != "failure_rate:critical same_category:investigate " && got != "failure_rate:warning same_category:investigate " && got != "failure_rate:critical failure_rate:warning same_category:investigate " {
		t.Errorf("%q", got)
	}
	if got := play(1); strings.Count(got, "same_category:investigate") != 1 {
		t.Errorf("one task: %q", got)
	}
}

// TestSilence: an hour of failures without a success is an emergency; an hour of
// nothing is none.
// Conforms: 003-alert-hour
func TestSilence(t *testing.T) {
	t.Parallel()
	w := Watch{Thresholds: Thresholds{CriticalRate: -1, WarnRate: -1, SameCategory: -1}}
	if got := names(add(&w, ended(noon, 1, false, ""), noon)); got != "" {
		t.Fatal(got)
	}
	got := ""
	for n := 5; n < 60; n += 10 {
		got += names(add(&w, ended(noon.Add(time.Duration(n)*time.Minute), n, true, "x"), noon.Add(time.Duration(n)*time.Minute)))
	}
	if got != "" {
		t.Errorf("within the hour: %q", got)
	}
	if got := names(w.Look(noon.Add(61 * time.Minute))); got != "no_success:emergency " {
		t.Errorf("after it: %q", got)
	}
	if got := names(w.Look(noon.Add(62 * time.Minute))); got != "" {
		t.Errorf("again: %q", got)
	}
	if got := names(w.Look(noon.Add(5 * time.Hour))); got != "" {
		t.Errorf("nothing ran: %q", got)
	}
}

// TestWatch: whatever comes, each trigger fires at most once a window, a success in
// the window keeps the emergency away, and it stays small.
func TestWatch(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		var w Watch
		at := noon
		fired := map[string]time.Time{}
		var lastOK time.Time
		for n := range rapid.IntRange(0, 200).Draw(rt, "n") {
			at = at.Add(time.Duration(rapid.IntRange(0, 1200).Draw(rt, "s")) * time.Second)
			failed := rapid.IntRange(0, 3).Draw(rt, "failed") > 0
			if !failed {
				lastOK = at
			}
			for _, a := range add(&w, ended(at, n%7, failed, rapid.SampledFrom([]string{"", "dependency", "network_error"}).Draw(rt, "category")), at) {
				key := a.Trigger + a.Severity + a.Category
				if before, ok := fired[key]; ok && at.Sub(before) < time.Hour {
					rt.Fatalf("%s fires at %v and at %v", key, before, at)
				}
				fired[key] = at
				if a.Trigger == TriggerSilence && at.Sub(lastOK) < time.Hour {
					rt.Fatalf("%+v, the last success was at %v", a, lastOK)
				}
				if a.Failures > a.Runs || a.Failures == 0 || len(a.Tasks) == 0 {
					rt.Fatalf("%+v", a)
				}
			}
		}
		if len(w.Samples) > maxSamples || len(w.Fired) > 20 {
			rt.Fatalf("%d samples, %d fired", len(w.Samples), len(w.Fired))
		}
		data, err := json.Marshal(w)
		var back Watch
		if err != nil || json.Unmarshal(data, &back) != nil || fmt.Sprintf("%+v", back) != fmt.Sprintf("%+v", w) {
			rt.Fatalf("%v: %+v, was %+v", err, back, w)
		}
	})
}
