package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"text/tabwriter"

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
	repo, err := a.repo(c)
	if err != nil {
		return err
	}
	ids, err := a.loopIDs(repo)
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
		name := render.Clean(g.Name)
		if name == "" {
			name = "(not told)"
		}
		fmt.Fprintf(t, "%s\t%s\n", name, proposalCells(g.Proposals))
	}
	return t.Flush()
}

// recoveryLines are what became of recoveries and questions, in words; nothing
// where there were none.
func recoveryLines(r stats.Recovery) []string {
	var out []string
	if r.Proposed > 0 {
		text := fmt.Sprintf("recoveries: %d proposed", r.Proposed)
		if r.Fallbacks > 0 {
			text += fmt.Sprintf(" (%d as a fallback)", r.Fallbacks)
		}
		out = append(out, text+fmt.Sprintf(", %d auto, %d human, %d denied, %d invalid, %d stale", r.ToRun, r.ToHuman, r.Denied, r.Invalid, r.Stale))
	}
	for _, e := range []struct {
		who string
		stats.Executions
	}{{"automatic", r.Auto}, {"approved", r.Approved}} {
		if e.Executed > 0 {
			out = append(out, executionLine(e.who, e.Executions))
		}
	}
	if a := r.Remediation; a.Classified > 0 {
		out = append(out, remediationLine(a))
	}
	if e := r.Escalations; e.Opened > 0 {
		out = append(out, escalationLine(e))
	}
	return out
}

func executionLine(who string, e stats.Executions) string {
	text := fmt.Sprintf("%s: %d ran, %d with exit code 0; %d verified", who, e.Executed, e.Succeeded, e.Verified)
	for _, n := range []struct {
		count int
		what  string
	}{{e.Ineffective, "ineffective"}, {e.Harmful, "harmful"}, {e.Failed, "failed"}, {e.Unknown, "not judged by the tests"}, {e.Open, "without an end"}} {
		if n.count > 0 {
			text += fmt.Sprintf(", %d %s", n.count, n.what)
		}
	}
	if e.SuccessRate != nil {
		text += fmt.Sprintf("; success rate %.0f %%", *e.SuccessRate*100)
	}
	text += fmt.Sprintf("; began after %s", spreadText(e.ToStart))
	if e.ToVerified.Count > 0 {
		text += ", judged after " + spreadText(e.ToVerified)
	}
	return text
}

func remediationLine(a stats.Remediation) string {
	text := fmt.Sprintf("automatic remediation: %s classified (%d environment, %d code, %d not known)", count(a.Classified, "failure"), a.Infra, a.Code, a.Unknown)
	if a.Chains > 0 {
		text += fmt.Sprintf("; %d of %d fixed with %s", a.Remedied, a.Chains, count(a.Commands, "command"))
		if a.Took.Count > 0 {
			text += " in " + spreadText(a.Took)
		}
	}
	if a.Remedied > 0 {
		text += fmt.Sprintf("; saved %s", count(a.SavedIterations, "iteration"))
		if a.SavedTokens != nil {
			text += fmt.Sprintf(", about %d tokens", *a.SavedTokens)
		}
	}
	if a.VerifyRepaired > 0 {
		text += fmt.Sprintf("; %s of installed tools repaired, which saved %s", count(a.VerifyRepaired, "check"), render.Duration(msec(a.VerifySavedMS)))
	}
	if a.VerifyFailed > 0 {
		text += fmt.Sprintf("; %s installed that nothing shows to work", count(a.VerifyFailed, "tool"))
	}
	return text
}

func escalationLine(e stats.Escalations) string {
	var types []string
	for _, t := range e.ByType {
		types = append(types, fmt.Sprintf("%d %s", t.Count, render.Clean(t.Name)))
	}
	text := fmt.Sprintf("%s (%s)", count(e.Opened, "question"), strings.Join(types, ", "))
	if e.PerIteration != nil {
		text += fmt.Sprintf(", %.2f an iteration", *e.PerIteration)
	}
	if e.PerActiveHour != nil {
		text += fmt.Sprintf(", %.2f an hour of work", *e.PerActiveHour)
	}
	text += fmt.Sprintf("; %d open", e.Open)
	if e.Dropped > 0 {
		text += fmt.Sprintf(", %d dropped", e.Dropped)
	}
	text += fmt.Sprintf(", %d answered", e.Resolved)
	if e.Resolution.Count > 0 {
		text += " after " + spreadText(e.Resolution)
	}
	return text
}

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
