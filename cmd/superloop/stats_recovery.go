package main

import (
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"text/template"

	"github.com/urfave/cli/v2"

	"github.com/superloop/superloop/cmd/superloop/internal/render"
	"github.com/superloop/superloop/loop/journal"
	"github.com/superloop/superloop/loop/stats"
	"github.com/superloop/superloop/recovery/failures"
)

// statsOfLoops tells of every loop what became of recoveries and questions.
func (a *app) statsOfLoops(c *cli.Context) error {
	for _, flag := range []string{"loop", "run", "by"} {
		if c.IsSet(flag) {
			return failf(exitUsage, "superloop stats --all-loops", "--all-loops tells of every loop and run; it takes no --%s", flag)
		}
	}
	repo, ids, err := a.chosenLoops(c)
	if err != nil {
		return err
	}
	type row struct {
		LoopID   string         `json:"loop_id"`
		Recovery stats.Recovery `json:"recovery"`
	}
	rows := make([]row, len(ids))
	folds := make([]*stats.Fold, len(ids))
	var failures failures.Fold
	for i, id := range ids {
		paths, err := a.paths(repo, id)
		if err != nil {
			return err
		}
		folds[i] = stats.New()
		if err := journal.Read(paths.Events(), 0, func(ev journal.Event) error {
			failures.Add(stats.RecordOf(ev))
			return folds[i].Add(ev)
		}); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("loop %s: %w", id, err)
		}
		rows[i] = row{id, stats.Merge(folds[i])}
	}
	whole := stats.Merge(folds...)
	if c.Bool("json") {
		return render.JSON(a.stdout, map[string]any{"loops": rows, "whole": whole, "failures": failures.Figures()})
	}
	t := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "LOOP\tPROPOSED\tAUTO\tHUMAN\tDENIED\tINVALID\tSTALE\tRAN\tVERIFIED\tQUESTIONS\tOPEN")
	for _, r := range append(rows, row{"(all)", whole}) {
		e := r.Recovery.Escalations
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\n", r.LoopID, proposalCells(r.Recovery.Proposals), e.Opened, e.Open)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if err := proposalTable(a.stdout, "CATEGORY", whole.ByCategory); err != nil {
		return err
	}
	lines := recoveryLines(whole)
	if len(lines) > 0 {
		fmt.Fprintf(a.stdout, "\n%s\n", strings.Join(lines, "\n"))
	}
	return printFailures(a.stdout, failures.Figures())
}

func proposalCells(p stats.Proposals) string {
	return fmt.Sprintf("%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d", p.Proposed, p.ToRun, p.ToHuman, p.Denied, p.Invalid, p.Stale, p.Executed, p.Verified)
}

// proposalTable prints nothing where nothing was proposed.
func proposalTable(w io.Writer, title string, groups []stats.ProposalGroup) error {
	if len(groups) == 0 {
		return nil
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "\n%s\tPROPOSED\tAUTO\tHUMAN\tDENIED\tINVALID\tSTALE\tRAN\tVERIFIED\n", title)
	for _, g := range groups {
		fmt.Fprintf(t, "%s\t%s\n", cmp.Or(render.Clean(g.Name), "(not told)"), proposalCells(g.Proposals))
	}
	return t.Flush()
}

// printFailures tells what failed and what followed; nothing where no failure was answered, no environment found broken
// and nobody alarmed.
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
		fmt.Fprintf(t, "%s\t%d\t%d\t%s\n", cmp.Or(render.Clean(r.Name), "(not told)"), r.Runs, r.Failures, percent(r.Rate))
	}
	return t.Flush()
}

// statsText has what stats says in words; the head of the file has its syntax.
//
//go:embed stats.txt
var statsText string

var statsSentences = sync.OnceValue(func() *template.Template {
	return render.Sentences(statsText, template.FuncMap{
		"count": count, "percent": percent, "spread": spreadText, "tallied": tallied,
		"ms":         func(n int64) string { return render.Duration(msec(n)) },
		"twoDigits":  func(n float64) string { return fmt.Sprintf("%.2f", n) },
		"triedAgain": func(f failures.Figures) int { return max(0, f.Failures-f.Reassigned-f.Analysed-f.Escalated-f.Waited) },
		"helped": func(r failures.Rate) string {
			return fmt.Sprintf("%d of %d helped (%s)", r.Runs-r.Failures, r.Runs, percent(1-r.Rate))
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
			return count(n, what) + " " + became
		},
	})
})

// sentences are those of stats.txt with these names, without the empty ones.
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

// recoveryLines are what became of recoveries and questions; nothing where there were none.
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

func percent(share float64) string { return fmt.Sprintf("%.0f %%", share*100) }

// spreadText is one duration, or the median of several and how far they go.
func spreadText(s stats.Spread) string {
	switch s.Count {
	case 0:
		return "-"
	case 1:
		return render.Duration(msec(*s.MaxMS))
	}
	return fmt.Sprintf("%s (median; 90 %%: %s, max %s)", render.Duration(msec(*s.MedianMS)), render.Duration(msec(*s.P90MS)), render.Duration(msec(*s.MaxMS)))
}

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
