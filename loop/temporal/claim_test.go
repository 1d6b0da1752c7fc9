package temporal

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/host"
)

func signedStart(t testing.TB, key ed25519.PrivateKey) Start {
	t.Helper()
	s, err := Start{Workflow: PoolWorkflowID("f", "git://h/shop.git", "shop"), Remote: "git://h/shop.git", Loop: "shop", Pool: "p", Digest: "d", By: "ann", At: then}.Sign(key)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestStarts: a machine of a pool takes a loop only as a gateway has signed its start, and asks nobody before it has looked.
func TestStarts(t *testing.T) {
	t.Parallel()
	public, private := gateway(t)
	_, foreign := gateway(t)
	good := signedStart(t, private)
	again := func(change func(*Start)) Start {
		s := good
		change(&s)
		s, _ = s.Sign(private)
		return s
	}
	for name, s := range map[string]Start{
		"no signature":         func() Start { s := good; s.Signature = nil; return s }(),
		"a foreign one":        signedStart(t, foreign),
		"another remote":       func() Start { s := good; s.Remote = "git://evil/shop.git"; return s }(),
		"another digest":       func() Start { s := good; s.Digest = "e"; return s }(),
		"another pool":         func() Start { s := good; s.Pool = "q"; return s }(),
		"a pool that it lacks": again(func(s *Start) { s.Pool = "q" }),
		"another workflow":     again(func(s *Start) { s.Workflow = "w" }),
	} {
		m := newTeam(t)
		if _, err := claims(m, public, s); err == nil || !strings.Contains(err.Error(), "refuses to take loop shop") {
			t.Errorf("%s: %v", name, err)
		}
		if len(m.claims) > 0 {
			t.Errorf("%s: the machine was asked", name)
		}
	}
	m := newTeam(t)
	if got, err := claims(m, public, good); err != nil || got.Machine != "m1" || m.claims[0].Grant != good.Grant() || m.claims[0].Since != 7 || string(m.claims[0].Keys[0]) != "k" {
		t.Errorf("%+v %v %+v", got, err, m.claims)
	}
	// What a gateway signs as a decision is no start.
	d, err := Decision{Workflow: good.Workflow, By: "ann", At: then}.Sign(private)
	if err != nil {
		t.Fatal(err)
	}
	s := Start{Workflow: d.Workflow, By: d.By, At: d.At, Signature: d.Signature}
	if s.Verify([][]byte{public}) == nil {
		t.Error("a decision is a start")
	}
}

func claims(m *team, public []byte, s Start) (out Claimed, err error) {
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestActivityEnvironment()
	machine := &Machine{Host: m, Fleet: "f", ID: "m1", Gateways: [][]byte{public}, Pools: []string{"p"}, Keys: [][]byte{[]byte("k")}}
	env.RegisterActivity(machine.claim)
	got, err := env.ExecuteActivity(machine.claim, Wanted{s, 7})
	if err == nil {
		err = got.Get(&out)
	}
	return out, err
}

// team is machines that have one recorded loop after the other. Each claim gives it to the next machine.
type team struct {
	*recorded
	mu     sync.Mutex
	claims []host.Claim
	leaves func(turn int) (left bool, err error)
	turns  int
	places []string // of turns
}

func newTeam(t *testing.T) *team { return &team{recorded: record(t, "rules1-role.jsonl")} }

func (m *team) Claim(_ context.Context, c host.Claim) (host.Place, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.claims = append(m.claims, c)
	return host.Place{Repo: fmt.Sprintf("/machine/%d", len(m.claims)), Loop: c.Loop}, nil
}

func (m *team) Turn(ctx context.Context, t host.Turn) (host.Turned, error) {
	m.mu.Lock()
	m.turns++
	m.places = append(m.places, t.Repo)
	now, at := m.turns, fmt.Sprintf("/machine/%d", len(m.claims))
	m.mu.Unlock()
	if t.Repo != at {
		return host.Turned{}, &host.Error{Text: "a turn for a machine that has no loop", Final: true}
	}
	if m.leaves != nil {
		if left, err := m.leaves(now); left || err != nil {
			return host.Turned{LetGo: left}, err
		}
	}
	return m.recorded.Turn(ctx, t)
}

// unbound runs a workflow of a loop that is bound to no machine.
func unbound(t *testing.T, m *team) (*testsuite.TestWorkflowEnvironment, Args) {
	public, private := gateway(t)
	return unboundOf(t, m, m, public, private)
}

func unboundOf(t *testing.T, asked Asked, m *team, public, private []byte) (*testsuite.TestWorkflowEnvironment, Args) {
	s := signedStart(t, private)
	machine := &Machine{Host: asked, Fleet: "f", ID: "m1", Gateways: [][]byte{public}, Pools: []string{"p"}, Keys: [][]byte{[]byte("k")}, Carried: func(host.Place) string { return s.Workflow }}
	env := environmentOf(machine)
	env.SetStartWorkflowOptions(client.StartWorkflowOptions{ID: s.Workflow})
	machine.RegisterClaim(env)
	m.begun = func(host.Rest) {}
	env.SetStartTime(m.lines[0].Timestamp)
	return env, Args{Place: host.Place{Loop: "shop"}, Start: &s, Gateways: [][]byte{public}}
}

// TestClaimed: a loop goes to the next machine when its own lets it go, has lost it, or is silent. The next one is asked for what
// the workflow knows, and the loop ends where its journal does.
func TestClaimed(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func() (bool, error){
		"let go": func() (bool, error) { return true, nil },
		"lost":   func() (bool, error) { return false, &host.Error{Text: "another machine has it", Moved: true} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newTeam(t)
			m.leaves = func(turn int) (bool, error) {
				if slices.Contains([]int{1, 3, 6, 7}, turn) {
					return leave()
				}
				return false, nil
			}
			env, a := unbound(t, m)
			got := runs(t, env, a)
			if want := whole(t, m.lines); got.Seq != int64(len(m.lines)) || got.Status != want.Status {
				t.Errorf("%+v", got)
			}
			if len(m.claims) != 5 || m.claims[4].Since <= m.claims[1].Since {
				t.Errorf("%d claims: %+v", len(m.claims), m.claims)
			}
		})
	}
}

