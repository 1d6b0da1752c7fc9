package loop

import (
	"cmp"
	"fmt"
)

// gatesFields are the gates in the words of gate-summary.txt; its JSON is what gates_evaluated carries.
type gatesFields struct {
	Gates
	Stuck    string   `json:"stuck"`
	Complete bool     `json:"complete"`
	Missing  []string `json:"missing,omitempty"`
}

// MissingGates lists the gates that completion still lacks, each with its verdict ("tests=failed"), in the order of the
// summary. Only "ok" passes a gate that the configuration asks for. Approval is not among them: it comes last.
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
	need(p.RequireEvidence, "evidence", g.Evidence, "ok")
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
	t.note("gates_evaluated", gatesFields{t.s.Gates, stuck, len(t.s.Missing) == 0, t.s.Missing})
}

func (t *turn) commit() {
	strategy := t.s.Plan.Commit
	if strategy == "" || t.s.Recheck {
		t.advance()
		return
	}
	if strategy == "on_test_pass" && t.s.Gates.Tests != "ok" {
		t.note("auto_commit_skipped", CommitEnded{Strategy: strategy, Reason: "tests_not_passing"})
		t.advance()
		return
	}
	t.issue(t.effect(Commit, strategy))
}

// close ends the iteration and decides what comes after it.
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
		t.end(Completed, ReasonApproved, "")
	case complete && t.s.Plan.Approval:
		t.enter(stepApproval)
	case complete:
		t.end(Completed, ReasonPromiseKept, "")
	case approved:
		t.s.Approval = nil
		t.s.HumanNote = fmt.Sprintf("An operator approved iteration %d, but the tree had changed since and the gates no longer pass: %v.",
			t.s.Iteration, t.s.Missing)
		t.beginIteration(t.s.Iteration + 1)
	case t.s.Stuck.Threshold > 0 && t.s.Stuck.Count >= t.s.Stuck.Threshold:
		t.end(StuckEnd, ReasonStuck, fmt.Sprintf("%d iterations without a change outside the ignore list", t.s.Stuck.Count))
	default:
		t.beginIteration(t.s.Iteration + 1)
	}
}

func (t *turn) askCompletion() {
	t.stopClockAt(t.now)
	t.s.Status, t.s.Reason = AwaitingApproval, ""
	t.s.Gates.Approval = "pending"
	t.s.Approval = &ApprovalState{Status: "pending", Iteration: t.s.Iteration, Tree: t.s.Tree, Requested: t.now}
	t.s.Recheck = false
	e := t.effect(AskHuman, string(AboutCompletion))
	t.s.Human = &HumanState{ID: e.ID, About: AboutCompletion, Type: EscalationCompletion, Class: string(AboutCompletion), Since: t.now,
		Text: "all gates pass and the loop asks whether it is done"}
	t.issue(e)
}

func (t *turn) asksCompletion() bool {
	return t.pending(AskHuman) && t.s.Human.About == AboutCompletion && t.s.Approval != nil
}

// approvalRequested: the request has got a record, or another one in its place.
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
		t.end(Completed, ReasonApproved, "")
		return true
	}
	t.s.Status, t.s.ActiveSince = Running, t.now
	if f.Status == "approved" {
		// Consuming an approval over red gates was a defect of the original.
		t.s.Reason, t.s.Recheck = ReasonGatesChanged, true
		t.enter(stepChecklists)
		return true
	}
	t.s.Reason = ReasonRejected
	t.s.Approval = nil
	t.s.HumanNote = fmt.Sprintf("An operator (%s) rejected the completion of iteration %d: %s", f.By, t.s.Iteration, f.Note)
	t.beginIteration(t.s.Iteration + 1)
	return true
}
