package effects

import (
	"context"
	"errors"
	"path/filepath"
	"reflect"
	"syscall"
	"testing"
	"time"

	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/recovery"
	"github.com/superloop/superloop/recovery/action"
	"github.com/superloop/superloop/recovery/execute"
	"github.com/superloop/superloop/recovery/learn"
	"github.com/superloop/superloop/recovery/plan"
	"github.com/superloop/superloop/recovery/sandbox"
	"github.com/superloop/superloop/recovery/undo"
)

// recApproved is a command that is to be executed, approved by the policy.
func recApproved(r *recHost) loop.State {
	s := recState(loop.ExecuteRecovery, "make deps")
	s.Pending.LimitMS = 90_000
	s.Recovery.Approved, s.Recovery.InputsDigest, s.Recovery.PolicyDigest = loop.SourceAuto, "in-1", r.policies.InForce()[0].Digest
	return s
}

func (r *recHost) perform(s loop.State) (loop.Fact, error) {
	return r.recoveries.Perform(r.t.Context(), *s.Pending, s)
}

func (r *recHost) logs(s loop.State) []string { return r.names(r.Paths.Logs(s.Iteration)) }

func TestExecuteByThePolicy(t *testing.T) {
	t.Parallel()
	r := newRecHost(t)
	s := recApproved(r)
	s.Recoveries = loop.Recoveries{Used: 1, Last: recStart}
	s.Diagnosis = &loop.Diagnosis{Signature: "sig", Options: []plan.Choice{{Key: "h/a", Draft: recDraft("ls")}, {Key: "h/b", Draft: recDraft("make deps")}, {Key: "h/c", Draft: recDraft("ls")}}}
	r.executor.run = func(o execute.Order) {
		_, err := o.Output.Write([]byte("it prints\n"))
		r.noErr(err)
	}
	r.executor.outcome = execute.Outcome{End: execute.Exited, Code: 3, Signal: "", Error: "why", Duration: 1500 * time.Millisecond, Head: "head", Tail: "tail",
		Output: proc.Capture{Bytes: 10}, LeftBehind: 4, Appeared: []string{".git/hooks/x"},
		Sandbox: sandbox.Sandbox{Level: sandbox.Landlock, LandlockABI: 5, MountNS: true, UserNS: true, NetNS: true, Tree: "subreaper", Cgroup: true, Notes: []string{"n"}}}
	hurry := make(chan struct{})
	got, err := r.recoveries.Perform(WithHurry(t.Context(), hurry), *s.Pending, s)
	f := recAs[loop.Executed](t, got, err)
	want := loop.Executed{N: 2, ID: "e-1", Command: "make deps", ExitCode: 3, Ended: "exited", Error: "why", DurationMS: 1500, OutputHead: "head", OutputTail: "tail", OutputBytes: 10,
		LogFile: ".superloop/loops/l/logs/iter-3/recovery-2.log", LeftBehind: 4, Appeared: []string{".git/hooks/x"},
		Sandbox: &loop.SandboxFact{Level: "landlock", LandlockABI: 5, MountNS: true, UserNS: true, NetNS: true, Tree: "subreaper", Cgroup: true, Notes: []string{"n"}}}
	if !reflect.DeepEqual(f, want) {
		t.Errorf("%+v %+v\nwant %+v", f, f.Sandbox, want)
	}
	r.wantSteps("recovery_executing, run")
	p := r.policies.InForce()[0]
	intent := loop.Executing{N: 2, ID: "e-1", Source: "auto", Command: "make deps", WorkingDir: ".", TimeoutMS: 60_000, Network: "full", PolicyDigest: p.Digest, InputsDigest: "in-1",
		Undo: "undo-1", UndoNote: "nothing could be kept: " + errRec.Error(), LogFile: want.LogFile}
	if len(r.journal.facts) != 1 || r.journal.facts[0] != loop.Fact(intent) {
		t.Errorf("%+v\nwant %+v", r.journal.facts, intent)
	}
	if text := r.read(filepath.Join(r.Paths.Logs(3), "recovery-2.log")); text != "it prints\n" {
		t.Errorf("%q", text)
	}
	o := r.executor.orders[0]
	if o.Action != s.Recovery.Attempt || o.Budget != (recovery.Budget{Used: 1, Last: recStart}) || o.Basis != (execute.Basis{PolicyDigest: p.Digest, Inputs: "in-1"}) ||
		o.Limit != 90*time.Second || o.Hurry != (<-chan struct{})(hurry) || o.Confirm != nil || o.Label != (undo.Label{Loop: "l", Run: "run-1", Recovery: 2}) || o.Signature != "sig" || o.Option != "h/b" {
		t.Errorf("%+v", o)
	}
}

func TestLogOfASecondTry(t *testing.T) {
	t.Parallel()
	r := newRecHost(t)
	s := recApproved(r)
	s.Recovery.Tries = 1
	r.executor.outcome.End = execute.Exited
	got, err := r.perform(s)
	if f := recAs[loop.Executed](t, got, err); f.LogFile != ".superloop/loops/l/logs/iter-3/recovery-2.try-2.log" || len(r.logs(s)) != 1 {
		t.Errorf("%+v %v", f, r.logs(s))
	}
}

