package effects

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/superloop/superloop/escalation"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/gate"
)

// completionAsked writes approval.json, the view of a request that is about the end of the loop.
func (a *Approvals) completionAsked(ctx context.Context, s loop.State, f loop.Escalated) (loop.Fact, error) {
	if err := a.writeApproval(ctx, s); err != nil {
		return nil, err
	}
	return loop.ApprovalRequested{Of: f.Of, File: a.Paths.Rel(a.Paths.File("approval.json")), ID: f.ID, Digest: f.Digest, Expires: f.Expires}, nil
}

func (a *Approvals) writeApproval(ctx context.Context, s loop.State) error {
	p, err := promise(a.Host, s)
	if err != nil {
		return err
	}
	head, err := a.Repo.Head(context.WithoutCancel(ctx)) // short: who leaves now leaves with the question asked
	if err != nil {
		return err
	}
	rel := func(name string) string { return a.Paths.Rel(a.Paths.File(name)) }
	asked := gate.Approval{LoopID: a.LoopID, RunID: s.RunID, Iteration: s.Iteration, Tree: s.Tree, Head: head,
		Files: gate.ApprovalFiles{GateSummary: rel("gate-summary.txt"), Evidence: rel("evidence.json"), ReviewerReport: rel("review.md"),
			TestReport: rel("test-report.md"), Plan: rel("plan.md"), IterationNotes: rel("iteration_notes.md")}}
	return a.Write("approval.json", asked.Pending(p, gate.Verdicts(s.Gates), s.Approval.Requested, s.IterationAt, s.UpdatedAt).JSON())
}

// completionAnswered turns the answer into a fact: with whether the tree is still the one that was to be approved.
// Whoever has changed it by hand wants the gates to look once more.
func (a *Approvals) completionAnswered(ctx context.Context, s loop.State, rec escalation.Record, method string) (loop.Fact, error) {
	f := loop.ApprovalDecided{Of: loop.To(*s.Pending), ID: rec.Question.ID, Status: "approved", By: rec.Answer.By.User, Note: rec.Answer.Note}
	if f.By == "" || rec.Answer.By.Channel != escalation.CLI {
		f.By = rec.Answer.By.String()
	}
	if method == loop.MethodReject {
		f.Status = "rejected"
	} else {
		tree, err := a.Tree.Look(ctx, s)
		if err != nil {
			return nil, err
		}
		f.TreeChanged = tree != s.Approval.Tree || method == loop.MethodManual
	}
	return f, a.recordDecision(rec.Answer.At, f)
}

// recordDecision writes the decision into the files that people read; the event is the record.
func (a *Approvals) recordDecision(at time.Time, f loop.ApprovalDecided) error {
	data, err := os.ReadFile(a.Paths.File("approval.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	was, err := gate.ParseApproval(data)
	if err != nil {
		return nil // a view that somebody broke
	}
	dec := gate.Decision{Approved: f.Status == "approved", By: f.By, Note: f.Note, At: at,
		File: a.Paths.Rel(a.Paths.File("approval.json"))}
	decided, err := was.Decide(dec)
	if errors.Is(err, gate.ErrNotPending) {
		return nil // written before a crash
	}
	if err != nil {
		return err
	}
	if err := a.Write("approval.json", decided.JSON()); err != nil {
		return err
	}
	for name, line := range map[string][]byte{"decisions.jsonl": decided.LogLine(dec), "decisions.md": decided.LogMarkdown(dec)} {
		if err := a.Append("decisions", name, line); err != nil {
			return fmt.Errorf("noting the decision: %w", err)
		}
	}
	return nil
}
