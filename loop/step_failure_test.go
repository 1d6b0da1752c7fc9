package loop

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/superloop/superloop/recovery/action"
	"github.com/superloop/superloop/recovery/classify"
	"github.com/superloop/superloop/recovery/failures"
	"github.com/superloop/superloop/roles/agent/class"
)

func respondPlan() Plan {
	p := basicPlan()
	p.Recovery = true
	p.Respond = &RespondPlan{Limits: failures.Limits{}.WithDefaults(), SameTests: 3, Preflight: true}
	return p
}

var (
	claude = failures.Agent{Runner: "claude", Provider: "anthropic", Model: "opus"}
	codex  = failures.Agent{Runner: "codex", Provider: "openai"}
)

func fitOnes(all ...failures.Agent) []failures.Candidate {
	var out []failures.Candidate
	for _, a := range all {
		out = append(out, failures.Candidate{Agent: a, Fit: true})
	}
	return out
}

// roleFails answers the pending role with a failure as the driver would find it.
func (b *bench) roleFails(who failures.Agent, list []failures.Candidate, more func(*failures.RoleOutcome)) {
	b.t.Helper()
	p := b.s.Pending
	if p == nil || p.Kind != RunRole {
		b.t.Fatalf("no role is pending: %+v", p)
	}
	o := failures.RoleOutcome{Task: failures.Task{Loop: "l", Role: p.Role}, Agent: who, RunID: "r", Iteration: b.s.Iteration, Attempt: p.Attempt,
		Outcome: OutcomeExit, ExitCode: 3, Error: "no luck", At: b.now}
	if more != nil {
		more(&o)
	}
	ev, ok := failures.Detect(o, classify.Signature)
	if !ok {
		b.t.Fatalf("%+v is no failure", o)
	}
	f := RoleEnded{Role: p.Role, Runner: who.Runner, Attempt: p.Attempt, Outcome: o.Outcome, ExitCode: o.ExitCode, Class: o.Class, Error: o.Error,
		Failure: &FailureFact{Event: ev, Candidates: list}}
	if class.Class(o.Class).Waits() {
		f.Limit = &LimitFact{Provider: who.Provider, Account: "a", Until: o.Until, Text: o.Error}
	}
	b.do(f)
}

func (b *bench) want(what string, ok bool) {
	b.t.Helper()
	if !ok {
		b.t.Fatalf("%s: %s/%s at %s, pending %+v, ladder %+v", what, b.s.Status, b.s.Reason, b.s.At, b.s.Pending, b.s.Response.Policy)
	}
}

// over ends a pending wait.
func (b *bench) over(list []failures.Candidate) {
	b.t.Helper()
	b.want("a wait", b.s.Pending != nil && b.s.Pending.Kind == Wait)
	b.now = b.s.Pending.Until
	b.do(WaitOver{ID: b.s.Pending.ID, Candidates: list})
}

func (b *bench) analysed(f Analysed, list []failures.Candidate) {
	b.t.Helper()
	b.want("an analysis", b.s.Pending != nil && b.s.Pending.Kind == Analyse)
	f.EffectID, f.Candidates, f.Role = b.s.Pending.ID, list, b.s.Pending.Role
	b.do(f)
}

