package loop

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/superloop/superloop/recovery/action"
	"github.com/superloop/superloop/recovery/plan"
)

// Automatic remediation. After failed tests, rules look at the failure before a role spends tokens on it. If the rules
// know a remedy that the policy lists, superloop applies the remedy. The remedy goes through the policy as an agent's
// proposal does:
//
//	tests failed --> diagnose --- the code, or nothing known ---> go on
//	                    |  ^
//	     a remediation plan |  a command failed, or did not help
//	                    v  |
//	        judge --- auto ---> execute ---> tests again --- pass ---> go on
//	          \--- anything else: the next option; none left: go on, and the
//	               options travel in the tester's prompt and in the escalation
//
// If the rules are sure of a remedy that the policy does not list, superloop asks a human at once. As for every
// recovery, the policy decides what may run, how often and how soon.

// Sources of a classified failure.
const (
	FailedTests    = "test_command"
	FailedRecovery = "recovery_command"
	FailedRole     = "role_process"
)

type chainFields struct {
	ChainID string `json:"chain_id"`
	Depth   int    `json:"depth"`
	Goal    string `json:"goal"`
	Label   string `json:"label,omitempty"`
	Option  string `json:"option,omitempty"`
	Status  string `json:"status"`
	Why     string `json:"why,omitempty"`
	// These are set when the plan has ended.
	Attempts int          `json:"attempts,omitempty"`
	Errors   []plan.Error `json:"errors,omitempty"`
	Crumbs   []plan.Crumb `json:"breadcrumbs,omitempty"`
}

// remediate begins a recovery after failed tests if the plan has rules look at them. It reports whether it did.
func (t *turn) remediate(after string) bool {
	if !t.s.Plan.Remediation && !t.s.Plan.Diagnosis || t.s.Gates.Tests != "failed" {
		return false
	}
	t.detour(RecoveryState{Origin: OriginRemediation, After: after, Source: SourceSuperloop})
	t.diagnose(FailedTests, "")
	return true
}

func (t *turn) diagnose(source, command string) {
	t.recover(PhaseDiagnosing, Effect{Kind: Diagnose, Reason: source, Command: command}, "diagnose")
}

func (t *turn) diagnosed(f Classified) {
	r := t.s.Recovery
	t.s.Remediation.Diagnosed++
	failure := plan.Failure{Category: f.Category, Handler: f.Handler, Signature: f.Signature, Why: f.Why}
	switch {
	case f.Source == FailedRecovery && r.Plan != nil:
		t.levels(r.Plan.Failed(r.Errors[len(r.Errors)-1], failure, f.Options, t.now))
	case r.Plan != nil:
		t.s.Diagnosis = diagnosisOf(f, t.s.Iteration)
		r.Plan.Verified(false, failure, f.Options, t.now)
	default:
		t.s.Diagnosis = diagnosisOf(f, t.s.Iteration)
		if !t.s.Plan.Remediation {
			if !t.tellRemedy(f) {
				t.leaveRecovery()
			}
			return
		}
		if f.Code || !f.Infra || f.Gate != "auto" && f.Gate != "retry" {
			if !t.suggest(f) {
				t.leaveRecovery()
			}
			return
		}
		t.s.Remediation.Chains++
		id := fmt.Sprintf("%s-%03d", t.s.RunID, t.s.Remediation.Chains)
		c := plan.New(id, plan.Goal{Command: f.Command, Dir: ".", Key: f.Goal, Source: f.Source}, failure, f.Options, 0, 0, t.now)
		r.Plan, r.Category, r.RootCause, r.Evidence = &c, f.Category, f.Why, f.Evidence
		t.note("chain_opened", chainFields{ChainID: id, Depth: 1, Goal: f.Goal, Label: f.Command, Status: "executing", Why: f.Why})
	}
	t.walk()
}

// sure is the least confidence with which superloop puts a command before a human at once. A classification reaches it
// if a look at the system agrees with the output.
const sure = 0.9

// suggest puts a remedy that needs approval before a human, before a role spends tokens on the same failure. It reports
// whether there was such a remedy. It does not ask again about a command that a human has refused. The roles then go on
// with the failure.
func (t *turn) suggest(f Classified) bool {
	if f.Gate != "propose" || f.Weak || f.Confidence < sure {
		return false
	}
	for _, o := range f.Options {
		a := o.Action()
		risky := o.Risk == "high" || o.Risk == "critical"
		if o.Command == "" || o.Availability == "impossible" || o.Executor != "wrapper" || risky || t.s.Recoveries.Rejected[a.Digest] > 0 {
			continue
		}
		r := t.s.Recovery
		r.Origin, r.N, r.Category, r.Severity, r.RootCause, r.Evidence, r.Attempt = OriginSuggestion, t.s.Recoveries.Proposed+1, f.Category, "blocking", f.Why, withPast(f.Evidence, o.Experience), a
		if r.Withheld = o.Withheld; r.Withheld == "" {
			r.Withheld = "rules have thought of it, and it is not listed"
		}
		t.judgeAgain(ReasonRemediation)
		return true
	}
	return false
}

// ClassRemedy is the class of an escalation about a failure for which rules know a command, in a loop in which nothing is
// executed.
const ClassRemedy = "remedy_known"

