package loop

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/superloop/superloop/internal/testkit"
	"github.com/superloop/superloop/recovery/action"
	"github.com/superloop/superloop/recovery/failures"
	"github.com/superloop/superloop/recovery/plan"
	"github.com/superloop/superloop/roles/agent/class"
)

// play is an engine over a world that answers every effect by a hash of what the
// effect is about. How often the effect was begun, and the time, do not count: so
// whoever resumes after a cut meets the same world.
type play struct {
	t     testing.TB
	seed  uint64
	s     State
	now   time.Time
	lines []Line
	each  func() // nil, or called after every fact
}

// dice is a number below n for what is decided here.
func (p *play) dice(n int, about ...any) int {
	h := fnv.New64a()
	fmt.Fprint(h, p.seed, "/", p.s.Iteration, "/", p.s.At, "/")
	fmt.Fprintln(h, about...)
	return int(rand.New(rand.NewPCG(h.Sum64(), 1)).IntN(n))
}

// give puts a fact through Apply as a journal that is written and read would.
func (p *play) give(f Fact) {
	p.t.Helper()
	p.now = p.now.Add(time.Second)
	w, err := WireOf(f, time.Time{})
	if err != nil {
		p.t.Fatal(err)
	}
	if _, ok := f.(Started); ok {
		w.LoopID, w.RunID = "l", "r"
	}
	next, lines, ok, err := Apply(p.s, w, p.now)
	if err != nil || !ok {
		p.t.Fatalf("%s was not taken (%v) at %s, pending %+v", f.Event(), err, p.s.At, p.s.Pending)
	}
	p.s = next
	p.lines = append(p.lines, lines...)
	if p.each != nil {
		p.each()
	}
}

// fixed reports whether a command has ended well in this run.
func (p *play) remedied(command string) bool {
	return slices.ContainsFunc(p.lines, func(l Line) bool {
		return l.Event == "recovery_executed" && strings.Contains(string(l.Fields), command)
	})
}

// run goes on to the end, or to as many steps as no sound run takes.
func (p *play) run() {
	p.t.Helper()
	for n := 0; ; n++ {
		e, do := Due(p.s)
		if n > 3000 {
			p.t.Fatalf("seed %d does not end: %s at %s, pending %+v", p.seed, p.s.Status, p.s.At, p.s.Pending)
		}
		switch do {
		case DoNothing:
			if !p.s.Status.Ended() {
				p.t.Fatalf("seed %d: nothing is due and the loop is %s", p.seed, p.s.Status)
			}
			return
		case DoTimer:
			if e.Until.After(p.now) {
				p.now = e.Until
			}
			p.give(WaitOver{ID: e.ID, Candidates: p.candidates()})
		case DoHuman:
			p.answer(e)
		default:
			p.perform(e)
		}
	}
}

func (p *play) candidates() []failures.Candidate {
	return []failures.Candidate{{Agent: claude, Tier: 2, Fit: true}, {Agent: codex, Tier: 1, Fit: true}}
}

func (p *play) answer(e Effect) {
	h := p.s.Human
	if h.About == AboutCompletion {
		f := ApprovalDecided{Of: To(e), ID: h.Question, Status: "approved", By: "eve", TreeChanged: p.dice(3, "tree") == 0}
		if p.dice(4, "completion") == 0 {
			f.Status = "rejected"
		}
		p.give(f)
		return
	}
	f := Resolved{Of: To(e), ID: h.Question, By: "eve", Method: MethodApprove, Candidates: p.candidates()}
	switch {
	case h.Class == ReasonInterrupted:
	case h.Type == EscalationFailed: // once more would fail once more
		f.Method = []string{MethodReject, MethodManual}[p.dice(2, "answer", p.s.Recovery.Attempt.Command)]
	case h.About == AboutRecovery:
		f.Method = []string{MethodApprove, MethodReject, MethodManual}[p.dice(3, "answer", p.s.Recovery.Attempt.Command)]
	}
	p.give(f)
}