// Conforms: 003-pipe-respond, 003-pipe-first, 003-pipe-second, 003-pipe-third, 003-c3-reset, 003-c3-count
// Conforms: 003-hook-status, 003-hook-assign, 003-test-reassign, 003-test-cause, 003-test-human, 003-test-5s
// Conforms: 003-sc-time
func TestFailurePolicy(t *testing.T) {
	t.Parallel()
	b := agentBench(t, respondPlan())
	both := fitOnes(claude, codex)
	other := func(o *failures.RoleOutcome) { o.ExitCode, o.Error = 4, "something else" }
	b.roleFails(claude, both, nil)
	b.want("the first failure: another runner", b.s.Pending.Kind == RunRole && b.s.Pending.Runner == "codex" && b.s.Pending.Reason == ReasonReassigned)
	b.roleFails(codex, both, other)
	b.want("the second: the cause", b.s.Pending.Kind == Analyse && b.s.Status == Running)
	b.analysed(Analysed{AnalysedFields: failures.AnalysedFields{ID: "rc-1", Type: failures.CauseCode, RootCause: "a nil map in store.go"},
		Analysis: failures.Analysis{Summary: "a nil map in store.go", Instruction: "make it"}}, both)
	b.want("it is tried once more, knowing", b.s.Pending.Kind == Wait || b.s.Pending.Kind == RunRole && b.s.Response.Cause.Summary == "a nil map in store.go")
	if b.s.Pending.Kind == Wait {
		b.over(nil)
	}
	b.roleFails(failures.Agent{Runner: b.s.Pending.Runner, Provider: b.s.Response.Policy.Agent.Provider, Model: b.s.Pending.Model}, both,
		func(o *failures.RoleOutcome) { o.Error = "a third way" })
	b.want("the third: an operator", b.s.Status == AwaitingHuman && b.s.Human.Type == failures.TypeRole && b.s.Pending.Kind == AskHuman)
	b.want("nobody holds it", b.s.Response.Policy.Agent == failures.Agent{})
	b.do(Escalated{ID: "q1"})
	b.do(Resolved{ID: "q1", By: "p", Method: MethodManual, Note: "look into store.go", Candidates: both})
	b.want("it goes on", b.s.Pending.Kind == RunRole && b.s.Status == Running && slices.ContainsFunc(b.s.Response.Policy.Tell, func(s string) bool { return s == "an operator says: look into store.go" }))
	b.do(RoleEnded{Role: "planner", Attempt: b.s.Pending.Attempt, Outcome: OutcomeOK, Output: "fresh"})
	b.want("success ends the ladder", b.s.Response.Policy == nil && b.s.Response.Cause == nil && b.s.Pending.Role == "implementer")
	if got := b.s.Response.History.Of(failures.Task{Loop: "l", Role: "planner"}); len(got) != 3 {
		t.Fatalf("%+v", got)
	}
	for _, name := range []string{failures.EventDetected, failures.EventReassigned} {
		if !slices.Contains(b.notes, name) {
			t.Errorf("no %s among %v", name, b.notes)
		}
	}
}

func TestProviderDown(t *testing.T) {
	t.Parallel()
	b := agentBench(t, respondPlan())
	until := b.now.Add(10 * time.Minute)
	down := func(o *failures.RoleOutcome) {
		o.Outcome, o.Class, o.Until = OutcomeError, string(class.Overloaded), until
	}
	b.roleFails(claude, fitOnes(claude, codex), down)
	b.want("the other one has it at once", b.s.Pending.Kind == RunRole && b.s.Pending.Runner == "codex" && b.s.Failures == 0)
	none := []failures.Candidate{{Agent: claude, Until: until}, {Agent: codex, Until: until.Add(time.Minute)}}
	b.roleFails(codex, none, func(o *failures.RoleOutcome) {
		o.Outcome, o.Class, o.Until = OutcomeError, string(class.Overloaded), until.Add(time.Minute)
	})
	b.want("both down: it waits for the first", b.s.Status == RateLimited && b.s.Pending.Kind == Wait && b.s.Pending.Until.Equal(until))
	b.want("an operator is told once", b.s.Response.Policy.Alerted)
	active := b.s.ActiveMS
	b.over(fitOnes(claude, codex))
	b.want("it goes on", b.s.Status == Running && b.s.Limit == nil && b.s.Pending.Kind == RunRole && b.s.Pending.Reason == ReasonReassigned && b.s.ActiveMS-active < 2000)
	b.do(RoleEnded{Role: "planner", Attempt: b.s.Pending.Attempt, Outcome: OutcomeOK, Output: "fresh"})
	b.want("nothing was counted", b.s.Response.Policy == nil && b.s.Pending.Role == "implementer")
}

// Conforms: 003-c5-dependency, 003-mgr-second-fix, 003-r3-applier
func TestCauseIsRemediedThroughTheGate(t *testing.T) {
	t.Parallel()
	cmd := action.Action{Command: "npm ci", WorkingDir: ".", TimeoutMS: 1000, Digest: "d1"}
	for verdict, want := range map[string]EffectKind{"auto": ExecuteRecovery, "human": AskHuman, "deny": RunRole} {
		b := agentBench(t, respondPlan())
		b.s.Plan.BackoffMS = 0
		one := fitOnes(claude)
		b.roleFails(claude, one, nil)
		b.want("nobody else: the cause", b.s.Pending.Kind == Analyse)
		b.analysed(Analysed{AnalysedFields: failures.AnalysedFields{ID: "rc-1", Type: failures.CauseDependency, Category: "dependency", RootCause: "not in step"},
			Analysis: failures.Analysis{Summary: "not in step"}, Command: &cmd}, one)
		b.want("the gate is asked", b.s.Status == Recovering && b.s.Pending.Kind == JudgeAttempt && b.s.At == stepRecovery)
		b.do(Proposed{N: 1, Source: SourceSuperloop, Action: cmd, Verdict: verdict, Rule: "x"})
		b.want(verdict, b.s.Pending.Kind == want)
		if verdict == "auto" {
			id := b.s.Pending.ID
			b.do(Executing{ID: id, Source: SourceAuto, Command: cmd.Command})
			b.do(Executed{ID: id, Command: cmd.Command, Ended: "exited"})
		}
		if verdict == "human" {
			b.do(Escalated{ID: "q"})
			b.do(Resolved{ID: "q", By: "p", Method: MethodReject})
		}
		b.want(verdict+": the role runs again", b.s.Pending.Kind == RunRole && b.s.At == "role:planner" && b.s.Recovery == nil && b.s.Status == Running && b.s.Pending.Runner == "claude")
	}
}

