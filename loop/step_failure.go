package loop

import (
	"fmt"
	"slices"
	"strings"

	"github.com/superloop/superloop/recovery/action"
	"github.com/superloop/superloop/recovery/failures"
	"github.com/superloop/superloop/roles/agent/class"
)

// The failure policy (recovery/failures) decides what follows when a role has failed. This file turns its decisions
// into effects. docs/architecture.md has the diagram. The loop stays at the role's step meanwhile.

// ReasonReassigned is the reason of a role's start with another runner.
const ReasonReassigned = "reassigned"

// responds reports whether a failure policy decides about the failures of roles.
func (t *turn) responds() bool { return t.s.Plan.Respond != nil }

func (t *turn) failed(f RoleEnded) {
	if class.Class(f.Class) == class.Budget && t.s.Plan.MaxCostUSD > 0 {
		t.reachBudget(ReasonMaxCost, f.Role, t.s.Spent.CostUSD, t.s.Plan.MaxCostUSD, 0)
		return
	}
	x := *f.Failure
	r := &t.s.Response
	l := failures.New(x.Task, x.Agent, t.s.Plan.Respond.Limits, t.now)
	if r.Policy != nil && r.Policy.Phase == failures.Working {
		l = *r.Policy
		l.Agent = x.Agent // the configuration may have changed meanwhile
	}
	next, d := failures.Next(l, x.Event, x.Candidates, t.now)
	fields := failures.Fields(x.Event, next, d)
	fields.DetectMS, fields.ClassifyUS, fields.RespondUS = x.DetectMS, x.ClassifyUS, x.RespondUS
	t.note(failures.EventDetected, fields)
	if x.Tripped != nil {
		t.note(failures.EventTripped, *x.Tripped)
	}
	r.Policy = &next
	r.History.Add(x.Event, d.Step)
	t.failedAgain(f.Role, x.Agent.String()+": "+x.Why, 1)
	t.s.Failures = next.Counted
	if d.Step != failures.StepEscalate && t.outOfTime() {
		return
	}
	t.follow(d, &f)
}

// succeeded ends the failure policy of a role that has succeeded.
func (t *turn) succeeded(role string) {
	r := &t.s.Response
	if l := r.Policy; l != nil && l.Task.Role == role {
		r.History.Succeeded(l.Task)
		r.Policy = nil
		t.becomes(role, solvedBy+t.s.Roles[role].Runner)
		if r.Cause != nil && r.Cause.Role == role {
			r.Cause = nil
		}
	}
	r.Environment = nil
}

// follow carries out a decision of the failure policy. f is the failure that led to the decision. It is nil after a
// wait, after an analysis and after an operator's answer.
func (t *turn) follow(d failures.Decision, f *RoleEnded) {
	l := t.s.Response.Policy
	role := l.Task.Role
	if d.NewSession {
		delete(t.s.Sessions, role)
	}
	switch d.Step {
	case failures.StepRetry, failures.StepReassign, failures.StepResume:
		t.hand(d, f)
	case failures.StepWait:
		t.waitForRunner(d, f)
	case failures.StepRootCause:
		t.s.Reason = string(failures.StepRootCause)
		t.s.Detail = d.Why
		t.issue(Effect{ID: t.roleID("cause"), Kind: Analyse, Role: role, Attempt: t.s.Attempt, Reason: d.Reason, Until: d.Until,
			LimitMS: t.left(), MaxCostUSD: t.moneyLeft()})
	default:
		if d.Reason == failures.ReasonMisconfigured && f != nil {
			// Only another configuration repairs this, and a changed configuration needs another start. Waiting for an
			// answer would be useless.
			reason := ReasonMisconfigured
			if f.Outcome == OutcomeNotStarted {
				reason = ReasonNotStarted
			}
			t.end(Failed, reason, fmt.Sprintf("%s (runner %s): %s", f.Role, f.Runner, f.Error))
			return
		}
		t.askAboutRole(d, f)
	}
}

// roleID makes the id of an effect that belongs to the current attempt of the role, such as a wait or a question.
func (t *turn) roleID(what string) string {
	return fmt.Sprintf("%s/%d/%s/%d/%s", t.s.RunID, t.s.Iteration, t.s.At, t.s.Attempt, what)
}

