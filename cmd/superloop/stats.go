package main

import (
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"slices"
	"strings"
	"sync"
	"text/template"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/superloop/superloop/cmd/superloop/internal/render"
	"github.com/superloop/superloop/loop/journal"
	"github.com/superloop/superloop/loop/stats"
	"github.com/superloop/superloop/recovery/failures"
)

// groupings are the values that --by takes.
var groupings = []string{"role", "model", "runner", "iteration", "category", "source"}

func (a *app) stats(c *cli.Context) error {
	if c.Bool("all-loops") {
		return a.statsOfLoops(c)
	}
	p, err := a.theLoop(c)
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
	if err := journal.Read(p.Events(), 0, fold.Add); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	r, run := fold.Report(), c.String("run")
	r.LoopID = p.id
	var s stats.Section
	at := slices.IndexFunc(r.Runs, func(s stats.Section) bool { return s.RunID == run })
	switch {
	case run == "all" && c.Bool("json"):
		return render.JSON(a.stdout, r)
	case run == "all":
		s = r.All
	case at >= 0:
		s = r.Runs[at]
	case run != "latest":
		return failf(exitNotFound, "superloop stats --run all --loop "+p.id, "loop %s has no run %q", p.id, run)
	case len(r.Runs) > 0:
		s = r.Runs[len(r.Runs)-1]
	}
	if c.Bool("json") {
		return render.JSON(a.stdout, struct {
			LoopID string `json:"loop_id"`
			stats.Section
		}{p.id, s})
	}
	return printStats(a.stdout, p.id, r, s, by)
}