func TestBrokenEnvironment(t *testing.T) {
	t.Parallel()
	f := EnvironmentBroken{Role: "planner", Category: "dependency", Why: "not in step",
		PreflightFields: failures.PreflightFields{Findings: []failures.Finding{{ID: "dependency_sync-1", State: failures.CheckBroken, Why: "not in step"}}}}
	b := agentBench(t, respondPlan())
	remedied := f
	remedied.Command = &action.Action{Command: "npm ci", WorkingDir: ".", TimeoutMS: 1000, Digest: "d1"}
	b.do(remedied)
	b.want("the remedy goes to the gate", b.s.Pending.Kind == JudgeAttempt && b.s.Recovery.Origin == OriginPreflight)
	b.do(Proposed{N: 1, Action: *remedied.Command, Verdict: "auto", Rule: "x"})
	id := b.s.Pending.ID
	b.do(Executing{ID: id, Source: SourceAuto, Command: "npm ci"})
	b.do(Executed{ID: id, Command: "npm ci", Ended: "exited"})
	b.want("the role is looked at again", b.s.Pending.Kind == RunRole && b.s.At == "role:planner" && !b.s.Begun)
	b.do(remedied)
	b.want("the same remedy is not tried twice", b.s.Status == AwaitingHuman && b.s.Human.Class == ClassEnvironment && b.s.Human.Type == EscalationEnvironment)
	b.do(Escalated{ID: "q"})
	b.do(Resolved{ID: "q", By: "p", Method: MethodManual})
	b.want("mended: it is looked at", b.s.Pending.Kind == RunRole && b.s.Response.Overruled == 0)
	b.do(f)
	b.do(Escalated{ID: "q2"})
	b.do(Resolved{ID: "q2", By: "p", Method: MethodApprove})
	b.want("go on all the same", b.s.Pending.Kind == RunRole && b.s.Response.Overruled == 1)
	if b.s.Spent.Runs != 0 {
		t.Fatalf("%d role runs were spent", b.s.Spent.Runs)
	}
	b.do(RoleStarted{Role: "planner", Attempt: b.s.Pending.Attempt})
	before := b.s
	b.do(f)
	if !reflect.DeepEqual(before, b.s) {
		t.Fatal("a look at the ground counts when the role runs already")
	}
}

// Conforms: 004-problem-iterations
func TestSameTestsAgain(t *testing.T) {
	t.Parallel()
	p := respondPlan()
	p.MaxIterations = 0
	b := agentBench(t, p)
	tree := 0
	fail := func(sig string) {
		for b.s.Pending.Kind != RunTests {
			b.good(false)
		}
		tree++
		b.do(TestsEnded{Status: "failed", ExitCode: 1, Tree: fmt.Sprint(tree), Failures: []TestFailure{{Command: "make test", ExitCode: 1, Signature: sig}}})
	}
	fail("a")
	b.want("once is work", b.s.Pending.Kind == RunRole && b.s.Response.Same.Count == 1)
	fail("b")
	b.want("another one is progress", b.s.Pending.Kind == RunRole && b.s.Response.Same.Count == 1)
	fail("b")
	b.want("twice: the cause", b.s.Pending.Kind == Analyse && b.s.Pending.Reason == TestsTask)
	b.analysed(Analysed{AnalysedFields: failures.AnalysedFields{ID: "rc-2", Type: failures.CauseCode, RootCause: "it is wrong", Role: TestsTask}}, nil)
	b.want("and the tester", b.s.Pending.Kind == RunRole && b.s.Pending.Role == "tester" && b.s.Response.Cause != nil)
	tree--
	fail("b")
	b.want("nothing was changed, so nothing was tried", b.s.Pending.Kind == RunRole && b.s.Response.Same.Count == 2)
	fail("b")
	b.want("the third time: an operator", b.s.Status == AwaitingHuman && b.s.Human.Class == ClassSameTests)
	b.do(Escalated{ID: "q"})
	b.do(Resolved{ID: "q", By: "p", Method: MethodManual, Note: "try y"})
	b.want("it goes on", b.s.Pending.Kind == RunRole && b.s.Pending.Role == "tester" && b.s.HumanNote == "try y" && b.s.Response.Same.Count == 0)
}