// hand gives the role to the runner that the failure policy names. If the same runner has to try again, it first waits
// as the configuration's retry says.
func (t *turn) hand(d failures.Decision, f *RoleEnded) {
	l := t.s.Response.Policy
	t.s.Reason, t.s.Detail = "", ""
	reason := ReasonRetry
	switch {
	case d.Agent != l.Last:
		t.note(failures.EventReassigned, failures.ReassignedFields{TaskKey: l.Task.Key(), Role: l.Task.Role, From: l.Last.String(), To: d.Agent.String(),
			Step: d.Step, Reason: d.Reason, Error: strings.Join(l.Tell[max(0, len(l.Tell)-1):], "")})
		reason = ReasonReassigned
	case f != nil && class.Class(f.Class) == class.Session:
		t.issueRole(ReasonNewSession)
		return
	case d.Reason == failures.ReasonBackAgain:
		reason = ReasonLimitOver
	case d.Reason == failures.ReasonAnswered:
		reason = ReasonAnswered
	default:
		attempt := t.s.Attempt
		if f != nil {
			attempt = f.Attempt
		}
		if t.rest(retryFields{Role: l.Task.Role, Attempt: attempt, Failures: l.Counted, Attempts: l.Limits.Failures}, l.Runs) {
			return
		}
	}
	t.issueRole(reason)
}

// ReasonNobodyFit is the reason of a wait until a runner is fit again, if no limit of a provider is the cause.
const ReasonNobodyFit = "nobody_fit"

// waitForRunner lets the loop wait until a runner can take the role.
func (t *turn) waitForRunner(d failures.Decision, f *RoleEnded) {
	l := t.s.Response.Policy
	w := Limited{Role: l.Task.Role, Runner: l.Last.Runner, Class: ReasonNobodyFit, Source: SourceRole, LimitFact: LimitFact{Provider: l.Last.Provider, Text: d.Why}}
	if f != nil && f.Limit != nil {
		w.Class, w.LimitFact = f.Class, *f.Limit
	} else if was := t.s.Limit; was != nil {
		w.Class, w.LimitFact = was.Class, LimitFact{Provider: was.Provider, Account: was.Account, Text: was.Text}
	}
	w.Until = d.Until
	if d.Alert {
		t.note("recovery_escalated", Escalated{Type: EscalationRunner, Reason: ReasonNobodyFit, Awaiting: "runner", Role: w.Role, Runner: w.Runner, Error: d.Why})
	}
	t.waitForLimit(w)
}

// runnerBack asks the failure policy what follows now that the wait for a runner is over.
func (t *turn) runnerBack(list []failures.Candidate) {
	t.decided(failures.WaitOver(*t.s.Response.Policy, t.orLast(list), t.now))
}

// decided keeps the new state of the failure policy and follows its decision after a wait, an analysis or an operator's
// answer.
func (t *turn) decided(next failures.State, d failures.Decision) {
	t.s.Response.Policy = &next
	t.follow(d, nil)
}

// orLast returns the list, or, if it is empty, only the agent that last had the role.
func (t *turn) orLast(list []failures.Candidate) []failures.Candidate {
	if len(list) > 0 {
		return list
	}
	l := t.s.Response.Policy
	return []failures.Candidate{{Agent: l.Last, Tier: l.LastTier, Fit: true}}
}

func (t *turn) askAboutRole(d failures.Decision, f *RoleEnded) {
	l := t.s.Response.Policy
	t.becomes(l.Task.Role, withOperator)
	h := HumanState{ID: t.roleID("human"), About: AboutRole, Type: d.Type, Class: d.Reason, Role: l.Task.Role, Runner: l.Last.Runner, Text: d.Why}
	if f != nil && d.Type == EscalationRunner {
		h.Fix = f.Fix
		if f.Class != "" {
			h.Class = f.Class
		}
		if f.Error != "" {
			h.Text = f.Error
		}
	}
	t.s.Detail = fmt.Sprintf("%s: %s", h.Role, h.Text)
	if h.Type == EscalationRunner {
		t.s.Detail = fmt.Sprintf("%s (runner %s): %s", h.Role, h.Runner, h.Text)
	}
	t.ask(h)
}

// ask puts a question that is not about a command to a human.
func (t *turn) ask(h HumanState) {
	t.stopClockAt(t.now)
	h.Since = t.now
	t.s.Status, t.s.Reason, t.s.Human = AwaitingHuman, h.Class, &h
	t.issue(Effect{ID: h.ID, Kind: AskHuman, Role: h.Role, Reason: h.Class})
}

