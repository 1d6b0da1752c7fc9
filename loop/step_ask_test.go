package loop

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/superloop/superloop/roles/agent/class"
)

func agentBench(t testing.TB, p Plan) *bench {
	b := &bench{t: t, now: t0}
	b.do(Started{Plan: p, Rules: CurrentRules})
	return b
}

// fails answers the pending role with a failure of a class.
func (b *bench) fails(failure class.Class, more func(*RoleEnded)) {
	b.t.Helper()
	p := b.s.Pending
	f := RoleEnded{Role: p.Role, Runner: "claude", Attempt: p.Attempt, Outcome: OutcomeError, Class: string(failure), Error: "told so"}
	if failure.Waits() {
		f.Limit = &LimitFact{Provider: "anthropic", Account: "a1", Until: b.now.Add(time.Minute), Text: "told so"}
	}
	if more != nil {
		more(&f)
	}
	b.do(f)
}

func TestLimitWaitsAndCostsNothing(t *testing.T) {
	t.Parallel()
	for _, failure := range []class.Class{class.Limit, class.Overloaded, class.Network} {
		b := agentBench(t, basicPlan())
		for range 20 { // far more than the attempts that a role has
			active := b.s.ActiveMS
			b.fails(failure, nil)
			if b.s.Status != RateLimited || b.s.Failures != 0 || b.s.Iteration != 1 || b.s.Pending.Kind != Wait {
				t.Fatalf("%s: %+v", failure, b.s)
			}
			if b.s.Limit.Provider != "anthropic" || !b.s.Pending.Until.Equal(b.s.Limit.Until) {
				t.Fatalf("%s: %+v", failure, b.s.Limit)
			}
			b.now = b.now.Add(time.Hour)
			id := b.s.Pending.ID
			b.do(WaitOver{ID: id})
			if b.s.Status != Running || b.s.Limit != nil || b.s.Pending.Kind != RunRole || b.s.Pending.Reason != ReasonLimitOver {
				t.Fatalf("%s: after the wait: %+v", failure, b.s)
			}
			if waited := b.s.ActiveMS - active; waited > 5000 {
				t.Fatalf("%s: the wait counted as %d ms of active time", failure, waited)
			}
			b.do(WaitOver{ID: id}) // late: nothing
		}
		if b.s.Attempt != 21 {
			t.Errorf("attempt %d", b.s.Attempt)
		}
		if n := strings.Count(strings.Join(b.notes, " "), "rate_limit_over"); n != 20 {
			t.Errorf("%d times over", n)
		}
	}
}

// Conforms: 003-c2.6-prevent
func TestSharedLimitStartsNoRole(t *testing.T) {
	t.Parallel()
	b := agentBench(t, basicPlan())
	b.do(Limited{Role: "planner", Runner: "claude", Class: "rate_limited", Source: SourceShared, By: "other",
		LimitFact: LimitFact{Provider: "anthropic", Account: "a1", Until: b.now.Add(time.Minute)}})
	if b.s.Status != RateLimited || b.s.Attempt != 1 || b.s.Pending.Kind != Wait {
		t.Fatalf("%+v", b.s)
	}
	if slices.Contains(b.notes, "rate_limit_wait") {
		t.Error("the fact itself is the record")
	}
	b.do(Resumed{Plan: b.s.Plan, Status: RateLimited})
	if b.s.Status != RateLimited || b.s.Pending.Kind != Wait || len(b.eff) != 1 {
		t.Fatalf("resumed: %+v", b.s)
	}
	b.do(WaitOver{ID: b.s.Pending.ID, Reason: "kicked", By: "ann", IntentID: "x"})
	if b.s.Status != Running || b.s.Pending.Kind != RunRole {
		t.Fatalf("%+v", b.s)
	}
}

func TestLimitSurvivesThePause(t *testing.T) {
	t.Parallel()
	b := agentBench(t, basicPlan())
	b.fails(class.Limit, nil)
	wait := *b.s.Pending
	b.do(Stopped{Status: Paused, Reason: ReasonInterrupted})
	b.do(Resumed{Plan: b.s.Plan, Status: b.s.Status, Rules: CurrentRules})
	if b.s.Status != RateLimited || !reflect.DeepEqual(*b.s.Pending, wait) || b.s.Limit == nil {
		t.Fatalf("%+v", b.s)
	}
}

