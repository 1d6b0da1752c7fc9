package loop

import (
	"fmt"

	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/recovery/action"
	"github.com/superloop/superloop/recovery/chain"
)

// What becomes of a proposal: see the diagram in step.go. The verdict is the
// policy's and comes with the fact; what follows from it is decided here.

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

// endedInterrupted marks the record of an execution whose supervisor died: it
// is no outcome, and Executed never has it.
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

// takeProposal makes the detour after a role that left a proposal.
func (t *turn) takeProposal(role string) {
	t.s.Status, t.s.At = Recovering, stepRecovery
	t.s.Recovery = &RecoveryState{After: rolePrefix + role, Role: role}
	t.issue(Effect{ID: t.recoveryID("take/" + role), Kind: TakeProposal, Role: role, LimitMS: t.left()})
}

func (t *turn) recoveryID(what string) string {
	return fmt.Sprintf("%s/%d/%s/%s", t.s.RunID, t.s.Iteration, stepRecovery, what)
}

// leaveRecovery goes on behind the role that left the proposal.
func (t *turn) leaveRecovery() {
	after, back := t.s.Recovery.After, t.s.Recovery.Back
	t.s.Recovery = nil
	t.s.Status, t.s.Reason, t.s.Detail = Running, "", ""
	if t.s.ActiveSince.IsZero() {
		t.s.ActiveSince = t.now
	}
	switch {
	case back != "":
		t.s.At = after
		t.cameBack(back)
	case after == stepTests || after == stepGateTests:
		t.passTests(after)
	default:
		t.enter(t.s.Plan.next(after))
	}
}

// remember keeps what became of the proposal for the roles to come.
func (t *turn) remember(outcome, note string) {
	r, all := t.s.Recovery, &t.s.Recoveries
	all.Recent = append(all.Recent, RecoveryNote{N: r.N, Iteration: t.s.Iteration, Command: r.Attempt.Command, Outcome: outcome, Note: note})
	if over := len(all.Recent) - maxRecent; over > 0 {
		all.Recent = all.Recent[over:]
	}
}

func (t *turn) seen(f Seen) bool {
	if !t.pending(RunRole) || t.s.Pending.Role != f.Role {
		return false
	}
	t.s.Seen = &Sighting{Role: f.Role, Category: f.Category, Command: f.Command, Verdict: f.Verdict, Reason: f.Reason}
	return true
}

// dealsWithProposal: a verdict fits while one is awaited, and while an approved
// command has not been begun, when something it stands on has changed.
func (t *turn) dealsWithProposal() bool {
	return t.s.Recovery != nil && (t.pending(TakeProposal) || t.pending(JudgeAttempt) || t.pending(ExecuteRecovery) && !t.s.Begun)
}

