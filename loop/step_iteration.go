package loop

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// steps returns the steps of an iteration under the plan, in order. The tests come right behind the implementer, so
// that the tester and the reviewer see the results of their own iteration.
func (p Plan) steps() []string {
	out := Map(p.Roles, func(role string) string { return rolePrefix + role })
	if p.Tests == "every" {
		at := slices.Index(p.Roles, "implementer") + 1
		if at == 0 {
			at = slices.IndexFunc(p.Roles, func(r string) bool { return r == "tester" || r == "reviewer" })
		}
		if at < 0 {
			at = len(out)
		}
		out = slices.Insert(out, at, stepTests)
	}
	out = slices.Insert(out, 0, stepBaseline)
	return append(out, stepPromise, stepChecklists, stepGateTests, stepValidation, stepPrerequisites, stepEvidence,
		stepStuck, stepDecide, stepCommit, stepTree, stepFinal, stepReport, stepClose)
}

func isRole(step string) bool { return strings.HasPrefix(step, rolePrefix) }

// next returns the step after at. If a changed plan no longer has the step at, the gates follow.
func (p Plan) next(at string) string {
	all := p.steps()
	if i := slices.Index(all[:len(all)-1], at); i >= 0 {
		return all[i+1]
	}
	return stepPromise
}

func (p Plan) has(step string) bool {
	return slices.Contains(p.steps(), step) || step == stepApproval || step == stepRecovery
}

type iterationFields struct {
	StartedAt  time.Time `json:"started_at"`
	EndedAt    time.Time `json:"ended_at,omitzero"`
	DurationMS int64     `json:"duration_ms,omitempty"`
	Completion *bool     `json:"completion,omitempty"`
	Gates      *Gates    `json:"gates,omitempty"`
	Reason     string    `json:"reason,omitempty"`
}

func (t *turn) beginIteration(n int) {
	t.s.At = ""
	if t.s.NextPlan != nil {
		t.s.Plan, t.s.NextPlan = *t.s.NextPlan, nil
		t.s.Stuck.Threshold = t.s.Plan.StuckThreshold
	}
	p := t.s.Plan
	if p.MaxIterations > 0 && n > p.MaxIterations {
		t.end(LimitReached, ReasonMaxIterations, fmt.Sprintf("%d of %d iterations are used", n-1, p.MaxIterations))
		return
	}
	if t.outOfTime() {
		return
	}
	t.keepReports()
	t.s.Iteration, t.s.IterationAt = n, t.now
	t.forgetNotes()
	t.s.LastRoles, t.s.Roles = t.s.Roles, map[string]RoleResult{}
	t.s.Response.Incidents = nil
	t.s.LastGates, t.s.Gates = t.s.Gates, Gates{}
	t.s.TestsTree, t.s.TestsFiles, t.s.Files, t.s.Recheck, t.s.Passes = "", "", "", false, 0
	if len(t.s.Recoveries.Handled)+len(t.s.Recoveries.Ran) > 0 {
		t.s.Response.Same = SameTests{} // the last iteration had a recovery, so the failure counts anew
	}
	t.s.TestFailures, t.s.TestOutputs, t.s.Recoveries.Handled, t.s.Recoveries.Ran = nil, nil, nil, nil
	t.undone()
	t.note("iteration_start", iterationFields{StartedAt: t.now})
	t.enter(p.steps()[0])
}