// perform begins an effect and ends it.
func (p *play) perform(e Effect) {
	p.t.Helper()
	switch e.Kind {
	case RunRole:
		p.role(e)
	case RunTests:
		p.give(TestsStarted{Of: To(e)})
		p.tests(e)
	case RunValidation:
		p.give(ValidationStarted{Of: To(e)})
		p.give(GateEnded{Of: To(e), Gate: "validation", Status: "ok", OK: true})
	case CheckPromise:
		p.give(PromiseChecked{Of: To(e), Matched: p.dice(3, "promise") > 0, Tree: fmt.Sprint("t", p.s.Iteration), Files: fmt.Sprint("f", p.dice(3, "files", e.Kind, p.s.Passes)/2)})
	case CheckTree:
		p.give(TreeChecked{Of: To(e), Files: fmt.Sprint("f", p.dice(3, "files", e.Kind, p.s.Passes)/2)})
	case CheckStuck:
		p.give(StuckChecked{Of: To(e), Streak: 0, Threshold: p.s.Stuck.Threshold, Tree: fmt.Sprint("t", p.s.Iteration)})
	case AskHuman:
		id := fmt.Sprint("q/", e.ID)
		if p.s.Human.About == AboutCompletion {
			p.give(ApprovalRequested{Of: To(e), ID: id})
			return
		}
		p.give(Escalated{Of: To(e), Type: p.s.Human.Type, ID: id})
	case TakeProposal:
		p.give(p.proposal(e))
	case JudgeAttempt:
		r := p.s.Recovery
		f := Proposed{Of: To(e), N: r.N, Source: r.Source, Digest: r.Digest, Action: r.Attempt, Rule: "r"}
		if e.Reason == "fallback" && r.Else != nil {
			f.Action, f.Fallback = *r.Else, true
		}
		p.judge(&f)
		p.give(f)
	case ExecuteRecovery:
		r := p.s.Recovery
		p.give(Executing{N: r.N, ID: e.ID, Source: r.Approved, Command: r.Attempt.Command})
		f := Executed{N: r.N, ID: e.ID, Command: r.Attempt.Command, Ended: "exited", DurationMS: 5}
		if p.dice(3, "exit", r.Attempt.Command) == 0 {
			f.ExitCode = 1
		}
		p.give(f)
	case Commit:
		f := CommitEnded{Of: To(e), Outcome: "success", SHA: "abc"}
		if p.seed%2 == 0 && !slices.ContainsFunc(p.lines, func(l Line) bool { return l.Event == "auto_commit_failed" }) {
			f = CommitEnded{Of: To(e), Outcome: CommitFailed, Reason: "no identity"}
		}
		p.give(f)
	case CheckTool:
		p.give(ToolChecked{Of: To(e), Tool: e.Tool, Result: ToolWorks})
	case Diagnose:
		p.give(p.diagnosis(e))
	case Analyse:
		f := Analysed{EffectID: e.ID, Candidates: p.candidates(), AnalysedFields: failures.AnalysedFields{ID: "c", Role: e.Role}}
		if p.dice(2, "cause", e.Role) == 0 {
			a := action.Draft{Command: "fix " + e.Role, WorkingDir: "."}.Action()
			f.Command = &a
		}
		p.give(f)
	default:
		f := goodFact(p.s, true)
		if g, ok := f.(GateEnded); ok && g.Gate == "checklist" && p.dice(4, "checklist") == 0 {
			g.Status, g.OK = "remaining", false
			f = g
		}
		p.give(answering(p.s, f))
	}
}

