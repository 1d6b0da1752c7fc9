package main

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	sdk "go.temporal.io/sdk/temporal"

	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/host"
	"github.com/superloop/superloop/loop/temporal"
)

// place returns the loop that the flags name.
func place(c *cli.Context) (host.Place, error) {
	repo, err := filepath.Abs(c.String("repo"))
	return host.Place{Repo: repo, Loop: c.String("loop")}, err
}

// workflow returns the id of the workflow of the loop that the flags name.
func workflow(c *cli.Context, f fleet) (string, error) {
	if remote := c.String("remote"); remote != "" {
		remote, err := remoteOf(remote)
		return temporal.PoolWorkflowID(f.Fleet, remote, c.String("loop")), err
	}
	p, err := place(c)
	return temporal.WorkflowID(f.Fleet, cmp.Or(c.String("machine"), f.Machine), p), err
}

func (a *app) start(c *cli.Context) error {
	f, to, err := a.open()
	if err != nil {
		return err
	}
	defer to.Close()
	p, err := place(c)
	if err != nil {
		return err
	}
	args := temporal.Args{Place: p, Machine: f.Machine, By: a.who(c), Fresh: c.Bool("fresh"), Gateways: f.Gateways, BeatTimeout: c.Duration("beat-timeout"), Attributes: temporal.HasAttributes(c.Context, to, to.namespace)}
	id, at := temporal.WorkflowID(f.Fleet, f.Machine, p), "--repo "+text.Paste(p.Repo)
	if c.Bool("unbound") {
		if args, err = a.unbind(c, f, to, args); err != nil {
			return err
		}
		id, at = args.Start.Workflow, "--remote "+text.Paste(args.Start.Remote)
	} else if c.IsSet("remote") || c.IsSet("pool") {
		return errors.New("--remote and --pool are of an unbound loop (type: superloop-fleet start --unbound ...)")
	}
	run, err := to.ExecuteWorkflow(c.Context, client.StartWorkflowOptions{ID: id, TaskQueue: temporal.ControlQueue,
		WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_FAIL, WorkflowIDReusePolicy: enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
		WorkflowExecutionErrorWhenAlreadyStarted: true, Memo: map[string]any{"machine": args.Machine}, StaticSummary: "loop " + p.Loop},
		temporal.WorkflowName, args)
	if _, runs := errors.AsType[*serviceerror.WorkflowExecutionAlreadyStarted](err); runs {
		return fmt.Errorf("the loop runs already (type: superloop-fleet show %s --loop %s)", at, p.Loop)
	}
	if err != nil {
		return fmt.Errorf("starting the loop: %w", err)
	}
	limited, stop := context.WithTimeout(c.Context, 2500*time.Millisecond) // a loop that cannot begin fails at once; one that nobody takes up waits
	defer stop()
	err = run.Get(limited, nil)
	if _, failed := errors.AsType[*sdk.WorkflowExecutionError](err); failed {
		if app, ok := errors.AsType[*sdk.ApplicationError](err); ok {
			return fmt.Errorf("the loop does not begin: %s (type: superloop validate --repo %s)", app.Message(), text.Paste(p.Repo))
		}
		return fmt.Errorf("the loop does not begin: %w", err)
	}
	fmt.Fprintf(a.stdout, "started %s\nnext: superloop-fleet show %s --loop %s\n", id, at, p.Loop)
	return nil
}

// row is a loop of a list.
type row struct {
	Workflow  string    `json:"workflow"`
	Machine   string    `json:"machine"` // of a loop that is bound to none, the one that has it now
	Pool      string    `json:"pool,omitempty"`
	Loop      string    `json:"loop"`
	Status    string    `json:"status"`
	Iteration int       `json:"iteration"`
	Question  string    `json:"question,omitempty"`
	Silent    string    `json:"silent,omitempty"` // why nothing is carried out
	Began     time.Time `json:"began"`
}

