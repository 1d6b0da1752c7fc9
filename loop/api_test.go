package loop

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/superloop/superloop/recovery/action"
	"github.com/superloop/superloop/recovery/plan"
)

func started(t *testing.T) State {
	t.Helper()
	w, err := WireOf(Started{Plan: basicPlan(), Rules: CurrentRules}, t0)
	if err != nil {
		t.Fatal(err)
	}
	w.LoopID, w.RunID = "l", "r"
	s, lines, ok, err := Apply(State{}, w, t0)
	if err != nil || !ok || len(lines) != 2 || lines[0].Event != "loop_start" || lines[1].Event != "iteration_start" {
		t.Fatalf("%v %v %v", lines, ok, err)
	}
	if l := lines[0]; l.LoopID != "l" || l.RunID != "r" || l.Iteration != 0 || !l.Timestamp.Equal(t0) {
		t.Errorf("%+v", l)
	}
	if lines[1].Iteration != 1 {
		t.Errorf("%+v", lines[1])
	}
	return s
}

func wire(t *testing.T, f Fact, at time.Time) Wire {
	t.Helper()
	w, err := WireOf(f, at)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestApply(t *testing.T) {
	t.Parallel()
	s := started(t)
	p := *s.Pending
	begins := RoleStarted{Of: To(p), Role: p.Role, Attempt: p.Attempt}

	t.Run("a late fact changes nothing", func(t *testing.T) {
		late := begins
		late.EffectID = "r/0/role:planner/1"
		next, lines, ok, err := Apply(s, wire(t, late, t0), t0)
		if err != nil || ok || lines != nil || !sameJSON(next, s) {
			t.Errorf("%v %v %v", lines, ok, err)
		}
		if next, effects := Step(s, Input{At: t0, Fact: late}); len(effects) > 0 || !sameJSON(next, s) {
			t.Error("Step takes it")
		}
	})
	t.Run("the wire's effect counts as the fact's", func(t *testing.T) {
		w := wire(t, begins, t0)
		w.Effect = "another"
		if _, _, ok, err := Apply(s, w, t0); ok || err != nil {
			t.Error(ok, err)
		}
	})
	t.Run("an answer without an effect is none", func(t *testing.T) {
		if _, _, ok, _ := Apply(s, wire(t, RoleStarted{Role: p.Role, Attempt: p.Attempt}, t0), t0); ok {
			t.Error("taken")
		}
	})
	t.Run("time never goes back, and is cut to milliseconds", func(t *testing.T) {
		next, lines, ok, _ := Apply(s, wire(t, begins, t0.Add(-time.Hour)), t0)
		if !ok || !lines[0].Timestamp.Equal(t0) || !next.UpdatedAt.Equal(t0) {
			t.Errorf("%v", lines)
		}
		at := time.Date(2026, 3, 1, 23, 0, 0, 1_999_999, time.FixedZone("x", 3600))
		_, lines, _, _ = Apply(s, wire(t, begins, at), t0)
		if want := at.UTC().Truncate(time.Millisecond); lines[0].Timestamp != want {
			t.Errorf("%v, want %v", lines[0].Timestamp, want)
		}
		_, lines, _, _ = Apply(s, wire(t, begins, time.Time{}), t0.Add(time.Minute))
		if !lines[0].Timestamp.Equal(t0.Add(time.Minute)) {
			t.Errorf("without a time of its own: %v", lines[0].Timestamp)
		}
	})
	t.Run("a plain line comes back as it is", func(t *testing.T) {
		w := Wire{Event: "config_loaded", Fields: json.RawMessage(`{"command":"a && b <c >d"}`)}
		next, lines, ok, err := Apply(s, w, t0.Add(time.Second))
		if err != nil || !ok || len(lines) != 1 || string(lines[0].Fields) != string(w.Fields) || lines[0].Iteration != 1 || lines[0].RunID != "r" || !sameJSON(next, s) {
			t.Errorf("%+v %v %v", lines, ok, err)
		}
	})
	t.Run("what cannot be read is an error with the event's name", func(t *testing.T) {
		_, lines, ok, err := Apply(s, Wire{Event: "role_end", Fields: json.RawMessage(`{"role":1}`)}, t0)
		if err == nil || ok || lines != nil || !strings.Contains(err.Error(), "role_end") {
			t.Error(lines, ok, err)
		}
	})
	t.Run("the bytes of the performer stay", func(t *testing.T) {
		raw := json.RawMessage(`{"attempt":1,"role":"planner","effect_id":"` + p.ID + `","model":"a & b"}`)
		next, lines, ok, err := Apply(s, Wire{Event: "role_start", Fields: raw, Effect: p.ID}, t0)
		if err != nil || !ok || string(lines[0].Fields) != string(raw) || !next.Begun {
			t.Errorf("%s %v %v", lines[0].Fields, ok, err)
		}
	})
}

func TestWireKeepsTheShellsCharacters(t *testing.T) {
	t.Parallel()
	f := Executing{ID: "x", Command: `echo "a & b" >out && cat <out`}
	w := wire(t, f, t0)
	if !strings.Contains(string(w.Fields), `>out && cat <out`) || w.Effect != "x" {
		t.Errorf("%s", w.Fields)
	}
	back, err := DecodeFact(w.Event, w.Fields)
	if err != nil || back.(Executing).Command != f.Command {
		t.Errorf("%+v %v", back, err)
	}
}

func TestParseLine(t *testing.T) {
	t.Parallel()
	raw := `{"seq":7,"timestamp":"2026-03-01T22:00:00.000Z","event":"wait_over","loop_id":"l","run_id":"r","iteration":3,"id":"w","prev":"","hash":""}`
	l, err := ParseLine([]byte(raw))
	if err != nil || l.Seq != 7 || l.Event != "wait_over" || l.LoopID != "l" || l.RunID != "r" || l.Iteration != 3 || !l.Timestamp.Equal(t0) || string(l.Fields) != raw {
		t.Fatalf("%+v %v", l, err)
	}
	f, err := DecodeFact(l.Event, l.Fields)
	if err != nil || f.(WaitOver).ID != "w" {
		t.Errorf("%+v %v", f, err)
	}
	for _, bad := range []string{``, `{`, `[]`, `{"event":"x"}`, `{"timestamp":"2026-03-01T22:00:00Z"}`, `{"timestamp":"yesterday","event":"x"}`} {
		if _, err := ParseLine([]byte(bad)); err == nil || !strings.Contains(err.Error(), "reading a line of the journal") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

func TestDue(t *testing.T) {
	t.Parallel()
	wait := Effect{ID: "w", Kind: Wait, Until: t0}
	for name, c := range map[string]struct {
		s    State
		want Do
	}{
		"ended":                        {State{Status: Completed}, DoNothing},
		"a role":                       {State{Pending: &Effect{Kind: RunRole}}, DoStart},
		"a role that has begun":        {State{Pending: &Effect{Kind: RunRole}, Begun: true}, DoStart},
		"a wait":                       {State{Pending: &wait}, DoTimer},
		"what a human is to be asked":  {State{Pending: &Effect{Kind: AskHuman}}, DoStart},
		"what a human is asked":        {State{Pending: &Effect{Kind: AskHuman}, Begun: true}, DoHuman},
		"a command that has not begun": {State{Pending: &Effect{Kind: ExecuteRecovery}}, DoStart},
	} {
		e, do := Due(c.s)
		if do != c.want || c.s.Pending != nil && e.Kind != c.s.Pending.Kind {
			t.Errorf("%s: %s %+v", name, do, e)
		}
	}
}

// The kinds that cost something, or cannot be done twice, are told by name: whoever
// adds one has to decide.
func TestKinds(t *testing.T) {
	t.Parallel()
	type kind struct{ once, cheap bool }
	want := map[EffectKind]kind{RunRole: {once: true}, ExecuteRecovery: {once: true}, RunTests: {}, RunValidation: {}, Commit: {}, AskHuman: {}, TakeProposal: {},
		CheckTool: {}, Diagnose: {}, Analyse: {}, Wait: {}, CheckPromise: {cheap: true}, CheckChecklists: {cheap: true}, CheckPrerequisites: {cheap: true},
		CollectEvidence: {cheap: true}, CheckStuck: {cheap: true}, Report: {cheap: true}, JudgeAttempt: {cheap: true}}
	for k, w := range want {
		if got := (kind{k.Once(), k.Cheap()}); got != w {
			t.Errorf("%s: %+v, want %+v", k, got, w)
		}
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	asked := State{RunID: "r", Status: AwaitingHuman, Pending: &Effect{Kind: AskHuman}, Begun: true,
		Human: &HumanState{About: AboutRecovery, Question: "q", Digest: "d"}}
	unopened := asked
	unopened.Human = &HumanState{About: AboutRecovery}
	completion := asked
	completion.Human = &HumanState{About: AboutCompletion, Question: "q", Digest: "d"}
	waiting := State{RunID: "r", Status: RateLimited, Pending: &Effect{Kind: Wait}}
	running := State{RunID: "r", Status: Running, Pending: &Effect{Kind: RunRole}}
	ended := State{RunID: "r", Status: Failed}
	answer := Decision{Kind: DecideAnswer, RunID: "r", ID: "q", Digest: "d", Method: MethodApprove}
	with := func(d Decision, change func(*Decision)) Decision { change(&d); return d }
	retry, cancel := Decision{Kind: DecideRetryNow, RunID: "r"}, Decision{Kind: DecideCancel, RunID: "r"}
	for name, c := range map[string]struct {
		s    State
		d    Decision
		want string // a part of why not
	}{
		"the answer":                {asked, answer, ""},
		"without a digest":          {asked, with(answer, func(d *Decision) { d.Digest = "" }), ""},
		"reject":                    {asked, with(answer, func(d *Decision) { d.Method = MethodReject }), ""},
		"by hand":                   {asked, with(answer, func(d *Decision) { d.Method = MethodManual }), ""},
		"the completion":            {completion, answer, ""},
		"another answer":            {asked, with(answer, func(d *Decision) { d.Method = "maybe" }), "is no answer"},
		"another question":          {asked, with(answer, func(d *Decision) { d.ID = "p" }), "is not what is asked"},
		"another digest":            {asked, with(answer, func(d *Decision) { d.Digest = "e" }), "what was shown is not"},
		"another run":               {asked, with(answer, func(d *Decision) { d.RunID = "s" }), "it is about the run"},
		"not opened yet":            {unopened, answer, "nobody is asked"},
		"nobody is asked":           {running, answer, "nobody is asked"},
		"an ended loop":             {ended, answer, "the loop is failed"},
		"retry a wait":              {waiting, retry, ""},
		"retry what is asked for":   {asked, retry, ""},
		"retry a completion":        {completion, retry, "waits for nothing that can be had now"},
		"retry a role":              {running, retry, "waits for nothing that can be had now"},
		"cancel":                    {running, cancel, ""},
		"cancel what has ended":     {ended, cancel, "the loop is failed"},
		"cancel another run":        {running, with(cancel, func(d *Decision) { d.RunID = "" }), "it is about the run"},
		"retry, nothing is pending": {State{RunID: "r"}, retry, "waits for nothing that can be had now"},
	} {
		err := Check(c.s, c.d)
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
}

// TestLost: what was begun and has lost its performer is done again, but for a
// command, which a human is asked about.
func TestLost(t *testing.T) {
	t.Parallel()
	lose := func(b *bench) (State, []Effect) {
		return Step(b.s, Input{At: b.now, LoopID: "l", RunID: "r", Fact: Lost{Of: To(*b.s.Pending), Why: "gone"}})
	}
	b := newBench(t, basicPlan())
	if s, _ := lose(b); !sameJSON(s, b.s) {
		t.Error("a role that has not begun is lost")
	}
	b.do(RoleStarted{Role: "planner", Attempt: 1})
	if s, effects := lose(b); s.Pending.Kind != RunRole || s.Pending.Attempt != 2 || s.Pending.Reason != ReasonCrash || s.Begun || len(effects) != 1 || s.Failures != 0 {
		t.Errorf("a role: %+v %v", s.Pending, effects)
	}
	b.until(RunTests, false)
	b.do(TestsStarted{})
	if s, effects := lose(b); s.Pending.ID != b.s.Pending.ID || s.Begun || len(effects) != 1 {
		t.Errorf("tests: %+v %v", s.Pending, effects)
	}
	b = recoveryBench(t)
	b.do(proposal(1, "auto"))
	b.do(Executing{Source: SourceAuto})
	if s, _ := lose(b); s.Status != AwaitingHuman || s.Human.Class != ReasonInterrupted || s.Recoveries.Used != 1 || s.Pending.Kind != AskHuman {
		t.Errorf("a command: %s %+v", s.Status, s.Human)
	}
	b.s, _ = lose(b)
	b.do(Escalated{ID: "q"})
	if s, _ := lose(b); !sameJSON(s, b.s) {
		t.Error("an open escalation is lost")
	}
}

// TestCancelledInARecovery: whoever runs a cancelled loop again goes on behind the
// recovery that it was in.
func TestCancelledInARecovery(t *testing.T) {
	t.Parallel()
	b := recoveryBench(t)
	b.do(proposal(1, "human"))
	b.do(Stopped{Status: Cancelled, Reason: ReasonCancelled, By: "eve"})
	if b.s.Status != Cancelled || b.s.Recovery != nil || b.s.Human != nil || b.s.Pending != nil {
		t.Fatalf("%+v", b.s)
	}
	b.do(Resumed{Plan: b.s.Plan, Rules: CurrentRules})
	b.wantAt("resumed", Running, RunRole, "role:reviewer")
}

// TestSecondReload: a change of the plan that waits for the next iteration is not
// lost by a later reload that changes nothing for the machine.
func TestSecondReload(t *testing.T) {
	t.Parallel()
	b := newBench(t, basicPlan())
	p := basicPlan()
	p.MaxIterations = 9
	b.do(Reconfigured{Plan: &p})
	b.do(Reconfigured{})
	if b.s.NextPlan == nil || b.s.NextPlan.MaxIterations != 9 {
		t.Errorf("%+v", b.s.NextPlan)
	}
}

// TestInterruptedRetryWait: the wait before a retry keeps its meaning when its
// supervisor ends in it: the tests run again, and no command is judged.
func TestInterruptedRetryWait(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]Fact{"killed": nil, "Ctrl-C": Stopped{Status: Paused, Reason: ReasonInterrupted}} {
		b := remediationBench(t)
		b.do(retryDiagnosis(b))
		b.wantAt(name+": the wait", Recovering, Wait, stepRecovery)
		if end != nil {
			b.do(end)
		}
		b.do(Resumed{Plan: b.s.Plan, Rules: CurrentRules})
		b.wantAt(name+": resumed", Recovering, Wait, stepRecovery)
		b.do(WaitOver{})
		b.wantAt(name+": the retry", Recovering, RunTests, stepRecovery)
	}
}

// TestLastRunIsState: how a command has ended is known to whoever classifies it,
// also after a restart.
func TestLastRunIsState(t *testing.T) {
	t.Parallel()
	b := remediationBench(t)
	b.do(b.diagnosis("s", remediate(1), remediate(2)))
	b.verdict("auto")
	id := b.s.Pending.ID
	b.do(Executing{ID: id, N: 1, Source: SourceAuto})
	b.do(Executed{ID: id, N: 1, Command: "remedy 1", ExitCode: 3, Ended: "exited", DurationMS: 7, LogFile: "logs/recovery-1.log"})
	b.do(Resumed{Plan: b.s.Plan, Rules: CurrentRules})
	b.wantAt("resumed", Recovering, Diagnose, stepRecovery)
	if r := b.s.Recovery.LastRun; r == nil || *r != (Run{ID: id, Command: "remedy 1", ExitCode: 3, Ended: "exited", DurationMS: 7, LogFile: "logs/recovery-1.log"}) {
		t.Errorf("%+v", r)
	}
}

func TestRecoveryUsageOf(t *testing.T) {
	t.Parallel()
	of := func(b *bench, f Fact) (RecoveryUsage, bool) {
		before := b.s
		b.do(f)
		return RecoveryUsageOf(before, b.s, f)
	}
	b := recoveryBench(t)
	p := proposal(1, "deny")
	if u, ok := of(b, p); !ok || u.Result != RecoveryNotRun || u.Verdict != "deny" || u.N != 1 || u.Source != "tester" || u.Executions != 0 || u.DurationMS != nil {
		t.Errorf("denied: %+v %v", u, ok)
	}
	b = recoveryBench(t)
	if u, ok := of(b, ProposalInvalid{Role: "tester", Rule: "x"}); !ok || u.Verdict != "invalid" || u.Source != "tester" || u.N != 1 || u.Rule != "x" {
		t.Errorf("invalid: %+v %v", u, ok)
	}
	b = recoveryBench(t)
	if u, ok := of(b, ProposalInvalid{}); !ok || u.Source != SourceSuperloop {
		t.Errorf("nobody's: %+v %v", u, ok)
	}
	b = recoveryBench(t)
	if _, ok := of(b, ProposalStale{Rule: RuleStale}); ok {
		t.Error("what was never judged has a line")
	}
	b = recoveryBench(t)
	b.do(proposal(1, "human"))
	b.do(Escalated{ID: "q"})
	b.now = b.now.Add(time.Minute)
	b.do(Resolved{ID: "q", By: "eve", Method: MethodApprove})
	id := b.s.Pending.ID
	b.do(Executing{ID: id, N: 1, Source: SourceHuman})
	b.do(Executed{ID: id, N: 1, Command: "npm ci", Ended: "exited", DurationMS: 40})
	u, ok := of(b, TestsEnded{Status: "ok", Verification: &Verification{Result: Verified}})
	if !ok || u.Result != Verified || u.Executions != 1 || u.DurationMS == nil || *u.DurationMS != 40 || u.ResolutionMS == nil || *u.ResolutionMS != 61_000 || u.Iteration != 1 {
		t.Errorf("verified: %+v %v", u, ok)
	}
	b = recoveryBench(t)
	b.do(proposal(1, "human"))
	b.do(Escalated{ID: "q"})
	if u, ok := of(b, Resolved{ID: "q", By: "eve", Method: MethodReject}); !ok || u.Result != RecoveryNotRun || u.ResolutionMS == nil || *u.ResolutionMS != 1000 {
		t.Errorf("rejected: %+v %v", u, ok)
	}
	if _, ok := RecoveryUsageOf(State{}, State{}, nil); ok {
		t.Error("no recovery has a line")
	}
	line, err := json.Marshal(u)
	if err != nil || !strings.Contains(string(line), `"kind":"recovery"`) {
		t.Errorf("%s %v", line, err)
	}
}

func TestSynced(t *testing.T) {
	t.Parallel()
	running, waiting := State{Status: Running}, State{Status: AwaitingHuman}
	for name, c := range map[string]struct {
		f             Fact
		before, after State
		want          bool
	}{
		"money":                {RoleEnded{}, running, running, true},
		"a start":              {RoleStarted{}, running, running, false},
		"an intent":            {Executing{}, running, running, true},
		"a human's word":       {Resolved{}, waiting, running, true},
		"a look":               {StuckChecked{}, running, running, false},
		"a look that ends it":  {StuckChecked{}, running, State{Status: StuckEnd}, true},
		"a change of status":   {PromiseChecked{}, running, waiting, true},
		"back to running":      {Reported{}, waiting, running, false},
		"a commit":             {CommitEnded{Outcome: "success"}, running, running, true},
		"no commit":            {CommitEnded{Outcome: "skipped"}, running, running, false},
		"a tool was looked at": {ToolChecked{}, running, running, false},
	} {
		if got := SyncedStep(c.before, c.after, wire(t, c.f, t0)); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if SyncedStep(running, running, Wire{Event: "config_loaded"}) {
		t.Error("a plain line is synced")
	}
}

func TestViewOf(t *testing.T) {
	t.Parallel()
	b := recoveryBench(t)
	b.do(proposal(1, "human"))
	b.do(Escalated{ID: "q", Digest: "d"})
	v := ViewOf(b.s, 9, 42)
	if v.Seq != 9 || v.PID != 42 || v.Status != AwaitingHuman || v.Human.Question != "q" || v.Recovery.N != 1 || v.Role != "tester" || v.Response != nil || v.Max != 5 {
		t.Errorf("%+v", v)
	}
	b.s.Response.Cause = &Cause{ID: "c"}
	if v := ViewOf(b.s, 1, 0); v.Response == nil || v.Response.Cause.ID != "c" {
		t.Errorf("%+v", v.Response)
	}
}

func TestPromiseRole(t *testing.T) {
	t.Parallel()
	for want, all := range map[string][]string{"reviewer": {"planner", "reviewer", "tester"}, "b": {"a", "b"}, "": nil} {
		if got := (Plan{Roles: all}).PromiseRole(); got != want {
			t.Errorf("%v: %q", all, got)
		}
	}
}

// Every fact that answers an effect says which, and comes back from its wire as it
// was.
func TestFactsOnTheWire(t *testing.T) {
	t.Parallel()
	of := Of{EffectID: "e"}
	a := action.Draft{Command: "x", WorkingDir: "."}.Action()
	for _, f := range []Fact{RoleStarted{Of: of}, RoleEnded{Of: of, Outcome: OutcomeExit}, RoleEnded{Of: of, Outcome: OutcomeTimeout}, RoleEnded{Of: of, Outcome: OutcomeOK}, TestsStarted{Of: of, Rerun: true},
		TestsEnded{Of: of}, TestsEnded{Of: of, Rerun: true}, PromiseChecked{Of: of}, ValidationStarted{Of: of}, GateEnded{Of: of, Gate: "evidence"}, StuckChecked{Of: of},
		CommitEnded{Of: of, Outcome: "failed"}, Reported{Of: of}, ApprovalRequested{Of: of}, ApprovalDecided{Of: of}, WaitOver{ID: "e"}, Classified{ID: "e"},
		ToolChecked{Of: of, Result: ToolWorks}, ToolChecked{Of: of, Result: ToolRepaired}, ToolChecked{Of: of, Result: ToolDoubtful}, Limited{Of: of, Source: SourceShared},
		EnvironmentBroken{Of: of}, Analysed{EffectID: "e"}, Escalated{Of: of, ID: "q"}, Resolved{Of: of}, Proposed{Of: of, Action: a}, ProposalInvalid{Of: of},
		ProposalStale{Of: of, Rule: RuleStale}, Executing{ID: "e"}, Executed{ID: "e", Ended: "exited"}, Executed{ID: "e", ExitCode: 1, Ended: "exited"}, Lost{Of: of}} {
		w := wire(t, f, t0)
		if w.Effect != "e" {
			t.Errorf("%s answers %q", w.Event, w.Effect)
		}
		back, err := DecodeFact(w.Event, w.Fields)
		if err != nil || !sameJSON(back, f) || back.Event() != f.Event() {
			t.Errorf("%s: %+v %v", w.Event, back, err)
		}
	}
	for _, f := range []Fact{Started{}, Resumed{}, Stopped{Status: Paused}, Seen{}, Reconfigured{}} {
		if w := wire(t, f, t0); w.Effect != "" {
			t.Errorf("%s answers %q", w.Event, w.Effect)
		}
	}
}

// retryDiagnosis knows nothing but to run the tests again after a while.
func retryDiagnosis(b *bench) Classified {
	return b.diagnosis("s", plan.Choice{Key: "again", ID: "again", Strategy: "retry", Availability: "ready", Executor: "wrapper", ByItself: true, WaitsMS: []int64{60_000, 60_000}})
}
