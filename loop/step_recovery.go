package loop

import (
	"fmt"
	"strings"

	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/recovery/action"
	"github.com/superloop/superloop/recovery/plan"
)

// This file is the course of a recovery: a command that may repair the environment. docs/architecture.md has the
// diagram. The policy's verdict comes with the fact. The machine decides here what follows from the verdict, by the
// origin and the phase of the recovery.

type approvedFields struct {
	N          int    `json:"n"`
	Source     string `json:"source"`
	By         string `json:"by"`
	Rule       string `json:"rule"`
	Command    string `json:"command"`
	WorkingDir string `json:"working_dir"`
	Digest     string `json:"digest,omitempty"`
}

type deniedFields struct {
	N       int    `json:"n"`
	Command string `json:"command"`
	Rule    string `json:"rule"`
	Reason  string `json:"reason"`
	Digest  string `json:"digest,omitempty"`
}

// endedInterrupted marks the recovery_failed that the machine records when the supervisor died during the execution.
// That record is no outcome, and an Executed never has this end.
const endedInterrupted = "interrupted"

type lostFields struct {
	N        int    `json:"n"`
	ID       string `json:"id"`
	Command  string `json:"command"`
	ExitCode int    `json:"exit_code"`
	Ended    string `json:"ended"`
	Error    string `json:"error"`
}

type verifiedFields struct {
	N       int    `json:"n"`
	ID      string `json:"id,omitempty"`
	Command string `json:"command"`
	Verification
}

// detour begins a recovery: it leaves the current step for the step recovery.
func (t *turn) detour(r RecoveryState) {
	t.s.Status, t.s.Reason, t.s.At = Recovering, "", stepRecovery
	t.s.Recovery = &r
}

// recover issues the next effect of the recovery. Its id is unique in the loop's life: it names the run, the iteration,
// the step that the recovery belongs to, and how many effects the recovery has had.
func (t *turn) recover(p Phase, e Effect, what string) {
	r := t.s.Recovery
	r.Phase = p
	r.Steps++
	e.ID = fmt.Sprintf("%s/%d/%s/%s/%d/%s", t.s.RunID, t.s.Iteration, stepRecovery, r.After, r.Steps, what)
	t.issue(e)
}

// takeProposal begins the recovery of a role that left a proposal.
func (t *turn) takeProposal(role string) {
	t.detour(RecoveryState{Origin: OriginProposal, After: rolePrefix + role, Role: role})
	t.recover(PhaseTaking, Effect{Kind: TakeProposal, Role: role, LimitMS: t.left()}, "take")
}

// leaveRecovery ends the recovery and goes on with the step that follows it.
func (t *turn) leaveRecovery() {
	r := *t.s.Recovery
	t.s.Recovery = nil
	t.s.Status, t.s.Reason, t.s.Detail = Running, "", ""
	if t.s.ActiveSince.IsZero() {
		t.s.ActiveSince = t.now
	}
	switch {
	case r.Origin == OriginPreflight:
		t.s.At = r.After
		t.issueRole(string(OriginPreflight)) // before the role starts, the environment checks run again
	case r.Origin == OriginRootCause:
		t.s.At = r.After
		t.goOnKnowing()
	case r.After == stepTests || r.After == stepGateTests:
		t.passTests(r.After)
	default:
		t.enter(t.s.Plan.next(r.After))
	}
}

// remember keeps the result of the recovery for the prompts of later roles.
func (t *turn) remember(outcome, note string) {
	r, all := t.s.Recovery, &t.s.Recoveries
	all.Recent = append(all.Recent, RecoveryNote{N: r.N, Iteration: t.s.Iteration, Command: r.Attempt.Command, Outcome: outcome, Note: note})
	if over := len(all.Recent) - maxRecent; over > 0 {
		all.Recent = all.Recent[over:]
	}
}

func (t *turn) seen(f Seen) bool {
	if t.s.Pending.Role != f.Role {
		return false
	}
	t.s.Seen = &f.Sighting
	return true
}

// dealsWithProposal reports whether a verdict fits the state. It fits while superloop judges a command. It also fits
// while an approved command has not begun, because the inputs of the verdict may have changed.
func (t *turn) dealsWithProposal() bool {
	return t.s.Recovery != nil && (t.pending(TakeProposal) || t.pending(JudgeAttempt) || t.pending(ExecuteRecovery) && !t.s.Begun)
}