// hangs is a team whose first machine answers a verb only when another one was asked.
type hangs struct {
	*team
	other chan struct{}
	verbs []host.Verb
}

func (m *hangs) Verb(_ context.Context, v host.Verb) ([]byte, error) {
	m.mu.Lock()
	m.verbs = append(m.verbs, v)
	n := len(m.verbs)
	m.mu.Unlock()
	switch n {
	case 1:
		<-m.other
	case 2:
		close(m.other)
	}
	return nil, nil
}

// TestDecisionMoves: a decision that waits for a machine goes to the next one together with the loop.
func TestDecisionMoves(t *testing.T) {
	t.Parallel()
	m := &hangs{team: &team{recorded: record(t, "rules1-human.jsonl")}, other: make(chan struct{})}
	public, private := gateway(t)
	env, a := unboundOf(t, m, m.team, public, private)
	asked, left := false, false
	m.leaves = func(int) (bool, error) {
		now := m.said() == 1 && !left
		left = left || now
		return now, nil
	}
	m.begun = func(host.Rest) {
		if asked {
			return
		}
		asked = true
		s := m.fold.State
		env.RegisterDelayedCallback(func() {
			d, _ := Decision{Decision: loop.Decision{Kind: loop.DecideAnswer, RunID: s.RunID, ID: s.Human.Question, Digest: s.Human.Digest, Method: loop.MethodApprove}, Workflow: a.Start.Workflow, By: "ann", At: env.Now()}.Sign(private)
			env.UpdateWorkflow(DecideUpdate, "u", &answered{reject: func(err error) { t.Error(err) }, complete: func(_ any, err error) {
				if err != nil {
					t.Error(err)
				}
			}}, d)
			go func() { // the journal has gone on, of which the machine told
				for m.said() == 0 {
					<-time.After(time.Millisecond)
				}
				env.SignalWorkflow(StirSignal, nil)
			}()
		}, time.Minute)
	}
	runs(t, env, a)
	if len(m.verbs) != 2 || m.verbs[0].Again || !m.verbs[1].Again || m.verbs[0].ID != m.verbs[1].ID || m.verbs[0].Of == m.verbs[1].Of {
		t.Errorf("%+v", m.verbs)
	}
}