// role runs a role: how it ends depends on how many of its failures count.
func (p *play) role(e Effect) {
	if p.s.Plan.Respond != nil && p.s.Response.Overruled != p.s.Iteration && !p.remedied("preflight") && p.dice(12, "environment", e.Role) == 0 {
		a := action.Draft{Command: "preflight " + e.Role, WorkingDir: "."}.Action()
		p.give(EnvironmentBroken{Of: To(e), Role: e.Role, Command: &a, Why: "no disk", Category: "disk_full",
			PreflightFields: failures.PreflightFields{Findings: []failures.Finding{{ID: "d", Why: "no disk"}}}})
		return
	}
	p.give(RoleStarted{Of: To(e), Role: e.Role, Attempt: e.Attempt})
	f := RoleEnded{Of: To(e), Role: e.Role, Runner: "claude", Attempt: e.Attempt, Outcome: OutcomeOK, Output: "fresh"}
	failed := p.s.Failures
	if p.s.Response.Policy != nil {
		failed = p.s.Response.Policy.Runs
	}
	limited := slices.ContainsFunc(p.lines, func(l Line) bool {
		return l.Event == "rate_limit_wait" && l.Iteration == p.s.Iteration && strings.Contains(string(l.Fields), e.Role)
	})
	if failed < 2 && !limited && p.dice(4, "role", e.Role, failed) == 0 {
		f.Outcome, f.ExitCode = OutcomeExit, 1
		o := failures.RoleOutcome{Task: failures.Task{Loop: "l", Role: e.Role}, Agent: claude, RunID: "r", Iteration: p.s.Iteration,
			Outcome: f.Outcome, ExitCode: 1, Error: "died", At: p.now}
		if p.dice(4, "limit", e.Role, failed) == 0 {
			f.Class, o.Class = string(class.Limit), string(class.Limit)
			f.Limit = &LimitFact{Provider: "anthropic", Until: p.now.Add(time.Hour)}
			o.Until = f.Limit.Until
		} else if p.dice(5, "login", e.Role, failed) == 0 && !slices.ContainsFunc(p.lines, func(l Line) bool { return strings.Contains(string(l.Fields), "claude auth login") }) {
			f.Class, f.Error, f.Fix, o.Class, o.Error = string(class.Auth), "not logged in", "claude auth login", string(class.Auth), "not logged in"
		}
		if ev, found := failures.Detect(o, func(string, string, ...string) string { return "sig" }); found && p.s.Plan.Respond != nil {
			f.Failure = &FailureFact{Event: ev, Candidates: p.candidates()}
		}
	}
	f.Proposal = f.Outcome == OutcomeOK && e.Role == "tester" && p.s.Gates.Tests == "failed"
	p.give(f)
}

// tests pass when the command has run that fixes them, or in the second iteration.
func (p *play) tests(e Effect) {
	f := TestsEnded{Of: To(e), Rerun: e.Reason == ReasonRecovery, Status: "ok", Tree: fmt.Sprint("t", p.s.Iteration), Files: fmt.Sprint("f", p.dice(3, "files", e.Kind, p.s.Passes)/2)}
	if p.hopeless() {
		f.Tree, f.Files = "t", "f"
	}
	if p.hopeless() || p.s.Iteration == 1 && p.dice(2, "tests") == 0 && !p.remedied("cure") {
		f.Status, f.ExitCode = "failed", 1
		f.Failures = []TestFailure{{Command: "make", ExitCode: 1, Signature: "s"}}
		f.Outputs = []OutputSpan{{Command: "make", ExitCode: 1, To: 10}}
	}
	if e.Reason == ReasonRecovery {
		v := Verification{Result: Ineffective, Why: "the same failure"}
		if f.Status == "ok" {
			v = Verification{Result: Verified, Why: "the tests pass"}
		}
		f.Verification = &v
	}
	p.give(f)
}

// hopeless tests fail for ever, and nobody changes a file.
func (p *play) hopeless() bool { return p.seed%6 == 5 }

func (p *play) judge(f *Proposed) {
	f.Verdict = []string{"auto", "auto", "human", "deny"}[p.dice(4, "verdict", f.Command)]
	f.Reason = f.Verdict
	if f.Verdict == "auto" && p.s.Recovery.Phase != PhaseCooldown && !p.coolingOver() && p.dice(3, "cooldown", f.Command) == 0 {
		f.NotBefore = p.now.Add(time.Minute)
	}
}