func (t *turn) proposed(f Proposed) bool {
	if !t.dealsWithProposal() {
		return false
	}
	r := t.s.Recovery
	taking := r.Phase == PhaseTaking
	r.Judgement = Judgement{f.Verdict, f.Rule, f.Reason, f.Part, f.PolicyDigest, f.InputsDigest}
	t.s.Recoveries.Proposed = max(t.s.Recoveries.Proposed, f.N)
	if r.Origin == OriginRemediation {
		t.planJudged(f)
		return true
	}
	if taking {
		r.N, r.Source, r.Digest, r.File, r.ProposedAt = f.N, f.Source, f.Digest, f.File, f.ProposedAt
		r.Category, r.Severity, r.RootCause, r.Pattern = f.Category, f.Severity, f.RootCause, f.Pattern
		r.Evidence, r.Else, r.PatternBefore = f.Evidence, f.Else, f.PatternSeen
		t.s.Recoveries.Handled = append(t.s.Recoveries.Handled, f.Digest)
		t.s.Recoveries.Problems = nil
	}
	auto, human := f.Verdict == string(action.Auto), f.Verdict == string(action.Human)
	if f.Fallback && !r.Fallback {
		r.Else = nil
		if !auto && !human {
			r.Errors = append(r.Errors, fmt.Sprintf("the fallback %s: %s", text.Display(f.Command), f.Reason))
			t.askRecovery(EscalationFailed, EscalationFailed)
			return true
		}
		r.Fallback = true
	}
	r.Attempt = f.Action
	switch {
	case auto && r.Origin == OriginSuggestion:
		r.Reason = r.Withheld
		t.askRecovery(EscalationApproval, ReasonRemediation)
	case auto:
		t.runWhenDue(f)
	case f.Verdict == string(action.Deny):
		t.note("recovery_denied", deniedFields{r.N, f.Command, f.Rule, f.Reason, f.Digest})
		t.remember("denied", f.Reason)
		t.leaveRecovery()
	default:
		kind := EscalationApproval
		if r.Tries > 0 {
			kind = EscalationFailed
		}
		t.askRecovery(kind, f.Rule)
	}
	return true
}

// runWhenDue runs a command that the policy lets run without approval, now or when its cooldown is over.
func (t *turn) runWhenDue(f Proposed) {
	if f.NotBefore.After(t.now) {
		t.s.Reason = ReasonCooldown
		t.recover(PhaseCooldown, Effect{Kind: Wait, Until: f.NotBefore, Reason: ReasonCooldown}, "cooldown")
		return
	}
	t.approve(SourceAuto, "rule", f.Rule)
}

func (t *turn) proposalInvalid(f ProposalInvalid) {
	all := &t.s.Recoveries
	if f.Digest != "" {
		all.Handled = append(all.Handled, f.Digest)
	}
	all.Problems = Map(f.Problems, Problem.String)
	t.leaveRecovery()
}

func (t *turn) proposalStale(ProposalStale) {
	if t.pending(TakeProposal) { // otherwise it was set aside before a role started, and no effect waits for it
		t.leaveRecovery()
	}
}

// judgeAgain lets the performer judge the attempt by the present facts.
func (t *turn) judgeAgain(reason string) {
	t.s.Status, t.s.Reason = Recovering, ""
	t.recover(PhaseJudging, Effect{Kind: JudgeAttempt, Reason: reason}, "judge")
}

// approve records the approval of the attempt and issues its execution. source is SourceAuto or SourceHuman.
func (t *turn) approve(source, by, rule string) {
	r := t.s.Recovery
	r.Approved, r.By = source, by
	t.note("recovery_approved", approvedFields{r.N, source, by, rule, r.Attempt.Command, r.Attempt.WorkingDir, r.Digest})
	t.s.Status, t.s.Reason, t.s.Detail = Recovering, "", ""
	t.recover(PhaseExecuting, Effect{Kind: ExecuteRecovery, Reason: source, LimitMS: t.left()}, "execute")
}

