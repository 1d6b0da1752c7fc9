package main

import (
	"cmp"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"github.com/superloop/superloop/internal/door"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/temporal"
)

// drainOrder is the order to begin nothing more: drain.json in the private state of the machine.
type drainOrder struct {
	By       string    `json:"by"`
	Deadline time.Time `json:"deadline"`
}

func (a *app) drainFile() (string, error) {
	dir, err := a.dir()
	return filepath.Join(dir, "drain.json"), err
}

// drains returns the order to drain, nil if there is none.
func (a *app) drains() (*drainOrder, error) {
	path, err := a.drainFile()
	if err != nil {
		return nil, err
	}
	data, err := door.ReadOwn(path, maxFleet)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var o drainOrder
	if err == nil {
		err = text.Decode(data, &o)
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	return &o, nil
}

// putDrain writes an order down, or takes it back.
func (a *app) putDrain(x temporal.Decision, now time.Time) error {
	path, err := a.drainFile()
	if err != nil {
		return err
	}
	if x.Kind == temporal.OrderUndrain {
		if err := a.disk.Remove("fleet", path); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	limit, err := time.ParseDuration(x.Note)
	if err != nil {
		return fmt.Errorf("the deadline of the order: %w", err)
	}
	data, err := loop.EncodeIndent(drainOrder{x.By, now.Add(limit).UTC()}, "  ")
	if err != nil {
		return err
	}
	return a.disk.WriteFile("fleet", path, append(data, '\n'), 0o600)
}

// orders returns the verb that gives an order to a machine: to this one by a file, to another one signed, over the server.
func (a *app) orders(kind loop.DecisionKind) cli.ActionFunc {
	return a.operator(func(c *cli.Context) error {
		f, err := a.load()
		if err != nil {
			return err
		}
		machine := cmp.Or(c.String("machine"), f.Machine)
		x := temporal.Decision{Decision: loop.Decision{Kind: kind}, Workflow: temporal.MachineID(f.Fleet, machine), Note: c.Duration("deadline").String(), By: a.who(c), At: time.Now().UTC()}
		if machine == f.Machine {
			if err := a.putDrain(x, time.Now()); err != nil {
				return err
			}
			fmt.Fprintf(a.stdout, "%s: machine %s\n", kind, machine)
			return nil
		}
		if f.Gateway == nil {
			return fmt.Errorf("this machine only works: it has no key to sign an order for another one with (type on that one: superloop-fleet %s)", kind)
		}
		if x, err = x.Sign(ed25519.PrivateKey(f.Gateway)); err != nil {
			return err
		}
		to, err := a.dial(f)
		if err != nil {
			return err
		}
		defer to.Close()
		run, err := to.ExecuteWorkflow(c.Context, client.StartWorkflowOptions{ID: x.Workflow, TaskQueue: temporal.ControlQueue,
			WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_TERMINATE_EXISTING, WorkflowIDReusePolicy: enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE}, temporal.OrderName, machine, x)
		if err == nil {
			err = run.Get(c.Context, nil)
		}
		if err != nil {
			return fmt.Errorf("ordering machine %s to %s: %w", machine, kind, err)
		}
		fmt.Fprintf(a.stdout, "%s: machine %s\n", kind, machine)
		return nil
	})
}

// machineRow is a machine of a list.
type machineRow struct {
	present
	Used  int       `json:"used"` // slots
	Free  int       `json:"free"`
	Loops int       `json:"loops"`
	Seen  time.Time `json:"seen,omitzero"` // the zero time: not for five minutes
}

// machines lists the machines of the fleet: those that poll, or polled in the last minutes, and those on which loops wait.
func (a *app) machines(c *cli.Context) error {
	f, to, err := a.open()
	if err != nil {
		return err
	}
	defer to.Close()
	d, err := to.DescribeTaskQueue(c.Context, temporal.MachinesQueue, enumspb.TASK_QUEUE_TYPE_ACTIVITY)
	if err != nil {
		return fmt.Errorf("asking which machines there are: %w", err)
	}
	all := map[string]*machineRow{}
	for _, p := range d.Pollers {
		var says present
		if json.Unmarshal([]byte(p.Identity), &says) != nil || says.Machine == "" {
			continue
		}
		if at := p.LastAccessTime.AsTime(); all[says.Machine] == nil || at.After(all[says.Machine].Seen) {
			all[says.Machine] = &machineRow{present: says, Seen: at}
		}
	}
	err = each(c.Context, to, f, func(r row) error {
		if r.Machine == "" {
			return nil
		}
		if all[r.Machine] == nil {
			all[r.Machine] = &machineRow{present: present{Machine: r.Machine}}
		}
		m := all[r.Machine]
		m.Loops++
		w, err := to.DescribeWorkflow(c.Context, r.Workflow, "")
		if err != nil {
			return err
		}
		for _, p := range w.RawResponse.PendingActivities {
			if p.State == enumspb.PENDING_ACTIVITY_STATE_STARTED && p.ActivityType.GetName() != temporal.ClaimName {
				m.Used++
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(a.stdout, 0, 4, 2, ' ', 0)
	if !c.Bool("json") {
		fmt.Fprintln(w, "MACHINE\tHOST\tPOOLS\tUSED\tFREE\tLOOPS\tSEEN\tNOTE")
	}
	for _, id := range slices.Sorted(maps.Keys(all)) {
		m := all[id]
		m.Free = max(0, m.Slots-m.Used)
		if c.Bool("json") {
			if err := json.NewEncoder(a.stdout).Encode(m); err != nil {
				return err
			}
			continue
		}
		seen, note := m.Seen.Local().Format(time.DateTime), ""
		switch {
		case m.Seen.IsZero():
			seen, note = "-", "no worker was there for minutes; its bound loops wait"
		case m.Drains:
			note = "drains"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%d\t%s\t%s\n", text.Display(id), text.Display(cmp.Or(m.Host, "-")), text.Display(cmp.Or(strings.Join(m.Pools, ","), "-")), m.Used, m.Free, m.Loops, seen, note)
	}
	return w.Flush()
}