// tellRemedy asks a human to repair by hand what rules are sure of, in a loop without a recovery section, before a role
// spends tokens on it. It asks once about each failure, and reports whether it did. The answer lets the tests run again.
func (t *turn) tellRemedy(f Classified) bool {
	i := slices.IndexFunc(f.Options, func(o plan.Choice) bool {
		return o.Command != "" && o.Availability != "impossible" && o.Executor == "wrapper"
	})
	if t.s.Plan.Recovery || !f.Infra || f.Code || f.Weak || f.Confidence < sure || i < 0 || t.s.Remediation.Told == f.Signature {
		return false
	}
	t.s.Remediation.Told = f.Signature
	at := t.s.Recovery.After
	t.s.Recovery, t.s.At = nil, at
	t.s.Detail = f.Why
	e := t.effect(AskHuman, ClassRemedy)
	t.ask(HumanState{ID: e.ID + "/remedy", About: AboutTests, Type: EscalationEnvironment, Class: ClassRemedy, Role: TestsTask, Text: f.Why, Fix: f.Options[i].Command})
	return true
}

// pastMark begins the line of evidence that says how a remedy did in this repository before.
const pastMark = "this remedy: "

// withPast returns evidence with a line about what became of the remedy before. It replaces such a line, and leaves
// evidence as it is if nothing is known of the remedy.
func withPast(evidence []string, experience string) []string {
	out := slices.DeleteFunc(slices.Clone(evidence), func(s string) bool { return strings.HasPrefix(s, pastMark) })
	if experience == "" {
		return out
	}
	return append(out, pastMark+experience)
}

// levels records how the levels of the remediation plan have changed.
func (t *turn) levels(all []plan.Turn) {
	for _, c := range all {
		event := "chain_popped"
		if c.Pushed {
			event = "chain_pushed"
		}
		t.note(event, chainFields{ChainID: t.s.Recovery.Plan.ID, Depth: c.Depth, Goal: c.Goal, Label: c.Label, Option: c.Option, Status: c.Status})
	}
}

// walk carries out the next move of the remediation plan.
func (t *turn) walk() {
	r := t.s.Recovery
	m, turns := r.Plan.Advance(t.now)
	t.levels(turns)
	r.Executed = ""
	switch m.Kind {
	case plan.Run:
		r.N = t.s.Recoveries.Proposed + 1
		level := &r.Plan.Levels[r.Plan.Depth()-1]
		r.RootCause = level.Failure.Why
		if o, ok := level.Option(m.Option); ok {
			r.Evidence = withPast(r.Evidence, o.Experience)
		}
		r.Attempt = m.Action()
		if m.WaitMS > 0 {
			t.waitForMove(m.WaitMS)
			return
		}
		t.judgeAgain(ReasonRemediation)
	case plan.Retry:
		t.waitForMove(m.WaitMS)
	case plan.Verify:
		t.testRecovery()
	default:
		t.closePlan()
	}
}

func (t *turn) waitForMove(after int64) {
	t.s.Status, t.s.Reason = Recovering, ReasonRemediation
	until := t.now.Add(time.Duration(after) * time.Millisecond)
	t.recover(PhaseRetryWait, Effect{Kind: Wait, Until: until, Reason: ReasonRemediation}, "wait")
}

// moveDue carries out the move whose wait is over.
func (t *turn) moveDue() {
	if m, _ := t.s.Recovery.Plan.Advance(t.now); m.Kind == plan.Retry {
		t.s.Recovery.Plan.Begin(m, t.now)
		t.testRecovery()
		return
	}
	t.judgeAgain(ReasonRemediation)
}

// planJudged takes the policy's verdict on the plan's command. If the policy does not let it run without approval, the
// plan skips the option.
func (t *turn) planJudged(f Proposed) {
	if f.Verdict == string(action.Auto) {
		t.runWhenDue(f)
		return
	}
	t.s.Recovery.Plan.Skipped(f.Verdict+": "+f.Reason, t.now)
	t.walk()
}

func (t *turn) planSucceeded() {
	r := t.s.Recovery
	t.s.Recoveries.Ran = append(t.s.Recoveries.Ran, r.Attempt.Digest)
	t.levels(r.Plan.Succeeded(t.now))
	if m, _ := r.Plan.Advance(t.now); m.Kind == plan.Verify {
		t.testRecovery()
		return
	}
	t.remember("executed, for what comes next", "")
	t.walk()
}

func (t *turn) planFailed(how string) {
	r := t.s.Recovery
	t.s.Recoveries.Ran = append(t.s.Recoveries.Ran, r.Attempt.Digest)
	t.remember("failed", how)
	t.diagnose(FailedRecovery, r.LastRun.Command)
}

func (t *turn) planTested(f TestsEnded, v Verification) {
	r := t.s.Recovery
	if r.Executed != "" {
		t.note("recovery_verified", verifiedFields{r.N, r.Executed, r.Attempt.Command, v})
		t.done(v)
		t.remember("executed, "+v.Result, v.Why)
	}
	switch {
	case f.Status == "ok":
		r.Plan.Verified(true, plan.Failure{}, nil, t.now)
		t.s.Remediation.Remedied++
		t.s.Diagnosis = nil
		t.closePlan()
	case v.Result == Harmful:
		r.Plan.Cancel("superloop: "+v.Why, t.now)
		t.closePlan()
	default:
		t.diagnose(FailedTests, "")
	}
}

// closePlan records the end of the plan and ends the recovery.
func (t *turn) closePlan() {
	t.planClosed()
	t.leaveRecovery()
}

func (t *turn) planClosed() {
	c := t.s.Recovery.Plan
	t.note("chain_closed", chainFields{ChainID: c.ID, Depth: c.Depth(), Goal: c.Goal.Key, Label: c.Goal.Command, Status: string(c.Status), Why: c.Why,
		Attempts: c.Attempts, Errors: c.Errors, Crumbs: c.Crumbs})
}

// leavePlan ends the plan. From here on a human decides about its last command.
func (t *turn) leavePlan(why string) {
	r := t.s.Recovery
	r.Plan.Cancel(why, t.now)
	t.planClosed()
	r.Origin, r.Plan = OriginSuggestion, nil
}
