// Package temporal is the engine beyond one machine: a run of a loop is a workflow on Temporal.
//
// The workflow folds the journal of the loop, event by event, through the machine (package loop). It asks the machine what is
// due, and has the loop's own computer carry that out as an activity (package loop/host). It holds no other logic, so a
// history can be replayed by every build whose machine does the same.
package temporal

import (
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/host"
)

// The names that histories hold. They never change.
const (
	WorkflowName = "loop"   // the type of the workflow
	AdoptName    = "adopt"  // the activity that takes a loop up, or lets it go when it has ended; each other activity has the kind of its effect as its type
	VerbName     = "verb"   // the activity that carries out what an operator has decided
	StirSignal   = "stir"   // the loop has something to do
	ResumeSignal = "resume" // an operator resumes a paused loop
	DecideUpdate = "decide" // an operator decides something; takes a Decision
	ViewQuery    = "view"   // returns a View
)

// HostQueue returns the task queue of the effects of the loops of one machine.
func HostQueue(machine string) string { return "host:" + machine }

// ControlQueue is the task queue of the workflows.
const ControlQueue = "control"

// Args begin a workflow, or continue it as a new run.
type Args struct {
	host.Place
	Machine string `json:"machine"` // the id of the machine on which the repository lies; of a loop that is bound to none, that which has it now
	By      string `json:"by"`      // the operator who has started the loop
	Fresh   bool   `json:"fresh,omitempty"`
	// Gateways are the public keys, each of which may sign decisions.
	Gateways [][]byte `json:"gateways"`
	// BeatTimeout is how long a machine may be silent while it carries out an effect. 0 is 30 s.
	BeatTimeout time.Duration `json:"beat_timeout,omitempty"`
	// Start is set for a loop that is bound to no machine: each machine of its pool may have it. Repo is empty while none has.
	Start *Start `json:"start,omitempty"`
	// GoneAfter is how long a machine may take to begin an effect of such a loop. 0 is two minutes.
	GoneAfter time.Duration `json:"gone_after,omitempty"`
	// Attributes says that the server knows the search attributes.
	Attributes bool `json:"attributes,omitempty"`

	// State, Seq and Rest are those of the run before. Runs counts the runs.
	State *loop.State `json:"state,omitempty"`
	Seq   int64       `json:"seq,omitempty"`
	Rest  host.Rest   `json:"rest,omitempty"`
	Runs  int         `json:"runs,omitempty"`
}

// Job is the input of an activity.
type Job struct {
	Turn    host.Turn    `json:"turn"`
	Begun   bool         `json:"begun,omitempty"`
	Unbound bool         `json:"unbound,omitempty"`
	Event   *loop.Effect `json:"due,omitempty"` // for people who read the history; the machine knows it from its journal
}

// View is what the workflow knows of its loop.
type View struct {
	loop.View
	Machine string    `json:"machine"`
	Pool    string    `json:"pool,omitempty"` // of a loop that is bound to no machine; Machine is then the one that has it, "" if none has
	Rest    host.Rest `json:"rest,omitempty"`
	Runs    int       `json:"runs"` // how many runs the workflow has had: it goes on as a new one when its history is long
}

// Result is the outcome of a workflow.
type Result struct {
	Status    loop.Status `json:"status"`
	Reason    string      `json:"reason,omitempty"`
	Iteration int         `json:"iteration"`
	Seq       int64       `json:"seq"`
	Runs      int         `json:"runs"`
}

type driver struct {
	a        Args
	fold     *loop.Replay
	seq      int64
	rest     host.Rest
	until    time.Time
	stirred  bool
	decided  int // decisions of this run
	claiming bool
	asking   int   // activities that are under way on the machine
	shown    shown // what the server was told for lists
}

// Loop is the workflow.
func Loop(ctx workflow.Context, a Args) (Result, error) {
	d := &driver{a: a, fold: loop.NewReplay(), seq: a.Seq, rest: a.Rest}
	if a.State != nil {
		d.fold.State = *a.State
	}
	if err := d.listen(ctx); err != nil {
		return Result{}, err
	}
	for {
		again, err := d.next(ctx)
		if err != nil {
			return Result{}, err
		}
		if again {
			d.a.State, d.a.Seq, d.a.Rest, d.a.Runs, d.a.Fresh = &d.fold.State, d.seq, d.rest, d.a.Runs+1, false
			return Result{}, workflow.NewContinueAsNewError(ctx, WorkflowName, d.a)
		}
		if d.rest == host.Ended {
			break
		}
	}
	err := workflow.Await(ctx, func() bool { return workflow.AllHandlersFinished(ctx) })
	s := d.fold.State
	return Result{s.Status, s.Reason, s.Iteration, d.seq, d.a.Runs + 1}, err
}

