package temporal

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/host"
)

// WorkflowID returns the id of the workflow of a loop. No two workflows of an id run at the same time, so no loop runs twice.
func WorkflowID(fleet, machine string, p host.Place) string {
	sum := sha256.Sum256([]byte(machine + "\n" + p.Repo))
	return fmt.Sprintf("superloop/%s/%s-%s/%s", fleet, filepath.Base(p.Repo), hex.EncodeToString(sum[:4]), p.Loop)
}

// Control returns a worker that runs workflows, and no activities. With a deployment in its options a loop stays with the
// build that has begun it, and the accounts, whose workflow does not end, go to the newest.
func Control(c client.Client, o worker.Options) worker.Worker {
	w := worker.New(c, ControlQueue, o)
	w.RegisterWorkflowWithOptions(Loop, workflow.RegisterOptions{Name: WorkflowName, VersioningBehavior: workflow.VersioningBehaviorPinned})
	w.RegisterWorkflowWithOptions(Accounts, workflow.RegisterOptions{Name: AccountsName, VersioningBehavior: workflow.VersioningBehaviorAutoUpgrade})
	w.RegisterWorkflowWithOptions(Account, workflow.RegisterOptions{Name: AccountName, VersioningBehavior: workflow.VersioningBehaviorAutoUpgrade})
	w.RegisterWorkflowWithOptions(Ordered, workflow.RegisterOptions{Name: OrderName, VersioningBehavior: workflow.VersioningBehaviorAutoUpgrade})
	return w
}

// Asked is what a Machine asks: a *host.Client, or a played machine.
type Asked interface {
	Turn(ctx context.Context, t host.Turn) (host.Turned, error)
	Verb(ctx context.Context, v host.Verb) ([]byte, error)
}

// Machine performs the activities of the loops of one machine.
type Machine struct {
	Host Asked
	// Gateways are the keys that this machine trusts. A decision that none of them has signed is not carried out, whatever
	// the workflow says.
	Gateways [][]byte
	Fleet    string
	ID       string
	// Limits takes what other machines have found out about accounts. nil: nobody asks for it.
	Limits func(ctx context.Context, list []Limit) error
	// Slot begins a role that has a slot of its account, and returns when the role has left, or at once if there is no such role.
	Slot func(ctx context.Context, w Want) error
	// Work waits until one more loop may work here, and returns what gives its place back. nil: each effect begins at once.
	Work  func(ctx context.Context, p host.Place) (rest func(), err error)
	Now   func() time.Time
	Slots int      // how many effects it carries out at the same time; 0: it takes loops however many those are
	Pools []string // of which this machine takes loops
	// Keys are the keys with which the machines of the fleet authenticate what they hand on.
	Keys [][]byte
	// Carried returns what a loop is called that is bound to no machine and that this one has, "" for any other. nil knows none.
	Carried func(p host.Place) string

	drain drain
}

// WorkflowOf returns the id of the workflow of a loop on this machine.
func (m *Machine) WorkflowOf(p host.Place) string {
	if m.Carried != nil {
		if id := m.Carried(p); id != "" {
			return id
		}
	}
	return WorkflowID(m.Fleet, m.ID, p)
}

// Registry registers activities: a worker, or a test environment.
type Registry interface {
	RegisterActivityWithOptions(a any, o activity.RegisterOptions)
}

// Register registers the activities: one for each kind of effect, so that a history says what was due, and a build that
// leaves an effect out cannot replay it.
func (m *Machine) Register(r Registry) {
	for _, kind := range append(loop.Kinds(), AdoptName) {
		r.RegisterActivityWithOptions(m.turn, activity.RegisterOptions{Name: string(kind)})
	}
}

// Worker returns the worker of the machine. o bounds how many effects it is given at the same time; loops that wait take none.
func (m *Machine) Worker(c client.Client, o worker.Options) worker.Worker {
	o.MaxConcurrentActivityTaskPollers = 1 // a hung machine keeps what its open polls are given
	o.DisableWorkflowWorker = true
	w := worker.New(c, HostQueue(m.ID), o)
	m.Register(w)
	return w
}

// turn carries out an effect.
func (m *Machine) turn(ctx context.Context, j Job) (host.Turned, error) {
	info := activity.GetInfo(ctx)
	beats, end := context.WithCancel(ctx)
	defer end()
	go beat(beats, info.HeartbeatTimeout/3)
	turn, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		select {
		case <-activity.GetWorkerStopChannel(ctx): // the loop is paused, and its next turn goes to the next worker
			stop()
		case <-turn.Done():
		}
	}()
	if m.Work != nil {
		rest, err := m.Work(turn, j.Turn.Place)
		if err != nil { // it is tried again, and is not taken for a cancelled one
			return host.Turned{}, errors.New("the loop waited for a place when this worker ended: " + err.Error())
		}
		defer rest()
	}
	leave, over, err := m.drain.begin(stop, m.ID, j.Unbound)
	if err != nil {
		return host.Turned{}, err
	}
	defer over()
	j.Turn.Leave = leave
	t, err := m.Host.Turn(turn, j.Turn)
	return t, final(err)
}

// beat tells the server that the activity lives. The server's answer ends ctx if the activity has lost its right.
func beat(ctx context.Context, every time.Duration) {
	if every <= 0 {
		return
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			activity.RecordHeartbeat(ctx)
		}
	}
}

// verb carries out what an operator has decided.
func (m *Machine) verb(ctx context.Context, o Order) ([]byte, error) {
	if err := o.Decision.Verify(m.WorkflowOf(o.Place), m.Gateways, m.Now()); err != nil {
		return nil, temporal.NewNonRetryableApplicationError(fmt.Sprintf("machine %s refuses the decision: %v", m.ID, err), FinalError, nil)
	}
	info := activity.GetInfo(ctx)
	beats, end := context.WithCancel(ctx)
	defer end()
	go beat(beats, info.HeartbeatTimeout/3)
	said, err := m.Host.Verb(ctx, host.Verb{Args: o.Args(), Of: o.Place, By: host.By{User: o.Decision.By, Method: "signature"}, ID: o.Decision.name(), Again: o.Again || info.Attempt > 1})
	return said, final(err)
}

// final marks an error that the same request gets again.
func final(err error) error {
	said, ok := errors.AsType[*host.Error](err)
	if ok && said.Moved {
		return temporal.NewNonRetryableApplicationError(said.Error(), MovedError, nil)
	}
	if ok && said.Final {
		return temporal.NewNonRetryableApplicationError(said.Error(), FinalError, nil)
	}
	return err
}