// coolingOver: the attempt that is judged has waited already.
func (p *play) coolingOver() bool {
	return p.s.Pending.Reason == ReasonCooldown
}

func (p *play) proposal(e Effect) Fact {
	switch p.dice(6, "proposal") {
	case 0:
		return ProposalInvalid{Of: To(e), Role: e.Role, Digest: "x", Problems: []Problem{{Message: "no JSON"}}}
	case 1:
		return ProposalStale{Of: To(e), Role: e.Role, Rule: RuleStale}
	}
	f := Proposed{Of: To(e), N: p.s.Recoveries.Proposed + 1, Source: e.Role, Role: e.Role, Digest: fmt.Sprint("d", p.s.Iteration),
		Action: action.Draft{Command: "remedy && agent <in >out", WorkingDir: "."}.Action(), Rule: "r"}
	if p.dice(2, "fallback") == 0 {
		a := action.Draft{Command: "remedy plainly", WorkingDir: "."}.Action()
		f.Else = &a
	}
	p.judge(&f)
	return f
}

// diagnosis knows three commands for the tests, the first of which has a wait, and
// a retry.
func (p *play) diagnosis(e Effect) Fact {
	f := Classified{ID: e.ID, Source: e.Reason, Command: "make", Category: "dependency", Handler: "h", Infra: true, Gate: "auto", Goal: "test", Why: "left-pad is missing",
		Signature: "s", Evidence: []string{}}
	if e.Reason == FailedRecovery {
		f.Command = e.Command
	}
	pick := func(key, command string) plan.Choice {
		return plan.Choice{Key: key, ID: key, Strategy: "env_fix", Availability: "ready", Executor: "wrapper", ByItself: true,
			Draft: action.Draft{Command: command, WorkingDir: ".", TimeoutMS: 1000}}
	}
	switch p.dice(5, "diagnosis", e.Reason, e.Command) {
	case 0:
		f.Code, f.Infra, f.Gate = true, false, "none"
		return f
	case 1:
		f.Options = []plan.Choice{{Key: "again", ID: "again", Strategy: "retry", Availability: "ready", Executor: "wrapper", ByItself: true, WaitsMS: []int64{100, 2000}}, pick("a", "remedy a")}
	case 2:
		f.Gate, f.Confidence, f.Options = "propose", 0.95, []plan.Choice{pick("a", "remedy a")}
	default:
		tool := pick("tool", "install left-pad")
		tool.Dep = "left-pad"
		f.Options = []plan.Choice{tool, pick("a", "remedy a"), pick("b", "remedy b")}
	}
	return f
}

// plan is one of many, by the seed.
func (p *play) plan() Plan {
	pl := basicPlan()
	pl.MaxIterations = 3
	pl.Recovery, pl.Remediation = p.dice(4, "recovery") > 0, p.dice(3, "automatic remediation") > 0
	pl.Remediation = pl.Remediation && pl.Recovery
	pl.Checklists, pl.Approval = p.dice(2, "lists") == 0, p.dice(2, "approval") == 0
	if p.dice(2, "validation") == 0 {
		pl.Validation, pl.RequireValidation = "every", true
	}
	if p.dice(2, "stuck") == 0 {
		pl.StuckThreshold = 3
	}
	pl.Diagnosis = !pl.Recovery && p.dice(2, "diagnosis") == 0
	if p.dice(3, "same red") > 0 {
		pl.SameRed = 2
	}
	if p.dice(2, "commit") == 0 {
		pl.Commit = "per_iteration"
	}
	if p.dice(4, "respond") > 0 {
		pl.Respond = respondPlan().Respond
	}
	return pl
}

// summary is what must be the same whether a run was cut or not: where it led, and
// what it did on the way, but for what was begun twice, times and attempt numbers.
type summary struct {
	Status    Status
	Reason    string
	Iteration int
	Gates     Gates
	Roles     map[string]string
	Events    []string
}