// enter goes to a step and issues its effect. It passes through a step that has nothing to do.
func (t *turn) enter(step string) {
	if !t.s.Plan.has(step) {
		step = stepPromise
	}
	t.s.At = step
	if isRole(step) {
		role := strings.TrimPrefix(step, rolePrefix)
		t.s.Attempt, t.s.Failures, t.s.Response.Policy = 0, 0, nil
		if t.skips(role) {
			return
		}
		if r, ok := t.s.Roles[role]; ok {
			t.s.Attempt = r.Attempt // the role runs again in this iteration: no attempt number is used twice
		}
		t.issueRole("")
		return
	}
	switch step {
	case stepBaseline:
		t.testsBaseline()
	case stepTests:
		t.issue(t.effect(RunTests, ReasonIteration))
	case stepPromise:
		t.issue(t.effect(CheckPromise, ""))
	case stepChecklists:
		t.gate(t.s.Plan.Checklists, CheckChecklists, "checklist")
	case stepGateTests:
		t.gateTests()
	case stepValidation:
		mode := t.s.Plan.Validation
		if mode == "" || (mode == "on_promise" && t.s.Gates.Promise != "true") {
			t.s.Gates.Validation = "skipped"
			t.advance()
			return
		}
		t.issue(t.effect(RunValidation, mode))
	case stepPrerequisites:
		t.gate(t.s.Plan.Prerequisites, CheckPrerequisites, "prerequisites")
	case stepEvidence:
		t.gate(t.s.Plan.Evidence, CollectEvidence, "evidence")
	case stepStuck:
		t.countRed()
		if (t.s.Plan.StuckThreshold > 0 || t.s.RedEnds()) && !t.s.again() {
			t.issue(t.effect(CheckStuck, ""))
			return
		}
		t.advance()
	case stepDecide:
		t.decide()
		t.advance()
	case stepCommit:
		t.commit()
	case stepTree:
		t.checkTree()
	case stepFinal:
		t.testFinally()
	case stepReport:
		t.issue(t.effect(Report, ""))
	case stepClose:
		t.close()
	case stepApproval:
		t.askCompletion()
	}
}

// advance goes to the next step.
func (t *turn) advance() { t.enter(t.s.Plan.next(t.s.At)) }

// effect makes an effect of the current step. Its id names run, iteration and step. When the gates run once more after
// an approval, the id ends in /recheck. When they run again because files changed, it ends in /again and a number.
func (t *turn) effect(kind EffectKind, reason string) Effect {
	id := fmt.Sprintf("%s/%d/%s", t.s.RunID, t.s.Iteration, t.s.At)
	if t.s.Recheck {
		id += "/recheck"
	}
	if t.s.Passes > 0 {
		id += fmt.Sprintf("/again%d", t.s.Passes)
	}
	return Effect{ID: id, Kind: kind, Reason: reason, LimitMS: t.left()}
}

// left returns what remains of the loop's wall time, in milliseconds and at least 1. It returns 0 if there is no limit.
func (t *turn) left() int64 {
	if t.s.Plan.MaxWallMS <= 0 {
		return 0
	}
	return max(1, t.s.Plan.MaxWallMS-t.active())
}

// gate issues the effect of a gate that only reads files. It passes a gate that the plan does not have.
func (t *turn) gate(on bool, kind EffectKind, name string) {
	if !on {
		t.setGate(name, map[bool]string{true: "ok", false: "skipped"}[name == "checklist"])
		t.advance()
		return
	}
	t.note(name+"_start", map[string]bool{"enabled": true})
	t.issue(t.effect(kind, ""))
}

func (t *turn) setGate(name, status string) {
	g := &t.s.Gates
	*map[string]*string{"checklist": &g.Checklist, "validation": &g.Validation, "prerequisites": &g.Prerequisites, "evidence": &g.Evidence}[name] = status
}

// gateTests decides whether the tests run among the gates. In mode on_promise they run if the promise is kept or the
// checklists are done. In mode every they run again if the promise is kept and the tree has changed since they ran, and
// also when the gates run once more after an approval.
func (t *turn) gateTests() {
	g := &t.s.Gates
	switch {
	case t.s.Plan.Tests == "every" && (t.s.Recheck || g.Promise == "true" && t.s.stale()):
		t.issue(t.effect(RunTests, ReasonTreeChanged))
	case t.s.Plan.Tests == "every":
		t.advance()
	case t.s.Plan.Tests == "on_promise" && (g.Promise == "true" || (t.s.Plan.Checklists && g.Checklist == "ok")):
		t.issue(t.effect(RunTests, ReasonOnPromise))
	default:
		g.Tests = "skipped"
		t.advance()
	}
}