// Nothing is begun, and no log is left, when it must not be.
func TestNothingIsBegun(t *testing.T) {
	t.Parallel()
	verdict := func(d action.Decision, rule string) func(*recHost) {
		return func(r *recHost) {
			r.executor.change = func(j *execute.Judgement) { j.Decision, j.Rule, j.Reason, j.Part = d, rule, "because", "rm\x1b" }
		}
	}
	for name, c := range map[string]struct {
		spoil   func(*recHost)
		err     error
		verdict action.Decision
		rule    string
		reason  string
		steps   string
	}{
		"the journal refuses":       {func(r *recHost) { r.journal.err = errRec }, errRec, "", "", "", "recovery_executing"},
		"the disk is full":          {func(r *recHost) { r.executor.err = syscall.ENOSPC }, syscall.ENOSPC, "", "", "", ""},
		"nobody can judge":          {func(r *recHost) { r.executor.judgeErr = errRec }, errRec, "", "", "", ""},
		"a human is needed now":     {verdict(action.Human, recovery.RuleBudget), nil, action.Human, recovery.RuleBudget, "because", ""},
		"it is denied now":          {verdict(action.Deny, recovery.RuleRejected), nil, action.Deny, recovery.RuleRejected, "because", ""},
		"its directory is none now": {verdict(action.Invalid, recovery.RuleWorkingDir), nil, action.Invalid, recovery.RuleWorkingDir, "because", ""},
		"its inputs are others": {func(r *recHost) { r.executor.change = func(j *execute.Judgement) { j.Inputs = "in-2" } }, nil,
			action.Auto, recovery.RuleAutoApprove, "it is listed", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRecHost(t)
			s := recApproved(r)
			s.Recovery.Fallback = true
			c.spoil(r)
			got, err := r.perform(s)
			r.wantErr(err, c.err)
			r.wantSteps(c.steps)
			if left := r.logs(s); len(left) != 0 {
				t.Errorf("left: %v", left)
			}
			if c.err != nil {
				if got != nil {
					t.Errorf("%+v", got)
				}
				return
			}
			f := recAs[loop.Proposed](t, got, nil)
			part := ""
			if c.rule != recovery.RuleAutoApprove {
				part = "rm<U+001B>"
			}
			if f.Verdict != string(c.verdict) || f.Rule != c.rule || f.Reason != c.reason || f.EffectID != "e-1" || !f.Fallback || f.N != 2 || (f.Part == "") != (part == "") {
				t.Errorf("%+v", f)
			}
		})
	}
}

func TestLogCannotBeRemoved(t *testing.T) {
	t.Parallel()
	r := newRecHost(t)
	s := recApproved(r)
	r.fail["log:remove"] = syscall.ENOSPC
	r.executor.change = func(j *execute.Judgement) { j.Inputs = "in-2" }
	got, err := r.perform(s)
	if r.wantErr(err, syscall.ENOSPC); got == nil {
		t.Error("the verdict is lost")
	}
	r.executor.err = errRec
	if _, err = r.perform(s); !errors.Is(err, errRec) || !errors.Is(err, syscall.ENOSPC) {
		t.Error(err)
	}
}

func TestNoLog(t *testing.T) {
	t.Parallel()
	r := newRecHost(t)
	r.fail["log:create"] = syscall.ENOSPC
	got, err := r.perform(recApproved(r))
	if r.wantErr(err, syscall.ENOSPC); got != nil || len(r.executor.orders) != 0 {
		t.Error(got)
	}
}

// Whoever leaves before the command was begun has no outcome, and no error.
func TestStoppedBeforeItBegan(t *testing.T) {
	t.Parallel()
	r := newRecHost(t)
	s := recApproved(r)
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if got, err := r.recoveries.Perform(ctx, *s.Pending, s); got != nil || err != nil || len(r.logs(s)) != 0 {
		t.Errorf("%+v %v %v", got, err, r.logs(s))
	}
	r.wantSteps("")
}

func TestLost(t *testing.T) {
	t.Parallel()
	r := newRecHost(t)
	s := recApproved(r)
	r.executor.outcome = execute.Outcome{End: execute.Lost, Error: "nobody knows"}
	got, err := r.perform(s)
	if f := recAs[loop.Lost](t, got, err); f != (loop.Lost{Of: loop.Of{EffectID: "e-1"}, Why: "nobody knows"}) || len(r.logs(s)) != 1 {
		t.Errorf("%+v", f)
	}
}

// A log that is not whole is said, and the outcome counts.
func TestLogIsNotWhole(t *testing.T) {
	t.Parallel()
	r := newRecHost(t)
	s := recApproved(r)
	r.executor.outcome.End = execute.Exited
	r.fail["log:close"] = syscall.ENOSPC
	got, err := r.perform(s)
	if f := recAs[loop.Executed](t, got, err); !f.OK() || r.logged.FilterMessageSnippet("not whole").Len() != 1 {
		t.Errorf("%+v %v", f, r.logged.All())
	}
}