// next brings the loop one step further. It returns true if the workflow is to go on as a new run.
func (d *driver) next(ctx workflow.Context) (again bool, err error) {
	if d.fold.State.Version == 0 {
		return false, d.adopt(ctx)
	}
	if info := workflow.GetInfo(ctx); (info.GetContinueAsNewSuggested() || d.fold.Events > maxEvents || d.decided > maxDecisions) && workflow.AllHandlersFinished(ctx) {
		return true, nil
	}
	e, do := loop.Due(d.fold.State)
	switch {
	case d.rest == host.Paused && !d.stirred:
		return false, workflow.Await(ctx, func() bool { return d.stirred })
	case d.rest == host.Waits && !d.stirred && workflow.Now(ctx).Before(d.until):
		_, err := workflow.AwaitWithOptions(ctx, workflow.AwaitOptions{Timeout: d.until.Sub(workflow.Now(ctx)),
			TimerOptions: workflow.TimerOptions{Summary: string(e.Kind) + " " + e.Reason}}, func() bool { return d.stirred })
		return false, err
	}
	d.stirred = false
	return false, d.turn(ctx, e, do)
}

// maxEvents is how many events a run folds at most, and maxDecisions how many decisions it takes: the server holds 2,000
// updates of a run. The server suggests to continue earlier if the history is large.
const (
	maxEvents    = 20000
	maxDecisions = 1500
)

// leastWait is how long a loop that waits is left alone in any case, so that a machine which says nothing else costs little.
const leastWait = time.Second

// adopt takes the loop up on its machine.
func (d *driver) adopt(ctx workflow.Context) error {
	t, err := d.ask(ctx, AdoptName, Job{Turn: host.Turn{Start: true, Fresh: d.a.Fresh, By: d.a.By}}, "")
	if err != nil {
		return err
	}
	if t.State == nil {
		return temporal.NewNonRetryableApplicationError("the machine has taken the loop up and told no state", "protocol", nil)
	}
	if t.State.Rules > loop.CurrentRules {
		return fmt.Errorf("the machine runs the loop under rules %d, this control worker knows %d: replace it by a newer superloop-fleet", t.State.Rules, loop.CurrentRules)
	}
	d.fold.State, d.seq = *t.State, t.Seq
	return d.took(ctx, t)
}

// turn has the machine carry out what is due, and folds what has happened.
func (d *driver) turn(ctx workflow.Context, e loop.Effect, do loop.Do) error {
	name := string(e.Kind)
	if do == loop.DoNothing {
		name = AdoptName // the machine writes its last reports
	}
	t, err := d.ask(ctx, name, Job{Turn: host.Turn{Effect: e.ID, Since: d.seq, By: d.a.By}, Begun: d.fold.State.Begun, Event: &e}, e.ID)
	if err != nil {
		return err
	}
	return d.took(ctx, t)
}

// took folds an answer of the machine.
func (d *driver) took(ctx workflow.Context, t host.Turned) error {
	for _, l := range t.Lines {
		ev := l.Event()
		if ev.Seq != d.seq+1 {
			return fmt.Errorf("the machine has told event %d after %d", ev.Seq, d.seq)
		}
		if err := d.fold.Add(ev); err != nil {
			return err
		}
		d.seq = ev.Seq
	}
	d.rest, d.until = t.Rest, workflow.Now(ctx).Add(max(t.Left, leastWait))
	if t.More {
		d.rest = host.GoesOn
	}
	return d.show(ctx)
}

// FinalError is the type of an error that stays until somebody changes something.
const FinalError = "final"

// view returns what is known of the loop.
func (d *driver) view() (View, error) {
	v := View{View: loop.ViewOf(d.fold.State, d.seq, 0), Machine: d.a.Machine, Rest: d.rest, Runs: d.a.Runs + 1}
	if d.a.Start != nil {
		v.Pool = d.a.Start.Pool
	}
	return v, nil
}

// listen registers the handlers.
func (d *driver) listen(ctx workflow.Context) error {
	for _, name := range []string{StirSignal, ResumeSignal} {
		c := workflow.GetSignalChannel(ctx, name)
		workflow.Go(ctx, func(ctx workflow.Context) {
			for c.Receive(ctx, nil) {
				if name == ResumeSignal || d.rest != host.Paused {
					d.stirred = true
				}
			}
		})
	}
	return errors.Join(
		workflow.SetQueryHandler(ctx, ViewQuery, d.view),
		workflow.SetUpdateHandlerWithOptions(ctx, DecideUpdate, d.decide, workflow.UpdateHandlerOptions{Validator: d.check}),
	)
}