func (t *turn) proposed(f Proposed) bool {
	if !t.dealsWithProposal() {
		return false
	}
	r := t.s.Recovery
	if r.Chain != nil && !t.pending(TakeProposal) {
		r.Verdict, r.Rule, r.Reason, r.Part = f.Verdict, f.Rule, f.Reason, f.Part
		r.PolicyDigest, r.InputsDigest = f.PolicyDigest, f.InputsDigest
		t.aidJudged(f)
		return true
	}
	if t.pending(TakeProposal) {
		r.N, r.Source, r.Digest, r.File = f.N, f.Source, f.Digest, f.File
		r.Category, r.Severity, r.RootCause, r.Pattern = f.Category, f.Severity, f.RootCause, f.Pattern
		r.Evidence = f.Evidence
		r.Else = f.Else
		t.s.Recoveries.Proposed = max(t.s.Recoveries.Proposed, f.N)
		t.s.Recoveries.Handled = append(t.s.Recoveries.Handled, f.Digest)
		t.s.Recoveries.Problems = nil
	}
	t.s.Recoveries.Proposed = max(t.s.Recoveries.Proposed, f.N)
	usable := f.Verdict == string(action.Auto) || f.Verdict == string(action.Human)
	if f.Fallback && !r.Fallback {
		r.Else = nil
		if !usable {
			r.Errors = append(r.Errors, fmt.Sprintf("the fallback %s: %s", text.Display(f.Command), f.Reason))
			t.askRecovery(EscalationFailed, EscalationFailed)
			return true
		}
		r.Fallback = true
	}
	r.Attempt = f.Action
	r.Verdict, r.Rule, r.Reason, r.Part = f.Verdict, f.Rule, f.Reason, f.Part
	r.PolicyDigest, r.InputsDigest = f.PolicyDigest, f.InputsDigest
	switch {
	case f.Verdict == string(action.Auto) && r.Ask != "":
		r.Reason = r.Ask
		t.askRecovery(EscalationApproval, ReasonFirstAid)
	case f.Verdict == string(action.Auto):
		if f.NotBefore.After(t.now) {
			t.s.Reason = ReasonCooldown
			t.issue(Effect{ID: t.recoveryID(fmt.Sprintf("%d/wait@%d", r.N, t.now.UnixMilli())), Kind: Wait, Until: f.NotBefore, Reason: ReasonCooldown})
			return true
		}
		t.approve(SourceAuto, "rule", f.Rule)
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

func (t *turn) proposalInvalid(f ProposalInvalid) bool {
	if !t.pending(TakeProposal) {
		return false
	}
	all := &t.s.Recoveries
	if f.Digest != "" {
		all.Handled = append(all.Handled, f.Digest)
	}
	all.Problems = problemLines(f.Problems)
	t.leaveRecovery()
	return true
}

func problemLines(problems []Problem) []string {
	var out []string
	for _, p := range problems {
		out = append(out, p.String())
	}
	return out
}

func (t *turn) proposalStale(f ProposalStale) bool {
	if t.pending(TakeProposal) {
		t.leaveRecovery()
		return true
	}
	return true // it was swept away before a role; nothing waits for it
}

// judgeAgain has the attempt judged as things are now.
func (t *turn) judgeAgain(reason string) {
	r := t.s.Recovery
	t.s.Status, t.s.Reason = Recovering, ""
	t.issue(Effect{ID: t.recoveryID(fmt.Sprintf("%d/judge/%s@%d", r.N, reason, t.now.UnixMilli())), Kind: JudgeAttempt, Reason: reason})
}

// approve lets the attempt be executed.
func (t *turn) approve(source, by, rule string) {
	r := t.s.Recovery
	r.Approved, r.By = source, by
	t.note("recovery_approved", approvedFields{r.N, source, by, rule, r.Attempt.Command, r.Attempt.WorkingDir, r.Digest})
	t.s.Status, t.s.Reason, t.s.Detail = Recovering, "", ""
	t.issue(Effect{ID: t.recoveryID(fmt.Sprintf("%d/execute/%d", r.N, r.Tries+1)), Kind: ExecuteRecovery, Reason: source, LimitMS: t.left()})
}

// executing counts what is about to be spent, before it is.
func (t *turn) executing(f Executing) bool {
	if !t.begin(ExecuteRecovery, func(e Effect) bool { return e.ID == f.ID }) {
		return false
	}
	t.s.Recovery.Tries++
	if c := t.s.Recovery.Chain; c != nil {
		if m, _ := c.Advance(t.now); m.Kind == chain.Run {
			c.Begin(m, t.now)
		}
	}
	if f.Source == SourceAuto {
		t.s.Recoveries.Used++
		t.s.Recoveries.Last = t.now
	}
	return true
}

func (t *turn) executed(f Executed) bool {
	if !t.pending(ExecuteRecovery) || !t.s.Begun || t.s.Pending.ID != f.ID {
		return false
	}
	r := t.s.Recovery
	if !f.OK() {
		r.Errors = append(r.Errors, text.Display(f.Command)+": "+howExecuted(f))
	}
	if r.Chain != nil && f.Ended != "killed" && f.Ended != "lost" {
		t.aidExecuted(f)
		return true
	}
	if f.OK() {
		r.Executed = f.ID
		if r.Back == causeCure {
			t.mended()
		}
		t.testRecovery()
		return true
	}
	switch {
	case f.Ended == "killed":
		t.askRecovery(EscalationFailed, ReasonInterrupted)
	case r.Back != "": // the role, or the next look at the ground, shows where it stands
		t.s.Recoveries.Ran = append(t.s.Recoveries.Ran, r.Attempt.Digest)
		t.remember("failed", howExecuted(f))
		t.leaveRecovery()
	case r.Else != nil:
		t.judgeAgain("fallback")
	default:
		t.askRecovery(EscalationFailed, EscalationFailed)
	}
	return true
}

// howExecuted says in one clause how a command failed.
func howExecuted(f Executed) string {
	switch {
	case f.Error != "":
		return f.Error
	case f.Signal != "":
		return "ended by signal " + f.Signal
	}
	return fmt.Sprintf("exit code %d", f.ExitCode)
}

// testRecovery runs the tests again, at once and in the same iteration; without
// tests nothing says whether the recovery helped.
func (t *turn) testRecovery() {
	t.s.Status = Recovering
	if t.s.Recovery.Back != "" {
		t.s.Recoveries.Ran = append(t.s.Recoveries.Ran, t.s.Recovery.Attempt.Digest)
		t.verified(Verification{Result: Unverified, Why: "what runs next shows it"})
		return
	}
	if t.s.Plan.Tests == "disabled" {
		t.verified(Verification{Result: Unverified, Why: "the loop has no tests"})
		return
	}
	r := t.s.Recovery
	what := fmt.Sprintf("%d/tests/%d/%d", r.N, r.Tries, r.Asked)
	if r.Chain != nil {
		what += fmt.Sprintf("/%d", r.Chain.Attempts)
	}
	t.issue(Effect{ID: t.recoveryID(what), Kind: RunTests, Reason: ReasonRecovery, LimitMS: t.left()})
}

func (t *turn) recoveryTested(f TestsEnded) {
	v := Verification{Result: Unverified}
	if f.Verification != nil {
		v = *f.Verification
	}
	if t.s.Recovery.Chain != nil {
		t.aidTested(f, v)
		return
	}
	t.verified(v)
}

func (t *turn) verified(v Verification) {
	r := t.s.Recovery
	t.note("recovery_verified", verifiedFields{r.N, r.Executed, r.Attempt.Command, v})
	outcome := "executed, " + v.Result
	if r.Executed == "" {
		outcome = "mended by a person, " + v.Result
	}
	t.remember(outcome, v.Why)
	t.leaveRecovery()
}

// askRecovery stops the loop until a person has answered.
func (t *turn) askRecovery(kind, class string) {
	r := t.s.Recovery
	r.Asked++
	t.stopClockAt(t.now)
	why := r.Reason
	if kind == EscalationFailed && len(r.Errors) > 0 {
		why = r.Errors[len(r.Errors)-1]
	}
	t.s.Status, t.s.Reason = AwaitingHuman, class
	t.s.Detail = fmt.Sprintf("recovery %d: %s: %s", r.N, text.Display(r.Attempt.Command), why)
	if kind == EscalationFailed && len(r.Errors) > 0 {
		t.s.Detail = fmt.Sprintf("recovery %d: %s", r.N, why) // it names the command
	}
	id := t.recoveryID(fmt.Sprintf("%d/person/%d", r.N, r.Asked))
	t.s.Human = &HumanState{ID: id, Type: kind, Class: class, Role: r.Role, Text: why, Since: t.now}
	t.issue(Effect{ID: id, Kind: AskPerson, Role: r.Role, Reason: class})
}

// answered does what a person said about the recovery.
func (t *turn) answered(f Resolved, question string) {
	r := t.s.Recovery
	if r == nil { // a question of another kind has lost its subject: go on
		t.enter(t.s.At)
		return
	}
	if r.Chain != nil { // what was begun has no outcome: from here on it is the person's
		r.Chain.Lost("its supervisor ended while it ran", t.now)
		r.Chain = nil
	}
	switch f.Method {
	case MethodApprove:
		r.Question = question
		if f.Edit != nil {
			r.Attempt, r.Source, r.Fallback = *f.Edit, SourceHuman, false
		}
		t.approve(SourceHuman, f.By, r.Rule)
	case MethodReject:
		all := &t.s.Recoveries
		if all.Rejected == nil {
			all.Rejected = map[string]int{}
		}
		all.Rejected[r.Attempt.Digest]++
		t.remember("rejected by "+f.By, f.Note)
		t.leaveRecovery()
	default:
		t.s.Status, r.Executed = Recovering, ""
		t.testRecovery()
	}
}

// resumeRecovery takes a detour up where the journal ends.
func (t *turn) resumeRecovery() {
	p := t.s.Pending
	t.s.Status = Recovering
	switch {
	case p == nil: // the loop was cancelled in it
		t.leaveRecovery()
	case p.Kind == ExecuteRecovery && t.s.Begun:
		t.note("recovery_failed", lostFields{N: t.s.Recovery.N, ID: p.ID, Command: t.s.Recovery.Attempt.Command, ExitCode: -1, Ended: endedInterrupted,
			Error: "the supervisor ended while it ran; how far it came is not known"})
		t.s.Recovery.Errors = append(t.s.Recovery.Errors,
			text.Display(t.s.Recovery.Attempt.Command)+": the supervisor ended while it ran; how far it came is not known")
		t.askRecovery(EscalationFailed, ReasonInterrupted)
	default:
		t.s.Begun = false
		t.reissued = true
	}
}
