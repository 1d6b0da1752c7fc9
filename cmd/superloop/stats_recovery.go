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
		fmt.Fprintf(t, "%s\t%s\n", orNotTold(g.Name, "(not told)"), proposalCells(g.Proposals))
	}
	return t.Flush()
}
