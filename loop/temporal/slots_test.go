package temporal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/superloop/superloop/roles/agent"
)

// shared is the machines of a fleet whose roles share an account.
type shared struct {
	t    *testing.T
	env  *testsuite.TestWorkflowEnvironment
	does func(w Want, attempt int32) error // a role that has a slot; nil: it ends at once

	mu    sync.Mutex
	said  []string // "+" and an id where a role begins, "-" where it ends
	using int
}

func (m *shared) slot(ctx context.Context, w Want) error {
	info := activity.GetInfo(ctx)
	m.mu.Lock()
	if m.using++; m.using > w.Most && !w.Begun {
		m.t.Errorf("%s begins as number %d of %d", w.ID, m.using, w.Most)
	}
	if info.TaskQueue != OrdersQueue(w.Machine) || info.HeartbeatTimeout != w.beat() {
		m.t.Errorf("%+v on %s, silent for %s", w, info.TaskQueue, info.HeartbeatTimeout)
	}
	m.said = append(m.said, "+"+w.ID)
	m.mu.Unlock()
	defer func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.using--
		m.said = append(m.said, "-"+w.ID)
	}()
	if m.does == nil {
		return nil
	}
	return m.does(w, info.Attempt)
}

func (m *shared) want(all ...Want) {
	for _, w := range all {
		m.env.SignalWorkflow(WantSignal, w)
	}
}

// saw reports whether something was said, and tells how often.
func (m *shared) saw(what string) (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.said {
		if s == what {
			n++
		}
	}
	return n
}

// play runs the workflow until it ends, and returns what the next run begins with, if there is one.
func (m *shared) play(a AccountArgs, begin func()) (next AccountArgs, again bool) {
	m.t.Helper()
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	m.env = suite.NewTestWorkflowEnvironment()
	m.env.SetTestTimeout(time.Minute)
	m.env.RegisterActivityWithOptions(m.slot, activity.RegisterOptions{Name: SlotName})
	m.env.RegisterWorkflowWithOptions(Account, workflow.RegisterOptions{Name: AccountName})
	m.env.RegisterDelayedCallback(begin, 0)
	m.env.ExecuteWorkflow(AccountName, a)
	err := m.env.GetWorkflowError()
	if can, ok := errors.AsType[*workflow.ContinueAsNewError](err); ok {
		if err := converter.GetDefaultDataConverter().FromPayloads(can.Input, &next); err != nil {
			m.t.Fatal(err)
		}
		return next, true
	}
	if err != nil || !m.env.IsWorkflowCompleted() {
		m.t.Fatal(err)
	}
	return next, false
}

func wantOf(id string, most int) Want {
	machine, _, _ := strings.Cut(id, "/")
	return Want{ID: id, Machine: machine, Workflow: "w/" + id, Most: most, Beat: 5 * time.Second}
}

func oneAccount() AccountArgs {
	return AccountOf(agent.Account{Provider: "anthropic", ID: "a"}, "m1")
}

// TestSlotsAreGivenInOrder: one after the other in the order of asking, also when a role asks again; the workflow then ends.
func TestSlotsAreGivenInOrder(t *testing.T) {
	t.Parallel()
	m := &shared{t: t}
	var want []string
	if _, again := m.play(oneAccount(), func() {
		for i := range 20 {
			w := wantOf(fmt.Sprintf("m%d/%d", i%3, i), 1)
			m.want(w, w, wantOf("m0/0", 1))
			want = append(want, "+"+w.ID, "-"+w.ID)
		}
	}); again || !slices.Equal(m.said, want) {
		t.Errorf("%v", m.said)
	}
}

// TestSlotsOfDifferentBounds: a role whose machine has a lower bound begins when it fits, and none overtakes it. No role begins
// beyond its bound, which slot looks at.
func TestSlotsOfDifferentBounds(t *testing.T) {
	t.Parallel()
	m := &shared{t: t}
	last := make(chan struct{})
	m.does = func(w Want, _ int32) error {
		switch w.ID {
		case "m1/a", "m1/b":
			for m.saw("+m1/a")+m.saw("+m1/b") < 2 {
				<-time.After(time.Millisecond)
			}
			if m.saw("+m2/low")+m.saw("+m3/high") > 0 {
				t.Error("the next ones have begun")
			}
			<-time.After(20 * time.Millisecond)
		case "m2/low":
			<-last
		case "m3/high":
			close(last) // it has a slot beside the one before it
		}
		return nil
	}
	m.play(oneAccount(), func() {
		m.want(wantOf("m1/a", 2), wantOf("m1/b", 2), wantOf("m2/low", 1), wantOf("m3/high", 3))
	})
	if len(m.said) != 8 {
		t.Errorf("%v", m.said)
	}
}

