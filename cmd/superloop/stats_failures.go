package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/superloop/superloop/cmd/superloop/internal/render"
	"github.com/superloop/superloop/recovery/failures"
)

// printFailures tells what failed and what followed; nothing where no failure was
// answered, no environment found broken and nobody alarmed.
func printFailures(w io.Writer, f failures.Figures) error {
	if f.Failures == 0 && f.Prevented == 0 && f.Tripped == 0 && len(f.Alerts) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	for _, line := range failureLines(f) {
		fmt.Fprintln(w, line)
	}
	for _, t := range []struct {
		title string
		rates []failures.Rate
	}{{"ROLE", f.ByRole}, {"RUNNER", f.ByRunner}, {"HOUR (UTC)", f.ByHour}} {
		if err := rateTable(w, t.title, t.rates); err != nil {
			return err
		}
	}
	return nil
}

func rateTable(w io.Writer, title string, rates []failures.Rate) error {
	if len(rates) == 0 {
		return nil
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "\n%s\tRUNS\tFAILED\tRATE\n", title)
	for _, r := range rates {
		name := render.Clean(r.Name)
		if name == "" {
			name = "(not told)"
		}
		fmt.Fprintf(t, "%s\t%d\t%d\t%s\n", name, r.Runs, r.Failures, percent(r.Rate))
	}
	return t.Flush()
}

func failureLines(f failures.Figures) []string {
	out := []string{fmt.Sprintf("failures: %d detected, %d counted; %d of %s ended badly (%s)",
		f.Failures, f.Counted, f.Total.Failures, count(f.Total.Runs, "role run"), percent(f.Total.Rate))}
	if f.Failures > 0 {
		out = append(out, fmt.Sprintf("answered: %d reassigned (%s), %d analysed (%s), %d escalated (%s), %d waited, %d tried again",
			f.Reassigned, percent(f.ReassignRate), f.Analysed, percent(f.AnalysisRate), f.Escalated, percent(f.EscalationRate),
			f.Waited, max(0, f.Failures-f.Reassigned-f.Analysed-f.Escalated-f.Waited)))
	}
	if r := f.FirstReassigned; r.Runs > 0 {
		out = append(out, helped("first reassignments", r))
	}
	if r := f.Fixes; r.Runs > 0 {
		out = append(out, helped("fixes of analyses", r))
	}
	if len(f.Causes) > 0 {
		out = append(out, "causes: "+tallied(f.Causes))
	}
	var times []string
	for _, t := range []struct {
		what string
		failures.Spread
	}{{"detected", f.Detection}, {"answered", f.Response}, {"recovered", f.Recovery}} {
		if t.Count > 0 {
			times = append(times, t.what+" after "+timesText(t.Spread))
		}
	}
	if len(times) > 0 {
		out = append(out, "times: "+strings.Join(times, "; "))
	}
	var news []string
	for _, n := range []struct {
		count int
		what  string
	}{{f.Tripped, "runner tripped"}, {f.Preventions, "check added"}, {f.Prevented, "stop by a check"}} {
		switch {
		case n.count == 1:
			news = append(news, "1 "+n.what)
		case n.count > 1:
			first, rest, _ := strings.Cut(n.what, " ")
			news = append(news, fmt.Sprintf("%d %ss %s", n.count, first, rest))
		}
	}
	if len(news) > 0 {
		out = append(out, "prevention: "+strings.Join(news, ", "))
	}
	if len(f.Alerts) > 0 {
		out = append(out, "alerts: "+tallied(f.Alerts))
	}
	return out
}

func helped(what string, r failures.Rate) string {
	return fmt.Sprintf("%s: %d of %d helped (%s)", what, r.Runs-r.Failures, r.Runs, percent(1-r.Rate))
}

func tallied(rates []failures.Rate) string {
	var out []string
	for _, r := range rates {
		name := render.Clean(r.Name)
		if name == "" {
			name = "not told"
		}
		out = append(out, fmt.Sprintf("%d %s", r.Runs, name))
	}
	return strings.Join(out, ", ")
}

func percent(share float64) string { return fmt.Sprintf("%.0f %%", share*100) }

// timesText is spreadText of what may take far less than a second.
func timesText(s failures.Spread) string {
	if s.Count == 1 {
		return shortTime(s.Worst)
	}
	return fmt.Sprintf("%s (median; 90 %%: %s, max %s)", shortTime(s.Median), shortTime(s.P90), shortTime(s.Worst))
}

func shortTime(ms int64) string {
	switch {
	case ms < 1:
		return "<1ms"
	case ms < 1000:
		return fmt.Sprintf("%dms", ms)
	}
	return render.Duration(msec(ms))
}
