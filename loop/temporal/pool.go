package temporal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/host"
)

// Claims is an Asked that takes loops which are bound to no machine.
type Claims interface {
	Claim(ctx context.Context, c host.Claim) (host.Place, error)
}

// PoolWorker returns the worker by which the machine takes loops of a pool.
func (m *Machine) PoolWorker(c client.Client, pool string, o worker.Options) worker.Worker {
	o.MaxConcurrentActivityExecutionSize, o.MaxConcurrentActivityTaskPollers, o.DisableWorkflowWorker = 2, 1, true
	w := worker.New(c, PoolQueue(pool), o)
	m.RegisterClaim(w)
	return w
}

// RegisterClaim registers the activity by which the machine takes loops.
func (m *Machine) RegisterClaim(r Registry) {
	r.RegisterActivityWithOptions(m.claim, activity.RegisterOptions{Name: ClaimName})
}

// claim takes a loop. It looks at the signature before it talks with the remote, which anybody can name who can write to the
// server.
func (m *Machine) claim(ctx context.Context, w Wanted) (Claimed, error) {
	s := w.Start
	err := s.Verify(m.Gateways)
	switch claims, can := m.Host.(Claims); {
	case err != nil:
	case s.Workflow != PoolWorkflowID(m.Fleet, s.Remote, s.Loop):
		err = fmt.Errorf("it was signed for the workflow %q", s.Workflow)
	case !slices.Contains(m.Pools, s.Pool) || !can || len(m.Keys) == 0:
		err = fmt.Errorf("it was signed for the pool %q", s.Pool)
	default:
		return m.claimed(ctx, claims, w)
	}
	return Claimed{}, temporal.NewNonRetryableApplicationError(fmt.Sprintf("machine %s refuses to take loop %s: %v", m.ID, s.Loop, err), FinalError, nil)
}

func (m *Machine) claimed(ctx context.Context, claims Claims, w Wanted) (Claimed, error) {
	switch on, busy := m.drain.state(); {
	case on:
		return Claimed{}, later(fmt.Sprintf("machine %s drains", m.ID), time.Second)
	case m.Slots > 0 && busy >= m.Slots:
		return Claimed{}, later(fmt.Sprintf("machine %s has no place free", m.ID), time.Second)
	}
	beats, end := context.WithCancel(ctx)
	defer end()
	go beat(beats, activity.GetInfo(ctx).HeartbeatTimeout/3)
	s := w.Start
	p, err := claims.Claim(ctx, host.Claim{Workflow: s.Workflow, Remote: s.Remote, Loop: s.Loop, Grant: s.Grant(), Digest: s.Digest, By: s.By, Machine: m.ID, Keys: m.Keys, Since: w.Since})
	if said, ok := errors.AsType[*host.Error](err); ok && said.Moved { // another machine was faster, or still has it
		return Claimed{}, later(said.Error(), time.Second)
	}
	return Claimed{m.ID, p.Repo}, final(err)
}

// later returns an error after which the server tries the activity again.
func later(why string, in time.Duration) error {
	return temporal.NewApplicationErrorWithOptions(why, "later", temporal.ApplicationErrorOptions{NextRetryDelay: in})
}

// drain is a machine that is to begin nothing more.
type drain struct {
	mu    sync.Mutex
	on    bool
	last  int
	turns map[int]func() // ends each turn that is under way
}

func (d *drain) state() (on bool, busy int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.on, len(d.turns)
}

// again is how long a loop waits that is bound to a machine which drains, until it asks once more.
const again = 10 * time.Second

// begin notes a turn. leave says that the loop is to go to another machine instead. over has to be called at the end of the
// turn.
func (d *drain) begin(stop func(), machine string, unbound bool) (leave bool, over func(), err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.on && !unbound {
		return false, nil, later(fmt.Sprintf("machine %s drains, and the loop is bound to it (type there: superloop-fleet undrain)", machine), again)
	}
	if d.turns == nil {
		d.turns = map[int]func(){}
	}
	d.last++
	n := d.last
	d.turns[n] = stop
	return d.on, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.turns, n)
	}, nil
}

