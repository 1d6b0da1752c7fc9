package loop

import (
	"fmt"
	"time"

	"github.com/superloop/superloop/recovery/action"
	"github.com/superloop/superloop/recovery/chain"
)

// First aid: when the tests have failed, rules look at what failed before anybody
// spends a token on it, and what they know a listed cure for is cured through the
// same gate as an agent's proposal:
//
//	tests failed --> diagnose --- the code, or nothing known ---> go on
//	                    |  ^
//	        a chain of cures |  a cure failed, or did not help
//	                    v  |
//	        judge --- auto ---> execute ---> tests again --- pass ---> go on
//	          \--- anything else: the next cure; none left: go on, and the
//	               options travel in the tester's prompt and in the question
//
// A cure that is sure and not listed is put before a person at once. What may
// run, how often and how soon, is the policy's to say, as for every recovery.

// Sources of what is classified.
const (
	FailedTests    = "test_command"
	FailedRecovery = "recovery_command"
)

type chainFields struct {
	ChainID string `json:"chain_id"`
	Depth   int    `json:"depth"`
	Goal    string `json:"goal"`
	Label   string `json:"label,omitempty"`
	Option  string `json:"option,omitempty"`
	Status  string `json:"status"`
	Why     string `json:"why,omitempty"`
	// Of a chain that has ended.
	Attempts int           `json:"attempts,omitempty"`
	Errors   []chain.Error `json:"errors,omitempty"`
	Crumbs   []chain.Crumb `json:"breadcrumbs,omitempty"`
}

// firstAid makes the detour after tests that failed, if the loop is to have one.
func (t *turn) firstAid(after string) bool {
	if !t.s.Plan.FirstAid || t.s.Gates.Tests != "failed" {
		return false
	}
	t.s.Status, t.s.At = Recovering, stepRecovery
	t.s.Recovery = &RecoveryState{After: after, Source: SourceSuperloop}
	t.diagnose(FailedTests, "")
	return true
}

// diagnose has rules look at what has just failed.
func (t *turn) diagnose(source, what string) {
	id := t.recoveryID(fmt.Sprintf("diagnose/%s/%s%d", t.s.Recovery.After, source, t.s.Aid.Diagnosed+1))
	t.issue(Effect{ID: id, Kind: Diagnose, Reason: source, Command: what})
}

func (t *turn) diagnosed(f Classified) bool {
	r := t.s.Recovery
	if r == nil || !t.pending(Diagnose) || t.s.Pending.ID != f.ID {
		return false
	}
	t.s.Aid.Diagnosed++
	failure := chain.Failure{Category: f.Category, Handler: f.Handler, Signature: f.Signature, Why: f.Why}
	switch {
	case f.Source == FailedRecovery && r.Chain != nil:
		t.turns(r.Chain.Failed(r.Errors[len(r.Errors)-1], failure, f.Options, t.now))
	case r.Chain != nil:
		t.s.Diagnosis = diagnosisOf(f, t.s.Iteration)
		r.Chain.Verified(false, failure, f.Options, t.now)
	default:
		t.s.Diagnosis = diagnosisOf(f, t.s.Iteration)
		if f.Code || !f.Infra || f.Gate != "auto" && f.Gate != "retry" {
			if !t.askCure(f) {
				t.leaveRecovery()
			}
			return true
		}
		t.s.Aid.Chains++
		id := fmt.Sprintf("%s-%03d", t.s.RunID, t.s.Aid.Chains)
		c := chain.New(id, chain.Goal{Command: f.Command, Dir: ".", Key: f.Goal, Source: f.Source}, failure, f.Options, 0, 0, t.now)
		r.Chain, r.Category, r.RootCause, r.Evidence = &c, f.Category, f.Why, f.Evidence
		t.note("chain_opened", chainFields{ChainID: id, Depth: 1, Goal: f.Goal, Label: f.Command, Status: "executing", Why: f.Why})
	}
	t.walk()
	return true
}

// sure is the confidence from which a cure is put before a person at once: a
// look at the system agrees with what was printed.
const sure = 0.9

// askCure puts a cure that may not run by itself before a person, before any role
// spends tokens on the same answer; it reports whether there is one to put. What a
// person has refused is not asked again: the roles go on with it.
func (t *turn) askCure(f Classified) bool {
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
		r.N, r.Category, r.Severity, r.RootCause, r.Evidence, r.Attempt = t.s.Recoveries.Proposed+1, f.Category, "blocking", f.Why, f.Evidence, a
		if r.Ask = o.Withheld; r.Ask == "" {
			r.Ask = "rules have thought of it, and it is not listed"
		}
		t.judgeAgain(ReasonFirstAid)
		return true
	}
	return false
}