// printStats prints s, which is one run of r or the sum of all runs.
func printStats(w io.Writer, id string, r stats.Report, s stats.Section, by []string) error {
	if len(r.Runs) == 0 {
		fmt.Fprintf(w, "%s has not run yet\n", id)
		return nil
	}
	all := s.RunID == ""
	if all {
		fmt.Fprintf(w, "%s, %s", id, render.Number(len(r.Runs), "run"))
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

// statsTables prints the table of one grouping, if the table has rows. With all, the table of iterations names the run
// of each iteration.
func statsTables(w io.Writer, what string, r stats.Report, s stats.Section, all bool) error {
	title, groups := strings.ToUpper(what), map[string][]stats.Group{"role": s.ByRole, "model": s.ByModel, "runner": s.ByRunner, "iteration": s.ByIteration}[what]
	switch {
	case what == "category":
		return proposalTable(w, title, s.Recovery.ByCategory)
	case what == "source":
		return proposalTable(w, title, s.Recovery.BySource)
	case s.Total.Runs == 0:
		return nil
	case what == "iteration" && all:
		title, groups = "RUN, ITERATION", nil
		for _, run := range r.Runs {
			for _, g := range run.ByIteration {
				g.Name = run.RunID + " " + g.Name
				groups = append(groups, g)
			}
		}
	}
	return table(w, "\n"+title+"\tRUNS\tFAILED\tTIME\tINPUT\tCACHE READ\tCACHE WRITE\tOUTPUT\tCOST", groups, func(g stats.Group) string {
		k := g.Tokens
		return fmt.Sprintf("%s\t%d\t%d\t%s\t%s\t%s\t%s\t%s\t%s", orNotTold(g.Name), g.Runs, g.Failures, render.Duration(msec(g.DurationMS)),
			statsTokens(k.Input), statsTokens(k.CacheRead), statsTokens(k.CacheWrite), statsTokens(k.Output), statsCost(g.Cost))
	})
}

func orNotTold(name string) string { return cmp.Or(render.Clean(name), "(not told)") }

func totalLine(f stats.Figures) string {
	out := []string{render.Number(f.Runs, "run"), fmt.Sprintf("%d failed", f.Failures)}
	if f.Interrupted > 0 {
		out = append(out, fmt.Sprintf("%d interrupted", f.Interrupted))
	}
	out = append(out, render.Duration(msec(f.DurationMS)))
	if k := f.Tokens.Total; k.Known != nil || k.Unknown > 0 {
		text := "tokens " + statsTokens(k)
		if k.Known != nil && k.Unknown > 0 {
			text += fmt.Sprintf(" (%s unknown)", render.Number(k.Unknown, "run"))
		}
		out = append(out, text)
	}
	if f.Cost.Known != nil || f.Cost.Unknown > 0 {
		out = append(out, "cost "+statsCost(f.Cost))
	}
	return strings.Join(out, ", ")
}

// sumText formats a sum: "-" if there is nothing to sum, "unknown" if no run reported a value, exact if all runs did,
// and least if only some runs did.
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
	return sumText(s, render.Count, func(n int64) string { return ">= " + render.Count(n) })
}

func statsCost(s stats.Sum[float64]) string {
	return sumText(s, func(usd float64) string { return render.Dollars(usd, math.Round) }, func(usd float64) string {
		least := ">= " + render.Dollars(usd, math.Floor)
		if strings.Contains(least, "<") {
			least = "> $0"
		}
		return fmt.Sprintf("%s (%s unknown)", least, render.Number(s.Unknown, "run"))
	})
}

// statsOfLoops prints for each loop and for all loops together what became of recoveries and questions.
func (a *app) statsOfLoops(c *cli.Context) error {
	for _, flag := range []string{"loop", "run", "by"} {
		if c.IsSet(flag) {
			return failf(exitUsage, "superloop stats --all-loops", "--all-loops tells of every loop and run; it takes no --%s", flag)
		}
	}
	_, loops, err := a.chosenLoops(c, false)
	if err != nil {
		return err
	}
	type row struct {
		LoopID   string         `json:"loop_id"`
		Recovery stats.Recovery `json:"recovery"`
	}
	rows, folds := make([]row, len(loops)), make([]*stats.Fold, len(loops))
	var failures failures.Fold
	for i, p := range loops {
		folds[i] = stats.New()
		if err := journal.Read(p.Events(), 0, func(ev journal.Event) error {
			failures.Add(stats.RecordOf(ev))
			return folds[i].Add(ev)
		}); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("loop %s: %w", p.id, err)
		}
		rows[i] = row{p.id, stats.Merge(folds[i])}
	}
	whole := stats.Merge(folds...)
	if c.Bool("json") {
		return render.JSON(a.stdout, map[string]any{"loops": rows, "whole": whole, "failures": failures.Figures()})
	}
	heads := "LOOP\t" + proposalHeads + "\tQUESTIONS\tOPEN"
	if err := table(a.stdout, heads, append(rows, row{"(all)", whole}), func(r row) string {
		e := r.Recovery.Escalations
		return fmt.Sprintf("%s\t%s\t%d\t%d", r.LoopID, proposalCells(r.Recovery.Proposals), e.Opened, e.Open)
	}); err != nil {
		return err
	}
	if err := proposalTable(a.stdout, "CATEGORY", whole.ByCategory); err != nil {
		return err
	}
	if lines := recoveryLines(whole); len(lines) > 0 {
		fmt.Fprintf(a.stdout, "\n%s\n", strings.Join(lines, "\n"))
	}
	return printFailures(a.stdout, failures.Figures())
}

const proposalHeads = "PROPOSED\tAUTO\tHUMAN\tDENIED\tINVALID\tSTALE\tRAN\tVERIFIED"

func proposalCells(p stats.Proposals) string {
	return fmt.Sprintf("%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d", p.Proposed, p.ToRun, p.ToHuman, p.Denied, p.Invalid, p.Stale, p.Executed, p.Verified)
}