// roleAnswered goes on after a human's answer about a role, about tests that fail again and again, or about the
// environment.
func (t *turn) roleAnswered(h HumanState, f Resolved) {
	r := &t.s.Response
	switch {
	case f.Method == MethodReject && h.Type == EscalationRunner && r.Policy == nil:
		t.end(Failed, ReasonRefused, fmt.Sprintf("%s does not want the runner tried again", f.By))
	case f.Method == MethodReject:
		t.end(Failed, ReasonRefused, fmt.Sprintf("%s does not want it tried again: %s", f.By, h.Text))
	case h.About == AboutPreflight:
		if f.Method == MethodApprove {
			r.Overruled = t.s.Iteration
		}
		t.issueRole(ReasonAnswered)
	case h.About == AboutCommit:
		t.enter(stepCommit)
	case h.About == AboutTests:
		r.Same, t.s.HumanNote = SameTests{}, f.Note
		t.enter(t.s.Plan.next(t.s.At))
	case r.Policy == nil || r.Policy.Phase != failures.WithHuman:
		t.issueRole(ReasonAnswered)
	default:
		t.s.Failures = 0
		t.decided(failures.Answered(*r.Policy, f.Note, t.orLast(f.Candidates), t.now))
	}
}

func (t *turn) analysed(f Analysed) {
	about := t.s.Pending.Reason
	if f.Runner != "" {
		t.spend(RoleEnded{Role: Diagnostician, Runner: f.Runner, Outcome: OutcomeOK, Usage: f.Usage, CostUSD: f.CostUSD})
	}
	r := &t.s.Response
	r.Cause = &Cause{ID: f.ID, Iteration: t.s.Iteration, Role: f.Role, Type: string(f.Type), Summary: f.RootCause, Location: f.Location,
		Fix: f.Fix, Instruction: f.Instruction, By: f.By, Confidence: f.Confidence, Sure: f.Sure, Evidence: f.Evidence}
	t.explained(f)
	t.s.Reason, t.s.Detail = "", ""
	if about == TestsTask {
		t.enter(t.s.Plan.next(t.s.At))
		return
	}
	r.Found = &Found{Analysis: f.Analysis, Candidates: f.Candidates}
	if a := f.Command; a != nil && t.mayTry(*a) {
		t.runRemedy(OriginRootCause, *a, f.Category, f.RootCause, f.Evidence)
		return
	}
	t.goOnKnowing()
}

// Diagnostician is the role under which superloop counts the cost of a root cause analysis.
const Diagnostician = "diagnostician"

// mayTry reports whether superloop may submit a command to the policy: the plan has recoveries, and the command was
// neither run in this iteration nor refused by a human.
func (t *turn) mayTry(a action.Action) bool {
	all := t.s.Recoveries
	return t.s.Plan.Recovery && all.Rejected[a.Digest] == 0 && !slices.Contains(all.Ran, a.Digest)
}

// runRemedy begins a recovery with a command that superloop itself proposes.
func (t *turn) runRemedy(from Origin, a action.Action, category, why string, evidence []string) {
	t.detour(RecoveryState{Origin: from, N: t.s.Recoveries.Proposed + 1, After: t.s.At,
		Source: SourceSuperloop, Category: category, Severity: "blocking", RootCause: why, Evidence: evidence, Attempt: a})
	t.judgeAgain(string(from))
}

// causeRemedied takes the failures whose cause the command has just repaired off the count of the role.
func (t *turn) causeRemedied() {
	r := &t.s.Response
	if r.Policy == nil {
		return
	}
	all := r.History.Of(r.Policy.Task)
	if len(all) == 0 {
		return
	}
	sig := all[len(all)-1].Signature
	next := failures.Mended(*r.Policy, sig, r.History.Repair(r.Policy.Task, sig))
	r.Policy = &next
	t.s.Failures = next.Counted
}

// goOnKnowing goes on after a root cause analysis, and after the recovery if the cause had a remedy.
func (t *turn) goOnKnowing() {
	r := &t.s.Response
	found := r.Found
	r.Found = nil
	if found == nil || r.Policy == nil {
		t.issueRole(ReasonRetry)
		return
	}
	t.decided(failures.Analysed(*r.Policy, found.Analysis, t.orLast(found.Candidates), t.now))
}