func (p *play) summary() summary {
	out := summary{Status: p.s.Status, Reason: p.s.Reason, Iteration: p.s.Iteration, Gates: p.s.Gates, Roles: map[string]string{}}
	for name, r := range p.s.Roles {
		out.Roles[name] = r.Outcome
	}
	for _, l := range p.lines {
		switch l.Event {
		case "loop_resume", "role_start", "tests_start", "tests_rerun_start", "validation_start", "checklist_start", "prerequisites_start", "evidence_start", "effect_lost":
			continue // begun again
		}
		out.Events = append(out.Events, fmt.Sprintf("%d %s", l.Iteration, l.Event))
	}
	return out
}

// withoutLost takes out of the events what follows of a command that was begun and
// has no outcome: the escalation, its answer, and the second start.
func withoutLost(events []string) []string {
	var out []string
	for i := 0; i < len(events); i++ {
		name := events[i][strings.IndexByte(events[i], ' ')+1:]
		if name == "recovery_failed" && i+4 < len(events) && strings.HasSuffix(events[i+1], " recovery_escalated") && strings.HasSuffix(events[i+2], " recovery_resolved") &&
			strings.HasSuffix(events[i+3], " recovery_approved") && strings.HasSuffix(events[i+4], " recovery_executing") {
			i += 4
			continue
		}
		out = append(out, events[i])
	}
	return out
}

// prefixes are the folds of all beginnings of a journal, what is owed among them.
func prefixes(t testing.TB, lines []Line) []Replay {
	t.Helper()
	r := NewReplay()
	out := []Replay{*r}
	for _, l := range lines {
		if err := r.Add(l); err != nil {
			t.Fatal(err)
		}
		out = append(out, *r)
	}
	return out
}

// resume is a play that goes on where a cut journal ends.
func resume(t testing.TB, seed uint64, lines []Line, r Replay, plan Plan, lost bool) *play {
	t.Helper()
	p := &play{t: t, seed: seed, s: r.State, now: lines[len(lines)-1].Timestamp.Add(time.Minute), lines: append(slices.Clone(lines), r.Owed...)}
	switch e, _ := Due(p.s); {
	case p.s.Status.Ended():
	case lost:
		p.give(Lost{Of: To(e), Why: "cut"}) // as an engine that lives on says it
	default:
		p.give(Resumed{Plan: plan, Status: p.s.Status, Rules: CurrentRules})
	}
	return p
}

// TestCutAnywhere: a run that is cut behind any line of its journal and resumed
// ends as the uncut one did, whether its engine died or only lost the performer.
func TestCutAnywhere(t *testing.T) {
	t.Parallel()
	seen := map[string]int{}
	for seed := range uint64(testkit.Sample(30, 400, 400)) {
		whole := &play{t: t, seed: seed, now: t0}
		plan := whole.plan()
		whole.give(Started{Plan: plan, Rules: CurrentRules})
		whole.run()
		want := whole.summary()
		for _, l := range whole.lines {
			seen[l.Event]++
		}
		folds := prefixes(t, whole.lines)
		for cut := 1; cut < len(whole.lines); cut++ {
			for _, lost := range []bool{false, true} {
				if _, do := Due(folds[cut].State); lost && (do != DoStart || !folds[cut].State.Begun) {
					continue
				}
				p := resume(t, seed, whole.lines[:cut], folds[cut], plan, lost)
				p.run()
				got := p.summary()
				// The interrupted command's escalation is part of the way, not of its end.
				lostCommand := whole.lines[cut-1].Event == "recovery_executing"
				if lostCommand {
					got.Events = withoutLost(got.Events)
					got.Reason, want.Reason = "", ""
				}
				if !reflect.DeepEqual(got, want) {
					t.Fatalf("seed %d, cut behind %d of %d (%s), lost %v:\n got %s %s %d %+v\nwant %s %s %d %+v\n%s", seed, cut, len(whole.lines), whole.lines[cut-1].Event, lost,
						got.Status, got.Reason, got.Iteration, got.Gates, want.Status, want.Reason, want.Iteration, want.Gates, difference(got.Events, want.Events))
				}
				want.Reason = whole.s.Reason
			}
		}
	}
	for _, event := range []string{"recovery_executing", "recovery_failed", "chain_opened", "chain_closed", "tool_verified", "rate_limit_wait", "recovery_escalated",
		"approval_decided", "root_cause_analysed", "preflight_failed", "recovery_invalid", "wait_over", "runner_reassigned", "auto_commit_success", "auto_commit_failed", "role_skipped", "loop_stop"} {
		if seen[event] == 0 {
			t.Errorf("no run had %s; the worlds are too kind: %v", event, seen)
		}
	}
}