// proposalTable prints a row for each group of proposals. It prints nothing if nobody has proposed anything.
func proposalTable(w io.Writer, title string, groups []stats.ProposalGroup) error {
	if len(groups) == 0 {
		return nil
	}
	return table(w, "\n"+title+"\t"+proposalHeads, groups, func(g stats.ProposalGroup) string {
		return orNotTold(g.Name) + "\t" + proposalCells(g.Proposals)
	})
}

// printFailures prints the failures and what followed them. It prints nothing if there was no failure, no broken
// environment check, no circuit breaker that tripped and no alert.
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
		if len(t.rates) == 0 {
			continue
		}
		if err := table(w, "\n"+t.title+"\tRUNS\tFAILED\tRATE", t.rates, func(r failures.Rate) string {
			return fmt.Sprintf("%s\t%d\t%d\t%s", orNotTold(r.Name), r.Runs, r.Failures, render.Percent(r.Rate))
		}); err != nil {
			return err
		}
	}
	return nil
}

// statsText holds the sentences that superloop stats prints. The head of the file describes its syntax.
//
//go:embed stats.txt
var statsText string

var statsSentences = sync.OnceValue(func() *template.Template {
	return render.Sentences(statsText, template.FuncMap{
		"count": render.Number, "percent": render.Percent, "spread": spreadText, "tallied": tallied,
		"ms":        func(n int64) string { return render.Duration(msec(n)) },
		"twoDigits": func(n float64) string { return fmt.Sprintf("%.2f", n) },
		"helped": func(r failures.Rate) string {
			return fmt.Sprintf("%d of %d helped (%s)", r.Runs-r.Failures, r.Runs, render.Percent(1-r.Rate))
		},
		"types": func(e stats.Escalations) string {
			var types []string
			for _, t := range e.ByType {
				types = append(types, fmt.Sprintf("%d %s", t.Count, render.Clean(t.Name)))
			}
			return strings.Join(types, ", ")
		},
		"list": func(by string, parts ...string) string {
			return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), by)
		},
		"after": func(what string, s failures.Spread) string {
			if s.Count == 0 {
				return ""
			}
			return what + " after " + timesText(s)
		},
		"news": func(n int, what, became string) string {
			if n == 0 {
				return ""
			}
			return render.Number(n, what) + " " + became
		},
	})
})

// sentences fills in the sentences of stats.txt that have these names, and returns those that are not empty.
func sentences(data any, names ...string) []string {
	var out []string
	for _, name := range names {
		var b strings.Builder
		if err := statsSentences().ExecuteTemplate(&b, name, data); err != nil {
			b.WriteString(err.Error())
		}
		if b.Len() > 0 {
			out = append(out, b.String())
		}
	}
	return out
}

// recoveryLines returns sentences on what became of recoveries and questions, none if there were none.
func recoveryLines(r stats.Recovery) []string {
	return sentences(r, "recoveries", "automatic", "approved", "remediation", "questions")
}

func tallied(rates []failures.Rate) string {
	var out []string
	for _, r := range rates {
		out = append(out, fmt.Sprintf("%d %s", r.Runs, cmp.Or(render.Clean(r.Name), "not told")))
	}
	return strings.Join(out, ", ")
}

// spreadText formats one duration, or the median, the 90th percentile and the maximum of several.
func spreadText(s stats.Spread) string {
	switch s.Count {
	case 0:
		return "-"
	case 1:
		return render.Duration(msec(*s.MaxMS))
	}
	return fmt.Sprintf("%s (median; 90 %%: %s, max %s)", render.Duration(msec(*s.MedianMS)), render.Duration(msec(*s.P90MS)), render.Duration(msec(*s.MaxMS)))
}

// timesText is spreadText for durations that may be much shorter than a second.
func timesText(s failures.Spread) string {
	if s.Count == 1 {
		return render.ShortTime(s.Worst)
	}
	return fmt.Sprintf("%s (median; 90 %%: %s, max %s)", render.ShortTime(s.Median), render.ShortTime(s.P90), render.ShortTime(s.Worst))
}
