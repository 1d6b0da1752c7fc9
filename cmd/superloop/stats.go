package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/superloop/superloop/cmd/superloop/internal/render"
	"github.com/superloop/superloop/loop/journal"
	"github.com/superloop/superloop/loop/stats"
)

// groupings are the words of --by.
var groupings = []string{"role", "model", "runner", "iteration", "category", "source"}

func (a *app) stats(c *cli.Context) error {
	if c.Bool("all-loops") {
		return a.statsOfLoops(c)
	}
	id, paths, err := a.theLoop(c)
	if err != nil {
		return err
	}
	by := c.StringSlice("by")
	for _, what := range by {
		if !slices.Contains(groupings, what) {
			return failf(exitUsage, "superloop stats --by role", "--by %q: use one of %s", what, strings.Join(groupings, ", "))
		}
	}
	fold := stats.New()
	if err := journal.Read(paths.Events(), 0, fold.Add); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	r := fold.Report()
	r.LoopID = id
	run := c.String("run")
	if run == "all" {
		if c.Bool("json") {
			return render.JSON(a.stdout, r)
		}
		return printStats(a.stdout, id, r, r.All, by)
	}
	var s stats.Section
	at := slices.IndexFunc(r.Runs, func(s stats.Section) bool { return s.RunID == run })
	switch {
	case at >= 0:
		s = r.Runs[at]
	case run != "latest":
		return failf(exitNotFound, "superloop stats --run all --loop "+id, "loop %s has no run %q", id, run)
	case len(r.Runs) > 0:
		s = r.Runs[len(r.Runs)-1]
	}
	if c.Bool("json") {
		return render.JSON(a.stdout, struct {
			LoopID string `json:"loop_id"`
			stats.Section
		}{id, s})
	}
	return printStats(a.stdout, id, r, s, by)
}

// printStats prints one run of r, or all.
func printStats(w io.Writer, id string, r stats.Report, s stats.Section, by []string) error {
	if len(r.Runs) == 0 {
		fmt.Fprintf(w, "%s has not run yet\n", id)
		return nil
	}
	all := s.RunID == ""
	if all {
		fmt.Fprintf(w, "%s, %s", id, count(len(r.Runs), "run"))
	} else {
		fmt.Fprintf(w, "%s, run %s", id, render.Clean(s.RunID))
	}
	fmt.Fprintf(w, ", %s to %s\n", s.From.Local().Format(time.DateTime), s.To.Local().Format(time.DateTime))
	if len(by) == 0 {
		by = []string{"role", "model", "iteration", "category"}
	}
	for _, what := range by {
		if err := statsTables(w, what, r, s, all); err != nil {
			return err
		}
	}
	if o := s.Open; o != nil {
		fmt.Fprintf(w, "\n%s began at %s in iteration %d and has not ended; it is not counted\n",
			render.Clean(o.Role), o.Since.Local().Format(time.DateTime), o.Iteration)
	}
	fmt.Fprintf(w, "\ntotal: %s\n", totalLine(s.Total))
	for _, line := range recoveryLines(s.Recovery) {
		fmt.Fprintln(w, line)
	}
	return printFailures(w, s.Failures)
}

// statsTables prints the table of one grouping, if there is anything for it.
func statsTables(w io.Writer, what string, r stats.Report, s stats.Section, all bool) error {
	switch {
	case what == "category":
		return proposalTable(w, "CATEGORY", s.Recovery.ByCategory)
	case what == "source":
		return proposalTable(w, "SOURCE", s.Recovery.BySource)
	case s.Total.Runs == 0:
		return nil
	}
	title, groups := grouped(what, r, s, all)
	return statsTable(w, title, groups)
}

