package temporal

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/superloop/superloop/roles/agent"
	"github.com/superloop/superloop/roles/agent/cooldown"
)

// The names of the workflow that knows which accounts of the fleet are limited. Histories hold them, so they never change.
const (
	AccountsName = "accounts" // the type of the workflow
	LimitSignal  = "limit"    // a machine has met the end of a limit, or its beginning; takes a Limit
	HelloSignal  = "hello"    // a machine wants to hear of limits; takes its id
	LimitsName   = "limits"   // the activity that tells a machine; takes []Limit
	LimitsQuery  = "limits"   // returns []Limit
)

// AccountsID returns the id of that workflow.
func AccountsID(fleet string) string { return "superloop/" + fleet + "/" + AccountsName }

// Limit says that an account is limited, or that it is so no more.
type Limit struct {
	cooldown.Cooldown
	Lifted bool `json:"lifted,omitempty"`
	// Machine is the one that has found it out.
	Machine string `json:"machine"`
}

// AccountsArgs begin the workflow of the accounts, or continue it as a new run.
type AccountsArgs struct {
	Limits   []Limit  `json:"limits,omitempty"`
	Machines []string `json:"machines,omitempty"`
}

const (
	maxSignals = 2000             // how many signals a run of the workflow takes
	tellTime   = 20 * time.Second // how long telling a machine may take; a worker that is killed may take the news with it
	silentTime = time.Hour        // how long a machine may be away before nothing is kept for it; its worker says hello more often than that
)

// accounts passes on what one machine has found out about an account to all others, so that a fleet meets a limit once.
// For each machine there is one activity at most; what comes meanwhile goes with the next one.
type accounts struct {
	limits   map[agent.Account]Limit
	news     map[string]map[agent.Account]Limit // by machine: what it has not been told
	telling  int
	signals  int
	machines map[string]bool // whether an activity is under way
}

// Accounts is the workflow.
func Accounts(ctx workflow.Context, a AccountsArgs) error {
	s := &accounts{limits: map[agent.Account]Limit{}, news: map[string]map[agent.Account]Limit{}, machines: map[string]bool{}}
	for _, l := range a.Limits {
		s.limits[l.Account] = l
	}
	for _, m := range a.Machines {
		s.machines[m] = false
	}
	if err := workflow.SetQueryHandler(ctx, LimitsQuery, func() ([]Limit, error) { return s.list(), nil }); err != nil {
		return err
	}
	limits, hellos := workflow.GetSignalChannel(ctx, LimitSignal), workflow.GetSignalChannel(ctx, HelloSignal)
	heard := workflow.NewSelector(ctx)
	heard.AddReceive(limits, func(c workflow.ReceiveChannel, _ bool) {
		var l Limit
		c.Receive(ctx, &l)
		s.signals++
		s.hear(workflow.Now(ctx), l)
	})
	heard.AddReceive(hellos, func(c workflow.ReceiveChannel, _ bool) {
		var m string
		c.Receive(ctx, &m)
		s.signals++
		s.greet(workflow.Now(ctx), m)
	})
	for {
		over := func() bool {
			return s.telling == 0 && (s.signals >= maxSignals || workflow.GetInfo(ctx).GetContinueAsNewSuggested())
		}
		if err := workflow.Await(ctx, func() bool { return heard.HasPending() || over() }); err != nil {
			return err
		}
		if !heard.HasPending() { // a signal that is not received is lost with its run
			break
		}
		for heard.HasPending() {
			heard.Select(ctx)
		}
		s.tell(ctx)
	}
	return workflow.NewContinueAsNewError(ctx, AccountsName, AccountsArgs{Limits: s.list(), Machines: slices.Sorted(maps.Keys(s.machines))})
}

func (s *accounts) list() (all []Limit) {
	for _, account := range sorted(s.limits) {
		all = append(all, s.limits[account])
	}
	return all
}

// hear takes a limit, unless what is known ends later.
func (s *accounts) hear(now time.Time, l Limit) {
	known, ok := s.limits[l.Account]
	switch {
	case l.Lifted && !ok, !l.Lifted && ok && !l.Until.After(known.Until), !l.Lifted && !l.Until.After(now):
		return
	case l.Lifted:
		delete(s.limits, l.Account)
	default:
		s.limits[l.Account] = l
	}
	for m := range s.machines {
		if m != l.Machine {
			s.note(m, l)
		}
	}
}

// greet takes a machine in, and tells it all limits.
func (s *accounts) greet(now time.Time, m string) {
	if _, known := s.machines[m]; !known {
		s.machines[m] = false
	}
	for account, l := range s.limits {
		if l.Until.After(now) {
			s.note(m, l)
		} else {
			delete(s.limits, account)
		}
	}
}

func (s *accounts) note(machine string, l Limit) {
	if s.news[machine] == nil {
		s.news[machine] = map[agent.Account]Limit{}
	}
	s.news[machine][l.Account] = l
}

// tell tells each machine its news.
func (s *accounts) tell(ctx workflow.Context) {
	for _, m := range slices.Sorted(maps.Keys(s.news)) {
		if s.machines[m] {
			continue
		}
		s.machines[m] = true
		s.telling++
		workflow.Go(ctx, func(ctx workflow.Context) {
			defer func() { s.telling-- }()
			for len(s.news[m]) > 0 {
				var list []Limit
				for _, account := range sorted(s.news[m]) {
					list = append(list, s.news[m][account])
				}
				delete(s.news, m)
				o := workflow.ActivityOptions{TaskQueue: OrdersQueue(m), ScheduleToStartTimeout: silentTime, StartToCloseTimeout: tellTime, Summary: fmt.Sprint(len(list), " accounts"),
					RetryPolicy: &temporal.RetryPolicy{InitialInterval: time.Second, MaximumAttempts: 5}}
				if err := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, o), LimitsName, list).Get(ctx, nil); err != nil {
					delete(s.machines, m) // it says hello when it is there again
					delete(s.news, m)
					return
				}
			}
			s.machines[m] = false
		})
	}
}

func sorted(limits map[agent.Account]Limit) []agent.Account {
	return slices.SortedFunc(maps.Keys(limits), func(a, b agent.Account) int {
		return cmp.Or(cmp.Compare(a.Provider, b.Provider), cmp.Compare(a.ID, b.ID))
	})
}

// TellAccounts sends a signal to the workflow of the accounts, and begins it where there is none.
func TellAccounts(ctx context.Context, c client.Client, fleet, signal string, arg any) error {
	_, err := c.SignalWithStartWorkflow(ctx, AccountsID(fleet), signal, arg, client.StartWorkflowOptions{TaskQueue: ControlQueue, WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING}, AccountsName, AccountsArgs{})
	if err != nil {
		return fmt.Errorf("telling the fleet about its accounts: %w", err)
	}
	return nil
}