func TestAuthAsksAPerson(t *testing.T) {
	t.Parallel()
	for _, failure := range []class.Class{class.Auth, class.Billing} {
		b := agentBench(t, basicPlan())
		b.fails(failure, func(f *RoleEnded) { f.Fix = "claude /login" })
		if b.s.Status != AwaitingHuman || b.s.Human.Fix != "claude /login" || b.s.Pending.Kind != AskHuman || b.s.Failures != 0 {
			t.Fatalf("%s: %+v", failure, b.s)
		}
		b.do(Escalated{ID: b.s.Human.ID, Type: EscalationRunner})
		again := b.s
		b.do(Resolved{ID: "another", By: "ann"})
		if b.s.Status != AwaitingHuman {
			t.Fatal("the answer to another question counts")
		}
		b.do(Resolved{ID: b.s.Human.ID, By: "ann", Method: "manual"})
		if b.s.Status != Running || b.s.Human != nil || b.s.Pending.Reason != ReasonAnswered {
			t.Fatalf("%s: %+v", failure, b.s)
		}
		b.s = again
		b.do(Resumed{Plan: b.s.Plan, Status: AwaitingHuman})
		if b.s.Status != AwaitingHuman || b.s.Pending.Kind != AskHuman || !b.s.Begun || len(b.eff) != 1 {
			t.Fatalf("%s: the question has a record and is not put again: %+v", failure, b.s)
		}
	}
}

func TestMisconfiguredRunnerIsNotRetried(t *testing.T) {
	t.Parallel()
	for _, failure := range []class.Class{class.Model, class.Config} {
		b := agentBench(t, basicPlan())
		b.fails(failure, nil)
		if b.s.Status != Failed || b.s.Reason != ReasonMisconfigured || !strings.Contains(b.s.Detail, "told so") {
			t.Errorf("%s: %+v", failure, b.s)
		}
	}
}

func TestOtherClassesCount(t *testing.T) {
	t.Parallel()
	for _, failure := range []class.Class{class.Context, class.Refused, class.NoResult, class.Unknown, class.Request, class.Turns} {
		b := agentBench(t, basicPlan())
		b.fails(failure, nil)
		if b.s.Failures != 1 {
			t.Errorf("%s: %+v", failure, b.s)
		}
	}
}

func TestSessions(t *testing.T) {
	t.Parallel()
	b := agentBench(t, basicPlan())
	end := func(outcome string, failure class.Class, id, totals string) {
		f := RoleEnded{Role: b.s.Pending.Role, Runner: "codex", Attempt: b.s.Pending.Attempt, Outcome: outcome, Class: string(failure), SessionID: id}
		if totals != "" {
			f.SessionTotals = json.RawMessage(totals)
		}
		b.do(f)
	}
	end(OutcomeOK, "", "s1", `{"usage":{"Input":5}}`)
	if s := b.s.Sessions["planner"]; s.ID != "s1" || string(s.Totals) != `{"usage":{"Input":5}}` {
		t.Fatalf("%+v", b.s.Sessions)
	}
	end(OutcomeOK, "", "s2", "")
	b.good(false) // tests
	b.s.Sessions["tester"] = SessionState{ID: "gone", Runner: "codex"}
	end(OutcomeExit, class.Session, "", "")
	if _, ok := b.s.Sessions["tester"]; ok || b.s.Failures != 0 || b.s.Pending.Reason != ReasonNewSession {
		t.Fatalf("a session that is gone: %+v", b.s)
	}
	end(OutcomeExit, class.Session, "", "")
	if b.s.Failures != 1 {
		t.Error("it can only be gone once")
	}
}

func spending(b *bench, usd float64, tokens int64) {
	p := b.s.Pending
	f := RoleEnded{Role: p.Role, Runner: "claude", Attempt: p.Attempt, Outcome: OutcomeOK, Output: "fresh"}
	if usd >= 0 {
		f.CostUSD = &usd
	}
	if tokens >= 0 {
		f.Usage = &Usage{Output: &tokens}
	}
	b.do(f)
}