func (t *turn) testsEnded(f TestsEnded) {
	if f.Interrupted {
		t.s.Begun = false
		return
	}
	t.s.Gates.Tests, t.s.TestsTree, t.s.TestFailures, t.s.TestOutputs = f.Status, f.Tree, f.Failures, f.Outputs
	t.s.TestsFiles = f.Files
	if f.Status == "ok" {
		t.s.Diagnosis, t.s.Looked = nil, nil
	} else {
		t.undone()
	}
	if t.s.At == stepRecovery {
		t.recoveryTested(f)
	} else if !t.unreadable(t.s.At, f.Unreadable) && !t.remediate(t.s.At) {
		t.passTests(t.s.At)
	}
}

func (t *turn) promiseChecked(f PromiseChecked) {
	g := &t.s.Gates
	g.Promise, g.Change, g.TestChange, g.Reports = fmt.Sprint(f.Matched), f.Change, f.TestChange, f.Reports
	t.s.Tree, t.s.Files = f.Tree, f.Files
	t.advance()
}

func (t *turn) stuckChecked(f StuckChecked) {
	t.s.Stuck.Count, t.s.Stuck.Tree = f.Streak, f.Tree
	t.advance()
}

func (t *turn) gateEnded(f GateEnded) {
	if f.Interrupted {
		t.s.Begun = false
		return
	}
	t.setGate(f.Gate, f.Status)
	t.ranOn(f.Files)
	t.advance()
}

// gatesFields are the fields of gates_evaluated: the gates in the words of gate-summary.txt.
type gatesFields struct {
	Gates
	Stuck    string   `json:"stuck"`
	Complete bool     `json:"complete"`
	Missing  []string `json:"missing,omitempty"`
	Why      []string `json:"why,omitempty"`  // about what is missing: a sentence for each rule of completion
	Note     string   `json:"note,omitempty"` // of a loop that may complete: what an operator should look at (State.Unseen)
}

// MissingGates lists the gates that the loop still needs for completion, each with its verdict ("tests=failed"), in the
// order of the summary. A gate that the configuration requires passes with "ok" only. The list has no approval, because
// approval comes last.
func (s State) MissingGates() []string {
	var missing []string
	need := func(asked bool, name, got, want string) {
		if asked && got != want {
			missing = append(missing, name+"="+cmp.Or(got, "unknown"))
		}
	}
	g, p := s.Gates, s.Plan
	need(true, "promise", g.Promise, "true")
	need(p.Tests != "disabled" || g.Tests == "failed", "tests", g.Tests, "ok")
	need(p.RequireValidation, "validation", g.Validation, "ok")
	need(p.RequirePrerequisites, "prerequisites", g.Prerequisites, "ok")
	need(true, "checklist", g.Checklist, "ok")
	need(g.Tree != "", "tree", g.Tree, TreeOK)
	need(g.Final != "", "final", g.Final, "ok")
	need(p.RequireEvidence, "evidence", g.Evidence, "ok")
	need(p.Completion != nil && p.Completion.Ungated, "gates", "none", "ok")
	if c := p.Completion; c != nil && g.Promise == "true" { // without the promise nobody has looked
		need(c.Change, "change", g.Change, ChangeOK)
		need(c.TestChange, "test_change", g.TestChange, ChangeOK)
		need(len(c.Reports) > 0, "reports", g.Reports, ReportsOK)
	}
	return missing
}

func (t *turn) decide() {
	if !t.s.Plan.Approval {
		t.s.Gates.Approval = "skipped"
	}
	t.s.Missing = t.s.MissingGates()
	stuck := "n/a"
	if t.s.Stuck.Threshold > 0 {
		stuck = fmt.Sprintf("%d/%d", t.s.Stuck.Count, t.s.Stuck.Threshold)
	}
	f := gatesFields{t.s.Gates, stuck, len(t.s.Missing) == 0, t.s.Missing, WhyMissing(t.s.Missing), ""}
	if f.Complete {
		f.Note = t.s.Unseen()
	}
	t.note("gates_evaluated", f)
}