// each calls fn for every loop of the fleet that has not ended.
func each(ctx context.Context, to *server, f fleet, fn func(row) error) error {
	return running(ctx, to, f, temporal.WorkflowName, func(e *workflowpb.WorkflowExecutionInfo) error {
		id := e.Execution.WorkflowId
		r := row{Workflow: id, Loop: id[strings.LastIndex(id, "/")+1:], Began: e.StartTime.AsTime()}
		if p := e.GetMemo().GetFields()["machine"]; p != nil {
			_ = to.payloads.FromPayload(p, &r.Machine) // a loop of nobody's machine is listed too
		}
		return fn(r)
	})
}

// running calls fn for every workflow of a type that has not ended.
func running(ctx context.Context, to *server, f fleet, name string, fn func(*workflowpb.WorkflowExecutionInfo) error) error {
	q := &workflowservice.ListWorkflowExecutionsRequest{Query: fmt.Sprintf("WorkflowType = %q AND ExecutionStatus = 'Running'", name)}
	for {
		page, err := to.ListWorkflow(ctx, q)
		if err != nil {
			return fmt.Errorf("listing the fleet's workflows of type %s: %w", name, err)
		}
		for _, e := range page.Executions {
			if !strings.HasPrefix(e.Execution.WorkflowId, "superloop/"+f.Fleet+"/") {
				continue
			}
			if err := fn(e); err != nil {
				return err
			}
		}
		if q.NextPageToken = page.NextPageToken; len(q.NextPageToken) == 0 {
			return nil
		}
	}
}

// patience bounds how long a control worker may take to answer. One that has lost the server asks for work every 10 s.
const patience = 12 * time.Second

var errNoControl = errors.New("no control worker answers")