func difference(got, want []string) string {
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || got[i] != want[i] {
			from := max(0, i-6)
			return fmt.Sprintf("differ at %d:\n got %q\nwant %q", i, got[from:min(len(got), i+8)], want[from:min(len(want), i+8)])
		}
	}
	return "the same events"
}

// fitting is a fact of a recorded run as it would be told to a run that was cut and
// resumed: effects, attempts and escalations have other numbers there.
func fitting(s State, f Fact) Fact {
	v := reflect.New(reflect.TypeOf(f)).Elem()
	v.Set(reflect.ValueOf(f))
	if p, h := s.Pending, s.Human; p != nil {
		switch f.(type) {
		case RoleStarted, RoleEnded:
			v.FieldByName("Attempt").SetInt(int64(p.Attempt))
		case Resolved, ApprovalDecided:
			if h != nil {
				v.FieldByName("ID").SetString(h.Question)
			}
		case WaitOver, Classified, Executing, Executed:
			v.FieldByName("ID").SetString(p.ID)
		case Analysed:
			v.FieldByName("EffectID").SetString(p.ID)
		}
		if of := v.FieldByName("Of"); of.IsValid() {
			if stale, ok := f.(ProposalStale); !ok || stale.EffectID != "" {
				of.Set(reflect.ValueOf(To(*p)))
			}
		}
	}
	return v.Interface().(Fact)
}

// TestCutGoldenJournals: a recorded run that is cut behind any line and resumed
// ends as it did, when the world says the same things again.
func TestCutGoldenJournals(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/rules*.jsonl")
	if err != nil || len(files) < 10 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			lines := goldenLines(t, file)
			folds := prefixes(t, lines)
			want := folds[len(lines)].State
			for cut := 1; cut < len(lines); cut++ {
				if next := lines[cut].Event; folds[cut].State.Status.Ended() || next == "loop_start" || next == "loop_resume" {
					continue // a new run begins there anyway
				}
				r := folds[cut]
				p := resume(t, 0, lines[:cut], r, r.State.Plan, false)
				if p.s.Human != nil && p.s.Human.Class == ReasonInterrupted && lines[cut-1].Event == "recovery_executing" {
					p.perform(*p.s.Pending) // the escalation about the lost command
					p.give(Resolved{Of: To(*p.s.Pending), ID: p.s.Human.Question, By: "eve", Method: MethodApprove})
					p.give(Executing{ID: p.s.Pending.ID, Source: SourceHuman, Command: p.s.Recovery.Attempt.Command})
				}
				for _, l := range lines[cut:] {
					f, err := DecodeFact(l.Event, l.Fields)
					if err != nil {
						t.Fatal(err)
					}
					if f == nil {
						continue
					}
					p.now = l.Timestamp
					next, _ := Step(p.s, Input{At: l.Timestamp, LoopID: l.LoopID, RunID: l.RunID, Fact: fitting(p.s, f)})
					p.s = next
				}
				if got := p.s; got.Status != want.Status || got.Reason != want.Reason || got.Iteration != want.Iteration || got.Gates != want.Gates {
					t.Fatalf("cut behind %d (%s): ends %s/%s in %d with %+v, want %s/%s in %d with %+v", cut, lines[cut-1].Event,
						got.Status, got.Reason, got.Iteration, got.Gates, want.Status, want.Reason, want.Iteration, want.Gates)
				}
			}
		})
	}
}