// grouped is a table's title and rows. Iterations of several runs are told apart by their runs.
func grouped(what string, r stats.Report, s stats.Section, all bool) (string, []stats.Group) {
	switch what {
	case "role":
		return "ROLE", s.ByRole
	case "model":
		return "MODEL", s.ByModel
	case "runner":
		return "RUNNER", s.ByRunner
	}
	if !all {
		return "ITERATION", s.ByIteration
	}
	var rows []stats.Group
	for _, run := range r.Runs {
		for _, g := range run.ByIteration {
			g.Name = run.RunID + " " + g.Name
			rows = append(rows, g)
		}
	}
	return "RUN, ITERATION", rows
}

func statsTable(w io.Writer, title string, groups []stats.Group) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "\n%s\tRUNS\tFAILED\tTIME\tINPUT\tCACHE READ\tCACHE WRITE\tOUTPUT\tCOST\n", title)
	for _, g := range groups {
		k := g.Tokens
		fmt.Fprintf(t, "%s\t%d\t%d\t%s\t%s\t%s\t%s\t%s\t%s\n", cmp.Or(render.Clean(g.Name), "(not told)"), g.Runs, g.Failures, render.Duration(msec(g.DurationMS)),
			statsTokens(k.Input), statsTokens(k.CacheRead), statsTokens(k.CacheWrite), statsTokens(k.Output), statsCost(g.Cost))
	}
	return t.Flush()
}

func totalLine(f stats.Figures) string {
	out := []string{count(f.Runs, "run"), fmt.Sprintf("%d failed", f.Failures)}
	if f.Interrupted > 0 {
		out = append(out, fmt.Sprintf("%d interrupted", f.Interrupted))
	}
	out = append(out, render.Duration(msec(f.DurationMS)))
	if k := f.Tokens.Total; k.Known != nil || k.Unknown > 0 {
		text := "tokens " + statsTokens(k)
		if k.Known != nil && k.Unknown > 0 {
			text += fmt.Sprintf(" (%s unknown)", count(k.Unknown, "run"))
		}
		out = append(out, text)
	}
	if f.Cost.Known != nil || f.Cost.Unknown > 0 {
		out = append(out, "cost "+statsCost(f.Cost))
	}
	return strings.Join(out, ", ")
}

// sumText is a sum as an operator reads it: nothing, unknown, what is known exactly, or what least says where runs did not
// tell.
func sumText[T int64 | float64](s stats.Sum[T], exact, least func(T) string) string {
	switch {
	case s.Known == nil && s.Unknown == 0:
		return "-"
	case s.Known == nil:
		return "unknown"
	case s.Unknown > 0:
		return least(*s.Known)
	}
	return exact(*s.Known)
}

func statsTokens(s stats.Sum[int64]) string {
	return sumText(s, shorten, func(n int64) string { return ">= " + shorten(n) })
}

// shorten keeps three to five digits, and never says more than there is.
func shorten(n int64) string {
	switch {
	case n >= 1e9:
		return fmt.Sprintf("%d.%02dG", n/1e9, n%1e9/1e7)
	case n >= 1e6:
		return fmt.Sprintf("%d.%02dM", n/1e6, n%1e6/1e4)
	case n >= 1e4:
		return fmt.Sprintf("%d.%dk", n/1e3, n%1e3/1e2)
	}
	return fmt.Sprint(n)
}

func statsCost(s stats.Sum[float64]) string {
	return sumText(s, func(usd float64) string { return dollars(usd, math.Round) }, func(usd float64) string {
		least := ">= " + dollars(usd, math.Floor)
		if strings.Contains(least, "<") {
			least = "> $0"
		}
		return fmt.Sprintf("%s (%s unknown)", least, count(s.Unknown, "run"))
	})
}

// dollars has four decimals below one dollar and two above; what is too little for that is not shown as nothing.
func dollars(usd float64, round func(float64) float64) string {
	digits, unit := 4, 1e4
	if usd >= 1 {
		digits, unit = 2, 1e2
	}
	// A whole number of cents may be a hair below itself in binary.
	shown := round(math.Round(usd*1e9)/1e9*unit+1e-6) / unit
	if shown == 0 && usd > 0 {
		return "<$0.0001"
	}
	return fmt.Sprintf("$%.*f", digits, shown)
}
