package temporal

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/superloop/superloop/roles/agent"
)

// The names of the workflow that shares the slots of one account among the machines of a fleet. Histories hold them, so they
// never change.
const (
	AccountName = "account" // the type of the workflow
	WantSignal  = "want"    // a role wants a slot; takes a Want
	SlotName    = "slot"    // the activity by which a role has a slot: it begins the role on its machine, and ends with it; takes a Want
	SlotsQuery  = "slots"   // returns AccountArgs
)

// Want asks for a slot. The same one may be sent again.
type Want struct {
	ID       string `json:"id"` // of the role
	Machine  string `json:"machine"`
	Workflow string `json:"workflow"` // of the loop
	// Most is how many roles of the fleet may use the account when this one begins.
	Most int `json:"most"`
	// Beat is how long the machine may be silent while it has the slot. 0 is 30 s.
	Beat time.Duration `json:"beat,omitempty"`
	// Begun says that the role has begun, and that its machine does not hear from the fleet that it has a slot.
	Begun bool `json:"begun,omitempty"`
	// Left says that the role waits no more.
	Left bool `json:"left,omitempty"`
}

func (w Want) beat() time.Duration { return Args{BeatTimeout: w.Beat}.beat() }

// AccountArgs begin the workflow of an account, or continue it as a new run.
type AccountArgs struct {
	Account agent.Account `json:"account"`
	Machine string        `json:"machine,omitempty"` // of an account that only this machine can tell apart
	Used    []Want        `json:"used,omitempty"`
	Waiting []Want        `json:"waiting,omitempty"` // in the order of asking
}

// AccountOf returns the account of a role on a machine, as the fleet tells it apart.
func AccountOf(a agent.Account, machine string) AccountArgs {
	if a.Everywhere() {
		machine = ""
	}
	return AccountArgs{Account: a, Machine: machine}
}

// WorkflowID returns the id of the workflow of the account.
func (a AccountArgs) WorkflowID(fleet string) string {
	sum := sha256.Sum256([]byte(a.Account.ID + "\n" + a.Machine))
	return fmt.Sprintf("superloop/%s/%s/%s/%s", fleet, AccountName, a.Account.Provider, hex.EncodeToString(sum[:6]))
}

// AskSlot sends a want to the workflow of an account, and begins the workflow where there is none.
func AskSlot(ctx context.Context, c client.Client, fleet string, a agent.Account, w Want) error {
	args := AccountOf(a, w.Machine)
	_, err := c.SignalWithStartWorkflow(ctx, args.WorkflowID(fleet), WantSignal, w, client.StartWorkflowOptions{TaskQueue: ControlQueue, WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING}, AccountName, args)
	if err != nil {
		return fmt.Errorf("asking the fleet for a slot of an account: %w", err)
	}
	return nil
}

// account gives out the slots of one account. A slot that is given is an activity on the machine of the role, so it is free
// again when the machine is silent, without a clock of ours.
type account struct {
	AccountArgs
	moved bool
}

// Account is the workflow. It ends when no role uses the account and none waits.
func Account(ctx workflow.Context, a AccountArgs) error {
	s := &account{AccountArgs: a, moved: len(a.Used)+len(a.Waiting) > 0}
	if err := workflow.SetQueryHandler(ctx, SlotsQuery, func() (AccountArgs, error) { return s.AccountArgs, nil }); err != nil {
		return err
	}
	s.Used = nil
	for _, w := range a.Used { // the machines still have these roles, and the activities of the last run end
		s.give(ctx, w)
	}
	wants := workflow.GetSignalChannel(ctx, WantSignal)
	over := func() bool { return workflow.GetInfo(ctx).GetContinueAsNewSuggested() }
	for {
		if err := workflow.Await(ctx, func() bool { return wants.Len() > 0 || s.moved || over() }); err != nil {
			return err
		}
		s.moved = false
		for wants.Len() > 0 { // a signal that is not received is lost with its run
			var w Want
			wants.Receive(ctx, &w)
			s.hear(ctx, w)
		}
		for len(s.Waiting) > 0 && len(s.Used) < max(1, s.Waiting[0].Most) {
			next := s.Waiting[0]
			s.Waiting = s.Waiting[1:]
			s.give(ctx, next)
		}
		switch {
		case len(s.Used) == 0:
			return nil
		case over():
			return workflow.NewContinueAsNewError(ctx, AccountName, s.AccountArgs)
		}
	}
}

// hear takes a want in. A role that has begun counts, whatever the bound is: so no other one begins until it fits.
func (s *account) hear(ctx workflow.Context, w Want) {
	same := func(o Want) bool { return o.ID == w.ID }
	switch {
	case w.Left:
		s.Waiting = slices.DeleteFunc(s.Waiting, same)
	case slices.ContainsFunc(s.Used, same):
	case w.Begun:
		s.Waiting = slices.DeleteFunc(s.Waiting, same)
		s.give(ctx, w)
	case !slices.ContainsFunc(s.Waiting, same):
		s.Waiting = append(s.Waiting, w)
	}
}

// give gives a slot to a role, until the role has left or its machine is gone. A machine that was silent, and is there when the
// server tries again, keeps it: after a restart of the server all were silent.
func (s *account) give(ctx workflow.Context, w Want) {
	s.Used = append(s.Used, w)
	o := workflow.ActivityOptions{TaskQueue: OrdersQueue(w.Machine), ScheduleToStartTimeout: w.beat() / 2, StartToCloseTimeout: 30 * 24 * time.Hour, HeartbeatTimeout: w.beat(), Summary: w.Workflow,
		RetryPolicy: &temporal.RetryPolicy{InitialInterval: 200 * time.Millisecond, MaximumInterval: time.Second}}
	given := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, o), SlotName, w)
	workflow.Go(ctx, func(ctx workflow.Context) {
		err := given.Get(ctx, nil)
		s.Used = slices.DeleteFunc(s.Used, func(o Want) bool { return o.ID == w.ID })
		if late, ok := errors.AsType[*temporal.TimeoutError](err); ok && late.TimeoutType() == enumspb.TIMEOUT_TYPE_SCHEDULE_TO_START {
			s.Waiting = slices.DeleteFunc(s.Waiting, func(o Want) bool { return o.Machine == w.Machine }) // it asks again when it is there again
		}
		s.moved = true
	})
}

// slot lets a role begin that has a slot, and ends with the role.
func (m *Machine) slot(ctx context.Context, w Want) error {
	beats, end := context.WithCancel(ctx)
	defer end()
	go beat(beats, activity.GetInfo(ctx).HeartbeatTimeout/3)
	return m.Slot(ctx, w)
}