func (m *hangs) said() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.verbs)
}

// TestRefusedClaim: a claim that every machine refuses ends the workflow and says why.
func TestRefusedClaim(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	env, a := unbound(t, m)
	a.Start.Digest = "another"
	env.SetTestTimeout(30 * time.Second)
	env.ExecuteWorkflow(WorkflowName, a)
	err := env.GetWorkflowError()
	if app, ok := errors.AsType[*temporal.ApplicationError](err); !ok || app.Type() != FinalError || !strings.Contains(app.Message(), "no gateway of this fleet has signed it") {
		t.Error(err)
	}
}

// TestSilent: what counts as a machine that is gone. A bound loop waits for its machine.
func TestSilent(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		left bool
	}{
		{temporal.NewTimeoutError(enumspb.TIMEOUT_TYPE_HEARTBEAT, nil), true},
		{temporal.NewTimeoutError(enumspb.TIMEOUT_TYPE_SCHEDULE_TO_START, nil), true},
		{temporal.NewTimeoutError(enumspb.TIMEOUT_TYPE_START_TO_CLOSE, nil), false},
		{temporal.NewApplicationError("x", MovedError), true},
		{temporal.NewApplicationError("x", FinalError), false},
		{nil, false},
	} {
		d := &driver{a: Args{Start: &Start{}, Machine: "m1", Place: host.Place{Repo: "/r"}}}
		if got := d.left("m1", c.err); got != c.left {
			t.Errorf("%v: %v", c.err, got)
		}
		if d.leave("m0"); d.a.Machine != "m1" {
			t.Error("it leaves another machine")
		}
		if d.leave("m1"); d.a.Machine != "" || d.a.Repo != "" {
			t.Error("it does not leave")
		}
		bound := &driver{a: Args{Machine: "m1"}}
		if bound.left("m1", c.err) {
			t.Errorf("a bound loop leaves its machine: %v", c.err)
		}
		if bound.leave("m1"); bound.a.Machine != "m1" {
			t.Error("a bound loop leaves its machine")
		}
	}
}

// TestDrain: a machine that drains lets unbound loops go, has bound ones wait, and takes none; what is under way ends by itself or
// is interrupted.
func TestDrain(t *testing.T) {
	t.Parallel()
	m := &Machine{ID: "m1", Slots: 1}
	stopped := 0
	leave, over, err := m.drain.begin(func() { stopped++ }, "m1", true)
	if leave || err != nil {
		t.Fatal(leave, err)
	}
	var app *temporal.ApplicationError
	if _, err := m.claimed(t.Context(), newTeam(t), Wanted{}); !errors.As(err, &app) || app.NonRetryable() || app.NextRetryDelay() == 0 {
		t.Errorf("a machine without a free place takes a loop: %v", err)
	}
	m.Drain(true)
	if leave, done, err := m.drain.begin(func() {}, "m1", true); !leave || err != nil {
		t.Error(leave, err)
	} else {
		done()
	}
	if _, _, err := m.drain.begin(nil, "m1", false); !errors.As(err, &app) || app.NonRetryable() || !strings.Contains(err.Error(), "superloop-fleet undrain") {
		t.Errorf("a bound loop: %v", err)
	}
	if m.Interrupt(); stopped != 1 {
		t.Errorf("%d turns were stopped", stopped)
	}
	over()
	if m.Interrupt(); stopped != 1 {
		t.Error("a turn is stopped that was over")
	}
	if _, err := m.claimed(t.Context(), newTeam(t), Wanted{}); !errors.As(err, &app) || !strings.Contains(err.Error(), "drains") {
		t.Errorf("it takes a loop: %v", err)
	}
	m.Drain(false)
	if leave, _, err := m.drain.begin(nil, "m1", false); leave || err != nil {
		t.Error(leave, err)
	}
}