// Drain has the machine begin nothing more, or again.
func (m *Machine) Drain(on bool) {
	m.drain.mu.Lock()
	defer m.drain.mu.Unlock()
	m.drain.on = on
}

// Interrupt ends what the machine carries out. It counts for nothing: the loops are paused as interrupted.
func (m *Machine) Interrupt() {
	m.drain.mu.Lock()
	defer m.drain.mu.Unlock()
	for _, stop := range m.drain.turns {
		stop()
	}
}

// The names that histories hold. They never change.
const (
	OrderName = "order" // the workflow that hands an order to a machine, and its activity
)

// The orders that machines take.
const (
	OrderDrain   loop.DecisionKind = "drain" // Note is how long what is under way may take, as a duration
	OrderUndrain loop.DecisionKind = "undrain"
)

// OrdersQueue returns the task queue of the orders for a machine. MachinesQueue is one that every machine polls, so that the
// server can tell which machines there are: nothing is ever put there.
func OrdersQueue(machine string) string { return "orders:" + machine }

// MachinesQueue: see OrdersQueue.
const MachinesQueue = "machines"

// MachineID returns the name of a machine for which orders are signed, as a workflow's id.
func MachineID(fleet, machine string) string { return "superloop/" + fleet + "/machine/" + machine }

// Ordered is a workflow that hands an order to a machine: a Decision whose workflow is the machine.
func Ordered(ctx workflow.Context, machine string, x Decision) error {
	o := workflow.ActivityOptions{TaskQueue: OrdersQueue(machine), StartToCloseTimeout: time.Minute, ScheduleToCloseTimeout: maxAge, Summary: string(x.Kind),
		RetryPolicy: &temporal.RetryPolicy{NonRetryableErrorTypes: []string{FinalError}}}
	return workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, o), OrderName, x).Get(ctx, nil)
}

// OrdersWorker returns the worker by which the machine takes orders, limits and slots of accounts, and what operators have decided
// about its loops. None of that waits for an effect to end, however many the machine carries out. take carries out an order that a gateway
// has signed.
func (m *Machine) OrdersWorker(c client.Client, take func(Decision) error, o worker.Options) worker.Worker {
	o.MaxConcurrentActivityTaskPollers, o.DisableWorkflowWorker = 1, true
	w := worker.New(c, OrdersQueue(m.ID), o)
	w.RegisterActivityWithOptions(func(_ context.Context, x Decision) error {
		err := x.Verify(MachineID(m.Fleet, m.ID), m.Gateways, m.Now())
		if err == nil && x.Kind != OrderDrain && x.Kind != OrderUndrain {
			err = errors.New("it is no order")
		}
		if err != nil {
			return temporal.NewNonRetryableApplicationError(fmt.Sprintf("machine %s refuses the order: %v", m.ID, err), FinalError, nil)
		}
		return take(x)
	}, activity.RegisterOptions{Name: OrderName})
	w.RegisterActivityWithOptions(m.verb, activity.RegisterOptions{Name: VerbName})
	if m.Limits != nil {
		w.RegisterActivityWithOptions(m.Limits, activity.RegisterOptions{Name: LimitsName})
	}
	w.RegisterActivityWithOptions(m.slot, activity.RegisterOptions{Name: SlotName})
	return w
}

// Present returns a worker by which the server knows that the machine is there, and what it says of itself.
func Present(c client.Client, says string, o worker.Options) worker.Worker {
	o.Identity, o.MaxConcurrentActivityTaskPollers, o.DisableWorkflowWorker = says, 1, true
	w := worker.New(c, MachinesQueue, o)
	w.RegisterActivityWithOptions(func(context.Context) error { return nil }, activity.RegisterOptions{Name: "present"})
	return w
}