// turns notes down how the stack has changed.
func (t *turn) turns(all []chain.Turn) {
	for _, c := range all {
		event := "chain_popped"
		if c.Pushed {
			event = "chain_pushed"
		}
		t.note(event, chainFields{ChainID: t.s.Recovery.Chain.ID, Depth: c.Depth, Goal: c.Goal, Label: c.Label, Option: c.Option, Status: c.Status})
	}
}

// walk does the chain's next move.
func (t *turn) walk() {
	r := t.s.Recovery
	m, turns := r.Chain.Advance(t.now)
	t.turns(turns)
	r.Executed = ""
	switch m.Kind {
	case chain.Run:
		r.N = t.s.Recoveries.Proposed + 1
		r.RootCause = r.Chain.Levels[r.Chain.Depth()-1].Failure.Why
		r.Attempt = m.Action()
		if m.WaitMS > 0 {
			t.aidWait(m.WaitMS)
			return
		}
		t.judgeAgain(ReasonFirstAid)
	case chain.Retry:
		t.aidWait(m.WaitMS)
	case chain.Verify:
		t.testRecovery()
	default:
		t.closeChain()
	}
}

func (t *turn) aidWait(after int64) {
	t.s.Status, t.s.Reason = Recovering, ReasonFirstAid
	until := t.now.Add(time.Duration(after) * time.Millisecond)
	t.issue(Effect{ID: t.recoveryID(fmt.Sprintf("%s/wait@%d", t.s.Recovery.Chain.ID, t.now.UnixMilli())), Kind: Wait, Until: until, Reason: ReasonFirstAid})
}

// aidWaited goes on when the time of a retry has come.
func (t *turn) aidWaited() {
	m, _ := t.s.Recovery.Chain.Advance(t.now)
	if m.Kind == chain.Retry {
		t.s.Recovery.Chain.Begin(m, t.now)
		t.testRecovery()
		return
	}
	t.judgeAgain(ReasonFirstAid)
}

// aidJudged takes the gate's verdict on a cure.
func (t *turn) aidJudged(f Proposed) {
	r := t.s.Recovery
	t.s.Recoveries.Proposed = max(t.s.Recoveries.Proposed, f.N)
	if f.Verdict == string(action.Auto) {
		if f.NotBefore.After(t.now) {
			t.s.Reason = ReasonCooldown
			t.issue(Effect{ID: t.recoveryID(fmt.Sprintf("%d/wait@%d", r.N, t.now.UnixMilli())), Kind: Wait, Until: f.NotBefore, Reason: ReasonCooldown})
			return
		}
		t.approve(SourceAuto, "rule", f.Rule)
		return
	}
	r.Chain.Skipped(f.Verdict+": "+f.Reason, t.now)
	t.walk()
}

// aidExecuted takes the outcome of a cure.
func (t *turn) aidExecuted(f Executed) {
	r := t.s.Recovery
	t.s.Recoveries.Ran = append(t.s.Recoveries.Ran, r.Attempt.Digest)
	if f.OK() {
		r.Executed = f.ID
		t.turns(r.Chain.Succeeded(t.now))
		if m, _ := r.Chain.Advance(t.now); m.Kind == chain.Verify {
			t.testRecovery()
			return
		}
		t.remember("executed, for what comes next", "")
		t.walk()
		return
	}
	t.remember("failed", howExecuted(f))
	t.diagnose(FailedRecovery, f.Command)
}

// aidTested takes the verdict of the tests.
func (t *turn) aidTested(f TestsEnded, v Verification) {
	r := t.s.Recovery
	if r.Executed != "" {
		t.note("recovery_verified", verifiedFields{r.N, r.Executed, r.Attempt.Command, v})
		t.remember("executed, "+v.Result, v.Why)
	}
	switch {
	case f.Status == "ok":
		r.Chain.Verified(true, chain.Failure{}, nil, t.now)
		t.s.Aid.Cured++
		t.s.Diagnosis = nil
		t.closeChain()
	case v.Result == Harmful:
		r.Chain.Cancel("superloop: "+v.Why, t.now)
		t.closeChain()
	default:
		t.diagnose(FailedTests, "")
	}
}

// closeChain goes on behind the detour.
func (t *turn) closeChain() {
	c := t.s.Recovery.Chain
	t.note("chain_closed", chainFields{ChainID: c.ID, Depth: c.Depth(), Goal: c.Goal.Key, Label: c.Goal.Command, Status: string(c.Status), Why: c.Why,
		Attempts: c.Attempts, Errors: c.Errors, Crumbs: c.Crumbs})
	t.leaveRecovery()
}
