package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/superloop/superloop/recovery/failures"
)

// printFailures tells what failed and what followed; nothing where no failure was
// answered, no environment found broken and nobody alarmed.
func printFailures(w io.Writer, f failures.Figures) error {
	if f.Failures == 0 && f.Prevented == 0 && f.Tripped == 0 && len(f.Alerts) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	for _, line := range sentences(f, "failures", "answered", "reassignments", "fixes", "causes", "times", "prevention", "alerts") {
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
		fmt.Fprintf(t, "%s\t%d\t%d\t%s\n", orNotTold(r.Name, "(not told)"), r.Runs, r.Failures, percent(r.Rate))
	}
	return t.Flush()
}