// Whatever fails, whoever is fit, whatever people answer: something is pending or
// the loop has ended, a role that fails is bounded, a crash anywhere leads to the
// same place, and the state survives being written down.
func TestFailurePolicyWalks(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		p := respondPlan()
		p.BackoffMS = rapid.SampledFrom([]int64{0, 1000}).Draw(rt, "backoff")
		p.Respond.Limits = failures.Limits{Failures: rapid.IntRange(1, 5).Draw(rt, "failures"), FallOver: rapid.Bool().Draw(rt, "fall over")}.WithDefaults()
		b := agentBench(t, p)
		agents := []failures.Agent{claude, codex, {Runner: "gemini", Provider: "google"}}[:rapid.IntRange(1, 3).Draw(rt, "agents")]
		list := func() []failures.Candidate {
			var out []failures.Candidate
			for _, a := range agents {
				c := failures.Candidate{Agent: a, Fit: rapid.Bool().Draw(rt, "fit")}
				if !c.Fit && rapid.Bool().Draw(rt, "until") {
					c.Until = b.now.Add(time.Duration(rapid.IntRange(1, 5000).Draw(rt, "seconds")) * time.Second)
				}
				out = append(out, c)
			}
			return out
		}
		runs := 0
		for range 120 {
			if b.s.Pending == nil {
				if !b.s.Status.Ended() {
					rt.Fatalf("nothing is pending in %s", b.s.Status)
				}
				return
			}
			if rapid.IntRange(0, 9).Draw(rt, "crash") == 0 {
				b.do(Resumed{Plan: p, Rules: CurrentRules})
				if b.s.Pending == nil {
					rt.Fatalf("a crash has lost the thread in %s", b.s.Status)
				}
			}
			pending := *b.s.Pending
			switch pending.Kind {
			case RunRole:
				if pending.Runner != "" && !slices.ContainsFunc(agents, func(a failures.Agent) bool { return a.Runner == pending.Runner && a.Model == pending.Model }) {
					rt.Fatalf("nobody is called %q", pending.Runner)
				}
				if rapid.IntRange(0, 5).Draw(rt, "ends") == 0 {
					b.good(false)
					runs = 0
					continue
				}
				if runs++; runs > 40 {
					rt.Fatalf("%d failed runs without an operator or an end", runs)
				}
				who := agents[rapid.IntRange(0, len(agents)-1).Draw(rt, "who")]
				for _, a := range agents {
					if a.Runner == pending.Runner {
						who = a
					}
				}
				b.roleFails(who, list(), func(o *failures.RoleOutcome) {
					o.Class = rapid.SampledFrom([]string{"", "", "", "overloaded", "auth", "bad_model", "no_session", "refused", "config_error"}).Draw(rt, "class")
					o.Error = rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(rt, "error")
					if o.Class != "" {
						o.Outcome = OutcomeError
					}
					if class.Class(o.Class).Waits() {
						o.Until = b.now.Add(time.Minute)
					}
				})
			case Wait:
				b.over(list())
			case Analyse:
				f := Analysed{AnalysedFields: failures.AnalysedFields{ID: "rc"}, Analysis: failures.Analysis{Summary: "s", Person: rapid.IntRange(0, 4).Draw(rt, "person") == 0}}
				if rapid.Bool().Draw(rt, "cure") {
					f.Command = &action.Action{Command: "x", Digest: rapid.SampledFrom([]string{"d1", "d2"}).Draw(rt, "digest")}
				}
				b.analysed(f, list())
			case JudgeAttempt:
				b.do(Proposed{N: 1, Action: b.s.Recovery.Attempt, Verdict: rapid.SampledFrom([]string{"auto", "human", "deny"}).Draw(rt, "verdict"), Rule: "x"})
			case ExecuteRecovery:
				b.do(Executing{ID: pending.ID, Source: SourceAuto, Command: "x"})
				b.do(Executed{ID: pending.ID, Command: "x", Ended: "exited", ExitCode: rapid.IntRange(0, 1).Draw(rt, "exit")})
			case AskHuman:
				runs = 0
				b.do(Escalated{ID: "q"})
				b.do(Resolved{ID: "q", By: "p", Method: rapid.SampledFrom([]string{MethodApprove, MethodManual, MethodReject}).Draw(rt, "answer"), Candidates: list()})
			default:
				b.good(false)
			}
			raw, err := json.Marshal(b.s)
			if err != nil {
				rt.Fatal(err)
			}
			var back State
			if err := json.Unmarshal(raw, &back); err != nil {
				rt.Fatal(err)
			}
			again, _ := json.Marshal(back)
			if string(raw) != string(again) {
				rt.Fatalf("the state does not survive being written down:\n%s\n%s", raw, again)
			}
		}
	})
}