// close ends the iteration and decides what follows: an end, the approval, or the next iteration.
func (t *turn) close() {
	complete := len(t.s.Missing) == 0
	if !t.s.Recheck {
		t.note("iteration_end", iterationFields{StartedAt: t.s.IterationAt, EndedAt: t.now,
			DurationMS: t.now.Sub(t.s.IterationAt).Milliseconds(), Completion: &complete, Gates: &t.s.Gates})
	}
	t.s.At, t.s.Pending, t.s.Begun = "", nil, false
	approved := t.s.Recheck && t.s.Approval != nil && t.s.Approval.Status == "approved"
	switch {
	case complete && approved:
		t.s.Gates.Approval = "approved"
		t.end(Completed, ReasonApproved, t.s.Unseen())
	case complete && t.s.Plan.Approval:
		t.enter(stepApproval)
	case complete:
		t.end(Completed, ReasonPromiseKept, t.s.Unseen())
	case approved:
		t.s.Approval = nil
		t.s.HumanNote = fmt.Sprintf("An operator approved iteration %d, but the tree had changed since and the gates no longer pass: %v.",
			t.s.Iteration, t.s.Missing)
		t.beginIteration(t.s.Iteration + 1)
	case t.s.Stuck.Threshold > 0 && t.s.Stuck.Count >= t.s.Stuck.Threshold:
		t.end(StuckEnd, ReasonStuck, fmt.Sprintf("%d iterations without a change outside the ignore list", t.s.Stuck.Count))
	case t.s.RedEnds():
		t.end(StuckEnd, ReasonSameRed, t.whyRed())
	default:
		t.beginIteration(t.s.Iteration + 1)
	}
}

// askCompletion asks a human to approve the completion of the loop.
func (t *turn) askCompletion() {
	t.stopClockAt(t.now)
	t.s.Status, t.s.Reason = AwaitingApproval, ""
	t.s.Gates.Approval = "pending"
	t.s.Approval = &ApprovalState{Status: "pending", Iteration: t.s.Iteration, Tree: t.s.Tree, Files: t.s.Files, Requested: t.now}
	t.s.Recheck, t.s.Passes = false, 0
	e := t.effect(AskHuman, string(AboutCompletion))
	t.s.Human = &HumanState{ID: e.ID, About: AboutCompletion, Type: EscalationCompletion, Class: string(AboutCompletion), Since: t.now,
		Text: "all gates pass and the loop asks whether it is done"}
	t.issue(e)
}

// asksCompletion reports whether the loop waits for the approval of its completion.
func (t *turn) asksCompletion() bool {
	return t.pending(AskHuman) && t.s.Human.About == AboutCompletion && t.s.Approval != nil
}

// approvalRequested takes the id of the escalation that was opened for the approval, or that replaces an earlier one.
func (t *turn) approvalRequested(f ApprovalRequested) bool {
	if !t.asksCompletion() {
		return false
	}
	t.s.Begun = true
	t.s.Human.Question, t.s.Human.Digest = f.ID, f.Digest
	return true
}

func (t *turn) approvalDecided(f ApprovalDecided) bool {
	if !t.asksCompletion() || f.ID != t.s.Human.Question {
		return false
	}
	t.s.Human = nil
	t.s.Approval.Status, t.s.Approval.By, t.s.Approval.Note = f.Status, f.By, f.Note
	t.s.Gates.Approval = f.Status
	if f.Status == "approved" && !f.TreeChanged {
		t.s.At = ""
		t.end(Completed, ReasonApproved, t.s.Unseen())
		return true
	}
	t.s.Status, t.s.ActiveSince = Running, t.now
	if f.Status == "approved" {
		// superloop runs the gates again. The original program completed the loop in spite of failing gates, which was
		// a defect.
		t.s.Reason, t.s.Recheck, t.s.Gates.Tree, t.s.Gates.Final = ReasonGatesChanged, true, "", ""
		t.enter(stepChecklists)
		return true
	}
	t.s.Reason = ReasonRejected
	t.s.Approval = nil
	t.s.HumanNote = fmt.Sprintf("An operator (%s) rejected the completion of iteration %d: %s", f.By, t.s.Iteration, f.Note)
	t.beginIteration(t.s.Iteration + 1)
	return true
}
