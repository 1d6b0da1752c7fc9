package temporal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/superloop/superloop/roles/agent"
	"github.com/superloop/superloop/roles/agent/cooldown"
)

// told is what each machine was told, by its queue.
type told struct {
	mu   sync.Mutex
	by   map[string][]Limit
	dead string // the queue of a machine that does not answer
}

func (m *told) limits(ctx context.Context, list []Limit) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	queue := activity.GetInfo(ctx).TaskQueue
	if queue == m.dead {
		return temporal.NewNonRetryableApplicationError("nobody is there", "", errors.New("gone"))
	}
	m.by[queue] = append(m.by[queue], list...)
	return nil
}

func playAccounts(t *testing.T, a AccountsArgs, dead string, play func(env *testsuite.TestWorkflowEnvironment)) (*told, AccountsArgs) {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	env := suite.NewTestWorkflowEnvironment()
	m := &told{by: map[string][]Limit{}, dead: dead}
	env.RegisterActivityWithOptions(m.limits, activity.RegisterOptions{Name: LimitsName})
	env.RegisterWorkflowWithOptions(Accounts, workflow.RegisterOptions{Name: AccountsName})
	env.SetWorkflowRunTimeout(100 * time.Hour)
	play(env)
	env.RegisterDelayedCallback(func() { env.SetContinueAsNewSuggested(true) }, 10*time.Hour)
	env.ExecuteWorkflow(AccountsName, a)
	again, ok := errors.AsType[*workflow.ContinueAsNewError](env.GetWorkflowError())
	if !ok {
		t.Fatal(env.GetWorkflowError())
	}
	var next AccountsArgs
	if err := converter.GetDefaultDataConverter().FromPayloads(again.Input, &next); err != nil {
		t.Fatal(err)
	}
	return m, next
}

func limitOf(id, machine string, until time.Time) Limit {
	return Limit{Cooldown: cooldown.Cooldown{Account: agent.Account{Provider: "anthropic", ID: id}, Class: "limit", Until: until, SetAt: until.Add(-time.Hour)}, Machine: machine}
}

// TestAccountsAreToldToAllMachines: what one of forty machines has found out the others are told once, and no other machine
// than those; what ends sooner than what is known is not told; what has been lifted is; a machine that comes later is told
// what still holds; and one that does not answer is forgotten.
func TestAccountsAreToldToAllMachines(t *testing.T) {
	t.Parallel()
	var names []string
	for i := range 40 {
		names = append(names, fmt.Sprintf("m%02d", i))
	}
	m, next := playAccounts(t, AccountsArgs{Machines: names}, OrdersQueue("m39"), func(env *testsuite.TestWorkflowEnvironment) {
		at := func(after time.Duration, signal string, arg func() any) {
			env.RegisterDelayedCallback(func() { env.SignalWorkflow(signal, arg()) }, after)
		}
		five := func() time.Time { return env.Now().Add(5 * time.Hour) }
		at(time.Second, LimitSignal, func() any { return limitOf("a", "m00", five()) })
		at(2*time.Second, LimitSignal, func() any { return limitOf("a", "m07", env.Now().Add(time.Hour)) }) // sooner
		at(3*time.Second, LimitSignal, func() any { return limitOf("b", "m07", env.Now().Add(-time.Second)) })
		at(4*time.Second, LimitSignal, func() any { return limitOf("c", "m01", five()) })
		at(5*time.Second, LimitSignal, func() any { l := limitOf("c", "m02", five()); l.Lifted = true; return l })
		at(6*time.Second, LimitSignal, func() any { l := limitOf("never", "m02", five()); l.Lifted = true; return l })
		at(time.Hour, HelloSignal, func() any { return "late" })
	})
	count := func(machine, id string) (limited, lifted int) {
		for _, l := range m.by[OrdersQueue(machine)] {
			switch {
			case l.ID == id && l.Lifted:
				lifted++
			case l.ID == id:
				limited++
			}
		}
		return limited, lifted
	}
	for _, name := range names[:39] {
		a, none := count(name, "a")
		c, free := count(name, "c")
		wantA, wantC, wantFree := 1, 1, 1
		switch name {
		case "m00":
			wantA = 0
		case "m01":
			wantC = 0
		case "m02":
			wantFree = 0
		}
		b, _ := count(name, "b")
		never, lifted := count(name, "never")
		if a != wantA || none != 0 || c != wantC || free != wantFree || b+never+lifted != 0 {
			t.Errorf("%s was told %+v", name, m.by[OrdersQueue(name)])
		}
	}
	if a, _ := count("late", "a"); a != 1 || len(m.by[OrdersQueue("late")]) != 1 {
		t.Errorf("late was told %+v", m.by[OrdersQueue("late")])
	}
	if slices.Contains(next.Machines, "m39") || len(next.Machines) != 40 || !slices.IsSorted(next.Machines) || len(next.Limits) > 1 {
		t.Errorf("the next run begins with %+v", next)
	}
}

// TestAccountsGoOnAsANewRun: nothing is lost when the workflow goes on as a new run, and a new run knows what the last one knew.
func TestAccountsGoOnAsANewRun(t *testing.T) {
	t.Parallel()
	_, next := playAccounts(t, AccountsArgs{Machines: []string{"m1", "m2"}}, "", func(env *testsuite.TestWorkflowEnvironment) {
		env.RegisterDelayedCallback(func() {
			for i := range 10 { // in one moment
				env.SignalWorkflow(LimitSignal, limitOf(fmt.Sprint("a", i), "m1", env.Now().Add(100*time.Hour)))
			}
		}, 9*time.Hour)
	})
	if len(next.Limits) != 10 || len(next.Machines) != 2 {
		t.Fatalf("the next run begins with %+v", next)
	}
	m, _ := playAccounts(t, next, "", func(env *testsuite.TestWorkflowEnvironment) {
		env.RegisterDelayedCallback(func() { env.SignalWorkflow(HelloSignal, "m3") }, time.Minute)
	})
	if got := m.by[OrdersQueue("m3")]; len(got) != 10 || len(slices.Collect(maps.Keys(m.by))) > 2 {
		t.Errorf("m3 was told %+v", m.by)
	}
}
