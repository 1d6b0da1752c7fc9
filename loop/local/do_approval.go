package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/superloop/superloop/loop/control"

	"github.com/superloop/superloop/loop"

	"github.com/superloop/superloop/loop/gate"
)

// askApproval puts the question where people see it and waits for the answer,
// which costs nothing. The answer comes through the control directory; what
// stands in approval.json is a view of it.
func (d *driver) askApproval(shutdown context.Context) (loop.Fact, error) {
	if !d.state.Begun {
		if err := d.writeApproval(shutdown); err != nil {
			return nil, err
		}
		if err := d.flushViews(); err != nil {
			return nil, err
		}
		return loop.ApprovalRequested{File: d.paths.Rel(d.paths.File("approval.json"))}, nil
	}
	in, ok, err := d.openAnswer()
	if err != nil {
		return nil, err
	}
	if ok {
		return d.answer(shutdown, in)
	}
	select {
	case <-d.look:
	case <-d.newConfig:
	case <-shutdown.Done():
	}
	return nil, nil
}

// openAnswer is the answer to the open question, if a person has given one.
func (d *driver) openAnswer() (control.Intent, bool, error) {
	ins, _, err := control.Submitted(d.paths)
	for _, in := range ins {
		if d.answers(in) {
			return in, true, nil
		}
	}
	return control.Intent{}, false, err
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
	return d.write("approval.json", req.Approval().JSON())
}

// answer turns a person's decision into a fact: with whether the tree is still
// the one that was to be approved.
func (d *driver) answer(ctx context.Context, in control.Intent) (loop.Fact, error) {
	f := loop.ApprovalDecided{Status: "approved", By: in.By, Note: in.Note, IntentID: in.ID}
	if in.Kind == control.IntentReject {
		f.Status = "rejected"
	} else {
		tree, err := d.lookAtTree(ctx)
		if err != nil {
			return nil, err
		}
		f.TreeChanged = tree != d.state.Approval.Tree
	}
	if err := d.recordDecision(in, f); err != nil {
		return nil, err
	}
	d.intents[in.ID] = true
	return f, nil
}

// recordDecision writes the decision into the files that people read; the
// event is the record.
func (d *driver) recordDecision(in control.Intent, f loop.ApprovalDecided) error {
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
	dec := gate.Decision{Approved: f.Status == "approved", By: in.By, Note: in.Note, At: in.At,
		File: d.paths.Rel(d.paths.File("approval.json"))}
	decided, err := a.Decide(dec)
	if errors.Is(err, gate.ErrNotPending) {
		return nil // written before a crash
	}
	if err != nil {
		return err
	}
	if err := d.write("approval.json", decided.JSON()); err != nil {
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
			return fmt.Errorf("noting the decision: %w", d.full(err))
		}
	}
	return nil
}