// query asks a workflow something. A server that has just begun knows no control worker yet, so it is asked again.
func query(ctx context.Context, to *server, id, name string, v any) error {
	limited, stop := context.WithTimeout(ctx, patience)
	defer stop()
	for {
		said, err := to.QueryWorkflow(limited, id, "", name)
		if err == nil {
			err = said.Get(v)
		}
		if err == nil {
			return nil
		}
		_, late := errors.AsType[*serviceerror.DeadlineExceeded](err) // the server has ended the time that it was given
		_, nobody := errors.AsType[*serviceerror.FailedPrecondition](err)
		switch {
		case (late || limited.Err() != nil) && ctx.Err() == nil:
			return fmt.Errorf("%w for %s (type: superloop-fleet doctor): %w", errNoControl, id, err)
		case !nobody:
			return fmt.Errorf("asking the workflow %s: %w", id, err)
		}
		select {
		case <-limited.Done():
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// look asks a workflow what it knows, and the server whether its machine answers.
func look(ctx context.Context, to *server, id string) (v temporal.View, silent string, err error) {
	err = query(ctx, to, id, temporal.ViewQuery, &v)
	if _, none := errors.AsType[*serviceerror.NotFound](err); none {
		return v, "", fmt.Errorf("the fleet has no %s (type: superloop-fleet start)", id)
	}
	if err != nil {
		return v, "", err
	}
	d, err := to.DescribeWorkflow(ctx, id, "")
	if err != nil {
		return v, "", err
	}
	for _, p := range d.RawResponse.PendingActivities {
		switch {
		case p.LastFailure != nil:
			silent = "attempt " + fmt.Sprint(p.Attempt) + ": " + to.failures.FailureToError(p.LastFailure).Error()
		case p.State == enumspb.PENDING_ACTIVITY_STATE_SCHEDULED && time.Since(p.ScheduledTime.AsTime()) > 5*time.Second:
			silent = "no worker of machine " + v.Machine + " takes it up (type there: superloop-fleet worker)"
			if p.ActivityType.GetName() == temporal.ClaimName {
				silent = fmt.Sprintf("no machine of pool %s takes it (type on one: superloop-fleet worker --pool %s)", v.Pool, v.Pool)
			} else if v.Pool == "" {
				silent += "; the loop is bound to it and waits"
			}
		}
	}
	return v, silent, nil
}

func (a *app) list(c *cli.Context) error {
	f, to, err := a.open()
	if err != nil {
		return err
	}
	defer to.Close()
	w := tabwriter.NewWriter(a.stdout, 0, 4, 2, ' ', 0)
	if !c.Bool("json") {
		fmt.Fprintln(w, "MACHINE\tLOOP\tSTATUS\tITERATION\tSINCE\tNOTE")
	}
	var nobody error // answers, so nobody is asked again
	slots, err := waits(c.Context, to, f)
	if err != nil { // each loop says the reason itself
		slots = nil
	}
	if errors.Is(err, errNoControl) {
		nobody = errNoControl
	}
	err = each(c.Context, to, f, func(r row) error {
		var v temporal.View
		silent, err := "", nobody
		if nobody == nil {
			v, silent, err = look(c.Context, to, r.Workflow)
		}
		if err != nil {
			silent = err.Error()
		}
		if errors.Is(err, errNoControl) {
			nobody = errNoControl
		}
		r.Status, r.Iteration, r.Silent, r.Pool = string(v.Status), v.Iteration, cmp.Or(silent, slots[r.Workflow]), v.Pool
		if v.Human != nil {
			r.Question = v.Human.Question
		}
		if c.Bool("json") {
			return json.NewEncoder(a.stdout).Encode(r)
		}
		note := r.Silent
		if r.Question != "" {
			note = "asks " + r.Question + "  " + note
		}
		_, err = fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\t%s\n", cmp.Or(r.Machine, "-"), r.Loop, cmp.Or(r.Status, "-"), r.Iteration, r.Began.Local().Format(time.DateTime), text.Display(note))
		return err
	})
	return errors.Join(err, w.Flush())
}

func (a *app) show(c *cli.Context) error {
	f, to, err := a.open()
	if err != nil {
		return err
	}
	defer to.Close()
	id, err := workflow(c, f)
	if err != nil {
		return err
	}
	v, silent, err := look(c.Context, to, id)
	if err != nil {
		return err
	}
	slots, err := waits(c.Context, to, f)
	if err != nil {
		return err
	}
	data, err := loop.EncodeIndent(struct {
		Workflow string `json:"workflow"`
		temporal.View
		Silent string `json:"silent,omitempty"`
	}{id, v, cmp.Or(silent, slots[id])}, "  ")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.stdout, "%s\n", data)
	return err
}

// decides returns the verb that decides something about a loop.
func (a *app) decides(kind loop.DecisionKind, method string) cli.ActionFunc {
	return a.operator(func(c *cli.Context) error {
		f, to, err := a.open()
		if err != nil {
			return err
		}
		defer to.Close()
		if f.Gateway == nil {
			return errors.New("this machine only works: it has no key to sign decisions with; decide on the machine on which superloop-fleet init was called without --join, or by superloop's own verbs on the machine of the loop")
		}
		id, err := workflow(c, f)
		if err != nil {
			return err
		}
		v, _, err := look(c.Context, to, id)
		if errors.Is(err, errNoControl) {
			return fmt.Errorf("%w; the page of the fleet, and superloop approve on the machine of the loop, take an answer now, and the loop takes it up when a control worker runs", err)
		}
		if err != nil {
			return err
		}
		d := temporal.Decision{Decision: loop.Decision{Kind: kind, RunID: v.RunID, Method: method}, Workflow: id, Note: c.String("note"), By: a.who(c), At: time.Now().UTC()}
		if kind == loop.DecideAnswer {
			if v.Human == nil || v.Human.Question == "" {
				return fmt.Errorf("the loop is %s and asks for nothing", v.Status)
			}
			d.ID, d.Digest = v.Human.Question, v.Human.Digest
			if want := c.String("id"); want != "" && !strings.HasPrefix(d.ID, want) {
				return fmt.Errorf("another question is open: %s", d.ID)
			}
			if want := c.String("digest"); want != "" && !strings.HasPrefix(d.Digest, want) {
				return fmt.Errorf("something else is asked for: %s", d.Digest)
			}
		}
		if d, err = d.Sign(ed25519.PrivateKey(f.Gateway)); err != nil {
			return err
		}
		h, err := to.UpdateWorkflow(c.Context, client.UpdateWorkflowOptions{WorkflowID: id, UpdateName: temporal.DecideUpdate, Args: []any{d}, WaitForStage: client.WorkflowUpdateStageCompleted})
		var ack temporal.Ack
		if err == nil {
			err = h.Get(c.Context, &ack)
		}
		if err != nil {
			return err
		}
		fmt.Fprintf(a.stdout, "decided for %s\n", id)
		return nil
	})
}
