package local

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

// completionAsked writes approval.json, the view of a request that is about the
// end of the loop.
func (d *driver) completionAsked(ctx context.Context, f loop.Escalated) (loop.Fact, error) {
	if err := d.writeApproval(ctx); err != nil {
		return nil, err
	}
	return loop.ApprovalRequested{Of: f.Of, File: d.paths.Rel(d.paths.File("approval.json")), ID: f.ID, Digest: f.Digest, Expires: f.Expires}, nil
}

func (d *driver) writeApproval(ctx context.Context) error {
	p, err := d.promise()
	if err != nil {
		return err
	}
	head, err := d.repo.Head(context.WithoutCancel(ctx)) // short: who leaves now leaves with the question asked
	if err != nil {
		return err
	}
	s := d.state
	rel := func(name string) string { return d.paths.Rel(d.paths.File(name)) }
	req := gate.ApprovalRequest{LoopID: d.o.LoopID, RunID: s.RunID, Iteration: s.Iteration, RequestedAt: s.Approval.Requested,
		StartedAt: s.IterationAt, EndedAt: s.UpdatedAt, Promise: p, Gates: gate.Verdicts(s.Gates), Tree: s.Tree, Head: head,
		Files: gate.ApprovalFiles{GateSummary: rel("gate-summary.txt"), Evidence: rel("evidence.json"), ReviewerReport: rel("review.md"),
			TestReport: rel("test-report.md"), Plan: rel("plan.md"), IterationNotes: rel("iteration_notes.md")}}
	return d.host.Write("approval.json", req.Approval().JSON())
}

// completionAnswered turns the answer into a fact: with whether the tree is still
// the one that was to be approved. Whoever has changed it by hand wants the gates
// to look once more.
func (d *driver) completionAnswered(ctx context.Context, rec escalation.Record, method string) (loop.Fact, error) {
	f := loop.ApprovalDecided{Of: d.to(), ID: rec.Question.ID, Status: "approved", By: rec.Answer.By.User, Note: rec.Answer.Note}
	if f.By == "" || rec.Answer.By.Channel != escalation.CLI {
		f.By = rec.Answer.By.String()
	}
	if method == loop.MethodReject {
		f.Status = "rejected"
	} else {
		tree, err := d.lookAtTree(ctx)
		if err != nil {
			return nil, err
		}
		f.TreeChanged = tree != d.state.Approval.Tree || method == loop.MethodManual
	}
	return f, d.recordDecision(rec.Answer.At, f)
}

// recordDecision writes the decision into the files that people read; the
// event is the record.
func (d *driver) recordDecision(at time.Time, f loop.ApprovalDecided) error {
	data, err := os.ReadFile(d.paths.File("approval.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	a, err := gate.ParseApproval(data)
	if err != nil {
		return nil // a view that somebody broke
	}
	dec := gate.Decision{Approved: f.Status == "approved", By: f.By, Note: f.Note, At: at,
		File: d.paths.Rel(d.paths.File("approval.json"))}
	decided, err := a.Decide(dec)
	if errors.Is(err, gate.ErrNotPending) {
		return nil // written before a crash
	}
	if err != nil {
		return err
	}
	if err := d.host.Write("approval.json", decided.JSON()); err != nil {
		return err
	}
	for name, line := range map[string][]byte{"decisions.jsonl": decided.LogLine(dec), "decisions.md": decided.LogMarkdown(dec)} {
		w, err := d.o.Disk.OpenAppend("decisions", d.paths.File(name), 0o644)
		if err == nil {
			err = w.Append(line)
			if cerr := w.Close(); err == nil {
				err = cerr
			}
		}
		if err != nil {
			return fmt.Errorf("noting the decision: %w", d.host.Full(err))
		}
	}
	return nil
}