func TestPerformKnowsItsEffects(t *testing.T) {
	t.Parallel()
	r := newRecHost(t)
	s := recApproved(r)
	s.Pending.Kind = loop.RunTests
	if got, err := r.perform(s); got != nil || err == nil {
		t.Error(got, err)
	}
	for _, kind := range []loop.EffectKind{loop.JudgeAttempt, loop.ExecuteRecovery} {
		s = loop.State{Pending: &loop.Effect{Kind: kind}}
		if got, err := r.perform(s); got != nil || err == nil {
			t.Error(kind, got, err)
		}
	}
}

func TestJudgeAttempt(t *testing.T) {
	t.Parallel()
	other := recAction("make deps")
	for name, c := range map[string]struct {
		reason   string
		other    *action.Action
		want     string
		fallback bool
		verdict  action.Decision
	}{
		"the attempt":              {"cooldown", &other, "npm ci", false, action.Human},
		"the fallback":             {"fallback", &other, "make deps", true, action.Auto},
		"a fallback that is none":  {"fallback", nil, "npm ci", false, action.Human},
		"the attempt, no fallback": {"", nil, "npm ci", false, action.Human},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRecHost(t)
			later := recStart.Add(time.Minute)
			r.executor.change = func(j *execute.Judgement) { j.NotBefore, j.Part = later, "" }
			s := recState(loop.JudgeAttempt, "npm ci")
			s.Pending.Reason, s.Recovery.Else = c.reason, c.other
			got, err := r.perform(s)
			f := recAs[loop.Proposed](t, got, err)
			p := r.policies.InForce()[0]
			want := loop.Proposed{Of: loop.Of{EffectID: "e-1"}, N: 2, Source: "tester", Role: "tester", Digest: "d", File: "f", Category: "dependency", Severity: "blocking", RootCause: "cause",
				Pattern: "pattern", Action: recAction(c.want), Fallback: c.fallback, Verdict: string(c.verdict), Rule: f.Rule, Reason: f.Reason, NotBefore: later, PolicyDigest: p.Digest, InputsDigest: "in-1"}
			if !reflect.DeepEqual(f, want) || f.Rule == "" || f.Reason == "" {
				t.Errorf("%+v\nwant %+v", f, want)
			}
			r.executor.judgeErr = errRec
			got, err = r.perform(s)
			if r.wantErr(err, errRec); got != nil {
				t.Error(got)
			}
		})
	}
}

func TestBudget(t *testing.T) {
	t.Parallel()
	a := recAction("npm ci")
	s := loop.State{Recoveries: loop.Recoveries{Used: 2, Last: recStart, Rejected: map[string]int{a.Digest: 1}}}
	full := recovery.Budget{Used: 2, Last: recStart, Rejected: 1}
	waits, free := full, full
	waits.Waits = true
	free.Waits, free.Last = true, time.Time{}
	for name, c := range map[string]struct {
		r    *loop.RecoveryState
		want recovery.Budget
	}{
		"no recovery": {nil, full}, "a proposal": {&loop.RecoveryState{}, full},
		"a plan": {&loop.RecoveryState{Plan: &plan.Chain{}}, waits}, "a plan's second step": {&loop.RecoveryState{Plan: &plan.Chain{Attempts: 1}}, free},
	} {
		s.Recovery = c.r
		if got := budget(s, a); got != c.want {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestLearn(t *testing.T) {
	t.Parallel()
	walked := recState(loop.RunTests, "npm ci")
	walked.Diagnosis = &loop.Diagnosis{Signature: "of the tests"}
	walked.Recovery.Plan = &plan.Chain{Levels: []plan.Level{{Chosen: "h/outer"}, {Chosen: "h/inner", Failure: plan.Failure{Signature: "inner"}}}}
	bare := recState(loop.RunTests, "npm ci")
	bare.Diagnosis, bare.Recovery.Plan = &loop.Diagnosis{Signature: "of the tests"}, &plan.Chain{}
	human := recState(loop.RunTests, "npm ci")
	human.Recovery.Approved = loop.SourceHuman
	blank := recState(loop.RunTests, "")
	for name, c := range map[string]struct {
		s      loop.State
		result string
		want   []learn.Outcome
	}{
		"a plan's option":      {walked, loop.Verified, []learn.Outcome{{Signature: "inner", Option: "h/inner", Command: "npm ci", Result: "verified"}}},
		"a plan without one":   {bare, loop.Harmful, []learn.Outcome{{Signature: "of the tests", Command: "npm ci", Result: "harmful"}}},
		"a human's":            {human, loop.Ineffective, []learn.Outcome{{Command: "npm ci", Result: "ineffective", ByPerson: true}}},
		"nothing is known":     {human, loop.Unverified, []learn.Outcome{{Command: "npm ci", Result: "unknown", ByPerson: true}}},
		"nothing was run":      {blank, loop.Verified, nil},
		"there is no recovery": {loop.State{}, loop.Verified, nil},
	} {
		r := newRecHost(t)
		r.recoveries.Learned(t.Context(), c.s, c.result)
		if !reflect.DeepEqual(r.executor.learned, c.want) {
			t.Errorf("%s: %+v", name, r.executor.learned)
		}
	}
}
