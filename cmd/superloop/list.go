package main

import (
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/superloop/superloop/cmd/superloop/internal/render"
)

func (a *app) list(c *cli.Context) error {
	repo, ids, err := a.chosenLoops(c)
	if err != nil {
		return err
	}
	all, err := a.standings(repo, ids)
	if err != nil {
		return err
	}
	if c.Bool("json") {
		type row struct {
			ID        string    `json:"id"`
			Status    string    `json:"status"`
			Iteration int       `json:"iteration"`
			Running   bool      `json:"running"`
			UpdatedAt time.Time `json:"updated_at,omitzero"`
		}
		rows := make([]row, len(all))
		for i, s := range all {
			rows[i] = row{s.LoopID, string(s.Status), s.Iteration, s.Supervisor != nil, s.UpdatedAt}
		}
		return render.JSON(a.stdout, map[string]any{"loops": rows})
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tSTATUS\tITERATION\tLAST CHANGE\tSUPERVISOR")
	for _, s := range all {
		iteration, last, pid := "-", "-", "-"
		if s.Iteration > 0 {
			iteration = fmt.Sprint(s.Iteration)
			if s.Max > 0 {
				iteration += fmt.Sprintf("/%d", s.Max)
			}
			last = s.UpdatedAt.Local().Format(time.DateTime)
		}
		if s.Supervisor != nil {
			pid = fmt.Sprintf("pid %d", s.Supervisor.PID)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", s.LoopID, s.Status, iteration, last, pid)
	}
	return w.Flush()
}