// executing counts the execution before the command starts.
func (t *turn) executing(f Executing) bool {
	if !t.begin() {
		return false
	}
	r := t.s.Recovery
	t.undone()
	r.Tries++
	if r.Plan != nil && r.Plan.Running == nil { // otherwise a human lets a lost command run again
		if m, _ := r.Plan.Advance(t.now); m.Kind == plan.Run {
			r.Plan.Begin(m, t.now)
		}
	}
	if f.Source == SourceAuto {
		if t.counts() {
			t.s.Recoveries.Used++
		}
		t.s.Recoveries.Last = t.now
	}
	return true
}

func (t *turn) executed(f Executed) bool {
	if !t.s.Begun {
		return false
	}
	r := t.s.Recovery
	r.LastRun = &Run{ID: f.ID, Command: f.Command, ExitCode: f.ExitCode, Signal: f.Signal, Ended: f.Ended, DurationMS: f.DurationMS, LogFile: f.LogFile}
	r.RanMS = plus(r.RanMS, f.DurationMS)
	if r.Origin == OriginRootCause {
		ran := text.Display(f.Command)
		if !f.OK() {
			ran += ": " + howExecuted(f)
		}
		t.incident(strings.TrimPrefix(r.After, rolePrefix)).Ran = text.Line(ran, maxIncident)
	}
	if f.OK() {
		if tool := r.installs(t.s.Diagnosis); tool != "" {
			t.recover(PhaseChecking, Effect{Kind: CheckTool, Tool: tool}, "tool")
			return true
		}
		t.succeededRun()
		return true
	}
	how := howExecuted(f)
	r.Errors = append(r.Errors, text.Display(f.Command)+": "+how)
	switch {
	case f.Ended == EndedKilled:
		t.askRecovery(EscalationFailed, ReasonInterrupted)
	case r.Origin == OriginRemediation:
		t.planFailed(how)
	case r.within(): // the role, or the next environment check, shows whether it helped
		t.s.Recoveries.Ran = append(t.s.Recoveries.Ran, r.Attempt.Digest)
		t.remember("failed", how)
		t.leaveRecovery()
	case r.Else != nil:
		t.judgeAgain("fallback")
	default:
		t.askRecovery(EscalationFailed, EscalationFailed)
	}
	return true
}

// succeededRun goes on after a command that exited with 0, and after the check of the tool that the command installed.
func (t *turn) succeededRun() {
	r := t.s.Recovery
	r.Executed = r.LastRun.ID
	switch r.Origin {
	case OriginRemediation:
		t.planSucceeded()
		return
	case OriginRootCause:
		t.causeRemedied()
	}
	t.testRecovery()
}

func howExecuted(f Executed) string {
	switch {
	case f.Error != "":
		return f.Error
	case f.Signal != "":
		return "ended by signal " + f.Signal
	}
	return fmt.Sprintf("exit code %d", f.ExitCode)
}

// testRecovery runs the tests again at once, in the same iteration, to see whether the recovery helped. Within a role's
// step the next start of the role shows it instead. In a loop without tests the result is unknown.
func (t *turn) testRecovery() {
	r := t.s.Recovery
	t.s.Status = Recovering
	if r.within() {
		t.s.Recoveries.Ran = append(t.s.Recoveries.Ran, r.Attempt.Digest)
		t.verified(Verification{Result: Unverified, Why: "what runs next shows it"})
		return
	}
	if t.s.Plan.Tests == "disabled" {
		t.verified(Verification{Result: Unverified, Why: "the loop has no tests"})
		return
	}
	t.recover(PhaseTesting, Effect{Kind: RunTests, Reason: ReasonRecovery, LimitMS: t.left()}, "tests")
}

func (t *turn) recoveryTested(f TestsEnded) {
	v := Verification{Result: Unverified}
	if f.Verification != nil {
		v = *f.Verification
	}
	if t.s.Recovery.Origin == OriginRemediation {
		t.planTested(f, v)
		return
	}
	t.verified(v)
}

func (t *turn) verified(v Verification) {
	r := t.s.Recovery
	t.note("recovery_verified", verifiedFields{r.N, r.Executed, r.Attempt.Command, v})
	t.done(v)
	outcome := "executed, " + v.Result
	if r.Executed == "" {
		outcome = "mended by an operator, " + v.Result
	}
	t.remember(outcome, v.Why)
	t.leaveRecovery()
}

// plus adds more to total. A nil total counts as 0.
func plus(total *int64, more int64) *int64 {
	if total != nil {
		more += *total
	}
	return &more
}