// TestSlotOfAMachineThatIsGone: a machine that was silent keeps its slot if it is there when it is asked again. If it is not, its
// slot is free, and what it has asked for besides is forgotten; it asks again when it is back.
func TestSlotOfAMachineThatIsGone(t *testing.T) {
	t.Parallel()
	m := &shared{t: t}
	m.does = func(w Want, attempt int32) error {
		switch {
		case attempt == 1 && w.Machine != "m3":
			return temporal.NewHeartbeatTimeoutError()
		case w.Machine == "gone":
			return temporal.NewTimeoutError(enumspb.TIMEOUT_TYPE_SCHEDULE_TO_START, nil)
		case w.ID == "m1/a":
			if m.saw("+gone/1")+m.saw("+m3/last") > 0 {
				t.Error("the slot was given to another one")
			}
		case w.ID == "m3/last" && m.saw("+gone/back") == 0:
			m.want(wantOf("gone/back", 1))
		}
		return nil
	}
	m.play(oneAccount(), func() {
		m.want(wantOf("m1/a", 1), wantOf("gone/1", 1), wantOf("gone/2", 1), wantOf("m3/last", 1), wantOf("gone/3", 1))
	})
	for id, n := range map[string]int{"m1/a": 2, "gone/1": 2, "gone/2": 0, "gone/3": 0, "m3/last": 1, "gone/back": 2} {
		if got := m.saw("+" + id); got != n {
			t.Errorf("%s began %d times, not %d: %v", id, got, n, m.said)
		}
	}
}

// TestSlotsGoOnAsANewRun: a new run has the slots in use and the roles that wait, in their order, and the query
// says the same.
func TestSlotsGoOnAsANewRun(t *testing.T) {
	t.Parallel()
	m := &shared{t: t}
	on := make(chan struct{})
	m.does = func(Want, int32) error { <-on; return nil }
	all := []Want{wantOf("m1/a", 2), wantOf("m2/b", 2), wantOf("m1/c", 2), wantOf("m3/d", 2), wantOf("m3/late", 2)}
	next, again := m.play(oneAccount(), func() {
		m.want(all[:4]...)
		m.env.RegisterDelayedCallback(func() {
			got, err := m.env.QueryWorkflow(SlotsQuery)
			var said AccountArgs
			if err == nil {
				err = got.Get(&said)
			}
			if err != nil || !slices.Equal(said.Used, all[:2]) || !slices.Equal(said.Waiting, all[2:4]) {
				t.Errorf("%+v %v", said, err)
			}
			m.want(all[4])
		}, 50*time.Millisecond)
		m.env.RegisterDelayedCallback(func() { m.env.SetContinueAsNewSuggested(true) }, 100*time.Millisecond)
	})
	if !again || !slices.Equal(next.Used, all[:2]) || !slices.Equal(next.Waiting, all[2:]) || next.Account != oneAccount().Account {
		t.Fatalf("%v %+v", again, next)
	}
	close(on)
	m = &shared{t: t}
	m.does = func(w Want, _ int32) error {
		if w.ID == "m1/c" && m.saw("+m1/a")+m.saw("+m2/b") < 2 {
			t.Error("a role that has waited begins before those that have slots")
		}
		return nil
	}
	if _, again := m.play(next, func() {}); again || len(m.said) != 2*len(all) {
		t.Errorf("%v %v", again, m.said)
	}
}

// TestRoleThatHasBegunCounts: a role whose slot the fleet has forgotten counts at once, beyond the bound, and no other one begins
// until all fit. One that waits no more gets no slot.
func TestRoleThatHasBegunCounts(t *testing.T) {
	t.Parallel()
	m := &shared{t: t}
	back, waits := wantOf("m2/back", 1), wantOf("m3/waits", 1)
	back.Begun = true
	m.does = func(w Want, _ int32) error {
		switch w.ID {
		case "m1/a":
			gone := wantOf("m3/gone", 1)
			m.want(gone, waits)
			gone.Left = true
			for m.want(gone, back); m.saw("+m2/back") == 0; {
				<-time.After(time.Millisecond)
			}
		case "m2/back":
			for m.saw("-m1/a") == 0 {
				<-time.After(time.Millisecond)
			}
			<-time.After(20 * time.Millisecond)
		}
		return nil
	}
	m.play(oneAccount(), func() { m.want(wantOf("m1/a", 1)) })
	if want := []string{"+m1/a", "+m2/back", "-m1/a", "-m2/back", "+m3/waits", "-m3/waits"}; !slices.Equal(m.said, want) {
		t.Errorf("%v", m.said)
	}
}

// TestAccountsHaveTheirOwnWorkflows: the same account has the same workflow from every machine, unless only its machine can tell
// it apart.
func TestAccountsHaveTheirOwnWorkflows(t *testing.T) {
	t.Parallel()
	id := func(provider, account, machine string) string {
		return AccountOf(agent.Account{Provider: provider, ID: account}, machine).WorkflowID("f")
	}
	if id("anthropic", "a", "m1") != id("anthropic", "a", "m2") || !strings.HasPrefix(id("anthropic", "a", "m1"), "superloop/f/account/anthropic/") {
		t.Error(id("anthropic", "a", "m1"), id("anthropic", "a", "m2"))
	}
	ids := []string{id("anthropic", "a", "m1"), id("openai", "a", "m1"), id("anthropic", "b", "m1"), id("anthropic", "here-a", "m1"), id("anthropic", "here-a", "m2")}
	if slices.Sort(ids); len(slices.Compact(ids)) != 5 {
		t.Errorf("%q", ids)
	}
}