func TestBudgets(t *testing.T) {
	t.Parallel()
	p := basicPlan()
	p.Tests, p.Roles = "disabled", []string{"implementer", "reviewer"}
	iteration := func(b *bench, usd float64, tokens int64) {
		for b.s.Pending != nil && (b.s.Pending.Kind != RunRole || b.s.Pending.Role != "implementer" || b.s.Attempt == 0) {
			b.good(false)
		}
		n := b.s.Iteration
		for b.s.Pending != nil && b.s.Iteration == n {
			if b.s.Pending.Kind == RunRole {
				spending(b, usd, tokens)
			} else {
				b.good(false)
			}
		}
	}
	cases := map[string]struct {
		cost   float64
		tokens int64
		usd    float64
		each   int64
		reason string
		runs   int
	}{
		"spent":                       {cost: 0.4, usd: 0.2, each: 1, reason: ReasonMaxCost, runs: 2},
		"the next would go over":      {cost: 0.5, usd: 0.2, each: 1, reason: ReasonMaxCost, runs: 2},
		"tokens":                      {tokens: 350, usd: -1, each: 100, reason: ReasonMaxTokens, runs: 3},
		"cost unknown under a bound":  {cost: 1, usd: -1, each: 100, reason: ReasonCostUnknown, runs: 1},
		"tokens unknown, not bounded": {cost: 0.4, usd: 0.2, each: -1, reason: ReasonMaxCost, runs: 2},
		"no bound":                    {usd: 5, each: 5, reason: ReasonMaxIterations, runs: 10},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := p
			p.MaxCostUSD, p.MaxTokens = c.cost, c.tokens
			b := agentBench(t, p)
			for b.s.Pending != nil {
				iteration(b, c.usd, c.each)
			}
			if b.s.Status != LimitReached || b.s.Reason != c.reason || b.s.Spent.Runs != c.runs {
				t.Fatalf("%s %s (%s) after %d runs", b.s.Status, b.s.Reason, b.s.Detail, b.s.Spent.Runs)
			}
			if reached := slices.Contains(b.notes, "budget_reached"); reached != (c.reason == ReasonMaxCost || c.reason == ReasonMaxTokens) {
				t.Errorf("%v", b.notes)
			}
			if c.reason != ReasonMaxIterations {
				up := b.s.Plan
				up.MaxCostUSD, up.MaxTokens = 0, 0
				b.do(Resumed{Plan: up, Status: LimitReached, Rules: CurrentRules})
				if b.s.Status != Running || b.s.Pending.Kind != RunRole {
					t.Errorf("with the bound away: %+v", b.s)
				}
			}
		})
	}
}

func TestMoneyLeftIsPassedDown(t *testing.T) {
	t.Parallel()
	p := basicPlan()
	p.MaxCostUSD = 2
	b := agentBench(t, p)
	if b.s.Pending.MaxCostUSD != 2 {
		t.Errorf("%v", b.s.Pending.MaxCostUSD)
	}
	spending(b, 0.5, 10)
	if b.s.Pending.MaxCostUSD != 1.5 {
		t.Errorf("%v", b.s.Pending.MaxCostUSD)
	}
}

// The estimate is one of the values that were seen, and nine in ten of them are
// not above it.
func TestExpectedProperty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		h := rapid.SliceOfN(rapid.Int64Range(0, 1000), 1, historyLength).Draw(t, "history")
		e := expected(h)
		below := 0
		for _, v := range h {
			if v <= e {
				below++
			}
		}
		if !slices.Contains(h, e) || below*10 < len(h)*9 {
			t.Fatalf("%d of %v", e, h)
		}
	})
	if expected[int64](nil) != 0 {
		t.Error("no history, no estimate")
	}
}

// classFact is a role's failure of any class, or its success with any figures.
func classFact(rt *rapid.T, b *bench) Fact {
	p := b.s.Pending
	failure := rapid.SampledFrom([]class.Class{class.None, class.Limit, class.Overloaded, class.Auth, class.Model, class.Session,
		class.Context, class.Budget, class.NoResult}).Draw(rt, "class")
	f := RoleEnded{Role: p.Role, Attempt: p.Attempt, Outcome: OutcomeError, Class: string(failure), SessionID: rapid.SampledFrom([]string{"", "s1"}).Draw(rt, "session")}
	if failure == class.None {
		f.Outcome = OutcomeOK
	}
	if failure.Waits() {
		f.Limit = &LimitFact{Provider: "p", Account: "a", Until: b.now.Add(time.Minute)}
	}
	if usd := rapid.Float64Range(-0.2, 0.5).Draw(rt, "usd"); usd >= 0 {
		f.CostUSD = &usd
	}
	if n := rapid.Int64Range(-100, 400).Draw(rt, "used"); n >= 0 {
		f.Usage = &Usage{Input: &n}
	}
	return f
}
