package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"

	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/loop/temporal"
)

// slotted calls fn for every account of which roles have slots or wait for one.
func slotted(ctx context.Context, to *server, f fleet, fn func(temporal.AccountArgs) error) error {
	return running(ctx, to, f, temporal.AccountName, func(e *workflowpb.WorkflowExecutionInfo) error {
		var a temporal.AccountArgs
		err := query(ctx, to, e.Execution.WorkflowId, temporal.SlotsQuery, &a)
		if _, ended := errors.AsType[*serviceerror.NotFound](err); ended {
			return nil
		}
		if err != nil {
			return err
		}
		return fn(a)
	})
}

// waits says which loops wait for a slot of an account, by their workflows.
func waits(ctx context.Context, to *server, f fleet) (map[string]string, error) {
	all := map[string]string{}
	return all, slotted(ctx, to, f, func(a temporal.AccountArgs) error {
		for i, w := range a.Waiting {
			all[w.Workflow] = fmt.Sprintf("its role waits for a slot of account %s/%s, of which %d are used; %d roles wait before it (type: superloop-fleet accounts)", a.Account.Provider, a.Account.ID, len(a.Used), i)
		}
		return nil
	})
}

// accountRow is a role that uses an account or waits for it, or the limit of an account.
type accountRow struct {
	Account  string    `json:"account"`
	State    string    `json:"state"` // uses, waits or limited
	Place    int       `json:"place,omitempty"`
	Most     int       `json:"most,omitempty"` // how many roles the machine lets use the account
	Machine  string    `json:"machine"`        // of a limit, that which has met it
	Loop     string    `json:"loop,omitempty"`
	Workflow string    `json:"workflow,omitempty"`
	Until    time.Time `json:"until,omitzero"`
}

// accounts lists who uses which account, who waits for one, and which are limited.
func (a *app) accounts(c *cli.Context) error {
	f, to, err := a.open()
	if err != nil {
		return err
	}
	defer to.Close()
	var rows []accountRow
	err = slotted(c.Context, to, f, func(s temporal.AccountArgs) error {
		for _, part := range []struct {
			state string
			wants []temporal.Want
		}{{"uses", s.Used}, {"waits", s.Waiting}} {
			for i, w := range part.wants {
				rows = append(rows, accountRow{Account: s.Account.Provider + "/" + s.Account.ID, State: part.state, Place: i + 1, Most: w.Most, Machine: w.Machine, Loop: w.Workflow[strings.LastIndex(w.Workflow, "/")+1:], Workflow: w.Workflow})
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	var limits []temporal.Limit
	err = query(c.Context, to, temporal.AccountsID(f.Fleet), temporal.LimitsQuery, &limits)
	if _, none := errors.AsType[*serviceerror.NotFound](err); err != nil && !none {
		return err
	}
	for _, l := range limits {
		if l.Until.After(time.Now()) {
			rows = append(rows, accountRow{Account: l.Account.Provider + "/" + l.Account.ID, State: "limited", Machine: l.Machine, Until: l.Until})
		}
	}
	w := tabwriter.NewWriter(a.stdout, 0, 4, 2, ' ', 0)
	if !c.Bool("json") {
		fmt.Fprintln(w, "ACCOUNT\tSTATE\tMACHINE\tLOOP")
	}
	for _, r := range rows {
		if c.Bool("json") {
			if err := json.NewEncoder(a.stdout).Encode(r); err != nil {
				return err
			}
			continue
		}
		state := fmt.Sprintf("%s %d of %d", r.State, r.Place, r.Most)
		switch r.State {
		case "waits":
			state = fmt.Sprintf("waits, %d before it", r.Place-1)
		case "limited":
			state = "limited until " + r.Until.Local().Format(time.DateTime)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", text.Display(r.Account), state, text.Display(r.Machine), text.Display(cmp.Or(r.Loop, "-")))
	}
	return w.Flush()
}
